#pragma once
#include <cerrno>
#include <cstdint>
#include <dirent.h>
#include <fcntl.h>
#include <functional>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "base/unique_fd.hpp"

// What a POSIX file system is held to, system call by system call: see posix_main.cpp. A case is a
// function that runs in a process of its own, in an empty directory of its own (its working
// directory, mode 777), and makes any number of checks; the names in it are relative.
namespace nfsrdma::posix {

struct Options {
    bool nfs = false;   // the file system is NFSv3's: what that cannot do must be refused, and how
    bool root = false;  // we may become other users
};

// What the processes of a case found, in memory that they share.
struct Counts {
    std::uint32_t checks = 0;
    std::uint32_t failed = 0;
};

class Checks {
  public:
    Checks(std::string name, const Options& given, Counts& counts)
        : options(given), name_(std::move(name)), counts_(counts) {}

    // The call must not have returned -1; errno is still the call's.
    bool ok(long result, const char* call, int line);
    bool error(int expected, long result, const char* call, int line);
    // One of several errors: where systems differ, or the standard allows both.
    bool error_of(std::initializer_list<int> expected, long result, const char* call, int line);
    bool equal(long long expected, long long got, const char* what, int line);
    bool equal(std::string_view expected, std::string_view got, const char* what, int line);
    bool holds(bool condition, const char* what, int line);
    void fail(const std::string& what, int line);

    const Options options;

  private:
    bool counted(bool good);

    const std::string name_;
    Counts& counts_;
};

// NOLINTBEGIN: the text and the line of a check are what tells it from five hundred others.
#define NR_OK(call) (errno = 0, t.ok(static_cast<long>(call), #call, __LINE__))
#define NR_ERR(expected, call) \
    (errno = 0, t.error(expected, static_cast<long>(call), #call, __LINE__))
#define NR_ERR_OF(call, ...) \
    (errno = 0, t.error_of({__VA_ARGS__}, static_cast<long>(call), #call, __LINE__))
#define NR_EQ(expected, got) (t.equal(expected, got, #got, __LINE__))
#define NR_HOLDS(condition) (t.holds(condition, #condition, __LINE__))
// NOLINTEND

struct Case {
    const char* name;
    void (*run)(Checks& t);
    bool needs_root = false;
};

std::vector<Case> open_cases();
std::vector<Case> io_cases();
std::vector<Case> size_cases();
std::vector<Case> names_cases();
std::vector<Case> rename_cases();
std::vector<Case> link_cases();
std::vector<Case> attribute_cases();
std::vector<Case> time_cases();
std::vector<Case> directory_cases();
std::vector<Case> map_cases();
std::vector<Case> lock_cases();
std::vector<Case> user_cases();

// --- what the cases share ---

// -1 with errno set, as open.
UniqueFd open_file(const std::string& name, int flags, mode_t mode = 0644);
// A file with these contents; false and errno where that fails.
bool put(const std::string& name, std::string_view contents, mode_t mode = 0644);
// The file's contents; where it cannot be read: "error N".
std::string get(const std::string& name);
// What is read at `offset` of an open file, at most `len` bytes.
std::string read_at(int fd, off_t offset, std::size_t len);
// `len` bytes that differ by `seed` and position.
std::string pattern(std::size_t len, std::uint64_t seed);
struct stat stat_of(const std::string& name);  // all zero where there is none
struct stat lstat_of(const std::string& name);
struct stat stat_of(int fd);
bool exists(const std::string& name);  // without following a symbolic link
// The names in a directory, sorted, without "." and "..".
std::vector<std::string> names_in(const std::string& directory);
// The same when every file has been closed that was unlinked while it was open: over NFS such files
// have silly names until then, and a FUSE file system is told of a close after it has returned.
std::vector<std::string> names_left_in(const std::string& directory);
std::string link_text(const std::string& name);

// Runs `body` in a process of its own and waits for it. Returns its exit status, 128 + the number
// of the signal that ended it.
int in_child(const std::function<void()>& body);
// The same as another user, with no other groups than `groups`.
struct User {
    uid_t uid;
    gid_t gid;
    std::vector<gid_t> groups = {};
};
int as_user(const User& user, const std::function<void()>& body);

}  // namespace nfsrdma::posix
