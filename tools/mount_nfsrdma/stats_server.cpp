#include "tools/mount_nfsrdma/stats_server.hpp"

#include <array>
#include <cerrno>
#include <poll.h>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "tools/nfsrdma/mount_stats.hpp"

namespace nfsrdma::mount {
namespace {

constexpr std::size_t kQuestionMax = 64;
constexpr std::uint64_t kPatienceNs = kNsPerSec;

// False: not ready in time, or gone.
bool wait_for(int fd, short events, std::uint64_t end_ns) {
    const std::uint64_t now = RealClock().now_ns();
    pollfd one{fd, events, 0};
    return now<end_ns&& ::poll(&one, 1, static_cast<int>((end_ns - now) / kNsPerMs) + 1)> 0;
}

// Up to the end of the line; what is longer is none.
std::string question_of(int fd) {
    const std::uint64_t end = RealClock().now_ns() + kPatienceNs;
    std::string text;
    std::array<char, kQuestionMax> part{};
    while (text.size() < kQuestionMax && wait_for(fd, POLLIN, end)) {
        const ssize_t n = ::recv(fd, part.data(), part.size(), 0);
        if (n <= 0) return {};
        text.append(part.data(), static_cast<std::size_t>(n));
        const std::size_t newline = text.find('\n');
        if (newline != std::string::npos) return text.substr(0, newline);
    }
    return {};
}

void send_all(int fd, std::string_view text) {
    const std::uint64_t end = RealClock().now_ns() + kPatienceNs;
    while (!text.empty() && wait_for(fd, POLLOUT, end)) {
        const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR) return;
        if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
    }
}

}  // namespace

StatsServer::StatsServer(UniqueFd listening, UniqueFd stop, Produce produce)
    : listening_(std::move(listening)), stop_(std::move(stop)), produce_(std::move(produce)) {
    thread_ = std::thread([this] { serve(); });
}

StatsServer::~StatsServer() {
    const std::uint64_t one = 1;
    (void)!::write(stop_.get(), &one, sizeof one);
    thread_.join();
}

Result<std::unique_ptr<StatsServer>> StatsServer::at_directory(const std::string& directory,
                                                               Produce produce) {
    NR_TRY_ASSIGN(const std::vector<tool::MountEntry> table, tool::read_mount_table());
    const tool::MountEntry* const entry = tool::mount_at(table, directory);
    if (entry == nullptr || !entry->is_ours())
        return Error{Errc::invalid_argument, 0, "the mount is not in /proc/self/mountinfo"};
    return create(entry->major, entry->minor, std::move(produce));
}

Result<std::unique_ptr<StatsServer>> StatsServer::create(std::uint32_t major, std::uint32_t minor,
                                                         Produce produce) {
    UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!stop || !fd) return Error{Errc::system, errno, "make a socket for counters"};
    int error = EADDRINUSE;
    for (std::uint32_t number = 0; number < tool::kStatsNames; ++number) {
        const tool::StatsAddress at = tool::stats_address(major, minor, number);
        error = ::bind(fd.get(), at.sa(), at.size) == 0 ? 0 : errno;
        if (error != EADDRINUSE) break;
    }
    if (error != 0) return Error{Errc::system, error, "name the socket for counters"};
    if (::listen(fd.get(), 8) != 0) return Error{Errc::system, errno, "listen for counters"};
    return std::unique_ptr<StatsServer>(
        new StatsServer(std::move(fd), std::move(stop), std::move(produce)));
}

void StatsServer::serve() noexcept {
    for (;;) {
        std::array<pollfd, 2> both{pollfd{listening_.get(), POLLIN, 0},
                                   pollfd{stop_.get(), POLLIN, 0}};
        if (::poll(both.data(), both.size(), -1) < 0) continue;
        if (both[1].revents != 0) return;
        const UniqueFd asker(
            ::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!asker) continue;
        try {
            answer(asker.get());
        } catch (const std::exception&) {
            NR_LOG_ONCE(warn, "no memory for telling counters");
        }
    }
}

void StatsServer::answer(int fd) const {
    const std::string question = question_of(fd);
    if (question == "text" || question == "json") send_all(fd, produce_(question == "json"));
}

}  // namespace nfsrdma::mount
