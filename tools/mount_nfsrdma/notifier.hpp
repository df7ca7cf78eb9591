#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "tools/mount_nfsrdma/fuse3.hpp"

namespace nfsrdma::mount {

class Mount;
class Node;

// Tells the kernel that what it has is not valid any more, from a thread of its own: the kernel
// waits, while it is told, for requests that only this process can answer. Its queue is bounded by
// the number of nodes.
class Notifier {
  public:
    explicit Notifier(Mount& mount) noexcept : mount_(mount) {}
    ~Notifier();
    Notifier(const Notifier&) = delete;
    Notifier& operator=(const Notifier&) = delete;

    void start(fuse_session* session);
    // After the kernel has ended the session: what is queued is dropped.
    void stop() noexcept;
    // With Mount::lock held: what Node's marks say is to be told.
    void add(Node& node);
    void drop(Node& node) noexcept;  // it ends
    // Any thread, at once: the kernel forgets the attributes of a node that a request under way
    // keeps, and leaves its pages alone, so that nothing is waited for.
    void tell_attributes(const Node& node) noexcept;
    std::uint64_t told() const noexcept { return told_; }

  private:
    void run();
    Mount& mount_;
    fuse_session* session_ = nullptr;
    std::deque<std::uint64_t> queue_;  // inos, under Mount::lock
    std::condition_variable wake_;
    std::thread thread_;
    bool stopping_ = false;
    std::uint64_t told_ = 0;
};

}  // namespace nfsrdma::mount
