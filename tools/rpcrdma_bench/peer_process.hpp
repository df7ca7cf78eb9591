#pragma once
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::bench {

inline constexpr int kServerCpu = 0;
inline constexpr int kClientCpu = 1;
inline constexpr int kAnyCpu = -1;  // not bound: has children of its own

// Binds the calling thread to one processor, where there is more than one; both sides of a pair run
// on the same two.
void pin_to(int cpu);

// A child process: another role of this program, or a program beside it. Ended, and waited for, by
// the destructor.
class PeerProcess {
  public:
    struct Spec {
        std::string program;  // a name beside this program, or empty: this program itself
        std::vector<std::string> arguments;
        std::vector<std::pair<std::string, std::string>> environment;  // in addition
        int cpu = kServerCpu;
    };
    // Returns once the child printed its first line on stdout (its "ready" line), which is
    // `ready_line()`.
    static Result<PeerProcess> start(const Spec& spec, double timeout_seconds = 10);
    PeerProcess(PeerProcess&& other) noexcept;
    PeerProcess& operator=(PeerProcess&& other) = delete;
    PeerProcess(const PeerProcess&) = delete;
    PeerProcess& operator=(const PeerProcess&) = delete;
    ~PeerProcess();
    const std::string& ready_line() const noexcept { return ready_line_; }
    pid_t pid() const noexcept { return pid_; }
    void signal(int number) const noexcept;
    // SIGTERM, a bounded wait, then SIGKILL. The exit status, or -1.
    int stop() noexcept;

  private:
    PeerProcess() = default;
    pid_t pid_ = -1;
    UniqueFd out_;
    std::string ready_line_;
};

// A loopback address of 127.0.0.0/8 drawn at random, so that two runs on one machine do not meet.
std::string random_loopback();

// The folder that this program stands in.
std::string program_folder();

}  // namespace nfsrdma::bench
