#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "base/loop.hpp"
#include "base/unique_fd.hpp"
#include "tools/nfsrdma/calls.hpp"
#include "tools/nfsrdma/connections.hpp"
#include "tools/nfsrdma/json.hpp"
#include "tools/nfsrdma/options.hpp"
#include "tools/nfsrdma/stats.hpp"
#include "verbs/device.hpp"

namespace nfsrdma::tool {

// The world of one run: loop, device, connection, NFS client. Opened for one server and one export.
class Session final : public Calls {
  public:
    // Connects, and mounts the export that holds `url` unless `mounted` is false; nullptr after
    // having said on standard error what is wrong. `status` is the exit status then.
    static std::unique_ptr<Session> open(const Options& options, const Url& url, bool mounted,
                                         int& status);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session() override;  // unmounts, disconnects, waits until everything is home

    // Prints the counters to standard error when --stats asks for them.
    void print_stats(const Moved& moved = {});
    // The same, and with --json one line of JSON: what `object` holds, and the counters.
    void print_summary(const Moved& moved, JsonObject object, std::FILE* to = stdout);

  private:
    Session() = default;
    std::vector<Statistic> statistics(const Moved& moved);
    bool connect();
    pools::Demand demand() const noexcept;
    bool open_device(const SockAddr& server);
    bool open_transport(const SockAddr& server);
    void catch_signals();
    static void on_signal(FdWatch& watch, std::uint32_t events) noexcept;
    void tell_of_absence();
    static void on_news_timer(Timer& timer) noexcept;
    void tell_news(const Connections& connections);

    // How many connections there are of those that are wanted.
    enum class Presence : std::uint8_t { all, some, none };
    struct SignalWatch final : FdWatch {
        using FdWatch::FdWatch;
        Session* session = nullptr;
    };
    struct NewsTimer final : Timer {
        using Timer::Timer;
        Session* session = nullptr;
    };
    Options options_;
    std::unique_ptr<Loop> loop_;
    NewsTimer news_timer_{on_news_timer};
    Presence seen_ = Presence::all, told_ = Presence::all;
    std::unique_ptr<verbs::Device> device_;
    std::unique_ptr<Connections> connections_;
    std::unique_ptr<nfs::client::Client> nfs_;
    UniqueFd signal_fd_;
    std::unique_ptr<SignalWatch> signal_watch_;
};

}  // namespace nfsrdma::tool
