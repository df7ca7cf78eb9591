#pragma once
#include <functional>
#include <string>

#include "base/unique_fd.hpp"
#include "tools/mount_nfsrdma/options.hpp"

// How the process that serves a mount comes away from the terminal: the parent, whom mount(8) or a
// shell waits for, ends when the mount stands, and not before.
namespace nfsrdma::mount {

// One process' beginning. Before any thread is there.
class Launch {
  public:
    Launch() = default;
    ~Launch() = default;
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

    // Forks: true in the child, which goes on. In the parent false, after the child has told how
    // it went or has ended; `status` is what to exit with. The child says itself, on standard
    // error, what is wrong; what only the parent can know is said here.
    bool to_child(int& status);
    // The child: nothing may be told twice; without to_child (in the foreground) all of these do
    // what is possible there.
    //
    // The parent exits with 0. From here on the process is its own: session, directory /, no file
    // of the caller open, messages to the log, which goes to syslog.
    void detach();
    void tell_failed(int status);
    bool told() const noexcept { return told_; }
    bool in_background() const noexcept { return forked_; }

  private:
    int wait_for(int child) const;
    void tell(int status);
    UniqueFd pipe_;
    bool forked_ = false, told_ = false;
};

// What comes of one attempt to mount.
struct Attempt {
    bool ok = false;
    bool again = false;  // it may go well later
    int status = kExitFailed;
    std::string why;
};

// Makes attempts, for as long as retry= says while they may go well later, with pauses that grow
// from `first_pause_s` to 30 s; with bg the process leaves its terminal after the first one that
// failed. The last one, `ok` or not; what is wrong has been said.
Attempt keep_trying(const MountOptions& options, Launch& launch,
                    const std::function<Attempt()>& once, double first_pause_s = 1);

// Says something to whoever looks: on standard error, or in the log when that is gone.
void say(const Launch& launch, const std::string& what);

}  // namespace nfsrdma::mount
