// Two mounts of one export, as two machines would have it:
// nfsrdma_two_mounts DIR_A DIR_B [--rounds N] [NAME...]
//
// What is written and closed through A must be what is opened and read through B (close-to-open
// consistency), and what is made, renamed and removed there must be so here when the attributes'
// time is over (run it with actimeo=1: kSoon). A and B may be one directory, where all is true at
// once. Exit status 0: all of it was so.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <functional>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/prng.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::two_mounts {
namespace {

// Far beyond every time-out of attributes, entries and negative entries (5 s), on a slow machine.
constexpr std::chrono::seconds kSoon{20};

struct World {
    std::string a;
    std::string b;
    std::uint64_t rounds = 1000;
};

[[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "two_mounts: %s\n", what.c_str());
    std::exit(1);
}
void check(bool good, const std::string& what) {
    if (!good) fail(what + ": " + std::strerror(errno));
}

std::string pattern(std::size_t len, std::uint64_t seed) {
    std::string out(len, 0);
    Prng prng(seed);
    for (std::size_t i = 0; i < len; i += 8) {
        const std::uint64_t word = prng.next();
        std::memcpy(out.data() + i, &word, std::min<std::size_t>(8, len - i));
    }
    return out;
}

UniqueFd open_file(const std::string& name, int flags) {
    UniqueFd file(::open(name.c_str(), flags | O_CLOEXEC, 0644));
    check(static_cast<bool>(file), "open " + name);
    return file;
}
void write_all(int fd, std::string_view data, const std::string& name) {
    while (!data.empty()) {
        const ssize_t written = ::write(fd, data.data(), data.size());
        check(written > 0, "write " + name);
        data.remove_prefix(static_cast<std::size_t>(written));
    }
}
void put(const std::string& name, std::string_view data, int flags = O_CREAT | O_TRUNC) {
    UniqueFd file = open_file(name, O_WRONLY | flags);
    write_all(file.get(), data, name);
    check(::close(file.release()) == 0, "close " + name);
}
std::string read_fd(int fd, const std::string& name) {
    std::string out;
    std::vector<char> piece(1 << 18);
    for (;;) {
        const ssize_t got = ::pread(fd, piece.data(), piece.size(), static_cast<off_t>(out.size()));
        check(got >= 0, "read " + name);
        if (got == 0) return out;
        out.append(piece.data(), static_cast<std::size_t>(got));
    }
}
std::string get(const std::string& name) {
    return read_fd(open_file(name, O_RDONLY).get(), name);
}
void same(std::string_view got, std::string_view expected, const std::string& what) {
    if (got == expected) return;
    const std::size_t common = std::min(got.size(), expected.size());
    std::size_t at = 0;
    while (at < common && got[at] == expected[at])
        ++at;
    fail(what + ": " + std::to_string(got.size()) + " bytes, not " +
         std::to_string(expected.size()) + ", different at " + std::to_string(at));
}
bool exists(const std::string& name) {
    struct stat st {};
    return ::lstat(name.c_str(), &st) == 0;
}
std::vector<std::string> names_in(const std::string& directory) {
    std::vector<std::string> names;
    DIR* dir = ::opendir(directory.c_str());
    check(dir != nullptr, "opendir " + directory);
    while (const dirent* entry = ::readdir(dir))
        if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
    ::closedir(dir);
    std::sort(names.begin(), names.end());
    return names;
}
// Waits until it is so: what the two see of each other's names may be as old as a time-out.
void soon(const std::string& what, const std::function<bool()>& so) {
    const auto until = std::chrono::steady_clock::now() + kSoon;
    while (!so()) {
        if (std::chrono::steady_clock::now() > until) fail("never seen: " + what);
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}
// Longer than a tick of the clock that file systems stamp by: two changes in one tick look alike to
// any NFSv3 client when the size stays.
void tick() {
    std::this_thread::sleep_for(std::chrono::milliseconds(12));
}
struct stat stat_of(int fd) {
    struct stat st {};
    check(::fstat(fd, &st) == 0, "fstat");
    return st;
}

// B115: written and closed here, opened and read there; larger, smaller, and of the same size,
// where only the times tell.
void close_to_open(const World& w) {
    Prng prng(7);
    std::size_t size = 1000;
    for (std::uint64_t round = 0; round < w.rounds; ++round) {
        const std::string& from = round % 4 == 3 ? w.b : w.a;
        const std::string& to = round % 4 == 3 ? w.a : w.b;
        if (round % 3 == 0) size = prng.below(200000);
        if (round % 3 == 1) size = size / 2 + prng.below(100);
        const std::string data = pattern(size, round);
        const std::string what = "round " + std::to_string(round);
        tick();
        // By O_TRUNC, by writing over what is there and cutting the rest, or by another file.
        if (round % 5 < 2) {
            put(from + "/f", data);
        } else if (round % 5 < 4) {
            UniqueFd file = open_file(from + "/f", O_RDWR | O_CREAT);
            write_all(file.get(), data, "f");
            check(::ftruncate(file.get(), static_cast<off_t>(size)) == 0, "ftruncate");
            check(::close(file.release()) == 0, "close");
        } else {
            put(from + "/f.new", data);
            check(::rename((from + "/f.new").c_str(), (from + "/f").c_str()) == 0, "rename");
            soon(what + ", rename over f", [&] { return get(to + "/f") == data; });
        }
        const UniqueFd reader = open_file(to + "/f", O_RDONLY);
        if (stat_of(reader.get()).st_size != static_cast<off_t>(size))
            fail(what + ": fstat after open says " + std::to_string(stat_of(reader.get()).st_size) +
                 ", not " + std::to_string(size));
        same(read_fd(reader.get(), "f"), data, what);
        struct stat st {};
        check(::stat((to + "/f").c_str(), &st) == 0, "stat");
        if (st.st_size != static_cast<off_t>(size)) fail(what + ": stat after open");
    }
}

// The same with one that keeps the file open all the time and only looks again by another open.
void beside_an_open_file(const World& w) {
    put(w.a + "/kept", pattern(50000, 1));
    const UniqueFd kept = open_file(w.b + "/kept", O_RDONLY);
    same(read_fd(kept.get(), "kept"), pattern(50000, 1), "kept, first");
    for (std::uint64_t round = 2; round < 52; ++round) {
        const std::string data = pattern(round % 2 == 0 ? 50000 : 40000 + round, round);
        tick();
        put(w.a + "/kept", data);
        same(get(w.b + "/kept"), data, "kept, round " + std::to_string(round));
        same(read_fd(kept.get(), "kept"), data, "kept by its first descriptor");
    }
}

// Writes through a map, and closes.
void put_mapped(const std::string& name, std::size_t at, std::string_view data) {
    constexpr std::size_t kPage = 4096;
    const std::size_t start = at / kPage * kPage;
    const std::size_t size = at + data.size() - start;
    UniqueFd file = open_file(name, O_RDWR);
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                          static_cast<off_t>(start));
    check(memory != MAP_FAILED, "mmap");
    std::memcpy(static_cast<char*>(memory) + (at - start), data.data(), data.size());
    check(::msync(memory, size, MS_SYNC) == 0, "msync");
    check(::munmap(memory, size) == 0, "munmap");
    check(::fsync(file.get()) == 0, "fsync");
    check(::close(file.release()) == 0, "close");
}

// What is mapped on B is another's new data after the next open. The map is of a descriptor that
// only reads: a client that has the file open for writing may count on being its only writer.
void mapped(const World& w) {
    constexpr std::size_t kSize = 64 << 10;
    std::string model = pattern(kSize, 1);
    put(w.a + "/mapped", model);
    const UniqueFd file = open_file(w.b + "/mapped", O_RDONLY);
    void* at = ::mmap(nullptr, kSize, PROT_READ, MAP_SHARED, file.get(), 0);
    check(at != MAP_FAILED, "mmap");
    const std::string_view view(static_cast<const char*>(at), kSize);
    same(view, model, "mapped, first");
    for (std::uint64_t round = 2; round < 22; ++round) {
        const std::string what = "mapped, round " + std::to_string(round);
        tick();
        model = pattern(kSize, round);
        put(w.a + "/mapped", model, 0);
        same(get(w.b + "/mapped"), model, what + ", read beside the map");
        same(view, model, what);
        tick();
        const std::string piece = pattern(5000, round + 100);
        piece.copy(model.data() + 1000, piece.size());
        put_mapped(w.b + "/mapped", 1000, piece);
        same(get(w.a + "/mapped"), model, what + ", msync seen on A");
        same(view, model, what + ", after msync");
    }
    check(::munmap(at, kSize) == 0, "munmap");
}

// B119 and its kin: names that were looked up in vain, or that were others.
void names(const World& w) {
    for (int round = 0; round < 5; ++round) {
        const std::string n = "/name" + std::to_string(round);
        if (exists(w.b + n)) fail("a name that is not there yet");
        put(w.a + n, "1");
        soon(n + " created", [&] { return exists(w.b + n); });
        check(::rename((w.a + n).c_str(), (w.a + n + "-moved").c_str()) == 0, "rename");
        soon(n + " renamed", [&] { return exists(w.b + n + "-moved") && !exists(w.b + n); });
        check(::unlink((w.a + n + "-moved").c_str()) == 0, "unlink");
        soon(n + " removed", [&] { return !exists(w.b + n + "-moved"); });
        // B119: removed on one, looked up in vain there, made again on the other.
        put(w.b + n, "2");
        check(::unlink((w.b + n).c_str()) == 0, "unlink");
        if (exists(w.b + n)) fail("B119: removed, and still there");
        tick();
        put(w.a + n, "3");
        soon("B119: " + n + " made again", [&] { return exists(w.b + n); });
        same(get(w.b + n), "3", "B119");
        // A directory in its place.
        check(::unlink((w.a + n).c_str()) == 0, "unlink");
        check(::mkdir((w.a + n).c_str(), 0755) == 0, "mkdir");
        put(w.a + n + "/in", "4");
        soon(n + " is a directory", [&] { return exists(w.b + n + "/in"); });
        check(::unlink((w.b + n + "/in").c_str()) == 0, "unlink in the directory of A");
        check(::rmdir((w.b + n).c_str()) == 0, "rmdir of A's directory on B");
        soon(n + " removed by B", [&] { return !exists(w.a + n); });
    }
}

void listings(const World& w) {
    check(::mkdir((w.a + "/list").c_str(), 0755) == 0, "mkdir");
    soon("list", [&] { return exists(w.b + "/list"); });
    std::vector<std::string> expected;
    for (int round = 0; round < 5; ++round) {
        for (int i = 0; i < 100; ++i) {
            expected.push_back("e" + std::to_string(round) + "-" + std::to_string(i));
            put(w.a + "/list/" + expected.back(), "");
        }
        std::sort(expected.begin(), expected.end());
        soon("a full listing", [&] { return names_in(w.b + "/list") == expected; });
        const std::string gone = expected[static_cast<std::size_t>(round) * 7];
        check(::unlink((w.b + "/list/" + gone).c_str()) == 0, "unlink on B");
        expected.erase(std::find(expected.begin(), expected.end(), gone));
        soon("a shorter listing", [&] { return names_in(w.a + "/list") == expected; });
    }
}

void attributes(const World& w) {
    put(w.a + "/attributes", "x");
    soon("attributes", [&] { return exists(w.b + "/attributes"); });
    const auto mode_there = [&] {
        struct stat st {};
        check(::stat((w.b + "/attributes").c_str(), &st) == 0, "stat");
        return st.st_mode & 07777U;
    };
    for (const mode_t mode : {0600U, 0755U, 0444U, 0640U}) {
        check(::chmod((w.a + "/attributes").c_str(), mode) == 0, "chmod");
        soon("a chmod", [&] { return mode_there() == mode; });
    }
    for (std::size_t size = 10; size < 100000; size *= 7) {
        put(w.a + "/attributes", pattern(size, size));
        soon("a size by stat alone", [&] {
            struct stat st {};
            check(::stat((w.b + "/attributes").c_str(), &st) == 0, "stat");
            return st.st_size == static_cast<off_t>(size);
        });
    }
}

void appended_in_turn(const World& w) {
    std::string model;
    put(w.a + "/log", "");
    for (std::uint64_t round = 0; round < 200; ++round) {
        const std::string line = "line " + std::to_string(round) + " of both\n" +
                                 (round % 10 == 0 ? pattern(5000, round) : "");
        const std::string& side = round % 2 == 0 ? w.a : w.b;
        const std::string& other = round % 2 == 0 ? w.b : w.a;
        put(side + "/log", line, O_APPEND);
        model += line;
        same(get(other + "/log"), model, "log after line " + std::to_string(round));
    }
}

// B117: unlinked on A while B has it open, and the reverse.
void removed_while_open(const World& w) {
    put(w.a + "/open", "still there");
    const UniqueFd here = open_file(w.a + "/open", O_RDONLY);
    check(::unlink((w.a + "/open").c_str()) == 0, "unlink");
    same(read_fd(here.get(), "open"), "still there", "B117: unlinked where it is open");
    soon("open removed", [&] { return !exists(w.b + "/open"); });
    const auto silly = [&] {
        int count = 0;
        DIR* dir = ::opendir(w.b.c_str());
        check(dir != nullptr, "opendir");
        while (const dirent* entry = ::readdir(dir))
            if (std::string_view(entry->d_name).substr(0, 4) == ".nfs") ++count;
        ::closedir(dir);
        return count;
    };
    if (silly() > 1) fail("B117: more than one silly name");
}

// An old file that the other replaced: the one who has it open may read it or be told ESTALE; a new
// open gets the new one.
void replaced_while_open(const World& w) {
    for (int round = 0; round < 20; ++round) {
        const std::string text = "version " + std::to_string(round);
        put(w.b + "/current", "old");
        soon("the old", [&] { return exists(w.a + "/current") && get(w.a + "/current") == "old"; });
        const UniqueFd old = open_file(w.a + "/current", O_RDONLY);
        put(w.b + "/next", text);
        check(::rename((w.b + "/next").c_str(), (w.b + "/current").c_str()) == 0, "rename");
        soon("the new", [&] { return get(w.a + "/current") == text; });
        std::array<char, 100> bytes{};
        const ssize_t got = ::pread(old.get(), bytes.data(), bytes.size(), 0);
        if (got < 0) check(errno == ESTALE, "read of a file that was replaced");
        if (got >= 0) {
            same({bytes.data(), static_cast<std::size_t>(got)}, "old", "the replaced file");
        }
    }
}

// A change of ours, in an answer of which the server tells that another's came before it, does not
// hide that one.
void overwritten_before_a_change(const World& w) {
    constexpr std::size_t kSize = 50000;
    put(w.a + "/f", pattern(kSize, 0));
    const UniqueFd kept = open_file(w.a + "/f", O_RDWR);
    for (std::uint64_t round = 1; round < 21; ++round) {
        const std::string what = "overwritten, round " + std::to_string(round);
        (void)get(w.a + "/f");
        tick();
        std::string data = pattern(kSize, round);
        put(w.b + "/f", data, 0);
        tick();
        if (round % 2 == 0) {
            check(::fchmod(kept.get(), round % 4 == 0 ? 0600 : 0644) == 0, "fchmod");
        } else {
            check(::pwrite(kept.get(), "x", 1, kSize - 1) == 1, "pwrite");
            check(::fsync(kept.get()) == 0, "fsync");
            data.back() = 'x';
        }
        same(get(w.a + "/f"), data, what);
        same(get(w.b + "/f"), data, what + ", where it was written");
    }
}

struct Case {
    const char* name;
    void (*run)(const World& w);
};
constexpr std::array<Case, 10> kCases = {
    {{"close_to_open", close_to_open},
     {"beside_an_open_file", beside_an_open_file},
     {"mapped", mapped},
     {"names", names},
     {"listings", listings},
     {"attributes", attributes},
     {"appended_in_turn", appended_in_turn},
     {"removed_while_open", removed_while_open},
     {"replaced_while_open", replaced_while_open},
     {"overwritten_before_a_change", overwritten_before_a_change}}};

void run_case(const World& all, const Case& one) {
    World w = all;
    w.a += std::string("/") + one.name;
    w.b += std::string("/") + one.name;
    check(::mkdir(w.a.c_str(), 0755) == 0, "mkdir " + w.a);
    soon(w.b, [&] { return exists(w.b); });
    const auto begin = std::chrono::steady_clock::now();
    one.run(w);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("two_mounts: %-20s %.1f s\n", one.name, took.count());
    std::fflush(stdout);
}

}  // namespace
}  // namespace nfsrdma::two_mounts

int main(int argc, char** argv) {
    namespace here = nfsrdma::two_mounts;
    here::World world;
    std::vector<std::string_view> wanted;
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        if (argument == "--rounds" && i + 1 < argc) {
            const std::string_view value = argv[++i];
            const char* end = value.data() + value.size();
            if (std::from_chars(value.data(), end, world.rounds).ptr != end) world.b.clear();
        } else if (world.a.empty()) {
            world.a = argument;
        } else if (world.b.empty()) {
            world.b = argument;
        } else {
            wanted.push_back(argument);
        }
    }
    if (world.b.empty() || world.a[0] == '-') {
        std::fprintf(stderr, "usage: nfsrdma_two_mounts DIR_A DIR_B [--rounds N] [NAME...]\n");
        return 2;
    }
    for (const here::Case& one : here::kCases)
        if (wanted.empty() || std::find(wanted.begin(), wanted.end(), one.name) != wanted.end())
            here::run_case(world, one);
    std::printf("two_mounts: all as it should be\n");
    return 0;
}
