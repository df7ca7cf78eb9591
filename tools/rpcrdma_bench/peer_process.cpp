#include "tools/rpcrdma_bench/peer_process.hpp"

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <random>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace nfsrdma::bench {
namespace {

using Clock = std::chrono::steady_clock;

// In the child, between fork and exec: only what is safe there.
[[noreturn]] void become(const std::string& path, std::vector<char*>& argv, int out, int cpu) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, STDOUT_FILENO);
    pin_to(cpu);
    execv(path.c_str(), argv.data());
    _exit(127);
}

Result<std::string> read_line(int fd, double timeout_seconds) {
    std::string line;
    const auto deadline = Clock::now() + std::chrono::duration<double>(timeout_seconds);
    while (true) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0) return Error{Errc::timed_out, 0, "wait for the ready line of a child"};
        pollfd p{fd, POLLIN, 0};
        if (poll(&p, 1, static_cast<int>(left)) <= 0) continue;
        char c = 0;
        const ssize_t n = read(fd, &c, 1);
        if (n <= 0) return Error{Errc::closed, 0, "a child ended before its ready line"};
        if (c == '\n') return line;
        line.push_back(c);
    }
}

}  // namespace

void pin_to(int cpu) {
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    if (count < 2 || cpu == kAnyCpu) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(cpu), &set);
    sched_setaffinity(0, sizeof set, &set);
}

Result<PeerProcess> PeerProcess::start(const Spec& spec, double timeout_seconds) {
    const std::string path =
        spec.program.empty() ? "/proc/self/exe" : program_folder() + "/" + spec.program;
    std::vector<std::string> words = {spec.program.empty() ? "rpcrdma-bench" : spec.program};
    words.insert(words.end(), spec.arguments.begin(), spec.arguments.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words)
        argv.push_back(word.data());
    argv.push_back(nullptr);
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) return Error{Errc::system, errno, "pipe"};
    UniqueFd read_end(ends[0]), write_end(ends[1]);
    // This program has one thread.
    for (const auto& [name, value] : spec.environment)
        setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
    const pid_t pid = fork();
    if (pid == 0) become(path, argv, write_end.get(), spec.cpu);
    for (const auto& [name, value] : spec.environment)
        unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
    if (pid < 0) return Error{Errc::system, errno, "fork"};
    PeerProcess child;
    child.pid_ = pid;
    child.out_ = std::move(read_end);
    write_end.reset();
    NR_TRY_ASSIGN(child.ready_line_, read_line(child.out_.get(), timeout_seconds));
    return child;
}

PeerProcess::PeerProcess(PeerProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_(std::move(other.out_)),
      ready_line_(std::move(other.ready_line_)) {}

PeerProcess::~PeerProcess() {
    stop();
}

void PeerProcess::signal(int number) const noexcept {
    if (pid_ > 0) kill(pid_, number);
}

int PeerProcess::stop() noexcept {
    if (pid_ <= 0) return -1;
    const pid_t pid = std::exchange(pid_, -1);
    kill(pid, SIGTERM);
    int status = 0;
    for (int i = 0; i < 500; ++i) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

std::string random_loopback() {
    std::random_device random;
    auto octet = [&random] { return std::to_string(1 + random() % 253); };
    return "127." + octet() + "." + octet() + "." + octet();
}

std::string program_folder() {
    char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    if (n <= 0) return ".";
    const std::string whole(path, static_cast<std::size_t>(n));
    return whole.substr(0, whole.rfind('/'));
}

}  // namespace nfsrdma::bench
