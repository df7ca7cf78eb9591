#include "tools/rpcrdma_bench/local_file.hpp"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "tools/rpcrdma_bench/peer_process.hpp"

namespace nfsrdma::bench {
namespace {

constexpr std::size_t kBlock = 1u << 20, kBuffers = 8;

}  // namespace

Result<LocalFile> LocalFile::open(const std::string& path) {
    LocalFile file;
    file.fd_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!file.fd_ || ::fstat(file.fd_.get(), &status) != 0)
        return Error{Errc::system, errno, "open the exported file"};
    file.bytes_ = static_cast<std::uint64_t>(status.st_size);
    void* const memory = ::mmap(nullptr, kBlock * kBuffers, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Error{Errc::system, errno, "map memory to read into"};
    // As the server's arena has it.
    (void)::madvise(memory, kBlock * kBuffers, MADV_HUGEPAGE);
    file.memory_ = {static_cast<std::byte*>(memory), kBlock * kBuffers};
    return file;
}

LocalFile::LocalFile(LocalFile&& other) noexcept
    : fd_(std::move(other.fd_)),
      bytes_(other.bytes_),
      memory_(std::exchange(other.memory_, std::span<std::byte>())) {}

LocalFile::~LocalFile() {
    if (!memory_.empty()) (void)::munmap(memory_.data(), memory_.size());
}

double LocalFile::read_rate(double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto since = [start = Clock::now()] {
        return std::chrono::duration<double>(Clock::now() - start).count();
    };
    pin_to(kServerCpu);
    std::uint64_t done = 0, offset = 0;
    bool ok = bytes_ >= kBlock;
    while (ok && since() < seconds) {
        std::byte* const to = memory_.data() + done % memory_.size();
        ok = ::pread(fd_.get(), to, kBlock, static_cast<off_t>(offset)) == ssize_t{kBlock};
        done += kBlock;
        offset = offset + 2 * kBlock > bytes_ ? 0 : offset + kBlock;
    }
    const double rate = static_cast<double>(done) / since();
    pin_to(kClientCpu);
    return ok ? rate : -1;
}

}  // namespace nfsrdma::bench
