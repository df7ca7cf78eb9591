// The system calls of a file system, with their errors:
// nfsrdma_posix DIR [--nfs] [--verbose] [--patience SECONDS] [NAME-PREFIX...]
//
// Makes a directory in DIR, runs each case of posix_*.cpp (those whose name begins with one of the
// prefixes, when some are given) in a process and a directory of its own there, and removes it all.
// --nfs: DIR is a mount of NFSv3: holes, extended attributes, times before 1970 and other things
// that its protocol lacks must be refused in the right way. Exit status 0: nothing failed.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>

#include "tests/e2e/posix.hpp"

namespace nfsrdma::posix {
namespace {

// No case works longer than this; one that hangs ends by SIGALRM, and is named. --patience: on slow
// machines.
constexpr unsigned kPatienceSeconds = 60;

struct Arguments {
    std::string directory;
    Options options;
    bool verbose = false;
    unsigned patience = kPatienceSeconds;
    std::vector<std::string> prefixes;
};

std::vector<Case> all_cases() {
    std::vector<Case> all;
    for (const auto& group : {open_cases(), io_cases(), size_cases(), names_cases(), rename_cases(),
                              link_cases(), attribute_cases(), time_cases(), directory_cases(),
                              map_cases(), lock_cases(), user_cases()}) {
        all.insert(all.end(), group.begin(), group.end());
    }
    return all;
}

bool wanted(const Arguments& arguments, std::string_view name) {
    for (const std::string& prefix : arguments.prefixes)
        if (name.substr(0, prefix.size()) == prefix) return true;
    return arguments.prefixes.empty();
}

// What the case had open when it ended is closed a moment later, and its silly names go with that.
std::error_code remove_all(const std::string& directory) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (;;) {
        std::error_code error;
        std::filesystem::remove_all(directory, error);
        if (!error || std::chrono::steady_clock::now() > until) return error;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

void run_case(const Case& one, const std::string& directory, const Arguments& arguments,
              Counts& counts) {
    Checks t(one.name, arguments.options, counts);
    const std::string own = directory + "/" + one.name;
    if (!NR_OK(::mkdir(own.c_str(), 0777)) || !NR_OK(::chmod(own.c_str(), 0777))) return;
    std::fflush(nullptr);
    const int status = in_child([&] {
        ::alarm(arguments.patience);
        ::umask(022);
        if (NR_OK(::chdir(own.c_str()))) one.run(t);
    });
    if (status != 0) {
        t.fail(status > 128 ? "ended by signal " + std::to_string(status - 128)
                            : "exit status " + std::to_string(status),
               __LINE__);
    }
    const std::error_code error = remove_all(own);
    if (error) t.fail("what is left cannot be removed: " + error.message(), __LINE__);
}

int run(const Arguments& arguments) {
    // Shared with the children. Zeroed memory is what Counts begins as.
    void* memory =
        ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 2;
    Counts& counts = *static_cast<Counts*>(memory);
    std::string directory = arguments.directory + "/posix.XXXXXX";
    if (::mkdtemp(directory.data()) == nullptr || ::chmod(directory.c_str(), 0755) != 0) {
        std::fprintf(stderr, "posix: %s: %s\n", directory.c_str(), std::strerror(errno));
        return 2;
    }
    int skipped = 0;
    for (const Case& one : all_cases()) {
        if (!wanted(arguments, one.name)) continue;
        if (one.needs_root && !arguments.options.root) {
            ++skipped;
            continue;
        }
        const Counts before = counts;
        run_case(one, directory, arguments, counts);
        if (arguments.verbose) {
            std::printf("%-40s %u checks, %u failed\n", one.name, counts.checks - before.checks,
                        counts.failed - before.failed);
        }
    }
    std::error_code error;
    std::filesystem::remove_all(directory, error);
    if (skipped != 0) std::printf("posix: needs root: %d cases skipped\n", skipped);
    std::printf("posix: %u checks, %u failed\n", counts.checks, counts.failed);
    return counts.failed == 0 && counts.checks != 0 ? 0 : 1;
}

}  // namespace
}  // namespace nfsrdma::posix

int main(int argc, char** argv) {
    nfsrdma::posix::Arguments arguments;
    arguments.options.root = ::geteuid() == 0;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        if (argument == "--nfs") {
            arguments.options.nfs = true;
        } else if (argument == "--verbose") {
            arguments.verbose = true;
        } else if (argument == "--patience" && i + 1 < argc) {
            arguments.patience = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
        } else if (arguments.directory.empty()) {
            arguments.directory = argument;
        } else {
            arguments.prefixes.push_back(argument);
        }
    }
    if (arguments.directory.empty() || arguments.directory[0] == '-') {
        std::fprintf(stderr,
                     "usage: nfsrdma_posix DIR [--nfs] [--verbose] [--patience SECONDS] "
                     "[NAME-PREFIX...]\n");
        return 2;
    }
    return nfsrdma::posix::run(arguments);
}
