#include "nfs/handle_key.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::nfs {
namespace {

using Secret = std::array<std::byte, HandleKey::kFileBytes>;

Secret new_secret() noexcept {
    Secret out{};
    NR_ASSERT(::getrandom(out.data(), out.size(), 0) == static_cast<ssize_t>(out.size()));
    return out;
}

// Makes the file whole or not at all: another server may be starting on the same path, and then the
// first one's key is the one that counts.
Result<void> make_file(const std::string& path) {
    const std::string scratch = path + "." + std::to_string(::getpid());
    static_cast<void>(::unlink(scratch.c_str()));
    const UniqueFd fd(
        ::open(scratch.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd) return Error{Errc::system, errno, "make the handle key"};
    const Secret secret = new_secret();
    const bool written =
        ::write(fd.get(), secret.data(), secret.size()) == static_cast<ssize_t>(secret.size()) &&
        ::fsync(fd.get()) == 0 && ::link(scratch.c_str(), path.c_str()) == 0;
    const int error = written ? 0 : errno;
    static_cast<void>(::unlink(scratch.c_str()));
    if (!written && error != EEXIST) return Error{Errc::system, error, "make the handle key"};
    return {};
}

Result<HandleKey> read_file(int fd) {
    constexpr mode_t kOthers = 077;
    struct stat st {};
    if (::fstat(fd, &st) != 0) return Error{Errc::system, errno, "stat of the handle key"};
    if (!S_ISREG(st.st_mode)) return Error{Errc::refused, 0, "the handle key is no regular file"};
    if (st.st_uid != ::geteuid() && st.st_uid != 0) {
        return Error{Errc::refused, 0, "the handle key is another user's"};
    }
    if ((st.st_mode & kOthers) != 0) {
        return Error{Errc::refused, 0, "others may read the handle key; its mode must be 0600"};
    }
    std::array<std::byte, HandleKey::kFileBytes + 1> room{};
    const ssize_t size = ::read(fd, room.data(), room.size());
    if (size < 0) return Error{Errc::system, errno, "read the handle key"};
    if (size != static_cast<ssize_t>(HandleKey::kFileBytes)) {
        return Error{Errc::bad_message, 0, "the handle key is not 32 bytes long"};
    }
    return HandleKey(std::span(room).first<HandleKey::kFileBytes>());
}

}  // namespace

HandleKey::HandleKey(std::span<const std::byte, kFileBytes> secret) noexcept {
    SipKey first{};
    std::copy_n(secret.begin(), first.size(), first.begin());
    key_ = siphash128(first, secret.last<kFileBytes - sizeof(SipKey)>());
}

HandleKey HandleKey::random() noexcept {
    return HandleKey(new_secret());
}

Result<HandleKey> HandleKey::of_file(const std::string& path) {
    constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    UniqueFd fd(::open(path.c_str(), kFlags));
    if (!fd && errno == ENOENT) {
        NR_TRY(make_file(path));
        fd.reset(::open(path.c_str(), kFlags));
    }
    if (!fd) return Error{Errc::system, errno, "open the handle key"};
    return read_file(fd.get());
}

}  // namespace nfsrdma::nfs
