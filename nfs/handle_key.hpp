#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "base/result.hpp"
#include "nfs/siphash.hpp"

namespace nfsrdma::nfs {

// The secret that makes this server's file handles its own. Servers with the same key serve each
// other's handles; whoever knows it can forge them.
class HandleKey {
  public:
    static constexpr std::size_t kFileBytes = 32;

    // Of kFileBytes bytes: the second half is hashed under the first.
    explicit HandleKey(std::span<const std::byte, kFileBytes> secret) noexcept;
    // A new one. Aborts when the kernel has no random numbers: a guessable key is none.
    static HandleKey random() noexcept;
    // The key in `path`, made there with mode 0600 when there is no such file. Errc::refused:
    // others may read it, it is no regular file, or another user's; Errc::bad_message: not
    // kFileBytes long; Errc::system.
    static Result<HandleKey> of_file(const std::string& path);

    SipTag tag(std::span<const std::byte> message) const noexcept {
        return siphash128(key_, message);
    }

  private:
    SipKey key_{};
};

}  // namespace nfsrdma::nfs
