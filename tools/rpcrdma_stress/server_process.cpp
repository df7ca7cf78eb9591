#include "tools/rpcrdma_stress/server_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <random>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::stress {
namespace {

constexpr std::uint64_t kReadyNs = 30 * kNsPerSec;
constexpr int kEndTurnUs = 10'000, kEndTurns = 1000;

// So that two runs on one machine do not meet.
std::string random_loopback() {
    std::random_device random;
    const auto octet = [&random] { return std::to_string(1 + random() % 253); };
    return "127." + octet() + "." + octet() + "." + octet();
}

// The first line that the server writes says that it serves.
Result<void> wait_for_line(int fd) {
    const RealClock clock;
    const std::uint64_t end = clock.now_ns() + kReadyNs;
    for (std::uint64_t now = clock.now_ns(); now < end; now = clock.now_ns()) {
        pollfd readable{fd, POLLIN, 0};
        if (::poll(&readable, 1, static_cast<int>((end - now) / kNsPerMs) + 1) <= 0) continue;
        char c = 0;
        const ssize_t size = ::read(fd, &c, 1);
        if (size <= 0) return Error{Errc::closed, 0, "nfsrdmad ended before it served"};
        if (c == '\n') return {};
    }
    return Error{Errc::timed_out, 0, "nfsrdmad says nothing"};
}

// In the child, between fork and exec: only what is safe there.
[[noreturn]] void become(char* const* argv, int out) {
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)::setpgid(0, 0);  // what is typed at the terminal is for the client, which ends it
    sigset_t none;
    sigemptyset(&none);
    (void)::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    (void)::dup2(out, STDOUT_FILENO);
    ::execv(argv[0], argv);
    ::_exit(127);
}

}  // namespace

Result<std::unique_ptr<ServerProcess>> ServerProcess::start(const std::string& program,
                                                            const std::string& directory,
                                                            const std::string& faults) {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    std::unique_ptr<ServerProcess> self(new ServerProcess);
    std::string state = "/tmp/rpcrdma-stress.XXXXXX";
    if (::mkdtemp(state.data()) == nullptr)
        return Error{Errc::system, errno, "make a directory in /tmp"};
    self->state_ = state;
    self->address_ = random_loopback();
    self->words_ = {program,    "--export",    directory, "--listen",    self->address_, "--device",
                    "softroce", "--state-dir", state,     "--log-level", "error"};
    if (!faults.empty()) self->words_.insert(self->words_.end(), {"--faults", faults});
    for (std::string& word : self->words_)
        self->argv_.push_back(word.data());
    self->argv_.push_back(nullptr);
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error{Errc::system, errno, "pipe"};
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    if (!self->spawn(write_end.get())) return Error{Errc::system, errno, "fork"};
    write_end.reset();
    NR_TRY(wait_for_line(read_end.get()));
    return self;
}

bool ServerProcess::spawn(int out) noexcept {
    const pid_t pid = ::fork();
    if (pid == 0) become(argv_.data(), out);
    if (pid > 0) pid_ = pid;
    return pid > 0;
}

void ServerProcess::end(int signal) noexcept {
    if (pid_ <= 0) return;
    (void)::kill(pid_, SIGCONT);
    (void)::kill(pid_, signal);
    int status = 0;
    for (int turn = 0; turn < kEndTurns; ++turn) {
        if (::waitpid(pid_, &status, WNOHANG) != 0) {
            pid_ = -1;
            return;
        }
        (void)::usleep(signal == SIGKILL ? kEndTurnUs / 10 : kEndTurnUs);
    }
    (void)::kill(pid_, SIGKILL);
    (void)::waitpid(pid_, &status, 0);
    pid_ = -1;
}

ServerProcess::~ServerProcess() {
    end(SIGTERM);
    std::error_code ignored;
    if (!state_.empty()) std::filesystem::remove_all(state_, ignored);
}

bool ServerProcess::kill_and_restart() noexcept {
    end(SIGKILL);
    const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    return spawn(nowhere.get());
}

std::string ServerProcess::ended() {
    int status = 0;
    if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return {};
    pid_ = -1;
    return WIFSIGNALED(status)
               ? "nfsrdmad was ended by signal " + std::to_string(WTERMSIG(status))
               : "nfsrdmad ended with status " + std::to_string(WEXITSTATUS(status));
}

void ServerProcess::freeze() noexcept {
    if (pid_ > 0) (void)::kill(pid_, SIGSTOP);
}

void ServerProcess::thaw() noexcept {
    if (pid_ > 0) (void)::kill(pid_, SIGCONT);
}

ServerFaults::ServerFaults(Loop& loop, ServerProcess& server,
                           const verbs::softroce::FaultSpec& spec, std::uint64_t seed,
                           Trouble trouble)
    : loop_(loop),
      server_(server),
      spec_(spec),
      dice_(seed),
      trouble_(std::move(trouble)),
      kill_timer_(*this, [](Timer& t) noexcept { static_cast<FaultTimer&>(t).faults.kill(); }),
      stop_timer_(*this,
                  [](Timer& t) noexcept { static_cast<FaultTimer&>(t).faults.stop_or_go(); }) {
    const std::uint64_t now = loop.now_ns();
    if (spec.server_kill_ns != 0) loop.arm(kill_timer_, dice_.after(now, spec.server_kill_ns));
    if (spec.server_stop.every_ns != 0)
        loop.arm(stop_timer_, dice_.after(now, spec.server_stop.every_ns));
}

ServerFaults::~ServerFaults() {
    end();
}

void ServerFaults::end() noexcept {
    for (FaultTimer* timer : {&kill_timer_, &stop_timer_}) {
        if (timer->armed()) loop_.disarm(*timer);
    }
    if (frozen_) server_.thaw();
    frozen_ = false;
}

// A server that ends by itself is none of our faults.
bool ServerFaults::lives() {
    const std::string how = server_.ended();
    if (how.empty()) return true;
    tell(how);
    return false;
}

void ServerFaults::tell(const std::string& what) {
    end();
    if (trouble_) trouble_(what);
}

void ServerFaults::kill() {
    if (!lives()) return;
    const std::uint64_t now = loop_.now_ns();
    if (!server_.kill_and_restart()) return tell("nfsrdmad cannot be started again");
    ++kills_;
    // It stands still no more: its next stop is as far away as after one that was over.
    if (std::exchange(frozen_, false))
        loop_.arm(stop_timer_, dice_.after(now, spec_.server_stop.every_ns));
    loop_.arm(kill_timer_, dice_.after(now, spec_.server_kill_ns));
}

void ServerFaults::stop_or_go() {
    if (!lives()) return;
    const std::uint64_t now = loop_.now_ns();
    if (frozen_) {
        frozen_ = false;
        server_.thaw();
        loop_.arm(stop_timer_, dice_.after(now, spec_.server_stop.every_ns));
        return;
    }
    frozen_ = true;
    ++stops_;
    server_.freeze();
    loop_.arm(stop_timer_, now + spec_.server_stop.for_ns);
}

std::string faults_of_server(const verbs::softroce::FaultSpec& spec) {
    if (spec.rnr.every_ns == 0) return {};
    const auto us = [](std::uint64_t ns) {
        return std::to_string(std::max<std::uint64_t>(ns / kNsPerUs, 1)) + "us";
    };
    return "rnr=" + us(spec.rnr.every_ns) + "/" + us(spec.rnr.for_ns);
}

std::string program_folder() {
    std::array<char, PATH_MAX> path{};
    const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
    if (size <= 0) return ".";
    const std::string whole(path.data(), static_cast<std::size_t>(size));
    return whole.substr(0, whole.rfind('/'));
}

}  // namespace nfsrdma::stress
