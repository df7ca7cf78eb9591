#include "tests/e2e/posix.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <grp.h>
#include <sys/wait.h>
#include <thread>

#include "base/prng.hpp"

namespace nfsrdma::posix {
namespace {

std::string error_text(int error) {
    const char* name = strerrorname_np(error);
    return name != nullptr ? name : "errno " + std::to_string(error);
}
std::string result_text(long result, int error) {
    return result == -1 ? error_text(error) : "no error (" + std::to_string(result) + ")";
}
// Long texts by their beginning: a file's contents may be megabytes.
std::string shortened(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, 40))
        out += c >= ' ' && c <= '~' ? c : '?';
    return "\"" + out + "\"" + (text.size() > 40 ? "..." : "") + " of " +
           std::to_string(text.size()) + " bytes";
}

}  // namespace

bool Checks::counted(bool good) {
    std::atomic_ref(counts_.checks).fetch_add(1);
    if (!good) std::atomic_ref(counts_.failed).fetch_add(1);
    return good;
}

void Checks::fail(const std::string& what, int line) {
    counted(false);
    std::fprintf(stderr, "FAILED %s:%d: %s\n", name_.c_str(), line, what.c_str());
}

bool Checks::ok(long result, const char* call, int line) {
    const int error = errno;
    if (result != -1) return counted(true);
    fail(std::string(call) + ": " + error_text(error), line);
    return false;
}

bool Checks::error(int expected, long result, const char* call, int line) {
    return error_of({expected}, result, call, line);
}

bool Checks::error_of(std::initializer_list<int> expected, long result, const char* call,
                      int line) {
    const int error = errno;
    if (result == -1 && std::find(expected.begin(), expected.end(), error) != expected.end())
        return counted(true);
    std::string wanted;
    for (const int one : expected)
        wanted += (wanted.empty() ? "" : " or ") + error_text(one);
    fail(std::string(call) + ": " + result_text(result, error) + ", not " + wanted, line);
    return false;
}

bool Checks::equal(long long expected, long long got, const char* what, int line) {
    if (expected == got) return counted(true);
    fail(std::string(what) + ": " + std::to_string(got) + ", not " + std::to_string(expected),
         line);
    return false;
}

bool Checks::equal(std::string_view expected, std::string_view got, const char* what, int line) {
    if (expected == got) return counted(true);
    const auto differ =
        std::mismatch(expected.begin(), expected.end(), got.begin(), got.end()).first;
    fail(std::string(what) + ": " + shortened(got) + ", not " + shortened(expected) +
             ", different at " + std::to_string(differ - expected.begin()),
         line);
    return false;
}

bool Checks::holds(bool condition, const char* what, int line) {
    if (condition) return counted(true);
    fail(std::string("not so: ") + what, line);
    return false;
}

UniqueFd open_file(const std::string& name, int flags, mode_t mode) {
    return UniqueFd(::open(name.c_str(), flags | O_CLOEXEC, mode));
}

bool put(const std::string& name, std::string_view contents, mode_t mode) {
    UniqueFd file = open_file(name, O_WRONLY | O_CREAT | O_TRUNC, mode);
    if (!file) return false;
    while (!contents.empty()) {
        const ssize_t written = ::write(file.get(), contents.data(), contents.size());
        if (written <= 0) return false;
        contents.remove_prefix(static_cast<std::size_t>(written));
    }
    return ::close(file.release()) == 0;
}

std::string get(const std::string& name) {
    const UniqueFd file = open_file(name, O_RDONLY);
    if (!file) return "error " + error_text(errno);
    std::string contents;
    std::vector<char> piece(std::size_t{256} << 10);
    for (;;) {
        const ssize_t got = ::read(file.get(), piece.data(), piece.size());
        if (got < 0) return "error " + error_text(errno);
        if (got == 0) return contents;
        contents.append(piece.data(), static_cast<std::size_t>(got));
    }
}

std::string read_at(int fd, off_t offset, std::size_t len) {
    std::string contents(len, '?');
    std::size_t have = 0;
    while (have < len) {
        const ssize_t got =
            ::pread(fd, contents.data() + have, len - have, offset + static_cast<off_t>(have));
        if (got < 0) return "error " + error_text(errno);
        if (got == 0) break;
        have += static_cast<std::size_t>(got);
    }
    contents.resize(have);
    return contents;
}

std::string pattern(std::size_t len, std::uint64_t seed) {
    std::string out(len, 0);
    Prng prng(seed);
    for (std::size_t i = 0; i < len; i += sizeof(std::uint64_t)) {
        const std::uint64_t word = prng.next();
        std::memcpy(out.data() + i, &word, std::min(sizeof word, len - i));
    }
    return out;
}

struct stat stat_of(const std::string& name) {
    struct stat st {};
    if (::stat(name.c_str(), &st) != 0) return {};
    return st;
}
struct stat lstat_of(const std::string& name) {
    struct stat st {};
    if (::lstat(name.c_str(), &st) != 0) return {};
    return st;
}
struct stat stat_of(int fd) {
    struct stat st {};
    if (::fstat(fd, &st) != 0) return {};
    return st;
}
bool exists(const std::string& name) {
    struct stat st {};
    return ::lstat(name.c_str(), &st) == 0;
}

std::vector<std::string> names_in(const std::string& directory) {
    std::vector<std::string> names;
    DIR* dir = ::opendir(directory.c_str());
    if (dir == nullptr) return {"error " + error_text(errno)};
    while (const dirent* entry = ::readdir(dir)) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
    }
    ::closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
}

std::vector<std::string> names_left_in(const std::string& directory) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (;;) {
        const std::vector<std::string> names = names_in(directory);
        const bool silly = std::any_of(names.begin(), names.end(), [](const std::string& name) {
            return name.compare(0, 4, ".nfs") == 0;
        });
        if (!silly || std::chrono::steady_clock::now() > until) return names;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

std::string link_text(const std::string& name) {
    std::string text(PATH_MAX, '?');
    const ssize_t len = ::readlink(name.c_str(), text.data(), text.size());
    if (len < 0) return "error " + error_text(errno);
    text.resize(static_cast<std::size_t>(len));
    return text;
}

int in_child(const std::function<void()>& body) {
    const pid_t pid = ::fork();
    if (pid < 0) return -1;
    if (pid == 0) {
        body();
        std::_Exit(0);
    }
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int as_user(const User& user, const std::function<void()>& body) {
    return in_child([&] {
        if (::setgroups(user.groups.size(), user.groups.data()) != 0 ||
            ::setresgid(user.gid, user.gid, user.gid) != 0 ||
            ::setresuid(user.uid, user.uid, user.uid) != 0) {
            std::_Exit(99);
        }
        body();
    });
}

}  // namespace nfsrdma::posix
