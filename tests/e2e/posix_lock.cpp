// flock and fcntl locks between the processes of one machine, as programs on a local-lock mount
// count on them.
#include <sys/file.h>
#include <sys/wait.h>

#include "tests/e2e/posix.hpp"

namespace nfsrdma::posix {
namespace {

struct flock range(short type, off_t start, off_t len) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = start;
    lock.l_len = len;
    return lock;
}
// 0 or the errno of taking it without waiting, in a process of its own.
int by_another(const char* name, short type, off_t start, off_t len) {
    return in_child([&] {
        const UniqueFd file = open_file(name, O_RDWR);
        struct flock lock = range(type, start, len);
        ::_exit(::fcntl(file.get(), F_SETLK, &lock) == 0 ? 0 : errno);
    });
}
int flock_by_another(const char* name, int how) {
    return in_child([&] {
        const UniqueFd file = open_file(name, O_RDWR);
        ::_exit(::flock(file.get(), how | LOCK_NB) == 0 ? 0 : errno);
    });
}

void ranges(Checks& t) {
    NR_HOLDS(put("f", "0123456789"));
    UniqueFd file = open_file("f", O_RDWR);
    struct flock lock = range(F_WRLCK, 2, 3);
    NR_OK(::fcntl(file.get(), F_SETLK, &lock));
    NR_EQ(EAGAIN, by_another("f", F_WRLCK, 0, 10));
    NR_EQ(EAGAIN, by_another("f", F_RDLCK, 4, 1));
    NR_EQ(0, by_another("f", F_WRLCK, 0, 2));
    NR_EQ(0, by_another("f", F_WRLCK, 5, 0));
    const pid_t owner = ::getpid();
    NR_EQ(0, in_child([&] {
              struct flock asked = range(F_WRLCK, 0, 0);
              const UniqueFd own = open_file("f", O_RDWR);
              NR_OK(::fcntl(own.get(), F_GETLK, &asked));
              NR_EQ(F_WRLCK, asked.l_type);
              NR_EQ(2, asked.l_start);
              NR_EQ(3, asked.l_len);
              NR_EQ(owner, asked.l_pid);
          }));
    lock = range(F_RDLCK, 2, 3);
    NR_OK(::fcntl(file.get(), F_SETLK, &lock));
    NR_EQ(0, by_another("f", F_RDLCK, 0, 10));
    NR_EQ(EAGAIN, by_another("f", F_WRLCK, 3, 1));
    // The middle is given back.
    lock = range(F_UNLCK, 3, 1);
    NR_OK(::fcntl(file.get(), F_SETLK, &lock));
    NR_EQ(0, by_another("f", F_WRLCK, 3, 1));
    NR_EQ(EAGAIN, by_another("f", F_WRLCK, 4, 1));
    lock = range(F_WRLCK, 0, 0);
    NR_OK(::fcntl(file.get(), F_SETLK, &lock));
    NR_EQ(EAGAIN, by_another("f", F_RDLCK, off_t{1} << 40, 1));
    // Any close of the file by the owner gives all back.
    NR_OK(::close(open_file("f", O_RDONLY).release()));
    NR_EQ(0, by_another("f", F_WRLCK, 0, 0));
    const UniqueFd reader = open_file("f", O_RDONLY);
    lock = range(F_WRLCK, 0, 1);
    NR_ERR(EBADF, ::fcntl(reader.get(), F_SETLK, &lock));
}

void waited_for(Checks& t) {
    NR_HOLDS(put("counter", "0"));
    constexpr int kProcesses = 4;
    constexpr int kRounds = 50;
    std::vector<pid_t> children;
    for (int p = 0; p < kProcesses; ++p) {
        const pid_t pid = ::fork();
        if (pid != 0) {
            children.push_back(pid);
            continue;
        }
        for (int i = 0; i < kRounds; ++i) {
            const UniqueFd file = open_file("counter", O_RDWR);
            struct flock lock = range(F_WRLCK, 0, 0);
            if (::fcntl(file.get(), F_SETLKW, &lock) != 0) ::_exit(1);
            const std::string next = std::to_string(std::stoi(read_at(file.get(), 0, 20)) + 1);
            if (::pwrite(file.get(), next.data(), next.size(), 0) < 0) ::_exit(2);
        }
        ::_exit(0);
    }
    for (const pid_t pid : children) {
        int status = 0;
        NR_OK(::waitpid(pid, &status, 0));
        NR_EQ(0, status);
    }
    NR_EQ(std::to_string(kProcesses * kRounds), get("counter"));
}

void whole_files(Checks& t) {
    NR_HOLDS(put("f", ""));
    UniqueFd file = open_file("f", O_RDWR);
    NR_OK(::flock(file.get(), LOCK_EX));
    NR_EQ(EWOULDBLOCK, flock_by_another("f", LOCK_EX));
    NR_EQ(EWOULDBLOCK, flock_by_another("f", LOCK_SH));
    const UniqueFd second = open_file("f", O_RDWR);
    NR_ERR(EWOULDBLOCK, ::flock(second.get(), LOCK_EX | LOCK_NB));
    NR_OK(::flock(file.get(), LOCK_SH));
    NR_EQ(0, flock_by_another("f", LOCK_SH));
    NR_EQ(EWOULDBLOCK, flock_by_another("f", LOCK_EX));
    NR_OK(::flock(file.get(), LOCK_UN));
    NR_EQ(0, flock_by_another("f", LOCK_EX));
    NR_OK(::flock(file.get(), LOCK_EX));
    NR_OK(::close(file.release()));
    NR_EQ(0, flock_by_another("f", LOCK_EX));
    NR_ERR(EINVAL, ::flock(second.get(), 64));
    // A read-only descriptor is enough.
    const UniqueFd reader = open_file("f", O_RDONLY);
    NR_OK(::flock(reader.get(), LOCK_EX));
    NR_EQ(EWOULDBLOCK, flock_by_another("f", LOCK_SH));
}

// Locks of an open file description: two of one process stand against each other.
void open_descriptions(Checks& t) {
    NR_HOLDS(put("f", "x"));
    const UniqueFd one = open_file("f", O_RDWR);
    const UniqueFd two = open_file("f", O_RDWR);
    struct flock lock = range(F_WRLCK, 0, 1);
    NR_OK(::fcntl(one.get(), F_OFD_SETLK, &lock));
    lock = range(F_WRLCK, 0, 1);
    NR_ERR(EAGAIN, ::fcntl(two.get(), F_OFD_SETLK, &lock));
    lock = range(F_WRLCK, 1, 1);
    NR_OK(::fcntl(two.get(), F_OFD_SETLK, &lock));
    NR_EQ(EAGAIN, by_another("f", F_WRLCK, 0, 1));
    lock = range(F_UNLCK, 0, 0);
    NR_OK(::fcntl(one.get(), F_OFD_SETLK, &lock));
    NR_EQ(0, by_another("f", F_WRLCK, 0, 1));
}

void given_back_at_exit(Checks& t) {
    NR_HOLDS(put("f", "x"));
    for (int i = 0; i < 5; ++i) {
        NR_EQ(0, by_another("f", F_WRLCK, 0, 0));
        NR_EQ(0, flock_by_another("f", LOCK_EX));
    }
}

}  // namespace

std::vector<Case> lock_cases() {
    return {{"locks.ranges", ranges},
            {"locks.waited_for", waited_for},
            {"locks.whole_files", whole_files},
            {"locks.open_descriptions", open_descriptions},
            {"locks.given_back_at_exit", given_back_at_exit}};
}

}  // namespace nfsrdma::posix
