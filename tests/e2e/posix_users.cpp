// Several users on one file system: who may do what, and as whom it is done (needs root).
#include <array>

#include "tests/e2e/posix.hpp"

namespace nfsrdma::posix {
namespace {

const User kAnn{3000, 3050};
const User kBob{3001, 3051};
const User kBobInAnnsGroup{3001, 3051, {3050}};

void rights(Checks& t) {
    NR_HOLDS(put("f", "ann's", 0640));
    NR_OK(::chown("f", kAnn.uid, kAnn.gid));
    NR_EQ(0, as_user(kAnn, [&] {
              NR_EQ("ann's", get("f"));
              NR_OK(open_file("f", O_RDWR).get());
              NR_ERR(EACCES, ::access("f", X_OK));
          }));
    NR_EQ(0, as_user(kBob, [&] {
              NR_ERR(EACCES, ::open("f", O_RDONLY));
              NR_ERR(EACCES, ::open("f", O_WRONLY));
              NR_ERR(EACCES, ::open("f", O_WRONLY | O_TRUNC));
              NR_ERR(EACCES, ::open("f", O_RDWR | O_CREAT, 0644));
              NR_ERR(EACCES, ::access("f", R_OK));
              NR_OK(::access("f", F_OK));
              NR_ERR(EACCES, ::truncate("f", 0));
              NR_ERR(EPERM, ::chmod("f", 0777));
              NR_ERR(EPERM, ::chown("f", kBob.uid, kBob.gid));
              NR_ERR(EACCES, ::utimensat(AT_FDCWD, "f", nullptr, 0));
              const std::array<timespec, 2> times = {timespec{1, 0}, timespec{1, 0}};
              NR_ERR(EPERM, ::utimensat(AT_FDCWD, "f", times.data(), 0));
          }));
    NR_EQ(0, as_user(kBobInAnnsGroup, [&] {
              NR_EQ("ann's", get("f"));
              NR_ERR(EACCES, ::open("f", O_WRONLY));
              NR_OK(::access("f", R_OK));
              NR_ERR(EACCES, ::access("f", W_OK));
          }));
    NR_EQ("ann's", get("f"));
    // The rights follow a chmod at once.
    NR_OK(::chmod("f", 0644));
    NR_EQ(0, as_user(kBob, [&] { NR_EQ("ann's", get("f")); }));
    NR_OK(::chmod("f", 0600));
    NR_EQ(0, as_user(kBob, [&] { NR_ERR(EACCES, ::open("f", O_RDONLY)); }));
    NR_EQ(0, as_user(kBobInAnnsGroup, [&] { NR_ERR(EACCES, ::open("f", O_RDONLY)); }));
}

void of_directories(Checks& t) {
    NR_OK(::mkdir("d", 0755));
    NR_OK(::chown("d", kAnn.uid, kAnn.gid));
    NR_HOLDS(put("d/f", "x"));
    NR_EQ(0, as_user(kBob, [&] {
              NR_ERR(EACCES, ::open("d/new", O_RDWR | O_CREAT, 0644));
              NR_ERR(EACCES, ::mkdir("d/sub", 0755));
              NR_ERR(EACCES, ::symlink("x", "d/s"));
              NR_ERR(EACCES, ::mkfifo("d/p", 0644));
              NR_ERR(EACCES, ::unlink("d/f"));
              NR_ERR(EACCES, ::rename("d/f", "d/g"));
              NR_ERR(EACCES, ::rename("d/f", "g"));
              NR_ERR_OF(::link("d/f", "d/g"), EACCES, EPERM);
              NR_EQ("x", get("d/f"));
              NR_EQ(1, static_cast<int>(names_in("d").size()));
          }));
    // Not searchable; then not readable.
    NR_OK(::chmod("d", 0644));
    NR_EQ(0, as_user(kBob, [&] {
              struct stat st {};
              NR_ERR(EACCES, ::stat("d/f", &st));
              NR_ERR(EACCES, ::open("d/f", O_RDONLY));
              NR_ERR(EACCES, ::chdir("d"));
              const UniqueFd directory = open_file("d", O_RDONLY | O_DIRECTORY);
              NR_OK(directory.get());
          }));
    NR_OK(::chmod("d", 0711));
    NR_EQ(0, as_user(kBob, [&] {
              NR_EQ("x", get("d/f"));
              NR_ERR(EACCES, ::open("d", O_RDONLY | O_DIRECTORY));
              NR_OK(::chdir("d"));
          }));
}

void sticky(Checks& t) {
    NR_OK(::mkdir("tmp", 0777));
    NR_OK(::chmod("tmp", 01777));
    NR_EQ(0, as_user(kAnn, [&] { NR_HOLDS(put("tmp/ann", "ann's", 0666)); }));
    NR_EQ(0, as_user(kBob, [&] {
              NR_HOLDS(put("tmp/bob", "bob's"));
              NR_ERR_OF(::unlink("tmp/ann"), EPERM, EACCES);
              NR_ERR_OF(::rename("tmp/ann", "tmp/mine"), EPERM, EACCES);
              NR_ERR_OF(::rename("tmp/bob", "tmp/ann"), EPERM, EACCES);
              NR_OK(::rename("tmp/bob", "tmp/mine"));
              NR_OK(::unlink("tmp/mine"));
          }));
    NR_EQ("ann's", get("tmp/ann"));
    NR_EQ(0, as_user(kAnn, [&] { NR_OK(::unlink("tmp/ann")); }));
}

// B111: what is made belongs to who made it, under his mask, and touch works.
void b111_owner_of_what_is_made(Checks& t) {
    for (const uid_t uid : {3000U, 3001U, 3002U}) {
        const User user{uid, uid + 50};
        const std::string mine = "of-" + std::to_string(uid);
        NR_EQ(0, as_user(user, [&] {
                  ::umask(027);
                  NR_OK(::mkdir(mine.c_str(), 0777));
                  NR_HOLDS(put(mine + "/f", "data", 0666));
                  NR_OK(::symlink("f", (mine + "/s").c_str()));
                  NR_OK(::mkfifo((mine + "/p").c_str(), 0666));
                  NR_OK(::utimensat(AT_FDCWD, (mine + "/f").c_str(), nullptr, 0));
                  NR_OK(open_file(mine + "/x", O_WRONLY | O_CREAT | O_EXCL, 0600).get());
              }));
        NR_EQ(0750, stat_of(mine).st_mode & 07777);
        for (const char* name : {"", "/f", "/s", "/p", "/x"}) {
            NR_EQ(uid, lstat_of(mine + name).st_uid);
            NR_EQ(uid + 50, lstat_of(mine + name).st_gid);
        }
        NR_EQ(0640, stat_of(mine + "/f").st_mode & 07777);
        NR_EQ(0640, lstat_of(mine + "/p").st_mode & 07777);
        NR_EQ(0600, stat_of(mine + "/x").st_mode & 07777);
    }
    NR_EQ(0, as_user(kAnn, [&] { NR_ERR(EACCES, ::open("of-3001/f", O_RDONLY)); }));
}

// Sixteen groups go with a call (RFC 5531 s14): each of them counts.
void groups(Checks& t) {
    std::vector<gid_t> sixteen;
    for (gid_t g = 0; g < 16; ++g)
        sixteen.push_back(5000 + g);
    for (const gid_t gid : sixteen) {
        const std::string name = "g" + std::to_string(gid);
        NR_HOLDS(put(name, "x"));
        NR_OK(::chown(name.c_str(), 0, gid));
        NR_OK(::chmod(name.c_str(), 0660));
        NR_EQ(0, as_user({3000, 3050, sixteen}, [&] { NR_HOLDS(put(name, "group's")); }));
        NR_EQ("group's", get(name));
    }
    NR_EQ(0, as_user({3000, 3050, {5003}}, [&] {
              NR_EQ("group's", get("g5003"));
              NR_ERR(EACCES, ::open("g5004", O_RDONLY));
          }));
    // The owner may give a file to a group of his, not to another.
    NR_HOLDS(put("f", ""));
    NR_OK(::chown("f", 3000, 3050));
    NR_EQ(0, as_user({3000, 3050, {5003}}, [&] {
              NR_OK(::chown("f", static_cast<uid_t>(-1), 5003));
              NR_ERR(EPERM, ::chown("f", static_cast<uid_t>(-1), 5004));
              NR_ERR(EPERM, ::chown("f", 3001, static_cast<gid_t>(-1)));
          }));
    NR_EQ(5003, stat_of("f").st_gid);
}

// A program of another's loses its set-id bits when somebody else writes to it.
void set_id_bits(Checks& t) {
    NR_HOLDS(put("f", "program"));
    NR_OK(::chown("f", kAnn.uid, kAnn.gid));
    NR_OK(::chmod("f", 06777));
    NR_EQ(06777, stat_of("f").st_mode & 07777);
    NR_EQ(0, as_user(kBob, [&] {
              UniqueFd file = open_file("f", O_WRONLY);
              NR_EQ(1, ::write(file.get(), "P", 1));
              NR_OK(::close(file.release()));
          }));
    NR_EQ(0777, stat_of("f").st_mode & 07777);
    NR_OK(::chmod("f", 06777));
    NR_EQ(0, as_user(kBob, [&] { NR_OK(::truncate("f", 3)); }));
    NR_EQ(0777, stat_of("f").st_mode & 07777);
    // chmod by its owner, who is not of the file's group, cannot set the group's bit.
    NR_OK(::chown("f", kAnn.uid, 5004));
    NR_EQ(0, as_user(kAnn, [&] { NR_OK(::chmod("f", 02755)); }));
    NR_EQ(0755, stat_of("f").st_mode & 07777);
}

// The right was given when the file was opened.
void handed_over(Checks& t) {
    NR_HOLDS(put("f", "secret", 0600));
    const UniqueFd file = open_file("f", O_RDWR);
    NR_EQ(0, as_user(kBob, [&] {
              NR_ERR(EACCES, ::open("f", O_RDONLY));
              NR_EQ("secret", read_at(file.get(), 0, 10));
              NR_EQ(1, ::pwrite(file.get(), "S", 1, 0));
              NR_OK(::fsync(file.get()));
              NR_EQ("Secret", read_at(file.get(), 0, 10));
          }));
    NR_EQ("Secret", get("f"));
    // His own file, shut against himself after it was opened: editors do so.
    NR_EQ(0, as_user(kAnn, [&] {
              UniqueFd own = open_file("own", O_RDWR | O_CREAT, 0600);
              NR_EQ(4, ::write(own.get(), "data", 4));
              NR_OK(::fchmod(own.get(), 0400));
              NR_EQ(4, ::write(own.get(), "more", 4));
              NR_OK(::fsync(own.get()));
              NR_OK(::fchmod(own.get(), 0000));
              NR_EQ(1, ::write(own.get(), "!", 1));
              NR_EQ("datamore!", read_at(own.get(), 0, 20));
              NR_OK(::close(own.release()));
              NR_ERR(EACCES, ::open("own", O_RDONLY));
          }));
    NR_EQ("datamore!", get("own"));
}

// B115 as an ordinary user: ">>" opens for writing alone, and the page before is not his to read.
void b115_append_without_read(Checks& t) {
    NR_EQ(0, as_user(kAnn, [&] {
              NR_HOLDS(put("t", "foo\n", 0200));
              const UniqueFd file = open_file("t", O_WRONLY | O_APPEND);
              NR_EQ(4, ::write(file.get(), "bar\n", 4));
              NR_ERR(EACCES, ::open("t", O_RDONLY));
          }));
    NR_EQ("foo\nbar\n", get("t"));
}

}  // namespace

std::vector<Case> user_cases() {
    return {{"users.rights", rights, true},
            {"users.of_directories", of_directories, true},
            {"users.sticky", sticky, true},
            {"users.B111.OwnerOfWhatIsMade", b111_owner_of_what_is_made, true},
            {"users.groups", groups, true},
            {"users.set_id_bits", set_id_bits, true},
            {"users.handed_over", handed_over, true},
            {"users.B115.AppendWithoutRead", b115_append_without_read, true}};
}

}  // namespace nfsrdma::posix
