#pragma once
#include "nfs/client/write_behind.hpp"

namespace nfsrdma::mount {

// The data of one file that is on its way: what was written and is not at the server, what was read
// ahead. Belongs to the home loop of its node (Node::home): whoever wants something of it moves
// there first (Job::move_to).
class FileState {
  public:
    // Waits until all that was written before has been answered by the server.
    struct Waiter : nfs::client::WriteBehind::Waiter {
        void (*ready)(Waiter& waiter) noexcept = nullptr;  // on the home loop, Mount::lock held
    };
    FileState() = default;
    virtual ~FileState() = default;
    FileState(const FileState&) = delete;
    FileState& operator=(const FileState&) = delete;

    // True: there is nothing to wait for. False: `ready` will run, once, never from inside.
    virtual bool when_written(Waiter& waiter) noexcept = 0;
    // The same for until it is durable; any loop: whether all is.
    virtual bool durable() const noexcept { return true; }
    virtual bool when_durable(Waiter& waiter) noexcept {
        static_cast<void>(waiter);
        return true;
    }
    virtual void stop_waiting(Waiter& waiter) noexcept = 0;  // no effect when it does not wait
    // Another has changed the file, or a call of ours its size: nothing that was read is valid.
    // Runs with Mount::lock held, on any loop.
    virtual void drop_ahead() noexcept = 0;
};

}  // namespace nfsrdma::mount
