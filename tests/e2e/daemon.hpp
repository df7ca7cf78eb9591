#pragma once
#include <csignal>
#include <cstdint>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/assert.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::testing {

struct DaemonOptions {
    std::vector<std::string> words;     // of its command line; its own name first
    bool opens_by_handle = true;        // false: it loses CAP_DAC_READ_SEARCH, if it had it
    std::uint64_t descriptors_max = 0;  // 0: as many as we
};

// A running nfsrdmad. It ends with the object, or with the process.
class Daemon {
  public:
    // Returns when it serves; asserts that it does.
    explicit Daemon(const DaemonOptions& options) {
        int out[2];
        NR_ASSERT(::pipe(out) == 0);
        UniqueFd ours(out[0]), theirs(out[1]);
        pid_ = ::fork();
        NR_ASSERT(pid_ >= 0);
        if (pid_ == 0) become(options, theirs.get());
        theirs.reset();
        std::string line;
        for (char c = 0; c != '\n' && ::read(ours.get(), &c, 1) == 1;)
            line.push_back(c);
        NR_ASSERT(line.rfind("nfsrdmad: serving", 0) == 0);
    }
    ~Daemon() { end(); }
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;
    void reload() const { NR_ASSERT(::kill(pid_, SIGHUP) == 0); }
    // Its exit status; -1 when a signal ended it.
    int end(int signal = SIGTERM) {
        if (pid_ <= 0) return 0;
        int status = 0;
        ::kill(pid_, signal);
        NR_ASSERT(::waitpid(pid_, &status, 0) == pid_);
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

  private:
    [[noreturn]] static void become(const DaemonOptions& options, int out) {
        constexpr int kDacReadSearch = 2;  // CAP_DAC_READ_SEARCH
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!options.opens_by_handle && ::geteuid() == 0)
            ::prctl(PR_CAPBSET_DROP, kDacReadSearch, 0, 0, 0);
        if (options.descriptors_max != 0) {
            const rlimit limit{options.descriptors_max, options.descriptors_max};
            ::setrlimit(RLIMIT_NOFILE, &limit);
        }
        ::dup2(out, STDOUT_FILENO);
        std::vector<char*> arguments;
        for (const std::string& word : options.words)
            arguments.push_back(const_cast<char*>(word.c_str()));  // as execv wants it
        arguments.push_back(nullptr);
        ::execv(arguments[0], arguments.data());
        ::_exit(127);
    }
    pid_t pid_ = 0;
};

}  // namespace nfsrdma::testing
