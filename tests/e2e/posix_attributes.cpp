// stat and what changes what it says: chmod, chown, umask, access.
#include <set>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "tests/e2e/posix.hpp"

namespace nfsrdma::posix {
namespace {

mode_t mode_of(const std::string& name) {
    return stat_of(name).st_mode & 07777U;
}

void fields(Checks& t) {
    const std::string data = pattern(100000, 1);
    NR_HOLDS(put("f", data));
    const UniqueFd file = open_file("f", O_RDONLY);
    const struct stat st = stat_of("f");
    const struct stat same = stat_of(file.get());
    NR_EQ(100000, st.st_size);
    NR_HOLDS(st.st_ino == same.st_ino);
    NR_HOLDS(st.st_dev == same.st_dev);
    NR_HOLDS(st.st_dev == stat_of(".").st_dev);
    NR_EQ(::geteuid(), st.st_uid);
    NR_EQ(1, static_cast<int>(st.st_nlink));
    NR_HOLDS(st.st_ino != 0);
    NR_HOLDS(st.st_ino != stat_of(".").st_ino);
    NR_HOLDS(st.st_blksize >= 512);
    NR_OK(::fsync(open_file("f", O_RDWR).get()));
    NR_HOLDS(stat_of("f").st_blocks * 512 >= 100000);
    NR_HOLDS(stat_of("f").st_blocks * 512 < 400000);
    struct stat gone {};
    NR_ERR(ENOENT, ::stat("none", &gone));
    NR_ERR(ENOENT, ::lstat("none", &gone));
    NR_ERR(ENOTDIR, ::stat("f/x", &gone));
    NR_ERR(ENOTDIR, ::stat("f/", &gone));
    NR_ERR(EBADF, ::fstat(-1, &gone));
    struct statx extended {};
    NR_OK(::statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS, &extended));
    NR_EQ(100000, static_cast<long long>(extended.stx_size));
    NR_HOLDS(extended.stx_ino == st.st_ino);
    NR_OK(::statx(AT_FDCWD, "f", AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &extended));
    NR_EQ(100000, static_cast<long long>(extended.stx_size));
    struct statfs fs {};
    NR_OK(::statfs(".", &fs));
}

void inodes(Checks& t) {
    std::set<ino_t> seen;
    for (int i = 0; i < 200; ++i) {
        const std::string name = "f" + std::to_string(i);
        if (!put(name, name)) NR_OK(-1);
        seen.insert(stat_of(name).st_ino);
    }
    NR_EQ(200, static_cast<int>(seen.size()));
    const ino_t one = stat_of("f17").st_ino;
    NR_OK(::rename("f17", "renamed"));
    NR_OK(::truncate("renamed", 100000));
    NR_OK(::chmod("renamed", 0600));
    NR_HOLDS(stat_of("renamed").st_ino == one);
    // As readdir and stat both say.
    DIR* dir = ::opendir(".");
    int different = 0;
    while (const dirent* entry = ::readdir(dir))
        if (std::string_view(entry->d_name) != ".." &&
            entry->d_ino != lstat_of(entry->d_name).st_ino)
            ++different;
    ::closedir(dir);
    NR_EQ(0, different);
}

void change_modes(Checks& t) {
    NR_HOLDS(put("f", "x"));
    for (const mode_t mode : {0000U, 0400U, 0222U, 0755U, 0777U, 01644U, 04755U, 02755U, 06711U}) {
        NR_OK(::chmod("f", mode));
        NR_EQ(mode, mode_of("f"));
    }
    const UniqueFd file = open_file("f", O_RDWR);
    NR_OK(::fchmod(file.get(), 0640));
    NR_EQ(0640, mode_of("f"));
    NR_EQ(0640, stat_of(file.get()).st_mode & 07777);
    NR_OK(::fchmodat(AT_FDCWD, "f", 0600, 0));
    NR_EQ(0600, mode_of("f"));
    NR_ERR(ENOENT, ::chmod("none", 0600));
    NR_ERR(ENOTDIR, ::chmod("f/x", 0600));
    NR_OK(::mkdir("d", 0700));
    NR_OK(::chmod("d", 03775));
    NR_EQ(03775, mode_of("d"));
    NR_OK(::symlink("f", "s"));
    NR_OK(::chmod("s", 0444));
    NR_EQ(0444, mode_of("f"));
    NR_HOLDS(S_ISLNK(lstat_of("s").st_mode));
    NR_OK(::mkfifo("p", 0600));
    NR_OK(::chmod("p", 0666));
    NR_EQ(0666, mode_of("p"));
    NR_EQ("x", get("f"));
}

void masks(Checks& t) {
    ::umask(027);
    NR_HOLDS(put("f", "", 0666));
    NR_EQ(0640, mode_of("f"));
    NR_OK(::mkdir("d", 0777));
    NR_EQ(0750, mode_of("d"));
    NR_OK(::mkfifo("p", 0666));
    NR_EQ(0640, lstat_of("p").st_mode & 07777);
    ::umask(0);
    NR_HOLDS(put("g", "", 0666));
    NR_EQ(0666, mode_of("g"));
    NR_OK(::mkdir("e", 0777));
    NR_EQ(0777, mode_of("e"));
    ::umask(0777);
    NR_OK(open_file("h", O_WRONLY | O_CREAT | O_EXCL, 0666).get());
    NR_EQ(0, mode_of("h"));
    ::umask(022);
}

void owners(Checks& t) {
    NR_HOLDS(put("f", "x"));
    NR_OK(::chown("f", 3001, 3051));
    NR_EQ(3001, stat_of("f").st_uid);
    NR_EQ(3051, stat_of("f").st_gid);
    NR_OK(::chown("f", static_cast<uid_t>(-1), 3052));
    NR_EQ(3001, stat_of("f").st_uid);
    NR_EQ(3052, stat_of("f").st_gid);
    NR_OK(::chown("f", 3002, static_cast<gid_t>(-1)));
    NR_EQ(3002, stat_of("f").st_uid);
    NR_EQ(3052, stat_of("f").st_gid);
    NR_OK(::chown("f", static_cast<uid_t>(-1), static_cast<gid_t>(-1)));
    NR_EQ(3002, stat_of("f").st_uid);
    const UniqueFd file = open_file("f", O_RDWR);
    NR_OK(::fchown(file.get(), 4000000000U, 4000000001U));
    NR_EQ(4000000000LL, stat_of("f").st_uid);
    NR_EQ(4000000001LL, stat_of("f").st_gid);
    NR_OK(::symlink("f", "s"));
    NR_OK(::lchown("s", 3003, 3053));
    NR_EQ(3003, lstat_of("s").st_uid);
    NR_EQ(4000000000LL, stat_of("f").st_uid);
    NR_OK(::chown("s", 0, 0));
    NR_EQ(0, stat_of("f").st_uid);
    NR_EQ(3003, lstat_of("s").st_uid);
    // Another's program does not keep its set-id bits through a change of owner.
    NR_OK(::chown("f", 3001, 3051));
    NR_OK(::chmod("f", 06755));
    NR_OK(::chown("f", 3002, 3052));
    NR_EQ(0755, mode_of("f"));
    NR_ERR(ENOENT, ::chown("none", 1, 1));
    NR_OK(::mkdir("d", 0755));
    NR_OK(::chown("d", 3001, 3051));
    NR_EQ(3051, stat_of("d").st_gid);
    // A set-gid directory gives its group to what is made in it.
    NR_OK(::chmod("d", 02777));
    NR_HOLDS(put("d/f", ""));
    NR_EQ(3051, stat_of("d/f").st_gid);
    NR_OK(::mkdir("d/sub", 0755));
    NR_EQ(3051, stat_of("d/sub").st_gid);
    NR_EQ(02755, mode_of("d/sub"));
}

void permitted(Checks& t) {
    NR_HOLDS(put("f", "x", 0600));
    NR_OK(::access("f", F_OK));
    NR_OK(::access("f", R_OK | W_OK));
    NR_ERR(EACCES, ::access("f", X_OK));
    NR_OK(::chmod("f", 0700));
    NR_OK(::access("f", X_OK));
    NR_ERR(ENOENT, ::access("none", F_OK));
    NR_ERR(ENOTDIR, ::access("f/x", F_OK));
    NR_OK(::access(".", R_OK | W_OK | X_OK));
    NR_OK(::faccessat(AT_FDCWD, "f", R_OK, AT_EACCESS));
    NR_ERR(EINVAL, ::access("f", 077));
    NR_OK(::symlink("none", "dangling"));
    NR_ERR(ENOENT, ::access("dangling", F_OK));
    NR_OK(::faccessat(AT_FDCWD, "dangling", F_OK, AT_SYMLINK_NOFOLLOW));
}

// exec needs pages of the file and its mode.
void executed(Checks& t) {
    NR_HOLDS(put("script", "#!/bin/sh\nexit 7\n", 0755));
    const auto status_of = [](const char* name) {
        return in_child([name] {
            ::execl(name, name, nullptr);
            ::_exit(errno == EACCES ? 98 : 99);
        });
    };
    NR_EQ(7, status_of("./script"));
    NR_OK(::chmod("script", 0644));
    NR_EQ(98, status_of("./script"));
    // A program, not a script: it is mapped.
    NR_HOLDS(put("true", get("/bin/true"), 0755));
    NR_EQ(0, status_of("./true"));
    UniqueFd running = open_file("true", O_RDONLY);
    NR_OK(::unlink("true"));
    NR_EQ(0, in_child([&] {
              std::string name = "true";
              char* const arguments[] = {name.data(), nullptr};
              char* const none[] = {nullptr};
              ::fexecve(running.get(), arguments, none);
              ::_exit(99);
          }));
}

}  // namespace

std::vector<Case> attribute_cases() {
    return {{"attributes.fields", fields},
            {"attributes.inodes", inodes},
            {"attributes.change_modes", change_modes},
            {"attributes.masks", masks},
            {"attributes.owners", owners, true},
            {"attributes.permitted", permitted},
            {"attributes.executed", executed}};
}

}  // namespace nfsrdma::posix
