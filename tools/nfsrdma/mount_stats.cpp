#include "tools/nfsrdma/mount_stats.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <poll.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "tools/nfsrdma/url.hpp"

namespace nfsrdma::tool {
namespace {

class Until {
  public:
    explicit Until(double seconds)
        : end_ns_(clock_.now_ns() +
                  static_cast<std::uint64_t>(seconds * static_cast<double>(kNsPerSec))) {}
    Result<void> wait(int fd, short events) const {
        const std::uint64_t now = clock_.now_ns();
        pollfd one{fd, events, 0};
        const int got =
            now >= end_ns_ ? 0 : ::poll(&one, 1, static_cast<int>((end_ns_ - now) / kNsPerMs) + 1);
        if (got < 0 && errno != EINTR) return Error{Errc::system, errno, "wait for the mount"};
        if (got == 0) return Error{Errc::timed_out, 0, "the mount's process does not answer"};
        return {};
    }

  private:
    RealClock clock_;
    std::uint64_t end_ns_;
};

// Connected to a process whose word can be taken, or nothing.
UniqueFd connect_to(const MountEntry& mount, std::uint32_t number) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const StatsAddress at = stats_address(mount.major, mount.minor, number);
    if (!fd || ::connect(fd.get(), at.sa(), at.size) != 0) return UniqueFd();
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return UniqueFd();
    return peer.uid == 0 || peer.uid == mount.owner ? std::move(fd) : UniqueFd();
}

Result<std::string> converse(int fd, std::string_view question, const Until& until) {
    while (!question.empty()) {
        NR_TRY(until.wait(fd, POLLOUT));
        const ssize_t n = ::send(fd, question.data(), question.size(), MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return Error{Errc::system, errno, "ask the mount's process"};
        if (n > 0) question.remove_prefix(static_cast<std::size_t>(n));
    }
    std::string all;
    std::array<char, 16384> part;
    for (;;) {
        NR_TRY(until.wait(fd, POLLIN));
        const ssize_t n = ::recv(fd, part.data(), part.size(), 0);
        if (n == 0) break;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return Error{Errc::system, errno, "read the answer of the mount's process"};
        if (n > 0) all.append(part.data(), static_cast<std::size_t>(n));
        if (all.size() > kStatsMax) return Error{Errc::too_big, 0, "the answer has no end"};
    }
    if (all.empty()) return Error{Errc::refused, 0, "the mount's process is ending"};
    return all;
}

const MountEntry* ours(const MountEntry* entry) noexcept {
    return entry != nullptr && entry->is_ours() ? entry : nullptr;
}

}  // namespace

const sockaddr* StatsAddress::sa() const noexcept {
    return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

StatsAddress stats_address(std::uint32_t major, std::uint32_t minor, std::uint32_t try_number) {
    std::string name = "nfsrdma-mount/" + std::to_string(major) + ":" + std::to_string(minor);
    if (try_number > 0) name += "/" + std::to_string(try_number);
    StatsAddress out;
    out.address.sun_family = AF_UNIX;
    // The zero byte before the name makes it abstract.
    std::copy(name.begin(), name.end(), std::begin(out.address.sun_path) + 1);
    out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return out;
}

Result<std::string> ask_mount(const MountEntry& mount, bool json, double timeout_s) {
    const Until until(timeout_s);
    for (std::uint32_t number = 0; number < kStatsNames; ++number) {
        const UniqueFd fd = connect_to(mount, number);
        if (fd) return converse(fd.get(), json ? "json\n" : "text\n", until);
    }
    return Error{Errc::refused, 0,
                 "no process of root or of the mount's owner tells its counters here"};
}

const MountEntry* find_mount(const std::vector<MountEntry>& table, const std::string& path) {
    std::error_code error;
    const std::string absolute =
        normal_path(std::filesystem::absolute(path, error).lexically_normal().string());
    if (const MountEntry* const found = ours(mount_of(table, absolute)); found != nullptr)
        return found;
    const std::filesystem::path whole(absolute);
    const auto parent = std::filesystem::canonical(whole.parent_path(), error);
    if (error) return nullptr;
    const std::string real = normal_path((parent / whole.filename()).string());
    if (const MountEntry* const found = ours(mount_of(table, real)); found != nullptr) return found;
    // `path` itself is a symbolic link, and not in a mount of ours.
    const auto followed = std::filesystem::canonical(whole, error);
    return error ? nullptr : ours(mount_of(table, normal_path(followed.string())));
}

}  // namespace nfsrdma::tool
