// Directories and names: mkdir, rmdir, unlink, also of files that are open.
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "tests/e2e/posix.hpp"

namespace nfsrdma::posix {
namespace {

void make_directories(Checks& t) {
    NR_OK(::mkdir("d", 0750));
    NR_HOLDS(S_ISDIR(stat_of("d").st_mode));
    NR_EQ(0750, stat_of("d").st_mode & 07777);
    NR_ERR(EEXIST, ::mkdir("d", 0755));
    NR_ERR(EEXIST, ::mkdir(".", 0755));
    NR_ERR(EEXIST, ::mkdir("d/..", 0755));
    NR_ERR(ENOENT, ::mkdir("none/d", 0755));
    NR_HOLDS(put("f", ""));
    NR_ERR(EEXIST, ::mkdir("f", 0755));
    NR_ERR(ENOTDIR, ::mkdir("f/d", 0755));
    NR_OK(::symlink("nowhere", "s"));
    NR_ERR(EEXIST, ::mkdir("s", 0755));
    NR_OK(::mkdir("slash/", 0755));
    NR_OK(::mkdir("sticky", 01777));
    NR_EQ(01755, stat_of("sticky").st_mode & 07777);
    const auto links = stat_of("d").st_nlink;
    NR_OK(::mkdir("d/sub", 0755));
    // Some file systems do not count subdirectories: those say 1 always.
    NR_HOLDS(stat_of("d").st_nlink == links + 1 || (links == 1 && stat_of("d").st_nlink == 1));
    NR_OK(::rmdir("d/sub"));
    NR_EQ(static_cast<long>(links), static_cast<long>(stat_of("d").st_nlink));
}

void remove_directories(Checks& t) {
    NR_OK(::mkdir("d", 0755));
    NR_OK(::mkdir("d/sub", 0755));
    NR_ERR_OF(::rmdir("d"), ENOTEMPTY, EEXIST);
    NR_OK(::rmdir("d/sub"));
    NR_HOLDS(put("d/f", ""));
    NR_ERR_OF(::rmdir("d"), ENOTEMPTY, EEXIST);
    NR_ERR(ENOTDIR, ::rmdir("d/f"));
    NR_ERR(EINVAL, ::rmdir("d/."));
    NR_ERR_OF(::rmdir("d/.."), ENOTEMPTY, EEXIST, EINVAL);
    NR_OK(::unlink("d/f"));
    NR_OK(::rmdir("d"));
    NR_ERR(ENOENT, ::rmdir("d"));
    NR_ERR(ENOENT, ::rmdir("none/d"));
    NR_OK(::mkdir("d", 0755));
    NR_OK(::symlink("d", "s"));
    NR_ERR(ENOTDIR, ::rmdir("s"));
    // A directory that somebody stands in is removed, and empty for him.
    const UniqueFd inside = open_file("d", O_RDONLY | O_DIRECTORY);
    NR_OK(::rmdir("d"));
    NR_HOLDS(!exists("d"));
    NR_ERR_OF(::mkdirat(inside.get(), "x", 0755), ENOENT, ESTALE);
    NR_ERR_OF(::openat(inside.get(), "x", O_RDONLY), ENOENT, ESTALE);
}

void deep(Checks& t) {
    const UniqueFd start = open_file(".", O_RDONLY | O_DIRECTORY);
    constexpr int kDepth = 100;
    for (int i = 0; i < kDepth; ++i)
        if (::mkdir("down", 0755) != 0 || ::chdir("down") != 0) NR_OK(-1);
    NR_HOLDS(put("bottom", "reached"));
    NR_OK(::fchdir(start.get()));
    std::string path;
    for (int i = 0; i < kDepth; ++i)
        path += "down/";
    NR_EQ("reached", get(path + "bottom"));
    NR_EQ("reached", get(path + ".././down/bottom"));
    const struct stat top = stat_of(".");
    std::string up;
    for (int i = 0; i < kDepth; ++i)
        up += "../";
    NR_OK(::chdir(path.c_str()));
    NR_HOLDS(stat_of(up).st_ino == top.st_ino);
    NR_OK(::fchdir(start.get()));
}

void unlink_names(Checks& t) {
    NR_ERR(ENOENT, ::unlink("f"));
    NR_HOLDS(put("f", ""));
    NR_ERR(ENOTDIR, ::unlink("f/x"));
    NR_ERR(ENOTDIR, ::unlink("f/"));
    NR_OK(::unlink("f"));
    NR_ERR(ENOENT, ::unlink("f"));
    NR_HOLDS(!exists("f"));
    NR_OK(::mkdir("d", 0755));
    NR_ERR_OF(::unlink("d"), EISDIR, EPERM);
    NR_OK(::symlink("d", "s"));
    NR_OK(::unlink("s"));
    NR_HOLDS(exists("d"));
    NR_OK(::symlink("nowhere", "dangling"));
    NR_OK(::unlink("dangling"));
    NR_HOLDS(put("readonly", "", 0444));
    NR_OK(::unlink("readonly"));
    NR_EQ(1, static_cast<int>(names_left_in(".").size()));
    // The name is free at once, for anything.
    NR_HOLDS(put("f", "one"));
    NR_OK(::unlink("f"));
    NR_OK(::mkdir("f", 0755));
    NR_OK(::rmdir("f"));
    NR_HOLDS(put("f", "two"));
    NR_EQ("two", get("f"));
}

void unlink_over_open(Checks& t) {
    UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    const std::string data = pattern(50000, 1);
    NR_EQ(50000, ::write(file.get(), data.data(), data.size()));
    const ino_t inode = stat_of(file.get()).st_ino;
    NR_OK(::unlink("f"));
    NR_HOLDS(!exists("f"));
    NR_EQ(data, read_at(file.get(), 0, 60000));
    NR_EQ(50000, stat_of(file.get()).st_size);
    NR_HOLDS(stat_of(file.get()).st_ino == inode);
    // Over NFSv3 the file keeps a name until it is closed, and a client may say so.
    const auto links = stat_of(file.get()).st_nlink;
    NR_HOLDS(links == 0 || (t.options.nfs && links == 1));
    NR_EQ(4, ::pwrite(file.get(), "more", 4, 50000));
    NR_OK(::ftruncate(file.get(), 60000));
    NR_OK(::fchmod(file.get(), 0600));
    NR_OK(::fsync(file.get()));
    NR_EQ(60000, stat_of(file.get()).st_size);
    // The name is free for another file, which is not the first.
    NR_HOLDS(put("f", "another"));
    NR_HOLDS(stat_of("f").st_ino != inode);
    NR_EQ("more", read_at(file.get(), 50000, 4));
    NR_EQ("another", get("f"));
    NR_OK(::unlink("f"));
    NR_OK(::close(file.release()));
    NR_EQ(0, static_cast<int>(names_left_in(".").size()));
}

void unlink_twice_over_open(Checks& t) {
    std::vector<UniqueFd> files;
    for (int i = 0; i < 10; ++i) {
        files.push_back(open_file("f", O_RDWR | O_CREAT | O_EXCL));
        const std::string text = std::to_string(i);
        NR_EQ(1, ::write(files.back().get(), text.data(), 1));
        NR_OK(::unlink("f"));
    }
    for (std::size_t i = 0; i < files.size(); ++i)
        NR_EQ(std::to_string(i), read_at(files[i].get(), 0, 10));
    // Open twice: the first close must not take it from the second.
    NR_HOLDS(put("g", "twice"));
    UniqueFd first = open_file("g", O_RDONLY);
    const UniqueFd second = open_file("g", O_RDWR);
    NR_OK(::unlink("g"));
    NR_OK(::close(first.release()));
    NR_EQ("twice", read_at(second.get(), 0, 10));
    files.clear();
    NR_EQ("twice", read_at(second.get(), 0, 10));
}

void unlink_over_inherited(Checks& t) {
    // Inherited by a process that outlives the one that opened it.
    NR_HOLDS(put("f", "inherited"));
    UniqueFd file = open_file("f", O_RDONLY);
    NR_OK(::unlink("f"));
    NR_EQ(0, in_child([&] {
              if (read_at(file.get(), 0, 20) != "inherited") ::_exit(1);
          }));
    NR_EQ("inherited", read_at(file.get(), 0, 20));
    NR_OK(::close(file.release()));
    NR_EQ(0, static_cast<int>(names_left_in(".").size()));
}

// B117: a name that stands in for an open file must not be in the way for ever.
void b117_rmdir_after_close(Checks& t) {
    NR_OK(::mkdir("d", 0755));
    UniqueFd file = open_file("d/f", O_RDWR | O_CREAT);
    NR_EQ(4, ::write(file.get(), "data", 4));
    NR_OK(::unlink("d/f"));
    NR_EQ("data", read_at(file.get(), 0, 10));
    if (t.options.nfs) {
        NR_ERR_OF(::rmdir("d"), ENOTEMPTY, EBUSY, EEXIST);
        NR_EQ("data", read_at(file.get(), 0, 10));
    }
    NR_OK(::close(file.release()));
    NR_EQ(0, static_cast<int>(names_left_in("d").size()));
    NR_OK(::rmdir("d"));
    // A rename over an open file: the same.
    NR_OK(::mkdir("e", 0755));
    NR_HOLDS(put("e/old", "old"));
    NR_HOLDS(put("e/new", "new"));
    UniqueFd old = open_file("e/old", O_RDWR);
    NR_OK(::rename("e/new", "e/old"));
    NR_EQ("old", read_at(old.get(), 0, 10));
    NR_EQ("new", get("e/old"));
    NR_EQ(1, ::pwrite(old.get(), "O", 1, 0));
    NR_EQ("Old", read_at(old.get(), 0, 10));
    NR_EQ("new", get("e/old"));
    NR_OK(::unlink("e/old"));
    NR_OK(::close(old.release()));
    NR_EQ(0, static_cast<int>(names_left_in("e").size()));
    NR_OK(::rmdir("e"));
}

void special_files(Checks& t) {
    NR_OK(::mkfifo("fifo", 0640));
    NR_HOLDS(S_ISFIFO(lstat_of("fifo").st_mode));
    NR_EQ(0640, lstat_of("fifo").st_mode & 07777);
    NR_ERR(EEXIST, ::mkfifo("fifo", 0644));
    NR_ERR(ENOENT, ::mkfifo("none/fifo", 0644));
    NR_ERR(ENXIO, ::open("fifo", O_WRONLY | O_NONBLOCK));
    const UniqueFd reader = open_file("fifo", O_RDONLY | O_NONBLOCK);
    const UniqueFd writer = open_file("fifo", O_WRONLY | O_NONBLOCK);
    NR_OK(writer.get());
    NR_EQ(5, ::write(writer.get(), "piped", 5));
    std::string text(10, '?');
    NR_EQ(5, ::read(reader.get(), text.data(), text.size()));
    NR_EQ("piped", text.substr(0, 5));
    NR_OK(::mknod("regular", S_IFREG | 0600, 0));
    NR_HOLDS(S_ISREG(lstat_of("regular").st_mode));
    NR_EQ(0600, lstat_of("regular").st_mode & 07777);
    NR_ERR(EEXIST, ::mknod("regular", S_IFREG | 0600, 0));
    NR_HOLDS(put("regular", "written"));
    NR_EQ("written", get("regular"));
    NR_OK(::mknod("fifo2", S_IFIFO | 0600, 0));
    NR_HOLDS(S_ISFIFO(lstat_of("fifo2").st_mode));
    NR_OK(::rename("fifo", "moved"));
    NR_OK(::link("moved", "linked"));
    NR_OK(::unlink("moved"));
    NR_HOLDS(S_ISFIFO(lstat_of("linked").st_mode));
}

void sockets(Checks& t) {
    const UniqueFd server(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::string("socket").copy(at.sun_path, sizeof at.sun_path - 1);
    const auto* address = static_cast<const sockaddr*>(static_cast<const void*>(&at));
    NR_OK(::bind(server.get(), address, sizeof at));
    NR_HOLDS(S_ISSOCK(lstat_of("socket").st_mode));
    NR_OK(::listen(server.get(), 1));
    const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    NR_OK(::connect(client.get(), address, sizeof at));
    const UniqueFd other(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    NR_ERR(EADDRINUSE, ::bind(other.get(), address, sizeof at));
    NR_ERR(ENXIO, ::open("socket", O_RDONLY));
    NR_OK(::unlink("socket"));
    NR_ERR(ENOENT, ::connect(other.get(), address, sizeof at));
}

void devices(Checks& t) {
    NR_OK(::mknod("char", S_IFCHR | 0600, makedev(1, 3)));
    const struct stat made = lstat_of("char");
    NR_HOLDS(S_ISCHR(made.st_mode));
    NR_EQ(1, static_cast<int>(major(made.st_rdev)));
    NR_EQ(3, static_cast<int>(minor(made.st_rdev)));
    NR_OK(::mknod("block", S_IFBLK | 0640, makedev(259, 70000)));
    NR_HOLDS(S_ISBLK(lstat_of("block").st_mode));
    NR_EQ(259, static_cast<int>(major(lstat_of("block").st_rdev)));
    NR_EQ(70000, static_cast<int>(minor(lstat_of("block").st_rdev)));
    NR_OK(::unlink("char"));
}

void statistics(Checks& t) {
    struct statvfs st {};
    NR_OK(::statvfs(".", &st));
    NR_HOLDS(st.f_bsize >= 512);
    NR_HOLDS(st.f_blocks > 0);
    NR_HOLDS(st.f_bfree <= st.f_blocks);
    NR_HOLDS(st.f_bavail <= st.f_bfree);
    NR_HOLDS(st.f_files >= st.f_ffree);
    NR_HOLDS(st.f_namemax >= 255);
    struct statvfs of_file {};
    NR_HOLDS(put("f", "x"));
    NR_OK(::statvfs("f", &of_file));
    NR_EQ(static_cast<long long>(st.f_blocks), static_cast<long long>(of_file.f_blocks));
    const UniqueFd file = open_file("f", O_RDONLY);
    NR_OK(::fstatvfs(file.get(), &of_file));
    NR_ERR(ENOENT, ::statvfs("none", &st));
    NR_EQ(255, ::pathconf(".", _PC_NAME_MAX));
}

}  // namespace

std::vector<Case> names_cases() {
    return {{"names.make_directories", make_directories},
            {"names.remove_directories", remove_directories},
            {"names.deep", deep},
            {"names.unlink", unlink_names},
            {"names.unlink_over_open", unlink_over_open},
            {"names.unlink_twice_over_open", unlink_twice_over_open},
            {"names.unlink_over_inherited", unlink_over_inherited},
            {"names.B117.RmdirAfterClose", b117_rmdir_after_close},
            {"names.special_files", special_files},
            {"names.sockets", sockets},
            {"names.devices", devices, true},
            {"names.statistics", statistics}};
}

}  // namespace nfsrdma::posix
