// Random operations on one file, every byte compared with a model in memory:
// nfsrdma_fsx FILE [--seed N] [--operations N] [--length N] [--no-mmap] [--direct] [--verbose]
//
// Writes, reads, truncates, maps, appends, closes and opens, syncs and looks at the file, by
// offsets and lengths that like the ends of pages. --direct: some of the reads and writes are
// O_DIRECT's. On a difference the last operations and the seed are printed, the file stays, and
// FILE.good has what was expected. Exit status 0: every byte was right.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "base/prng.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::fsx {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLengthMax = std::size_t{64} << 20;
constexpr std::size_t kSpanMax = std::size_t{64} << 10;  // of one operation; now and then 16 of it
constexpr std::size_t kRemembered = 40;

struct Arguments {
    std::string file;
    std::uint64_t seed = 1;
    std::uint64_t operations = 10000;
    std::size_t length_max = 256 << 10;
    bool mapped = true;
    bool direct = false;
    bool verbose = false;
};

enum class What : std::uint8_t {
    write,
    append,
    read,
    truncate,
    truncate_by_name,
    map_read,
    map_write,
    map_write_unsynced,
    close_and_open,
    open_truncated,
    fsync,
    fdatasync,
    look,
    direct_read,
    direct_write,
    read_by_another,
};
constexpr std::array<const char*, 16> kNames = {"write",
                                                "append",
                                                "read",
                                                "truncate",
                                                "truncate by name",
                                                "map read",
                                                "map write",
                                                "map write, no msync",
                                                "close and open",
                                                "open O_TRUNC",
                                                "fsync",
                                                "fdatasync",
                                                "stat",
                                                "direct read",
                                                "direct write",
                                                "read by another descriptor"};

struct Step {
    std::uint64_t number = 0;
    What what = What::look;
    std::size_t offset = 0;
    std::size_t len = 0;
    std::size_t size_before = 0;
};

class Exerciser {
  public:
    explicit Exerciser(const Arguments& arguments)
        : arguments_(arguments), prng_(arguments.seed), direct_(kSpanMax + kPage) {
        model_.reserve(arguments.length_max);
        std::align(kPage, kSpanMax, aligned_, space_);
    }
    int run();

  private:
    bool open(int flags);
    void step();
    void place(Step& s);
    void act(const Step& s);
    What choose();
    std::size_t somewhere(std::size_t bound);
    std::size_t some_length(std::size_t bound);
    void choose_range(Step& s, std::size_t bound);
    void do_write(const Step& s);
    void do_append(const Step& s);
    void do_read(const Step& s, int fd);
    void do_truncate(const Step& s);
    void do_map(const Step& s);
    void do_close(const Step& s);
    void do_direct_read(const Step& s);
    void do_direct_write(const Step& s);
    void do_look();
    void fill(std::size_t offset, std::size_t len);
    void compare(std::string_view got, std::size_t offset);
    void check(bool good, const char* what);
    void whole();
    [[noreturn]] void fail(const std::string& what);

    const Arguments& arguments_;
    Prng prng_;
    UniqueFd file_;
    UniqueFd direct_file_;
    std::string model_;   // what the file must hold
    std::string buffer_;  // what was read
    std::vector<char> direct_;
    void* aligned_ = direct_.data();
    std::size_t space_ = direct_.size();
    std::array<Step, kRemembered> last_;
    std::uint64_t done_ = 0;
    std::uint8_t stamp_ = 0;
};

void Exerciser::fail(const std::string& what) {
    std::fflush(stdout);
    std::fprintf(stderr, "fsx: FAILED at operation %llu with --seed %llu: %s\n",
                 static_cast<unsigned long long>(done_),
                 static_cast<unsigned long long>(arguments_.seed), what.c_str());
    const std::uint64_t first = done_ + 1 > kRemembered ? done_ + 1 - kRemembered : 0;
    for (std::uint64_t n = first; n <= done_; ++n) {
        const Step& s = last_[n % kRemembered];
        std::fprintf(stderr, "%8llu %-28s at %8zu (0x%06zx) of %7zu; size was %zu\n",
                     static_cast<unsigned long long>(s.number),
                     kNames[static_cast<std::size_t>(s.what)], s.offset, s.offset, s.len,
                     s.size_before);
    }
    const std::string good = arguments_.file + ".good";
    const UniqueFd out(::open(good.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (::write(out.get(), model_.data(), model_.size()) != static_cast<ssize_t>(model_.size()))
        std::fprintf(stderr, "fsx: %s: %s\n", good.c_str(), std::strerror(errno));
    std::exit(1);
}

void Exerciser::check(bool good, const char* what) {
    if (!good) fail(std::string(what) + ": " + std::strerror(errno));
}

void Exerciser::compare(std::string_view got, std::size_t offset) {
    const std::string_view expected = std::string_view(model_).substr(offset, got.size());
    if (got == expected) return;
    const auto at = static_cast<std::size_t>(
        std::mismatch(got.begin(), got.end(), expected.begin(), expected.end()).first -
        got.begin());
    std::size_t wrong = 0;
    for (std::size_t i = at; i < std::min(got.size(), expected.size()); ++i)
        wrong += got[i] != expected[i] ? 1 : 0;
    std::array<char, 160> text{};
    std::snprintf(text.data(), text.size(),
                  "byte %zu (0x%zx) is 0x%02x, not 0x%02x; %zu bytes of %zu are wrong", offset + at,
                  offset + at, at < got.size() ? got[at] & 0xff : 0,
                  at < expected.size() ? expected[at] & 0xff : 0, wrong, got.size());
    fail(text.data());
}

bool Exerciser::open(int flags) {
    file_.reset(::open(arguments_.file.c_str(), O_RDWR | O_CLOEXEC | flags, 0644));
    if (!file_) return false;
    if (!arguments_.direct) return true;
    direct_file_.reset(::open(arguments_.file.c_str(), O_RDWR | O_CLOEXEC | O_DIRECT));
    return static_cast<bool>(direct_file_);
}

// Half of them beside the end of a page.
std::size_t Exerciser::somewhere(std::size_t bound) {
    if (bound == 0) return 0;
    std::size_t at = prng_.below(bound);
    if (prng_.below(2) == 0) {
        at = at / kPage * kPage + prng_.below(3);
        at = at > 0 ? at - 1 : 0;
    }
    return std::min(at, bound - 1);
}
std::size_t Exerciser::some_length(std::size_t bound) {
    if (bound == 0) return 0;
    const std::size_t most = prng_.below(32) == 0 ? bound : std::min(bound, kSpanMax);
    if (prng_.below(3) == 0) return std::min(most, 1 + prng_.below(100));
    if (prng_.below(3) == 0) return std::min(most, (1 + prng_.below(8)) * kPage);
    return 1 + prng_.below(most);
}
void Exerciser::choose_range(Step& s, std::size_t bound) {
    s.offset = somewhere(bound);
    s.len = some_length(bound - s.offset);
}

// Each write has bytes of its own, so that old data in its place is seen.
void Exerciser::fill(std::size_t offset, std::size_t len) {
    if (model_.size() < offset + len) model_.resize(offset + len);
    ++stamp_;
    std::uint64_t word = prng_.next();
    for (std::size_t i = 0; i < len; ++i) {
        if (i % 8 == 0) word = word * 6364136223846793005u + 1442695040888963407u;
        model_[offset + i] = static_cast<char>(i % 16 == 0 ? stamp_ : word >> (i % 8 * 8));
    }
}

void Exerciser::do_write(const Step& s) {
    fill(s.offset, s.len);
    check(::pwrite(file_.get(), model_.data() + s.offset, s.len, static_cast<off_t>(s.offset)) ==
              static_cast<ssize_t>(s.len),
          "pwrite");
}
void Exerciser::do_append(const Step& s) {
    fill(s.offset, s.len);
    const UniqueFd appending(::open(arguments_.file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    check(::write(appending.get(), model_.data() + s.offset, s.len) == static_cast<ssize_t>(s.len),
          "append");
}
void Exerciser::do_read(const Step& s, int fd) {
    buffer_.assign(s.len, '?');
    const ssize_t got = ::pread(fd, buffer_.data(), s.len, static_cast<off_t>(s.offset));
    check(got == static_cast<ssize_t>(s.len), "pread is short");
    compare(buffer_, s.offset);
}
void Exerciser::do_truncate(const Step& s) {
    model_.resize(s.offset);
    const auto size = static_cast<off_t>(s.offset);
    check(s.what == What::truncate ? ::ftruncate(file_.get(), size) == 0
                                   : ::truncate(arguments_.file.c_str(), size) == 0,
          "truncate");
}
void Exerciser::do_map(const Step& s) {
    const std::size_t start = s.offset / kPage * kPage;
    const std::size_t size = s.offset + s.len - start;
    const bool writing = s.what != What::map_read;
    // Beyond the end there is nothing to write to.
    if (writing && model_.size() < s.offset + s.len) {
        model_.resize(s.offset + s.len);
        check(::ftruncate(file_.get(), static_cast<off_t>(model_.size())) == 0, "ftruncate");
    }
    void* at = ::mmap(nullptr, size, PROT_READ | (writing ? PROT_WRITE : 0), MAP_SHARED,
                      file_.get(), static_cast<off_t>(start));
    check(at != MAP_FAILED, "mmap");
    char* bytes = static_cast<char*>(at);
    if (writing) {
        fill(s.offset, s.len);
        std::memcpy(bytes + (s.offset - start), model_.data() + s.offset, s.len);
        if (s.what == What::map_write) check(::msync(at, size, MS_SYNC) == 0, "msync");
    } else {
        compare({bytes, size}, start);
        const std::size_t rest = (kPage - model_.size() % kPage) % kPage;
        if (start + size == model_.size() &&
            std::any_of(bytes + size, bytes + size + rest, [](char c) { return c != 0; }))
            fail("what is mapped beyond the end is not zero");
    }
    check(::munmap(at, size) == 0, "munmap");
}
void Exerciser::do_close(const Step& s) {
    check(::close(file_.release()) == 0, "close");
    if (s.what == What::open_truncated) model_.clear();
    check(open(s.what == What::open_truncated ? O_TRUNC : 0), "open");
}
void Exerciser::do_direct_read(const Step& s) {
    std::memset(aligned_, '?', kSpanMax);
    const std::size_t expected = std::min(s.len, model_.size() - s.offset);
    check(::pread(direct_file_.get(), aligned_, s.len, static_cast<off_t>(s.offset)) ==
              static_cast<ssize_t>(expected),
          "direct pread");
    compare({static_cast<char*>(aligned_), expected}, s.offset);
}
void Exerciser::do_direct_write(const Step& s) {
    fill(s.offset, s.len);
    std::memcpy(aligned_, model_.data() + s.offset, s.len);
    check(::pwrite(direct_file_.get(), aligned_, s.len, static_cast<off_t>(s.offset)) ==
              static_cast<ssize_t>(s.len),
          "direct pwrite");
}
void Exerciser::do_look() {
    struct stat st {};
    check(::stat(arguments_.file.c_str(), &st) == 0, "stat");
    if (st.st_size != static_cast<off_t>(model_.size()))
        fail("stat says " + std::to_string(st.st_size) + ", not " + std::to_string(model_.size()));
    check(::fstat(file_.get(), &st) == 0, "fstat");
    if (st.st_size != static_cast<off_t>(model_.size()))
        fail("fstat says " + std::to_string(st.st_size) + ", not " + std::to_string(model_.size()));
}

// The whole file through a descriptor of its own.
void Exerciser::whole() {
    const UniqueFd reader(::open(arguments_.file.c_str(), O_RDONLY | O_CLOEXEC));
    check(static_cast<bool>(reader), "open");
    std::size_t at = 0;
    buffer_.assign(std::size_t{1} << 20, '?');
    for (;;) {
        const ssize_t got =
            ::pread(reader.get(), buffer_.data(), buffer_.size(), static_cast<off_t>(at));
        check(got >= 0, "read");
        if (got == 0) break;
        if (at + static_cast<std::size_t>(got) > model_.size()) fail("more bytes than its size");
        compare(std::string_view(buffer_).substr(0, static_cast<std::size_t>(got)), at);
        at += static_cast<std::size_t>(got);
    }
    if (at != model_.size()) fail("fewer bytes than its size");
}

What Exerciser::choose() {
    constexpr std::array<std::pair<What, unsigned>, 16> kShares = {{
        {What::write, 25},
        {What::append, 4},
        {What::read, 22},
        {What::truncate, 6},
        {What::truncate_by_name, 3},
        {What::map_read, 8},
        {What::map_write, 3},
        {What::map_write_unsynced, 6},
        {What::close_and_open, 3},
        {What::open_truncated, 1},
        {What::fsync, 2},
        {What::fdatasync, 1},
        {What::look, 6},
        {What::direct_read, 4},
        {What::direct_write, 3},
        {What::read_by_another, 3},
    }};
    std::uint64_t left = prng_.below(100);
    for (const auto& [what, share] : kShares) {
        if (left < share) return what;
        left -= share;
    }
    return What::look;
}

// Where, and how long.
void Exerciser::place(Step& s) {
    const std::size_t room = arguments_.length_max;
    switch (s.what) {
        case What::write:
        case What::map_write:
        case What::map_write_unsynced:
            choose_range(s, room);
            break;
        case What::direct_read:
            s.offset = somewhere(model_.size()) / kPage * kPage;
            s.len = (1 + prng_.below(kSpanMax / kPage)) * kPage;
            break;
        case What::direct_write:
            s.offset = prng_.below(room / kPage - kSpanMax / kPage) * kPage;
            s.len = (1 + prng_.below(kSpanMax / kPage)) * kPage;
            break;
        case What::append:
            s.offset = model_.size();
            s.len = std::min(some_length(kSpanMax), room - model_.size());
            break;
        case What::truncate:
        case What::truncate_by_name:
            s.offset = somewhere(room);
            break;
        case What::read:
        case What::read_by_another:
        case What::map_read:
            choose_range(s, model_.size());
            break;
        case What::close_and_open:
        case What::open_truncated:
        case What::fsync:
        case What::fdatasync:
        case What::look:
            break;
    }
}

void Exerciser::act(const Step& s) {
    switch (s.what) {
        case What::write:
            return do_write(s);
        case What::append:
            return do_append(s);
        case What::read:
            return do_read(s, file_.get());
        case What::truncate:
        case What::truncate_by_name:
            return do_truncate(s);
        case What::map_read:
        case What::map_write:
        case What::map_write_unsynced:
            return s.len != 0 ? do_map(s) : do_look();
        case What::close_and_open:
        case What::open_truncated:
            return do_close(s);
        case What::fsync:
            return check(::fsync(file_.get()) == 0, "fsync");
        case What::fdatasync:
            return check(::fdatasync(file_.get()) == 0, "fdatasync");
        case What::look:
            return do_look();
        case What::direct_read:
            return do_direct_read(s);
        case What::direct_write:
            return do_direct_write(s);
        case What::read_by_another: {
            const UniqueFd reader(::open(arguments_.file.c_str(), O_RDONLY | O_CLOEXEC));
            return do_read(s, reader.get());
        }
    }
}

void Exerciser::step() {
    Step s{done_, choose(), 0, 0, model_.size()};
    const bool maps =
        s.what == What::map_read || s.what == What::map_write || s.what == What::map_write_unsynced;
    const bool directly = s.what == What::direct_read || s.what == What::direct_write;
    if (maps && !arguments_.mapped) s.what = s.what == What::map_read ? What::read : What::write;
    if (directly && !arguments_.direct)
        s.what = s.what == What::direct_read ? What::read : What::write;
    place(s);
    last_[done_ % kRemembered] = s;
    if (arguments_.verbose)
        std::printf("%llu %s at %zu of %zu\n", static_cast<unsigned long long>(done_),
                    kNames[static_cast<std::size_t>(s.what)], s.offset, s.len);
    act(s);
}

int Exerciser::run() {
    const auto begin = std::chrono::steady_clock::now();
    check(open(O_CREAT | O_TRUNC), arguments_.file.c_str());
    for (; done_ < arguments_.operations; ++done_) {
        step();
        if (done_ % 1000 == 999) whole();
    }
    check(::close(file_.release()) == 0, "close");
    whole();
    check(::unlink(arguments_.file.c_str()) == 0, "unlink");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("fsx: %llu operations, seed %llu, %.1f s: every byte right\n",
                static_cast<unsigned long long>(done_),
                static_cast<unsigned long long>(arguments_.seed), took.count());
    return 0;
}

bool number(const char* text, std::uint64_t& value) {
    const char* end = text + std::strlen(text);
    const auto parsed = std::from_chars(text, end, value);
    return parsed.ec == std::errc() && parsed.ptr == end;
}

bool parse(int argc, char** argv, Arguments& arguments) {
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        const bool has_value = i + 1 < argc;
        std::uint64_t value = 0;
        if (argument == "--no-mmap") {
            arguments.mapped = false;
        } else if (argument == "--direct") {
            arguments.direct = true;
        } else if (argument == "--verbose") {
            arguments.verbose = true;
        } else if (argument == "--seed" && has_value) {
            if (!number(argv[++i], arguments.seed)) return false;
        } else if (argument == "--operations" && has_value) {
            if (!number(argv[++i], arguments.operations)) return false;
        } else if (argument == "--length" && has_value) {
            if (!number(argv[++i], value) || value < 2 * kSpanMax || value > kLengthMax)
                return false;
            arguments.length_max = value;
        } else if (!argument.empty() && argument[0] != '-' && arguments.file.empty()) {
            arguments.file = argument;
        } else {
            return false;
        }
    }
    return !arguments.file.empty();
}

}  // namespace
}  // namespace nfsrdma::fsx

int main(int argc, char** argv) {
    nfsrdma::fsx::Arguments arguments;
    if (!nfsrdma::fsx::parse(argc, argv, arguments)) {
        std::fprintf(stderr,
                     "usage: nfsrdma_fsx FILE [--seed N] [--operations N] [--length N] "
                     "[--no-mmap] [--direct] [--verbose]\n"
                     "--length: the file's largest size, 131072 to 67108864 bytes\n");
        return 2;
    }
    nfsrdma::fsx::Exerciser exerciser(arguments);
    return exerciser.run();
}
