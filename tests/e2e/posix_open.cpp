// open and its flags, with their errors.
#include <algorithm>
#include <fcntl.h>
#include <map>
#include <memory>
#include <sstream>
#include <sys/wait.h>

#include "tests/e2e/posix.hpp"

namespace nfsrdma::posix {
namespace {

int opened(const std::string& name, int flags, mode_t mode = 0644) {
    const UniqueFd file = open_file(name, flags, mode);
    return file ? 0 : -1;
}

void create(Checks& t) {
    NR_ERR(ENOENT, opened("f", O_RDONLY));
    NR_ERR(ENOENT, opened("f", O_WRONLY | O_TRUNC));
    NR_ERR(ENOENT, opened("none/f", O_RDWR | O_CREAT));
    NR_OK(opened("f", O_RDWR | O_CREAT, 0640));
    NR_EQ(0640, stat_of("f").st_mode & 07777);
    NR_EQ(0, stat_of("f").st_size);
    NR_HOLDS(S_ISREG(stat_of("f").st_mode));
    NR_HOLDS(put("f", "contents"));
    // A second O_CREAT neither truncates nor changes the mode.
    NR_OK(opened("f", O_RDWR | O_CREAT, 0600));
    NR_EQ(0640, stat_of("f").st_mode & 07777);
    NR_EQ("contents", get("f"));
    NR_OK(opened("readonly", O_RDWR | O_CREAT, 0444));
    NR_EQ(0444, stat_of("readonly").st_mode & 07777);
}

// Whoever creates a file may write to it, whatever its mode says.
void create_without_rights(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT | O_EXCL, 0000);
    if (!NR_OK(file.get())) return;
    NR_EQ(0, stat_of("f").st_mode & 07777);
    NR_EQ(5, ::write(file.get(), "hello", 5));
    NR_EQ("hello", read_at(file.get(), 0, 10));
    NR_OK(::fsync(file.get()));
    NR_EQ(5, stat_of("f").st_size);
}

void exclusive(Checks& t) {
    NR_OK(opened("f", O_RDWR | O_CREAT | O_EXCL, 0604));
    NR_EQ(0604, stat_of("f").st_mode & 07777);
    NR_ERR(EEXIST, opened("f", O_RDWR | O_CREAT | O_EXCL));
    NR_OK(::symlink("nowhere", "dangling"));
    NR_ERR(EEXIST, opened("dangling", O_RDWR | O_CREAT | O_EXCL));
    NR_HOLDS(!exists("nowhere"));
    NR_OK(::mkdir("d", 0755));
    NR_ERR(EEXIST, opened("d", O_RDWR | O_CREAT | O_EXCL));
    const timespec now = stat_of(".").st_mtim;
    // A server may keep the verifier of an exclusive create in the times: they must be real ones.
    const timespec made = stat_of("f").st_mtim;
    NR_HOLDS(made.tv_sec >= now.tv_sec - 60 && made.tv_sec <= now.tv_sec + 60);
    const timespec read = stat_of("f").st_atim;
    NR_HOLDS(read.tv_sec >= now.tv_sec - 60 && read.tv_sec <= now.tv_sec + 60);
}

void exclusive_once(Checks& t) {
    constexpr int kProcesses = 8;
    constexpr int kNames = 20;
    int made = 0;
    std::vector<pid_t> children;
    for (int p = 0; p < kProcesses; ++p) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            int mine = 0;
            for (int n = 0; n < kNames; ++n) {
                if (opened("x" + std::to_string(n), O_WRONLY | O_CREAT | O_EXCL) == 0) ++mine;
            }
            ::_exit(mine);
        }
        children.push_back(pid);
    }
    for (const pid_t pid : children) {
        siginfo_t info{};
        if (NR_OK(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED))) made += info.si_status;
    }
    NR_EQ(kNames, made);
    NR_EQ(kNames, static_cast<int>(names_in(".").size()));
}

void truncate(Checks& t) {
    NR_HOLDS(put("f", "something long"));
    const ino_t inode = stat_of("f").st_ino;
    NR_OK(opened("f", O_WRONLY | O_TRUNC));
    NR_EQ(0, stat_of("f").st_size);
    NR_EQ("", get("f"));
    NR_HOLDS(inode == stat_of("f").st_ino);
    // Open for others as well: they see it at once.
    NR_HOLDS(put("f", "something"));
    const UniqueFd reader = open_file("f", O_RDONLY);
    NR_EQ("something", read_at(reader.get(), 0, 100));
    NR_OK(opened("f", O_RDWR | O_TRUNC));
    NR_EQ("", read_at(reader.get(), 0, 100));
    NR_EQ(0, stat_of(reader.get()).st_size);
    NR_HOLDS(put("f", "new"));
    NR_EQ("new", read_at(reader.get(), 0, 100));
}

void append(Checks& t) {
    NR_HOLDS(put("f", "one"));
    const UniqueFd file = open_file("f", O_RDWR | O_APPEND);
    if (!NR_OK(file.get())) return;
    NR_EQ(3, ::write(file.get(), "two", 3));
    NR_EQ("onetwo", read_at(file.get(), 0, 100));
    // The position does not matter, and is at the end afterwards.
    NR_EQ(1, ::lseek(file.get(), 1, SEEK_SET));
    NR_EQ(5, ::write(file.get(), "three", 5));
    NR_EQ(11, ::lseek(file.get(), 0, SEEK_CUR));
    NR_EQ("onetwothree", get("f"));
    // Through another descriptor meanwhile.
    const UniqueFd other = open_file("f", O_WRONLY | O_APPEND);
    NR_EQ(4, ::write(other.get(), "four", 4));
    NR_EQ(4, ::write(file.get(), "five", 4));
    NR_EQ("onetwothreefourfive", get("f"));
    NR_OK(::ftruncate(file.get(), 3));
    NR_EQ(3, ::write(other.get(), "six", 3));
    NR_EQ("onesix", get("f"));
    // F_SETFL takes it away and gives it back.
    NR_OK(::fcntl(file.get(), F_SETFL, 0));
    NR_EQ(1, ::pwrite(file.get(), "O", 1, 0));
    NR_EQ("Onesix", get("f"));
    NR_OK(::fcntl(file.get(), F_SETFL, O_APPEND));
    NR_EQ(1, ::write(file.get(), "!", 1));
    NR_EQ("Onesix!", get("f"));
}

// Processes of one machine that append to one file at a time: no line is lost, none is torn.
void append_by_processes(Checks& t) {
    constexpr int kProcesses = 4;
    constexpr int kLines = 200;
    const auto line_of = [](int p) {
        return std::string(static_cast<std::size_t>(10 + p), static_cast<char>('a' + p));
    };
    NR_HOLDS(put("log", ""));
    std::vector<pid_t> processes;
    for (int p = 0; p < kProcesses; ++p) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            const UniqueFd file = open_file("log", O_WRONLY | O_APPEND);
            const std::string line = line_of(p) + "\n";
            for (int i = 0; i < kLines; ++i) {
                const ssize_t written = ::write(file.get(), line.data(), line.size());
                if (written != static_cast<ssize_t>(line.size())) std::_Exit(1);
            }
            std::_Exit(0);
        }
        if (NR_OK(pid)) processes.push_back(pid);
    }
    for (const pid_t pid : processes) {
        int status = -1;
        while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
        NR_EQ(0, status);
    }
    std::map<std::string, int> lines;
    std::istringstream log(get("log"));
    for (std::string line; std::getline(log, line);)
        ++lines[line];
    NR_EQ(kProcesses, static_cast<int>(lines.size()));
    for (int p = 0; p < kProcesses; ++p)
        NR_EQ(kLines, lines[line_of(p)]);
}

void directories(Checks& t) {
    NR_OK(::mkdir("d", 0755));
    NR_HOLDS(put("f", ""));
    NR_OK(opened("d", O_RDONLY));
    NR_OK(opened("d", O_RDONLY | O_DIRECTORY));
    NR_ERR(ENOTDIR, opened("f", O_RDONLY | O_DIRECTORY));
    NR_ERR(EISDIR, opened("d", O_WRONLY));
    NR_ERR(EISDIR, opened("d", O_RDWR));
    NR_ERR(EISDIR, opened("d", O_RDONLY | O_CREAT));
    NR_ERR(EISDIR, opened("d", O_WRONLY | O_TRUNC));
    NR_ERR(ENOTDIR, opened("f/x", O_RDONLY));
    NR_ERR(ENOTDIR, opened("f/x", O_RDWR | O_CREAT));
    NR_ERR(ENOTDIR, opened("f/", O_RDONLY));
    NR_ERR(EISDIR, opened("new/", O_RDWR | O_CREAT));
    NR_ERR(ENOENT, opened("", O_RDONLY));
    const UniqueFd directory = open_file("d", O_RDONLY);
    char byte = 0;
    NR_ERR(EISDIR, ::read(directory.get(), &byte, 1));
    NR_ERR(EBADF, ::write(directory.get(), &byte, 1));
    NR_OK(::fsync(directory.get()));
    NR_OK(::fchdir(directory.get()));
    NR_OK(::chdir(".."));
}

void long_names(Checks& t) {
    const std::string most(255, 'n');
    const std::string over(256, 'n');
    NR_OK(opened(most, O_RDWR | O_CREAT));
    NR_ERR(EEXIST, opened(most, O_RDWR | O_CREAT | O_EXCL));
    NR_HOLDS(exists(most));
    NR_EQ(1, static_cast<int>(names_in(".").size()));
    NR_EQ(most, names_in(".").front());
    NR_ERR(ENAMETOOLONG, opened(over, O_RDWR | O_CREAT));
    NR_ERR(ENAMETOOLONG, opened(over, O_RDONLY));
    NR_ERR(ENAMETOOLONG, ::mkdir(over.c_str(), 0755));
    NR_ERR(ENAMETOOLONG, ::symlink("x", over.c_str()));
    NR_ERR(ENAMETOOLONG, ::link(most.c_str(), over.c_str()));
    NR_ERR(ENAMETOOLONG, ::rename(most.c_str(), over.c_str()));
    NR_ERR(ENAMETOOLONG, ::unlink(over.c_str()));
    NR_ERR(ENAMETOOLONG, ::rmdir(over.c_str()));
    NR_ERR(ENAMETOOLONG, ::mkfifo(over.c_str(), 0644));
    struct stat st {};
    NR_ERR(ENAMETOOLONG, ::stat(over.c_str(), &st));
    std::string path;
    for (int i = 0; i < 2500; ++i)
        path += "./";
    NR_ERR(ENAMETOOLONG, opened(path + "f", O_RDONLY));
    NR_OK(::unlink(most.c_str()));
}

void odd_names(Checks& t) {
    std::string all;
    for (int c = 1; c < 256; ++c)
        if (c != '/') all += static_cast<char>(c);
    for (const std::string& name :
         {std::string("..."), std::string(" "), std::string("a b\n\tc"), std::string("-rf"),
          std::string("gr\xc3\xbc\xc3\x9f"), std::string("\xff\xfe"), std::string("\\"),
          all.substr(0, 127), all.substr(127)}) {
        NR_HOLDS(put(name, name));
        NR_EQ(name, get(name));
    }
    NR_EQ(9, static_cast<int>(names_in(".").size()));
    // Case matters.
    NR_HOLDS(put("case", "small"));
    NR_HOLDS(put("CASE", "large"));
    NR_EQ("small", get("case"));
}

void symbolic_links(Checks& t) {
    NR_HOLDS(put("f", "through"));
    NR_OK(::symlink("f", "s"));
    NR_OK(::symlink("s", "t"));
    NR_OK(::symlink("loop", "loop"));
    NR_OK(::symlink("pong", "ping"));
    NR_OK(::symlink("ping", "pong"));
    NR_OK(::symlink("nowhere", "dangling"));
    NR_EQ("through", get("t"));
    NR_ERR(ELOOP, opened("s", O_RDONLY | O_NOFOLLOW));
    NR_ERR(ELOOP, opened("loop", O_RDONLY));
    NR_ERR(ELOOP, opened("ping", O_RDWR | O_CREAT));
    NR_ERR(ELOOP, opened("loop/x", O_RDONLY));
    NR_OK(opened("f", O_RDONLY | O_NOFOLLOW));
    NR_ERR(ENOENT, opened("dangling", O_RDONLY));
    NR_OK(opened("dangling", O_RDWR | O_CREAT));
    NR_HOLDS(exists("nowhere"));
    const UniqueFd link = open_file("s", O_PATH | O_NOFOLLOW);
    NR_OK(link.get());
    NR_HOLDS(S_ISLNK(stat_of(link.get()).st_mode));
    // A chain of 40 is followed, one of 41 is not.
    NR_HOLDS(put("c0", "end"));
    for (int i = 1; i <= 41; ++i) {
        const std::string to = "c" + std::to_string(i - 1);
        const std::string from = "c" + std::to_string(i);
        if (::symlink(to.c_str(), from.c_str()) != 0) NR_OK(-1);
    }
    NR_EQ("end", get("c40"));
    NR_ERR(ELOOP, opened("c41", O_RDONLY));
}

void direct(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT | O_DIRECT);
    if (!file && errno == EINVAL && !t.options.nfs) return;  // as old tmpfs
    if (!NR_OK(file.get())) return;
    constexpr std::size_t kLen = 64 << 10;
    const std::string data = pattern(kLen, 1);
    std::vector<char> memory(kLen + 4096);
    void* aligned = memory.data();
    std::size_t space = memory.size();
    std::align(4096, kLen, aligned, space);
    char* at = static_cast<char*>(aligned);
    data.copy(at, kLen);
    NR_EQ(static_cast<int>(kLen), ::pwrite(file.get(), at, kLen, 0));
    NR_EQ(static_cast<int>(kLen), stat_of("f").st_size);
    NR_EQ(data, get("f"));
    std::fill_n(at, kLen, '?');
    NR_EQ(4096, ::pread(file.get(), at, 4096, 8192));
    NR_EQ(std::string_view(data).substr(8192, 4096), std::string_view(at, 4096));
    NR_EQ(0, ::pread(file.get(), at, 4096, kLen));
    // Written through the page cache by another, read directly.
    const UniqueFd cached = open_file("f", O_RDWR);
    NR_EQ(5, ::pwrite(cached.get(), "cache", 5, 4096));
    NR_EQ(4096, ::pread(file.get(), at, 4096, 4096));
    NR_EQ("cache", std::string_view(at, 5));
    // And written directly where the page cache has it.
    std::fill_n(at, 4096, 'd');
    NR_EQ(4096, ::pwrite(file.get(), at, 4096, 0));
    NR_EQ("dddd", read_at(cached.get(), 0, 4));
    if (t.options.nfs) {
        // No device asks for alignment here.
        NR_EQ(3, ::pwrite(file.get(), at + 1, 3, 5));
        NR_EQ(7, ::pread(file.get(), at + 3, 7, 3));
    }
}

void access_modes(Checks& t) {
    NR_HOLDS(put("f", "data"));
    char byte = 'x';
    const UniqueFd reader = open_file("f", O_RDONLY);
    NR_ERR(EBADF, ::write(reader.get(), &byte, 1));
    NR_ERR_OF(::ftruncate(reader.get(), 0), EINVAL, EBADF);
    NR_ERR(EBADF, ::pwrite(reader.get(), &byte, 1, 0));
    const UniqueFd writer = open_file("f", O_WRONLY);
    NR_ERR(EBADF, ::read(writer.get(), &byte, 1));
    NR_ERR(EBADF, ::pread(writer.get(), &byte, 1, 0));
    // The right was given at open: a chmod afterwards takes nothing away.
    NR_OK(::chmod("f", 0000));
    NR_EQ(1, ::write(writer.get(), "D", 1));
    NR_EQ("Data", read_at(reader.get(), 0, 10));
    NR_OK(::fsync(writer.get()));
    NR_OK(::chmod("f", 0644));
    NR_EQ("Data", get("f"));
}

void at_calls(Checks& t) {
    NR_OK(::mkdir("d", 0755));
    const UniqueFd directory = open_file("d", O_RDONLY | O_DIRECTORY);
    UniqueFd made(::openat(directory.get(), "f", O_RDWR | O_CREAT, 0644));
    NR_OK(made.get());
    NR_HOLDS(exists("d/f"));
    NR_OK(::rename("d", "moved"));
    NR_OK(::mkdirat(directory.get(), "sub", 0755));
    NR_HOLDS(exists("moved/sub"));
    NR_OK(::unlinkat(directory.get(), "sub", AT_REMOVEDIR));
    NR_ERR(ENOTDIR, ::unlinkat(directory.get(), "f", AT_REMOVEDIR));
    NR_ERR(ENOTDIR, ::openat(made.get(), "x", O_RDONLY));
    NR_OK(::close(made.release()));
    NR_OK(::unlinkat(directory.get(), "f", 0));
    NR_ERR(ENOENT, ::unlinkat(directory.get(), "f", 0));
    NR_OK(::rmdir("moved"));
    NR_ERR_OF(::openat(directory.get(), "x", O_RDWR | O_CREAT, 0644), ENOENT, ESTALE);
}

}  // namespace

std::vector<Case> open_cases() {
    return {{"open.create", create},
            {"open.create_without_rights", create_without_rights},
            {"open.exclusive", exclusive},
            {"open.exclusive_once", exclusive_once},
            {"open.truncate", truncate},
            {"open.append", append},
            {"open.append_by_processes", append_by_processes},
            {"open.directories", directories},
            {"open.long_names", long_names},
            {"open.odd_names", odd_names},
            {"open.symbolic_links", symbolic_links},
            {"open.direct", direct},
            {"open.access_modes", access_modes},
            {"open.at_calls", at_calls}};
}

}  // namespace nfsrdma::posix
