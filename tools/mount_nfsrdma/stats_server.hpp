#pragma once
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::mount {

// Tells the counters of a mount to who asks (tools/nfsrdma/mount_stats.hpp), from a thread of its
// own: also while the NFS server does not answer. One asker at a time, each within a second or two.
class StatsServer {
  public:
    // Runs on the server's thread; `json` or as /proc/self/mountstats.
    using Produce = std::function<std::string(bool json)>;
    // The mount of ours that is seen at `directory`. Errc::invalid_argument: there is none;
    // Errc::system: every name is taken, or there is no socket.
    static Result<std::unique_ptr<StatsServer>> at_directory(const std::string& directory,
                                                             Produce produce);
    // Of the device with this number.
    static Result<std::unique_ptr<StatsServer>> create(std::uint32_t major, std::uint32_t minor,
                                                       Produce produce);
    ~StatsServer();
    StatsServer(const StatsServer&) = delete;
    StatsServer& operator=(const StatsServer&) = delete;

  private:
    StatsServer(UniqueFd listening, UniqueFd stop, Produce produce);
    void serve() noexcept;
    void answer(int fd) const;
    UniqueFd listening_, stop_;
    Produce produce_;
    std::thread thread_;
};

}  // namespace nfsrdma::mount
