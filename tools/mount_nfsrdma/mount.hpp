#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tools/mount_nfsrdma/attributes.hpp"
#include "tools/mount_nfsrdma/caller.hpp"
#include "tools/mount_nfsrdma/fuse3.hpp"
#include "tools/mount_nfsrdma/node.hpp"
#include "tools/mount_nfsrdma/notifier.hpp"
#include "tools/mount_nfsrdma/options.hpp"
#include "tools/mount_nfsrdma/routes.hpp"

// What all loops of one mount share, under one lock that is held for microseconds and never while
// anything waits: FUSE callbacks and answers of the server run with it held (job.hpp).
namespace nfsrdma::mount {

class Channel;
class Job;
class OpenDir;
class OpenFile;
class Worker;

// What FSINFO and PATHCONF told of the export.
struct ServerLimits {
    std::uint32_t read = 65536, write = 65536;
    std::uint32_t payload = 1 << 20;  // of one request of the kernel: most that it writes at once
    std::uint64_t file_max = INT64_MAX;
    std::uint32_t name_max = 255;
    bool readdirplus = true;  // until the server says that it has none
};

class Mount {
  public:
    Mount(const MountOptions& how, const nfs::client::FileHandle& root);
    ~Mount();
    Mount(const Mount&) = delete;
    Mount& operator=(const Mount&) = delete;

    std::mutex lock;
    const MountOptions options;
    ServerLimits limits;
    NodeTable nodes;
    Callers callers;
    Notifier notifier;
    Routes routes;
    std::vector<Worker*> workers;

    // Calls are numbered as they are sent.
    std::uint64_t next_order() noexcept { return ++order_; }
    std::uint64_t order() const noexcept { return order_; }

    // An answer told attributes of `node`: taken over; another's change makes invalid what the
    // kernel has. `before`: of a call of ours that changed it.
    Change take(Node& node, const fattr3& told, std::uint64_t order,
                const Before& before = Before()) noexcept;
    Change take(Node& node, const post_op_attr& told, std::uint64_t order) noexcept;
    // Of an object that a call of ours has changed, success or not.
    Change take(Node& node, const wcc_data& told, std::uint64_t order) noexcept;
    // What the kernel has of it is not valid.
    void invalidate_data(Node& node) noexcept;
    void expire_names(Node& directory) noexcept;

    // The node of a handle that an answer told, with its attributes when those came, else nullptr
    // when they are not known either: what has no type cannot be shown to the kernel. Nor can what
    // is of another type than before: nullptr, and nothing is taken over.
    Node* node_of(const nfs::client::FileHandle& handle, const fattr3* told, std::uint64_t order);

    // For the kernel: of a node whose attributes are known. The hidden name of what is unlinked is
    // no link.
    struct stat stat_of(const Node& node) const noexcept;
    // In seconds.
    double attribute_seconds(const Node& node) const noexcept;
    double name_seconds(const Node& directory) const noexcept;
    double negative_seconds(const Node& directory) const noexcept;
    CacheRange range(const Node& node) const noexcept;
    std::uint64_t now_ns() const noexcept { return clock_.now_ns(); }

    // Whose request is being looked at, from which loop, with which payload (Channel).
    Channel* reading = nullptr;
    std::uint32_t silly_names = 0;  // given so far
    // Any thread: the kernel has ended it. All loops end.
    void end() noexcept;
    bool ended() const noexcept { return ended_; }

  private:
    RealClock clock_;
    std::atomic<bool> ended_{false};
    std::uint64_t order_ = 0;
};

}  // namespace nfsrdma::mount
