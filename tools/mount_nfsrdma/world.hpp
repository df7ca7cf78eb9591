#pragma once
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tools/mount_nfsrdma/mount.hpp"
#include "tools/mount_nfsrdma/options.hpp"
#include "tools/mount_nfsrdma/worker.hpp"
#include "tools/nfsrdma/mount_calls.hpp"

namespace nfsrdma::mount {

// The whole of one mount, from connecting to unmounting. One thread, but run() starts more.
class World {
  public:
    // Connects, asks MOUNT for the export, FSINFO for its limits. nullptr: `why` says what is wrong
    // and what to do, `status` what to exit with; `again`: it may go well later (bg, retry).
    static std::unique_ptr<World> open(const MountOptions& options, std::string& why, int& status,
                                       bool& again);
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    // Puts it into the tree of files. False: `why`.
    bool mount_here(std::string& why);
    // Until it is unmounted. 0, or an exit status.
    int run();
    // Unmounts, lazily, which ends run(). Waits for what run() does: from another thread.
    void unmount();

    // What was counted until now. Any thread but those of the loops, while run() runs.
    Stats stats();

    Mount& mount() noexcept { return *mount_; }
    const std::vector<std::unique_ptr<Worker>>& workers() const noexcept { return workers_; }

  private:
    World() = default;
    bool ask(const SockAddr& server, std::string& why, bool& again);
    int clone(int fd);
    bool close();
    // Runs all loops until `done`, or until then by the clock. Whether it is.
    bool run_until(std::function<bool()> done, std::uint64_t deadline_ns);
    void write_back();
    void remove_leftovers();

    MountOptions options_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::unique_ptr<Mount> mount_;  // dies before the workers
    std::unique_ptr<tool::MountCalls> mounts_;
    nfs::client::FileHandle root_;
    ServerLimits limits_;
    fuse_session* session_ = nullptr;
    std::uint64_t began_ns_ = 0;
    int status_ = kExitFailed;  // of the process, when it cannot end in order
    std::vector<std::thread> threads_;
    std::vector<UniqueFd> clones_;
};

}  // namespace nfsrdma::mount
