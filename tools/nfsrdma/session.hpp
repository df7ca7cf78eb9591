#pragma once
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "base/unique_fd.hpp"
#include "nfs/client/client.hpp"
#include "nfs/client/read_dir.hpp"
#include "nfs/client/walk.hpp"
#include "tools/nfsrdma/options.hpp"
#include "tools/nfsrdma/url.hpp"
#include "verbs/device.hpp"
#include "xprtrdma/transport.hpp"

namespace nfsrdma::tool {

// An entry of a directory, owned.
struct Entry {
    std::string name;
    fattr3 attributes{};
    nfs::client::FileHandle handle;
    bool known = false;  // attributes and handle were told
};

// What a path leads to.
struct Found {
    nfs::client::Outcome outcome;
    nfs::client::FileHandle handle;
    fattr3 attributes{};
    std::string name;  // of walk_to_parent: the last component
};

// The world of one run: loop, device, connection, NFS client, and calls that wait while everything
// else on the loop goes on. Opened for one server and one export.
class Session {
  public:
    // Connects and mounts the export that holds `url`; nullptr after having said on standard error
    // what is wrong.
    static std::unique_ptr<Session> open(const Options& options, const Url& url);
    ~Session();  // unmounts, disconnects, waits until everything is home
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    nfs::client::Client& client() noexcept { return *client_; }
    Loop& loop() noexcept { return *loop_; }
    bool interrupted() const noexcept { return interrupted_; }
    bool connected() const noexcept { return transport_->connected(); }
    const std::string& export_path() const noexcept { return export_; }
    // False, after complaint, when `url` is not below the export of this session.
    bool holds(const Url& url) const;

    // These run the loop; not from callbacks.
    nfs::client::Outcome run(nfs::client::Op& op);
    void wait_until(const std::function<bool()>& finished);
    void sleep(std::uint64_t ns);
    Found walk(const Url& url, bool follow_last);
    Found walk_to_parent(const Url& url);
    Found look_up(const nfs::client::FileHandle& directory, const std::string& name);
    // Without "." and ".."; sorted by name. Entries of which the server told too little are looked
    // up.
    nfs::client::Outcome list(const nfs::client::FileHandle& directory,
                              std::vector<Entry>& entries);

    // Prints the counters as --stats and --json ask; `seconds` and `bytes` of the transfer, for the
    // throughput.
    void print_stats(double seconds, std::uint64_t bytes, std::FILE* json_to = stdout);

  private:
    Session() = default;
    bool connect(const Options& options, const Url& url);
    bool mount(const Url& url);
    bool try_mount(const std::string& path, nfs::client::Outcome& outcome);
    bool find_export(const std::string& path, std::vector<std::string>& exports);
    void catch_signals();
    static void on_signal(FdWatch& watch, std::uint32_t events) noexcept;
    Found walk(const nfs::client::PathWalk::Options& options);
    std::string below_export(const Url& url) const;
    std::string stats_text(double seconds, std::uint64_t bytes) const;
    std::string stats_json(double seconds, std::uint64_t bytes) const;

    struct SignalWatch final : FdWatch {
        using FdWatch::FdWatch;
        Session* session = nullptr;
    };
    Options options_;
    Url url_;
    std::unique_ptr<Loop> loop_;
    std::unique_ptr<verbs::Device> device_;
    std::unique_ptr<xprtrdma::Transport> transport_;
    std::unique_ptr<nfs::client::Client> client_;
    std::string export_;  // normal
    bool mounted_ = false, interrupted_ = false;
    nfs::client::FileHandle root_;
    UniqueFd signal_fd_;
    std::unique_ptr<SignalWatch> signal_watch_;
};

}  // namespace nfsrdma::tool
