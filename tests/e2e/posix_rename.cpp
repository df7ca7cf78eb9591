// rename and renameat2.
#include <cstdio>

#include "tests/e2e/posix.hpp"

namespace nfsrdma::posix {
namespace {

void files(Checks& t) {
    NR_HOLDS(put("a", "a's"));
    const ino_t inode = stat_of("a").st_ino;
    NR_OK(::rename("a", "b"));
    NR_HOLDS(!exists("a"));
    NR_EQ("a's", get("b"));
    NR_HOLDS(stat_of("b").st_ino == inode);
    NR_HOLDS(put("c", "c's, longer"));
    NR_OK(::rename("b", "c"));
    NR_EQ("a's", get("c"));
    NR_EQ(3, stat_of("c").st_size);
    NR_HOLDS(stat_of("c").st_ino == inode);
    NR_OK(::rename("c", "c"));
    NR_EQ("a's", get("c"));
    NR_OK(::link("c", "same"));
    // Two names of one file: nothing is done, and both stay.
    NR_OK(::rename("c", "same"));
    NR_HOLDS(exists("c"));
    NR_HOLDS(exists("same"));
    NR_EQ(2, static_cast<int>(stat_of("c").st_nlink));
    NR_ERR(ENOENT, ::rename("none", "x"));
    NR_ERR(ENOENT, ::rename("c", "none/x"));
    NR_ERR(ENOENT, ::rename("", "x"));
    NR_ERR(ENOENT, ::rename("c", ""));
    NR_ERR(ENOTDIR, ::rename("c", "same/x"));
    NR_ERR(ENOTDIR, ::rename("same/x", "x"));
    NR_EQ(2, static_cast<int>(names_in(".").size()));
}

void directories(Checks& t) {
    NR_OK(::mkdir("d", 0755));
    NR_HOLDS(put("d/f", "inside"));
    NR_OK(::rename("d", "e"));
    NR_EQ("inside", get("e/f"));
    NR_ERR(ENOENT, ::rename("d", "x"));
    NR_OK(::mkdir("empty", 0755));
    NR_OK(::rename("e", "empty"));
    NR_EQ("inside", get("empty/f"));
    NR_HOLDS(!exists("e"));
    NR_OK(::mkdir("other", 0755));
    NR_ERR_OF(::rename("other", "empty"), ENOTEMPTY, EEXIST);
    NR_ERR(EINVAL, ::rename("empty", "empty/x"));
    NR_OK(::mkdir("empty/sub", 0755));
    NR_ERR(EINVAL, ::rename("empty", "empty/sub/x"));
    NR_ERR_OF(::rename("empty/sub", "empty"), ENOTEMPTY, EEXIST);
    NR_HOLDS(put("f", ""));
    NR_ERR(EISDIR, ::rename("f", "other"));
    NR_ERR(ENOTDIR, ::rename("other", "f"));
    NR_ERR(ENOTDIR, ::rename("f", "new/"));
    NR_OK(::rename("other", "slash/"));
    NR_ERR_OF(::rename(".", "x"), EBUSY, EINVAL);
    NR_ERR_OF(::rename("slash/..", "x"), EBUSY, EINVAL, ENOTEMPTY);
    NR_OK(::rename("empty", "empty"));
    // ".." is the new parent.
    NR_OK(::rename("empty/sub", "slash/sub"));
    NR_HOLDS(stat_of("slash/sub/..").st_ino == stat_of("slash").st_ino);
    NR_HOLDS(put("slash/sub/g", "deep"));
    NR_EQ("deep", get("slash/sub/g"));
}

void between_directories(Checks& t) {
    NR_OK(::mkdir("a", 0755));
    NR_OK(::mkdir("b", 0755));
    NR_HOLDS(put("a/f", "travels"));
    for (int i = 0; i < 20; ++i) {
        const bool there = i % 2 == 0;
        NR_OK(::rename(there ? "a/f" : "b/f", there ? "b/f" : "a/f"));
        NR_EQ(there ? 0 : 1, static_cast<int>(names_in("a").size()));
        NR_EQ(there ? 1 : 0, static_cast<int>(names_in("b").size()));
    }
    NR_EQ("travels", get("a/f"));
    NR_HOLDS(put("b/f", "in the way"));
    NR_OK(::rename("a/f", "b/f"));
    NR_EQ("travels", get("b/f"));
}

void links(Checks& t) {
    NR_HOLDS(put("f", "target"));
    NR_OK(::symlink("f", "s"));
    NR_OK(::rename("s", "s2"));
    NR_EQ("f", link_text("s2"));
    NR_EQ("target", get("s2"));
    // Over a link: the link goes, not what it names.
    NR_HOLDS(put("g", "other"));
    NR_OK(::rename("g", "s2"));
    NR_HOLDS(S_ISREG(lstat_of("s2").st_mode));
    NR_EQ("target", get("f"));
    NR_OK(::mkdir("d", 0755));
    NR_OK(::symlink("d", "to-d"));
    NR_ERR(ENOTDIR, ::rename("d", "to-d"));
    NR_OK(::rename("to-d", "f"));
    NR_EQ("d", link_text("f"));
}

void of_open_files(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    NR_EQ(3, ::write(file.get(), "one", 3));
    NR_OK(::rename("f", "g"));
    NR_EQ(3, ::write(file.get(), "two", 3));
    NR_EQ("onetwo", get("g"));
    NR_EQ(6, stat_of("g").st_size);
    NR_OK(::mkdir("d", 0755));
    NR_OK(::rename("g", "d/g"));
    NR_EQ("onetwo", read_at(file.get(), 0, 10));
    NR_EQ(5, ::write(file.get(), "three", 5));
    NR_OK(::fsync(file.get()));
    NR_EQ("onetwothree", get("d/g"));
    NR_OK(::unlink("d/g"));
    NR_EQ("onetwothree", read_at(file.get(), 0, 20));
}

void over_open_files(Checks& t) {
    NR_HOLDS(put("old", "the old contents"));
    const UniqueFd old = open_file("old", O_RDWR);
    NR_HOLDS(put("new", "new"));
    NR_OK(::rename("new", "old"));
    NR_EQ("the old contents", read_at(old.get(), 0, 100));
    NR_EQ("new", get("old"));
    NR_EQ(16, stat_of(old.get()).st_size);
    NR_EQ(3, stat_of("old").st_size);
    NR_HOLDS(stat_of(old.get()).st_ino != stat_of("old").st_ino);
    // As editors do, again and again, each time with somebody reading.
    std::vector<UniqueFd> readers;
    for (int i = 0; i < 20; ++i) {
        readers.push_back(open_file("old", O_RDONLY));
        NR_HOLDS(put("new", "version " + std::to_string(i)));
        NR_OK(::rename("new", "old"));
    }
    NR_EQ("new", read_at(readers[0].get(), 0, 100));
    for (std::size_t i = 1; i < readers.size(); ++i)
        NR_EQ("version " + std::to_string(i - 1), read_at(readers[i].get(), 0, 100));
    readers.clear();
    NR_EQ("version 19", get("old"));
}

void flags(Checks& t) {
    NR_HOLDS(put("a", "a"));
    NR_HOLDS(put("b", "b"));
    NR_ERR(EINVAL, ::renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE | RENAME_EXCHANGE));
    NR_ERR(EINVAL, ::renameat2(AT_FDCWD, "a", AT_FDCWD, "b", 1U << 20));
    NR_OK(::renameat2(AT_FDCWD, "a", AT_FDCWD, "c", 0));
    if (t.options.nfs) {
        // Where the name is taken the kernel itself may say so first.
        NR_ERR_OF(::renameat2(AT_FDCWD, "c", AT_FDCWD, "b", RENAME_NOREPLACE), EINVAL, EEXIST);
        NR_ERR(EINVAL, ::renameat2(AT_FDCWD, "c", AT_FDCWD, "b", RENAME_EXCHANGE));
        NR_ERR(EINVAL, ::renameat2(AT_FDCWD, "c", AT_FDCWD, "new", RENAME_NOREPLACE));
        NR_HOLDS(exists("c"));
        NR_HOLDS(!exists("new"));
        NR_EQ("b", get("b"));
        return;
    }
    if (::renameat2(AT_FDCWD, "c", AT_FDCWD, "b", RENAME_EXCHANGE) != 0) {
        NR_EQ(EINVAL, errno);
        return;
    }
    NR_EQ("a", get("b"));
    NR_ERR(EEXIST, ::renameat2(AT_FDCWD, "c", AT_FDCWD, "b", RENAME_NOREPLACE));
    NR_OK(::renameat2(AT_FDCWD, "c", AT_FDCWD, "new", RENAME_NOREPLACE));
    NR_EQ("b", get("new"));
}

// B114: a size or a time that was remembered of the file that went.
void b114_size_after_rename_over(Checks& t) {
    for (int i = 0; i < 20; ++i) {
        NR_HOLDS(put("T", "foo\n"));
        NR_EQ(4, stat_of("T").st_size);
        NR_HOLDS(put("T.new", "longer\n"));
        NR_OK(::rename("T.new", "T"));
        NR_EQ(7, stat_of("T").st_size);
        NR_EQ("longer\n", get("T"));
    }
}

void b114_size_after_truncating_open(Checks& t) {
    for (int i = 0; i < 20; ++i) {
        NR_HOLDS(put("f", pattern(236, 1)));
        NR_EQ(236, stat_of("f").st_size);
        UniqueFd emptied = open_file("f", O_WRONLY | O_TRUNC);
        NR_OK(::close(emptied.release()));
        const UniqueFd appending = open_file("f", O_RDWR | O_APPEND);
        NR_EQ(0, ::lseek(appending.get(), 0, SEEK_END));
        NR_EQ(3, ::write(appending.get(), "abc", 3));
        NR_EQ("abc", get("f"));
    }
}

}  // namespace

std::vector<Case> rename_cases() {
    return {{"rename.files", files},
            {"rename.directories", directories},
            {"rename.between_directories", between_directories},
            {"rename.links", links},
            {"rename.of_open_files", of_open_files},
            {"rename.over_open_files", over_open_files},
            {"rename.flags", flags},
            {"rename.B114.SizeAfterRenameOver", b114_size_after_rename_over},
            {"rename.B114.SizeAfterTruncatingOpen", b114_size_after_truncating_open}};
}

}  // namespace nfsrdma::posix
