// mmap: shared and private, beside read and write, and at the ends of files.
#include <atomic>
#include <csignal>
#include <cstring>
#include <sys/mman.h>

#include "tests/e2e/posix.hpp"

namespace nfsrdma::posix {
namespace {

constexpr std::size_t kPage = 4096;

// Mapped memory, or nothing where that was refused (errno).
class Map {
  public:
    Map(int fd, std::size_t size, int protection, int flags, off_t offset = 0) : size_(size) {
        void* at = ::mmap(nullptr, size, protection, flags, fd, offset);
        if (at != MAP_FAILED) memory_ = static_cast<char*>(at);
    }
    Map(const Map&) = delete;
    Map& operator=(const Map&) = delete;
    ~Map() { unmap(); }
    explicit operator bool() const { return memory_ != nullptr; }
    char* data() const { return memory_; }
    std::string_view view(std::size_t at, std::size_t len) const { return {memory_ + at, len}; }
    int sync(int flags = MS_SYNC) const { return ::msync(memory_, size_, flags); }
    void unmap() {
        if (memory_ != nullptr) ::munmap(memory_, size_);
        memory_ = nullptr;
    }

  private:
    const std::size_t size_;
    char* memory_ = nullptr;
};

void shared(Checks& t) {
    const std::string data = pattern(4 * kPage, 1);
    NR_HOLDS(put("f", data));
    const UniqueFd file = open_file("f", O_RDWR);
    Map map(file.get(), 4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED);
    if (!NR_HOLDS(map.data() != nullptr)) return;
    NR_EQ(data, map.view(0, data.size()));
    std::memcpy(map.data() + kPage - 2, "mapped", 6);
    NR_OK(map.sync());
    NR_EQ("mapped", read_at(file.get(), kPage - 2, 6));
    NR_EQ("mapped", get("f").substr(kPage - 2, 6));
    // A write is seen in the map at once, and the reverse.
    NR_EQ(5, ::pwrite(file.get(), "write", 5, 2 * kPage));
    NR_EQ("write", map.view(2 * kPage, 5));
    std::memcpy(map.data() + 3 * kPage, "again", 5);
    NR_EQ("again", read_at(file.get(), 3 * kPage, 5));
    NR_OK(map.sync(MS_ASYNC));
    NR_EQ(static_cast<long>(4 * kPage), stat_of("f").st_size);
    std::memcpy(map.data(), "last", 4);
    map.unmap();
    NR_EQ("last", read_at(file.get(), 0, 4));
    NR_OK(::fsync(file.get()));
    NR_EQ("last", get("f").substr(0, 4));
}

// The map outlives its descriptor, and its name.
void after_close(Checks& t) {
    const std::string data = pattern(3 * kPage, 2);
    NR_HOLDS(put("f", data));
    UniqueFd file = open_file("f", O_RDWR);
    Map map(file.get(), 3 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED);
    NR_OK(::close(file.release()));
    if (!NR_HOLDS(map.data() != nullptr)) return;
    std::memcpy(map.data() + 10, "closed", 6);
    NR_OK(map.sync());
    NR_EQ("closed", get("f").substr(10, 6));
    NR_OK(::unlink("f"));
    NR_EQ("closed", map.view(10, 6));
    NR_EQ(std::string_view(data).substr(kPage), map.view(kPage, 2 * kPage));
    std::memcpy(map.data() + kPage, "unlinked", 8);
    NR_OK(map.sync());
    NR_EQ("unlinked", map.view(kPage, 8));
    map.unmap();
    NR_EQ(0, static_cast<int>(names_left_in(".").size()));
}

void private_copy(Checks& t) {
    NR_HOLDS(put("f", pattern(2 * kPage, 3)));
    const UniqueFd file = open_file("f", O_RDONLY);
    const Map map(file.get(), 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    if (!NR_HOLDS(map.data() != nullptr)) return;
    std::memcpy(map.data(), "private", 7);
    NR_EQ("private", map.view(0, 7));
    NR_EQ(pattern(2 * kPage, 3), get("f"));
    NR_HOLDS(put("g", pattern(2 * kPage, 4)));
    const UniqueFd write_only = open_file("g", O_WRONLY);
    NR_HOLDS(!Map(write_only.get(), kPage, PROT_READ, MAP_PRIVATE) && errno == EACCES);
    NR_HOLDS(!Map(file.get(), kPage, PROT_READ | PROT_WRITE, MAP_SHARED) && errno == EACCES);
    NR_HOLDS(!Map(file.get(), kPage, PROT_READ, MAP_PRIVATE, 100) && errno == EINVAL);
}

// What a sanitizer makes of the signal is not asked.
int touch(const char* at) {
    return in_child([at] {
        if (::signal(SIGBUS, SIG_DFL) == SIG_ERR) ::_exit(2);
        std::atomic_ref<char> byte(*const_cast<char*>(at));
        ::_exit(byte.load() == 0 ? 0 : 1);
    });
}

void beyond_the_end(Checks& t) {
    NR_HOLDS(put("f", pattern(100, 5)));
    const UniqueFd file = open_file("f", O_RDWR);
    const Map map(file.get(), 3 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED);
    if (!NR_HOLDS(map.data() != nullptr)) return;
    // The rest of the last page reads as zeros; what is written there is not of the file.
    NR_EQ(std::string(kPage - 100, '\0'), map.view(100, kPage - 100));
    std::memset(map.data() + 100, 'x', 50);
    NR_OK(map.sync());
    NR_EQ(pattern(100, 5), get("f"));
    NR_EQ(100, stat_of("f").st_size);
    NR_EQ(128 + SIGBUS, touch(map.data() + kPage));
    NR_EQ(128 + SIGBUS, touch(map.data() + 2 * kPage));
    // Grown: there.
    NR_OK(::ftruncate(file.get(), 2 * kPage));
    NR_EQ(0, touch(map.data() + kPage));
    NR_EQ(128 + SIGBUS, touch(map.data() + 2 * kPage));
    NR_EQ(std::string(kPage, '\0'), map.view(kPage, kPage));
    NR_EQ(4, ::pwrite(file.get(), "more", 4, 2 * kPage));
    NR_EQ("more", map.view(2 * kPage, 4));
    NR_OK(::ftruncate(file.get(), 10));
    NR_EQ(128 + SIGBUS, touch(map.data() + kPage));
    NR_EQ(pattern(100, 5).substr(0, 10), get("f"));
}

// What was mapped beyond the end by a shorter file must not come back when it grows.
void zeros_after_growth(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    NR_OK(::ftruncate(file.get(), kPage));
    const Map map(file.get(), kPage, PROT_READ | PROT_WRITE, MAP_SHARED);
    if (!NR_HOLDS(map.data() != nullptr)) return;
    std::memset(map.data(), 'a', kPage);
    NR_OK(map.sync());
    NR_OK(::ftruncate(file.get(), 1000));
    NR_OK(::ftruncate(file.get(), kPage));
    NR_EQ(std::string(1000, 'a') + std::string(kPage - 1000, '\0'), get("f"));
    NR_EQ(std::string(kPage - 1000, '\0'), map.view(1000, kPage - 1000));
}

void between_processes(Checks& t) {
    NR_HOLDS(put("f", std::string(kPage, 0)));
    const UniqueFd file = open_file("f", O_RDWR);
    const Map map(file.get(), kPage, PROT_READ | PROT_WRITE, MAP_SHARED);
    if (!NR_HOLDS(map.data() != nullptr)) return;
    for (int i = 1; i <= 5; ++i) {
        NR_EQ(0, in_child([&] {
                  const UniqueFd own = open_file("f", O_RDWR);
                  const Map theirs(own.get(), kPage, PROT_READ | PROT_WRITE, MAP_SHARED);
                  if (!theirs || theirs.data()[0] != static_cast<char>(i - 1)) ::_exit(1);
                  theirs.data()[0] = static_cast<char>(i);
              }));
        NR_EQ(i, map.data()[0]);
    }
    NR_OK(map.sync());
    NR_EQ(5, get("f")[0]);
}

// B120: what is mapped stays what it is while the directory is read and the file looked at.
void b120_map_and_readdir(Checks& t) {
    const std::string data = pattern(64 * kPage, 6);
    NR_HOLDS(put("f", data));
    for (int i = 0; i < 100; ++i)
        if (!put("other" + std::to_string(i), "x")) NR_OK(-1);
    const UniqueFd file = open_file("f", O_RDONLY);
    const Map map(file.get(), data.size(), PROT_READ, MAP_SHARED);
    if (!NR_HOLDS(map.data() != nullptr)) return;
    for (int i = 0; i < 10; ++i) {
        NR_EQ(101, static_cast<int>(names_left_in(".").size()));
        NR_EQ(static_cast<long>(data.size()), stat_of("f").st_size);
        NR_EQ(data, map.view(0, data.size()));
    }
    NR_EQ(data, get("f"));
}

// A large map written in random places, as data bases do.
void large(Checks& t) {
    constexpr std::size_t kSize = std::size_t{8} << 20;
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    NR_OK(::ftruncate(file.get(), kSize));
    Map map(file.get(), kSize, PROT_READ | PROT_WRITE, MAP_SHARED);
    if (!NR_HOLDS(map.data() != nullptr)) return;
    std::string model(kSize, 0);
    for (std::size_t i = 0; i < 3000; ++i) {
        const std::size_t at = (i * 7919 * 131) % (kSize - 100);
        const std::string piece = pattern(100, i);
        piece.copy(map.data() + at, 100);
        piece.copy(model.data() + at, 100);
    }
    NR_OK(map.sync());
    NR_EQ(model, get("f"));
    map.unmap();
    NR_EQ(model, read_at(file.get(), 0, kSize));
    // Read through a fresh map, and copied by a write whose source is the mount's own file.
    const Map again(file.get(), kSize, PROT_READ, MAP_SHARED);
    NR_EQ(model, again.view(0, kSize));
    const UniqueFd copy = open_file("copy", O_WRONLY | O_CREAT);
    NR_EQ(static_cast<long>(kSize), ::write(copy.get(), again.data(), kSize));
    NR_EQ(model, get("copy"));
}

}  // namespace

std::vector<Case> map_cases() {
    return {{"map.shared", shared},
            {"map.after_close", after_close},
            {"map.private", private_copy},
            {"map.beyond_the_end", beyond_the_end},
            {"map.zeros_after_growth", zeros_after_growth},
            {"map.between_processes", between_processes},
            {"map.B120.MapAndReaddir", b120_map_and_readdir},
            {"map.large", large}};
}

}  // namespace nfsrdma::posix
