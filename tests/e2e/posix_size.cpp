// truncate, ftruncate, fallocate: sizes that change under those who read and write.
#include <csignal>
#include <cstdint>
#include <sys/resource.h>
#include <sys/xattr.h>

#include "tests/e2e/posix.hpp"

namespace nfsrdma::posix {
namespace {

void grow_and_shrink(Checks& t) {
    NR_HOLDS(put("f", "0123456789"));
    NR_OK(::truncate("f", 4));
    NR_EQ("0123", get("f"));
    NR_OK(::truncate("f", 8));
    NR_EQ(std::string_view("0123\0\0\0\0", 8), get("f"));
    NR_OK(::truncate("f", 8));
    NR_EQ(8, stat_of("f").st_size);
    NR_OK(::truncate("f", 0));
    NR_EQ("", get("f"));
    NR_OK(::truncate("f", 10000));
    NR_EQ(std::string(10000, '\0'), get("f"));
    NR_ERR(EINVAL, ::truncate("f", -1));
    NR_ERR(ENOENT, ::truncate("none", 0));
    NR_OK(::mkdir("d", 0755));
    NR_ERR(EISDIR, ::truncate("d", 0));
    NR_ERR(ENOTDIR, ::truncate("f/x", 0));
    NR_OK(::symlink("f", "s"));
    NR_OK(::truncate("s", 5));
    NR_EQ(5, stat_of("f").st_size);
}

void of_open_files(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    const std::string data = pattern(10000, 4);
    NR_EQ(10000, ::write(file.get(), data.data(), data.size()));
    NR_OK(::ftruncate(file.get(), 5000));
    NR_EQ(5000, stat_of("f").st_size);
    NR_EQ(data.substr(0, 5000), read_at(file.get(), 0, 20000));
    // What was cut off is not there again, at any distance from the ends of pages.
    NR_OK(::ftruncate(file.get(), 10000));
    NR_EQ(data.substr(0, 5000) + std::string(5000, '\0'), read_at(file.get(), 0, 20000));
    NR_OK(::ftruncate(file.get(), 4096));
    NR_OK(::ftruncate(file.get(), 4097));
    NR_EQ(data.substr(0, 4096) + std::string(1, '\0'), get("f"));
    // The position stays, so that the next write leaves a hole.
    NR_EQ(10000, ::lseek(file.get(), 0, SEEK_CUR));
    NR_OK(::ftruncate(file.get(), 0));
    NR_EQ(1, ::write(file.get(), "x", 1));
    NR_EQ(std::string(10000, '\0') + "x", get("f"));
    NR_ERR(EINVAL, ::ftruncate(file.get(), -1));
    NR_ERR(EBADF, ::ftruncate(-1, 0));
    // While another writes, and through a name.
    const UniqueFd writer = open_file("f", O_WRONLY);
    NR_EQ(4, ::write(writer.get(), "data", 4));
    NR_OK(::truncate("f", 2));
    NR_EQ("da", get("f"));
    NR_EQ(4, ::write(writer.get(), "more", 4));
    NR_EQ(std::string_view("da\0\0more", 8), get("f"));
}

// A write that is on its way must not bring back what a truncate took, nor the reverse.
void between_writes(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    std::string model;
    for (int i = 0; i < 60; ++i) {
        const std::string piece =
            pattern(20000 + static_cast<std::size_t>(i) * 777, static_cast<std::uint64_t>(i));
        const std::size_t at = static_cast<std::size_t>(i * 3001) % 50000;
        if (model.size() < at + piece.size()) model.resize(at + piece.size());
        piece.copy(model.data() + at, piece.size());
        if (::pwrite(file.get(), piece.data(), piece.size(), static_cast<off_t>(at)) !=
            static_cast<ssize_t>(piece.size()))
            NR_OK(-1);
        const std::size_t size = static_cast<std::size_t>(i * 7919) % 70000;
        model.resize(size);
        if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0) NR_OK(-1);
        if (stat_of("f").st_size != static_cast<off_t>(size)) NR_EQ(i, -1);
        if (read_at(file.get(), 0, size + 1) != model) NR_EQ(i, -2);
    }
    NR_EQ(model, get("f"));
}

void far(Checks& t) {
    NR_HOLDS(put("f", "x"));
    for (const int bits : {31, 32, 33, 40}) {
        const off_t size = (off_t{1} << bits) + 1;
        NR_OK(::truncate("f", size));
        NR_EQ(size, stat_of("f").st_size);
    }
    const UniqueFd file = open_file("f", O_RDWR);
    NR_EQ("", read_at(file.get(), (off_t{1} << 40) + 1, 10));
    NR_EQ(std::string(1, '\0'), read_at(file.get(), off_t{1} << 40, 10));
    NR_OK(::ftruncate(file.get(), 1));
    NR_EQ("x", get("f"));
    // The largest size of all is refused, or taken for what it is.
    if (::ftruncate(file.get(), INT64_MAX) == 0) {
        NR_EQ(INT64_MAX, stat_of("f").st_size);
    } else {
        NR_HOLDS(errno == EFBIG || errno == EINVAL);
        NR_EQ(1, stat_of("f").st_size);
    }
}

void limited(Checks& t) {
    NR_EQ(0, in_child([&] {
              const rlimit limit{5000, 5000};
              NR_OK(::setrlimit(RLIMIT_FSIZE, &limit));
              NR_HOLDS(::signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
              const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
              const std::string data(6000, 'x');
              NR_EQ(5000, ::write(file.get(), data.data(), data.size()));
              NR_ERR(EFBIG, ::write(file.get(), data.data(), 1));
              NR_ERR(EFBIG, ::pwrite(file.get(), data.data(), 1, 7000));
              NR_ERR(EFBIG, ::ftruncate(file.get(), 6000));
              NR_EQ(5000, stat_of("f").st_size);
          }));
}

void allocated(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    NR_EQ(5, ::write(file.get(), "start", 5));
    errno = 0;
    const int made = ::fallocate(file.get(), 0, 0, 100000);
    if (t.options.nfs) {
        NR_ERR(EOPNOTSUPP, ::fallocate(file.get(), 0, 0, 100000));
        NR_ERR(EOPNOTSUPP, ::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, 100000));
        NR_ERR(EOPNOTSUPP,
               ::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 100000));
        NR_EQ(5, stat_of("f").st_size);
    } else if (made == 0) {
        NR_EQ(100000, stat_of("f").st_size);
        NR_OK(::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, 200000));
        NR_EQ(100000, stat_of("f").st_size);
    } else {
        NR_EQ(EOPNOTSUPP, errno);
    }
    // The C library writes itself where the file system cannot.
    NR_EQ(0, ::posix_fallocate(file.get(), 0, 50000));
    NR_HOLDS(stat_of("f").st_size >= 50000);
    NR_EQ("start", read_at(file.get(), 0, 5));
    NR_ERR(EINVAL, ::fallocate(file.get(), 0, -1, 100));
    NR_ERR(EINVAL, ::fallocate(file.get(), 0, 0, 0));
    NR_EQ(0, ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_WILLNEED));
    NR_EQ(0, ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED));
    NR_EQ("start", read_at(file.get(), 0, 5));
}

void extended_attributes(Checks& t) {
    NR_HOLDS(put("f", ""));
    std::string value(100, '?');
    if (t.options.nfs) {
        const UniqueFd file = open_file("f", O_RDWR);
        NR_ERR(EOPNOTSUPP, ::setxattr("f", "user.a", "v", 1, 0));
        NR_ERR(EOPNOTSUPP, ::fsetxattr(file.get(), "user.a", "v", 1, 0));
        NR_ERR(EOPNOTSUPP, ::getxattr("f", "user.a", value.data(), value.size()));
        NR_ERR(EOPNOTSUPP, ::removexattr("f", "user.a"));
        // What ls and cp ask first: no attributes, or none possible.
        errno = 0;
        const ssize_t listed = ::listxattr("f", value.data(), value.size());
        NR_HOLDS(listed == 0 || (listed == -1 && errno == EOPNOTSUPP));
        return;
    }
    if (::setxattr("f", "user.a", "value", 5, 0) != 0) {
        NR_EQ(EOPNOTSUPP, errno);
        return;
    }
    NR_EQ(5, ::getxattr("f", "user.a", value.data(), value.size()));
    NR_EQ("value", value.substr(0, 5));
    NR_ERR(ENODATA, ::getxattr("f", "user.b", value.data(), value.size()));
    NR_OK(::removexattr("f", "user.a"));
}

}  // namespace

std::vector<Case> size_cases() {
    return {{"size.grow_and_shrink", grow_and_shrink},
            {"size.of_open_files", of_open_files},
            {"size.between_writes", between_writes},
            {"size.far", far},
            {"size.limited", limited},
            {"size.allocated", allocated},
            {"size.extended_attributes", extended_attributes}};
}

}  // namespace nfsrdma::posix
