// read, write and their kin; lengths, holes and positions.
#include <algorithm>
#include <array>
#include <climits>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "tests/e2e/posix.hpp"

namespace nfsrdma::posix {
namespace {

constexpr off_t kPage = 4096;

// Memory that may be neither read nor written.
struct Forbidden {
    void* const page = ::mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Forbidden() = default;
    Forbidden(const Forbidden&) = delete;
    Forbidden& operator=(const Forbidden&) = delete;
    ~Forbidden() { ::munmap(page, kPage); }
};

void read_edges(Checks& t) {
    NR_HOLDS(put("f", "0123456789"));
    const UniqueFd file = open_file("f", O_RDONLY);
    std::array<char, 32> buffer{};
    NR_EQ(4, ::read(file.get(), buffer.data(), 4));
    NR_EQ(6, ::read(file.get(), buffer.data(), buffer.size()));
    NR_EQ(0, ::read(file.get(), buffer.data(), buffer.size()));
    NR_EQ(0, ::read(file.get(), buffer.data(), 0));
    NR_EQ(3, ::pread(file.get(), buffer.data(), buffer.size(), 7));
    NR_EQ("789", std::string_view(buffer.data(), 3));
    NR_EQ(0, ::pread(file.get(), buffer.data(), buffer.size(), 10));
    NR_EQ(0, ::pread(file.get(), buffer.data(), buffer.size(), 11));
    NR_EQ(0, ::pread(file.get(), buffer.data(), buffer.size(), off_t{1} << 40));
    NR_ERR(EINVAL, ::pread(file.get(), buffer.data(), buffer.size(), -1));
    NR_EQ(10, ::lseek(file.get(), 0, SEEK_CUR));
    NR_EQ(0, ::lseek(file.get(), 0, SEEK_SET));
    NR_ERR(EFAULT, ::read(file.get(), Forbidden().page, 4));
    NR_EQ("0123456789", read_at(file.get(), 0, 10));
}

void write_edges(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    NR_EQ(0, ::write(file.get(), "", 0));
    NR_EQ(0, stat_of("f").st_size);
    NR_EQ(3, ::write(file.get(), "abc", 3));
    NR_EQ(3, ::write(file.get(), "def", 3));
    NR_EQ(2, ::pwrite(file.get(), "XY", 2, 1));
    NR_EQ("aXYdef", read_at(file.get(), 0, 100));
    NR_EQ(6, ::lseek(file.get(), 0, SEEK_CUR));
    NR_EQ(1, ::pwrite(file.get(), "!", 1, 8));
    NR_EQ(9, stat_of(file.get()).st_size);
    NR_EQ(9, stat_of("f").st_size);
    NR_EQ(std::string_view("aXYdef\0\0!", 9), read_at(file.get(), 0, 100));
    NR_ERR(EINVAL, ::pwrite(file.get(), "x", 1, -1));
    NR_ERR(EFAULT, ::write(file.get(), Forbidden().page, 4));
    NR_EQ(9, stat_of(file.get()).st_size);
}

void vectors(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    std::string one = "one";
    std::string none;
    std::string three = "three";
    const std::array<iovec, 3> out = {iovec{one.data(), one.size()}, iovec{none.data(), 0},
                                      iovec{three.data(), three.size()}};
    NR_EQ(8, ::writev(file.get(), out.data(), 3));
    NR_EQ("onethree", get("f"));
    std::string first(2, '?');
    std::string second(100, '?');
    const std::array<iovec, 2> in = {iovec{first.data(), first.size()},
                                     iovec{second.data(), second.size()}};
    NR_EQ(8, ::preadv(file.get(), in.data(), 2, 0));
    NR_EQ("on", first);
    NR_EQ("ethree", second.substr(0, 6));
    NR_EQ(8, ::pwritev(file.get(), out.data(), 3, kPage - 4));
    NR_EQ("onethree", read_at(file.get(), kPage - 4, 100));
    NR_EQ(0, ::lseek(file.get(), 0, SEEK_SET));
    NR_EQ(102, ::readv(file.get(), in.data(), 2));
    std::string bytes = pattern(IOV_MAX, 5);
    std::vector<iovec> single(IOV_MAX);
    for (std::size_t i = 0; i < single.size(); ++i)
        single[i] = {bytes.data() + i, 1};
    NR_EQ(IOV_MAX, ::pwritev(file.get(), single.data(), IOV_MAX, 0));
    NR_EQ(bytes, read_at(file.get(), 0, IOV_MAX));
    single.push_back({bytes.data(), 1});
    NR_ERR(EINVAL, ::writev(file.get(), single.data(), IOV_MAX + 1));
    NR_ERR(EINVAL, ::readv(file.get(), single.data(), IOV_MAX + 1));
}

// Lengths and offsets about every size that a cache, a page or a WRITE ends at.
void boundaries(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    const std::string all = pattern(std::size_t{3} << 20, 9);
    std::string model;
    for (const off_t edge : {off_t{512}, kPage, off_t{65536}, off_t{128} << 10, off_t{1} << 20}) {
        for (const off_t offset : {edge - 1, edge, edge + 1}) {
            for (const off_t len : {off_t{1}, off_t{3}, edge - 1, edge, edge + 1}) {
                const auto at = static_cast<std::size_t>(offset);
                const auto size = static_cast<std::size_t>(len);
                if (model.size() < at + size) model.resize(at + size);
                const std::string_view data = std::string_view(all).substr(size / 2, size);
                data.copy(model.data() + at, size);
                if (::pwrite(file.get(), data.data(), size, offset) != len) NR_OK(-1);
                if (read_at(file.get(), offset, size) != data) {
                    t.fail("other bytes than were written: " + std::to_string(len) + " at " +
                               std::to_string(offset),
                           __LINE__);
                }
            }
        }
        NR_EQ(static_cast<long>(model.size()), stat_of("f").st_size);
        NR_EQ(model, read_at(file.get(), 0, model.size() + 1));
        NR_EQ(model, get("f"));
    }
    NR_OK(::fsync(file.get()));
    NR_EQ(model, get("f"));
}

void large_calls(Checks& t) {
    const std::string data = pattern((std::size_t{9} << 20) + 12345, 77);
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    NR_EQ(static_cast<long>(data.size()), ::write(file.get(), data.data(), data.size()));
    std::string back(data.size() + 100, '?');
    NR_EQ(static_cast<long>(data.size()), ::pread(file.get(), back.data(), back.size(), 0));
    back.resize(data.size());
    NR_EQ(data, back);
    NR_EQ(static_cast<long>(data.size()), ::lseek(file.get(), 0, SEEK_END));
    NR_OK(::close(open_file("f", O_RDONLY).release()));
    NR_EQ(data, get("f"));
}

void positions(Checks& t) {
    NR_HOLDS(put("f", "0123456789"));
    const UniqueFd file = open_file("f", O_RDWR);
    NR_EQ(10, ::lseek(file.get(), 0, SEEK_END));
    NR_EQ(7, ::lseek(file.get(), -3, SEEK_END));
    NR_EQ("789", [&] {
        std::string text(10, '?');
        const ssize_t got = ::read(file.get(), text.data(), text.size());
        return text.substr(0, got < 0 ? 0 : static_cast<std::size_t>(got));
    }());
    NR_EQ(2, ::lseek(file.get(), -8, SEEK_CUR));
    NR_ERR(EINVAL, ::lseek(file.get(), -1, SEEK_SET));
    NR_ERR(EINVAL, ::lseek(file.get(), -11, SEEK_END));
    NR_ERR(EINVAL, ::lseek(file.get(), 0, 99));
    NR_EQ(2, ::lseek(file.get(), 0, SEEK_CUR));
    NR_EQ(100, ::lseek(file.get(), 90, SEEK_END));
    NR_EQ(10, stat_of("f").st_size);
    NR_EQ(1, ::write(file.get(), "x", 1));
    NR_EQ(101, stat_of("f").st_size);
    // What a child and its parent share.
    NR_EQ(4, ::lseek(file.get(), 4, SEEK_SET));
    NR_EQ(0, in_child([&] { ::lseek(file.get(), 2, SEEK_CUR); }));
    NR_EQ(6, ::lseek(file.get(), 0, SEEK_CUR));
    const UniqueFd fifo_end = [] {
        std::array<int, 2> ends{};
        if (::pipe(ends.data()) != 0) return UniqueFd();
        ::close(ends[1]);
        return UniqueFd(ends[0]);
    }();
    NR_ERR(ESPIPE, ::lseek(fifo_end.get(), 0, SEEK_SET));
}

void seek_data_and_holes(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    NR_ERR(ENXIO, ::lseek(file.get(), 0, SEEK_DATA));
    NR_ERR(ENXIO, ::lseek(file.get(), 0, SEEK_HOLE));
    const std::string data = pattern(65536, 3);
    NR_EQ(65536, ::pwrite(file.get(), data.data(), data.size(), 0));
    NR_EQ(65536, ::pwrite(file.get(), data.data(), data.size(), off_t{4} << 20));
    NR_OK(::fsync(file.get()));
    const off_t size = (off_t{4} << 20) + 65536;
    NR_EQ(0, ::lseek(file.get(), 0, SEEK_DATA));
    NR_EQ(100, ::lseek(file.get(), 100, SEEK_DATA));
    // The end of the file is a hole; a hole in it may be shown, or be data.
    const off_t hole = ::lseek(file.get(), 0, SEEK_HOLE);
    NR_HOLDS(hole == size || (hole >= 65536 && hole <= off_t{4} << 20));
    const off_t next = ::lseek(file.get(), 1 << 20, SEEK_DATA);
    NR_HOLDS(next == 1 << 20 || (next > 1 << 20 && next <= off_t{4} << 20));
    NR_EQ(size, ::lseek(file.get(), off_t{4} << 20, SEEK_HOLE));
    NR_ERR(ENXIO, ::lseek(file.get(), size, SEEK_DATA));
    NR_ERR(ENXIO, ::lseek(file.get(), size, SEEK_HOLE));
}

void holes(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    const off_t far = off_t{5} << 30;  // beyond 32 bits
    NR_EQ(3, ::pwrite(file.get(), "end", 3, far));
    NR_EQ(far + 3, stat_of("f").st_size);
    NR_EQ(std::string(8192, '\0'), read_at(file.get(), 0, 8192));
    NR_EQ(std::string(8192, '\0'), read_at(file.get(), off_t{1} << 31, 8192));
    NR_EQ(std::string(100, '\0') + "end", read_at(file.get(), far - 100, 8192));
    NR_HOLDS(stat_of("f").st_blocks < (1 << 20) / 512);
    NR_EQ(3, ::pwrite(file.get(), "mid", 3, (off_t{1} << 32) - 1));
    NR_EQ(std::string("\0mid\0", 5), read_at(file.get(), (off_t{1} << 32) - 2, 5));
    NR_OK(::fsync(file.get()));
    NR_HOLDS(stat_of("f").st_blocks > 0);
}

void copies(Checks& t) {
    const std::string data = pattern(300000, 11);
    NR_HOLDS(put("from", data));
    const UniqueFd from = open_file("from", O_RDONLY);
    const UniqueFd to = open_file("to", O_RDWR | O_CREAT);
    off_t in = 1000;
    std::size_t left = 250000;
    while (left > 0) {
        const ssize_t done = ::sendfile(to.get(), from.get(), &in, left);
        if (done <= 0) break;
        left -= static_cast<std::size_t>(done);
    }
    NR_EQ(0, static_cast<long>(left));
    NR_EQ(std::string_view(data).substr(1000, 250000), get("to"));
    // The kernel copies itself where the file system cannot.
    off_t out = 0;
    in = 0;
    left = data.size();
    while (left > 0) {
        const ssize_t done = ::copy_file_range(from.get(), &in, to.get(), &out, left, 0);
        if (done <= 0) break;
        left -= static_cast<std::size_t>(done);
    }
    NR_EQ(0, static_cast<long>(left));
    NR_EQ(data, get("to"));
    NR_EQ(0, ::copy_file_range(from.get(), &in, to.get(), &out, 100, 0));
    std::array<int, 2> ends{};
    NR_OK(::pipe(ends.data()));
    in = 4090;
    NR_EQ(5000, ::splice(from.get(), &in, ends[1], nullptr, 5000, 0));
    std::string piece(5000, '?');
    NR_EQ(5000, ::read(ends[0], piece.data(), piece.size()));
    NR_EQ(data.substr(4090, 5000), piece);
    ::close(ends[0]);
    ::close(ends[1]);
}

void durable(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    NR_OK(::fsync(file.get()));
    NR_EQ(4, ::write(file.get(), "data", 4));
    NR_OK(::fsync(file.get()));
    NR_OK(::fdatasync(file.get()));
    NR_OK(::sync_file_range(file.get(), 0, 4, SYNC_FILE_RANGE_WRITE));
    NR_OK(::syncfs(file.get()));
    const UniqueFd reader = open_file("f", O_RDONLY);
    NR_OK(::fsync(reader.get()));
    const UniqueFd synchronous = open_file("f", O_WRONLY | O_SYNC);
    NR_EQ(4, ::pwrite(synchronous.get(), "DATA", 4, 0));
    const UniqueFd data_synchronous = open_file("f", O_WRONLY | O_DSYNC | O_APPEND);
    NR_EQ(1, ::write(data_synchronous.get(), "!", 1));
    NR_EQ("DATA!", get("f"));
    NR_ERR(EBADF, ::fsync(-1));
}

// What one descriptor writes, another reads at once, whichever was opened first.
void two_descriptors(Checks& t) {
    const UniqueFd writer = open_file("f", O_WRONLY | O_CREAT);
    const UniqueFd reader = open_file("f", O_RDONLY);
    std::string model;
    for (int i = 0; i < 50; ++i) {
        const std::string piece =
            pattern(static_cast<std::size_t>(i) * 37 + 1, static_cast<std::uint64_t>(i));
        NR_EQ(static_cast<long>(piece.size()), ::write(writer.get(), piece.data(), piece.size()));
        model += piece;
        if (read_at(reader.get(), 0, model.size() + 10) != model) NR_EQ(i, -1);
        if (stat_of("f").st_size != static_cast<off_t>(model.size())) NR_EQ(i, -2);
    }
    NR_EQ(model, get("f"));
}

void duplicated(Checks& t) {
    UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    const UniqueFd twin(::dup(file.get()));
    NR_EQ(3, ::write(file.get(), "one", 3));
    NR_OK(::close(file.release()));
    NR_EQ(3, ::write(twin.get(), "two", 3));
    NR_EQ("onetwo", get("f"));
    NR_EQ(0, in_child([&] {
              if (::write(twin.get(), "child", 5) != 5) ::_exit(1);
          }));
    NR_EQ("onetwochild", get("f"));
}

}  // namespace

std::vector<Case> io_cases() {
    return {{"io.read_edges", read_edges},
            {"io.write_edges", write_edges},
            {"io.vectors", vectors},
            {"io.boundaries", boundaries},
            {"io.large_calls", large_calls},
            {"io.positions", positions},
            {"io.seek_data_and_holes", seek_data_and_holes},
            {"io.holes", holes},
            {"io.copies", copies},
            {"io.durable", durable},
            {"io.two_descriptors", two_descriptors},
            {"io.duplicated", duplicated}};
}

}  // namespace nfsrdma::posix
