#pragma once
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
    // Until it is unmounted, or a signal ends it (SIGTERM, SIGINT: unmounts). 0, or an exit status.
    int run();
    // Any thread and signal handlers: unmounts, which ends run().
    void unmount() noexcept;

    Mount& mount() noexcept { return *mount_; }
    const std::vector<std::unique_ptr<Worker>>& workers() const noexcept { return workers_; }

  private:
    World() = default;
    bool ask(std::string& why, bool& again);
    void clone_for(Worker& worker);
    bool close();
    void remove_leftovers();

    MountOptions options_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::unique_ptr<Mount> mount_;
    std::unique_ptr<tool::MountCalls> mounts_;
    nfs::client::FileHandle root_;
    fattr3 root_attributes_{};
    ServerLimits limits_;
    fuse_session* session_ = nullptr;
    std::vector<std::thread> threads_;
    std::vector<UniqueFd> clones_;
};

}  // namespace nfsrdma::mount
