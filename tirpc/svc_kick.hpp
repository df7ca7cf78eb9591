#pragma once
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::tirpc {

// What libtirpc polls in place of a connection: one end of a socket pair, readable while it is
// kicked. A socket, because programs ask for its type (facts: SOCK_STREAM).
class KickPair {
  public:
    // Errc::system: EMFILE, ENFILE.
    static Result<KickPair> create() noexcept;
    KickPair() = default;
    int fd() const noexcept { return theirs_.get(); }
    bool open() const noexcept { return static_cast<bool>(theirs_); }
    void close() noexcept;
    // Any thread, and signal handlers; never blocks.
    void kick() noexcept;
    // Takes all kicks back.
    void ack() noexcept;

  private:
    UniqueFd ours_, theirs_;
};

}  // namespace nfsrdma::tirpc
