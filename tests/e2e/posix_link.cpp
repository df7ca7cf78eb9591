// Hard links and symbolic links.
#include "tests/e2e/posix.hpp"

namespace nfsrdma::posix {
namespace {

void hard(Checks& t) {
    NR_HOLDS(put("a", "shared"));
    NR_EQ(1, static_cast<int>(stat_of("a").st_nlink));
    NR_OK(::link("a", "b"));
    NR_EQ(2, static_cast<int>(stat_of("a").st_nlink));
    NR_EQ(2, static_cast<int>(stat_of("b").st_nlink));
    NR_HOLDS(stat_of("a").st_ino == stat_of("b").st_ino);
    NR_ERR(EEXIST, ::link("a", "b"));
    NR_ERR(ENOENT, ::link("none", "c"));
    NR_ERR(ENOENT, ::link("a", "none/c"));
    NR_ERR(ENOTDIR, ::link("a", "b/c"));
    NR_OK(::mkdir("d", 0755));
    NR_ERR(EPERM, ::link("d", "e"));
    NR_ERR(EEXIST, ::link("a", "d"));
    NR_OK(::link("a", "d/c"));
    NR_EQ(3, static_cast<int>(stat_of("b").st_nlink));
    NR_OK(::unlink("a"));
    NR_EQ(2, static_cast<int>(stat_of("b").st_nlink));
    NR_EQ("shared", get("d/c"));
    NR_OK(::chmod("b", 0600));
    NR_EQ(0600, stat_of("d/c").st_mode & 07777);
    NR_OK(::unlink("b"));
    NR_EQ(1, static_cast<int>(stat_of("d/c").st_nlink));
    NR_EQ("shared", get("d/c"));
}

// B112: two names of one file are one file.
void b112_two_names_one_size(Checks& t) {
    NR_HOLDS(put("a", "one"));
    NR_OK(::link("a", "b"));
    for (int i = 0; i < 10; ++i) {
        const UniqueFd file = open_file(i % 2 == 0 ? "a" : "b", O_WRONLY | O_APPEND);
        NR_EQ(4, ::write(file.get(), "more", 4));
        NR_EQ(7 + 4 * i, stat_of("a").st_size);
        NR_EQ(7 + 4 * i, stat_of("b").st_size);
    }
    NR_EQ(get("a"), get("b"));
    NR_OK(::truncate("b", 2));
    NR_EQ(2, stat_of("a").st_size);
    NR_OK(::unlink("a"));
    NR_EQ(1, static_cast<int>(stat_of("b").st_nlink));
    NR_EQ("on", get("b"));
}

void of_open_files(Checks& t) {
    UniqueFd file = open_file("a", O_RDWR | O_CREAT);
    NR_EQ(3, ::write(file.get(), "one", 3));
    NR_OK(::link("a", "b"));
    NR_OK(::unlink("a"));
    NR_EQ(3, ::write(file.get(), "two", 3));
    NR_EQ("onetwo", get("b"));
    // Over NFSv3 the name that went may live on as a silly one until the file is closed.
    const auto links = stat_of(file.get()).st_nlink;
    NR_HOLDS(links == 1 || (t.options.nfs && links == 2));
    NR_OK(::close(file.release()));
    NR_EQ("onetwo", get("b"));
    NR_EQ(1, static_cast<int>(stat_of("b").st_nlink));
    NR_EQ(1, static_cast<int>(names_left_in(".").size()));
}

void many_names(Checks& t) {
    NR_HOLDS(put("n0", "many"));
    for (int i = 1; i <= 100; ++i)
        if (::link("n0", ("n" + std::to_string(i)).c_str()) != 0) NR_OK(-1);
    NR_EQ(101, static_cast<int>(stat_of("n50").st_nlink));
    for (int i = 0; i < 100; ++i)
        if (::unlink(("n" + std::to_string(i)).c_str()) != 0) NR_OK(-1);
    NR_EQ(1, static_cast<int>(stat_of("n100").st_nlink));
    NR_EQ("many", get("n100"));
}

void symbolic(Checks& t) {
    NR_OK(::symlink("f", "s"));
    NR_HOLDS(S_ISLNK(lstat_of("s").st_mode));
    NR_EQ(1, lstat_of("s").st_size);
    NR_EQ(0777, lstat_of("s").st_mode & 0777);
    struct stat st {};
    NR_ERR(ENOENT, ::stat("s", &st));
    NR_ERR(EEXIST, ::symlink("g", "s"));
    NR_ERR(ENOENT, ::symlink("", "empty"));
    NR_ERR(ENOENT, ::symlink("f", "none/s"));
    NR_HOLDS(put("f", "named"));
    NR_EQ("named", get("s"));
    NR_ERR(ENOTDIR, ::symlink("x", "f/s"));
    std::string text(100, '?');
    NR_ERR(EINVAL, ::readlink("f", text.data(), text.size()));
    NR_ERR(ENOENT, ::readlink("none", text.data(), text.size()));
    NR_OK(::symlink("0123456789", "ten"));
    // A buffer too small gets what it holds.
    NR_EQ(4, ::readlink("ten", text.data(), 4));
    NR_EQ("0123?", text.substr(0, 5));
    NR_ERR(EINVAL, ::readlink("ten", text.data(), 0));
    NR_OK(::mkdir("d", 0755));
    NR_OK(::symlink("../f", "d/up"));
    NR_EQ("named", get("d/up"));
    NR_OK(::symlink("d", "to-d"));
    NR_EQ("named", get("to-d/up"));
    NR_EQ(1, static_cast<int>(names_in("to-d").size()));
    NR_OK(::symlink("odd \n\xff text", "odd"));
    NR_EQ("odd \n\xff text", link_text("odd"));
    // A hard link to the link itself.
    NR_OK(::linkat(AT_FDCWD, "s", AT_FDCWD, "s2", 0));
    NR_EQ("f", link_text("s2"));
    NR_EQ(2, static_cast<int>(lstat_of("s").st_nlink));
    NR_OK(::linkat(AT_FDCWD, "s", AT_FDCWD, "f2", AT_SYMLINK_FOLLOW));
    NR_HOLDS(S_ISREG(lstat_of("f2").st_mode));
}

// B107: XDR pads to four bytes; the pad is not part of the text.
void b107_texts_of_each_length(Checks& t) {
    const std::string letters = [] {
        std::string out;
        for (int i = 0; i < 4096; ++i)
            out += static_cast<char>('a' + i % 26);
        return out;
    }();
    for (std::size_t len = 1; len <= 64; ++len) {
        const std::string name = "s" + std::to_string(len);
        NR_OK(::symlink(letters.substr(0, len).c_str(), name.c_str()));
        NR_EQ(letters.substr(0, len), link_text(name));
        NR_EQ(static_cast<long>(len), lstat_of(name).st_size);
    }
    // Linux's own file systems end here: 4095 and its NUL.
    const std::string most = letters.substr(0, 4095);
    NR_OK(::symlink(most.c_str(), "most"));
    NR_EQ(most, link_text("most"));
    NR_EQ(4095, lstat_of("most").st_size);
    NR_ERR(ENAMETOOLONG, ::symlink(letters.c_str(), "over"));
    for (const std::size_t len : {255U, 256U, 1000U, 1023U, 1024U, 1025U, 4000U, 4093U, 4094U}) {
        const std::string name = "s" + std::to_string(len);
        NR_OK(::symlink(letters.substr(0, len).c_str(), name.c_str()));
        NR_EQ(letters.substr(0, len), link_text(name));
    }
}

// A link that is removed and made again with another text of the same name.
void replaced(Checks& t) {
    for (int i = 0; i < 30; ++i) {
        const std::string text =
            "to-" + std::string(static_cast<std::size_t>(i % 7), 'x') + std::to_string(i);
        NR_OK(::symlink(text.c_str(), "new"));
        NR_OK(::rename("new", "current"));
        NR_EQ(text, link_text("current"));
    }
    NR_OK(::unlink("current"));
    NR_OK(::symlink("last", "current"));
    NR_EQ("last", link_text("current"));
}

}  // namespace

std::vector<Case> link_cases() {
    return {{"link.hard", hard},
            {"link.B112.TwoNamesOneSize", b112_two_names_one_size},
            {"link.of_open_files", of_open_files},
            {"link.many_names", many_names},
            {"link.symbolic", symbolic},
            {"link.B107.TextsOfEachLength", b107_texts_of_each_length},
            {"link.replaced", replaced}};
}

}  // namespace nfsrdma::posix
