// What scripts/bench-mount times in a directory of any file system: nfsrdma_mount_bench TEST DIR
// COUNT prints the seconds that the work took. No process is started for a file, and none of the
// names is looked at before its turn.
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/prng.hpp"
#include "base/unique_fd.hpp"

namespace {

using nfsrdma::UniqueFd;

constexpr std::size_t kBlock = 1U << 20U;
constexpr std::size_t kSmall = 4096;
constexpr unsigned kJobs = 16;

[[noreturn]] void die(std::string_view what, const std::string& path) {
    const int code = errno;
    std::fprintf(stderr, "nfsrdma_mount_bench: %.*s %s: %s\n", static_cast<int>(what.size()),
                 what.data(), path.c_str(), std::strerror(code));
    std::exit(1);
}

class Stopwatch {
  public:
    [[nodiscard]] double seconds() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - from_).count();
    }

  private:
    std::chrono::steady_clock::time_point from_ = std::chrono::steady_clock::now();
};

UniqueFd open_file(const std::string& path, int flags) {
    UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0644));
    if (!fd) die("open", path);
    return fd;
}

// Page-aligned, and touched, so that no test pays for its pages.
class Buffer {
  public:
    Buffer() : bytes_(kBlock + kSmall, std::byte{0x5a}) {}
    [[nodiscard]] std::byte* data() {
        void* at = bytes_.data();
        std::size_t room = bytes_.size();
        return static_cast<std::byte*>(std::align(kSmall, kBlock, at, room));
    }

  private:
    std::vector<std::byte> bytes_;
};

// COUNT MiB of DIR/big, in order.
double seqread(const std::string& dir, std::uint64_t count) {
    Buffer buffer;
    const std::string path = dir + "/big";
    const Stopwatch watch;
    const UniqueFd fd = open_file(path, O_RDONLY);
    std::uint64_t left = count * kBlock;
    while (left > 0) {
        const ssize_t got = ::read(fd.get(), buffer.data(), kBlock);
        if (got <= 0) die("read", path);
        left -= static_cast<std::uint64_t>(got);
    }
    return watch.seconds();
}

// COUNT MiB to a new file, then fsync.
double seqwrite(const std::string& dir, std::uint64_t count) {
    Buffer buffer;
    const std::string path = dir + "/written";
    const Stopwatch watch;
    const UniqueFd fd = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
    for (std::uint64_t i = 0; i < count; ++i)
        if (::write(fd.get(), buffer.data(), kBlock) != static_cast<ssize_t>(kBlock))
            die("write", path);
    if (::fsync(fd.get()) != 0) die("fsync", path);
    const double took = watch.seconds();
    if (::unlink(path.c_str()) != 0) die("unlink", path);
    return took;
}

// COUNT reads of 4 KiB of DIR/big by 16 threads: no page twice, so that none is in a cache.
double randread(const std::string& dir, std::uint64_t count) {
    const std::string path = dir + "/big";
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) die("stat", path);
    std::vector<std::uint32_t> pages(static_cast<std::size_t>(status.st_size) / kSmall);
    for (std::size_t i = 0; i < pages.size(); ++i)
        pages[i] = static_cast<std::uint32_t>(i);
    nfsrdma::Prng random(20049);
    for (std::size_t i = pages.size(); i > 1; --i)
        std::swap(pages[i - 1], pages[static_cast<std::size_t>(random.below(i))]);
    if (pages.size() > count) pages.resize(static_cast<std::size_t>(count));
    std::atomic<std::size_t> next = 0;
    const Stopwatch watch;
    std::vector<std::thread> jobs;
    for (unsigned job = 0; job < kJobs; ++job)
        jobs.emplace_back([&] {
            std::array<std::byte, kSmall> page;
            const UniqueFd fd = open_file(path, O_RDONLY);
            // What comes with a page that was asked for would be of the cache.
            if (::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM) != 0) die("fadvise", path);
            for (std::size_t i = next++; i < pages.size(); i = next++)
                if (::pread(fd.get(), page.data(), kSmall,
                            static_cast<off_t>(pages[i]) * static_cast<off_t>(kSmall)) !=
                    static_cast<ssize_t>(kSmall))
                    die("pread", path);
        });
    for (std::thread& job : jobs)
        job.join();
    return watch.seconds();
}

std::string small_name(const std::string& dir, std::uint64_t i) {
    return dir + "/small/f" + std::to_string(i);
}
double for_each_small(const std::string& dir, std::uint64_t count, std::string_view what,
                      const std::function<bool(const std::string&)>& work) {
    std::vector<std::string> paths;
    for (std::uint64_t i = 0; i < count; ++i)
        paths.push_back(small_name(dir, i));
    const Stopwatch watch;
    for (const std::string& path : paths)
        if (!work(path)) die(what, path);
    return watch.seconds();
}
double create(const std::string& dir, std::uint64_t count) {
    const std::string folder = dir + "/small";
    if (::mkdir(folder.c_str(), 0755) != 0) die("mkdir", folder);
    return for_each_small(dir, count, "create", [](const std::string& path) {
        const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
        return static_cast<bool>(fd);
    });
}
double stat_all(const std::string& dir, std::uint64_t count) {
    return for_each_small(dir, count, "stat", [](const std::string& path) {
        struct stat status {};
        return ::stat(path.c_str(), &status) == 0;
    });
}
double unlink_all(const std::string& dir, std::uint64_t count) {
    const double took = for_each_small(
        dir, count, "unlink", [](const std::string& path) { return ::unlink(path.c_str()) == 0; });
    const std::string folder = dir + "/small";
    if (::rmdir(folder.c_str()) != 0) die("rmdir", folder);
    return took;
}

// What `ls -l` asks of DIR/many, which has COUNT names.
double list(const std::string& dir, std::uint64_t count) {
    const std::string path = dir + "/many";
    const Stopwatch watch;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
    if (!folder) die("opendir", path);
    std::uint64_t found = 0;
    errno = 0;
    while (const dirent* entry = ::readdir(folder.get())) {
        const std::string_view name = entry->d_name;
        if (name == "." || name == "..") continue;
        struct stat status {};
        if (::fstatat(::dirfd(folder.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            die("lstat", path + "/" + entry->d_name);
        ++found;
    }
    if (errno != 0) die("readdir", path);
    const double took = watch.seconds();
    if (found != count) {
        std::fprintf(stderr, "nfsrdma_mount_bench: %s has %llu names, not %llu\n", path.c_str(),
                     static_cast<unsigned long long>(found),
                     static_cast<unsigned long long>(count));
        std::exit(1);
    }
    return took;
}

using Test = double (*)(const std::string&, std::uint64_t);
const std::map<std::string_view, Test>& tests() {
    static const std::map<std::string_view, Test> all = {
        {"seqread", seqread}, {"seqwrite", seqwrite}, {"randread", randread},
        {"create", create},   {"stat", stat_all},     {"unlink", unlink_all},
        {"ls", list}};
    return all;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> words(argv, argv + argc);
    std::uint64_t count = 0;
    if (words.size() == 4)
        std::from_chars(words[3].data(), words[3].data() + words[3].size(), count);
    const auto test = words.size() == 4 ? tests().find(words[1]) : tests().end();
    if (test == tests().end() || count == 0) {
        std::fprintf(stderr,
                     "usage: nfsrdma_mount_bench seqread|seqwrite|randread|create|stat|unlink|ls "
                     "DIR COUNT\n");
        return 2;
    }
    std::printf("%.6f\n", test->second(words[2], count));
    return 0;
}
