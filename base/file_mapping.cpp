#include "base/file_mapping.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <limits>
#include <mutex>
#include <sys/mman.h>
#include <utility>

// Operation. A copy marks its thread with the place to go back to. The handler of SIGBUS jumps
// there when the thread is marked; else it puts back the action that it replaced and returns, so
// that the fault comes again and meets that one.
//
// Ownership. The place to go back to is on the stack of the copy, which holds nothing that would
// have to be destroyed.
namespace nfsrdma {
namespace {

// Longer copies are done by the processor's string instructions or past the caches, both slower
// for what is cold here and sent next.
constexpr std::size_t kPiece = 4096;

// The handler leaves the mask as it was (SA_NODEFER): nothing of it to be saved. But the thread
// sanitizer's own one, which calls it, blocks every signal.
#if defined(__SANITIZE_THREAD__)
constexpr int kSaveMask = 1;
#else
constexpr int kSaveMask = 0;
#endif

thread_local sigjmp_buf* way_back = nullptr;
std::atomic<bool> allowed{false};
struct sigaction replaced {};

void on_bus_error(int /*signal*/, siginfo_t* info, void* /*context*/) {
    const bool was_sent = info->si_code <= 0;  // by a process: no fault will come again
    if (way_back != nullptr && !was_sent) siglongjmp(*way_back, 1);
    ::sigaction(SIGBUS, &replaced, nullptr);
    if (was_sent) (void)::raise(SIGBUS);
}

// Apart: what setjmp returns to twice must not change.
[[gnu::noinline]] void copy_pieces(std::byte* to, const std::byte* from,
                                   std::size_t bytes) noexcept {
    while (bytes > 0) {
        const std::size_t piece = std::min(bytes, kPiece);
        std::memcpy(to, from, piece);
        to += piece;
        from += piece;
        bytes -= piece;
    }
}

bool copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
    sigjmp_buf back;
    if (sigsetjmp(back, kSaveMask) != 0) {
        way_back = nullptr;
        return false;
    }
    way_back = &back;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    copy_pieces(to, from, bytes);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    way_back = nullptr;
    return true;
}

}  // namespace

Result<void> FileMapping::allow() noexcept {
    static std::mutex once;
    const std::lock_guard lock(once);
    if (allowed) return {};
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    if (::sigaction(SIGBUS, nullptr, &replaced) != 0 || ::sigaction(SIGBUS, &action, nullptr) != 0)
        return Error{Errc::system, errno, "take SIGBUS"};
    allowed = true;
    return {};
}

FileMapping FileMapping::map(int fd, std::uint64_t bytes) noexcept {
    if (!allowed || bytes == 0 || bytes > std::numeric_limits<std::size_t>::max()) return {};
    const auto size = static_cast<std::size_t>(bytes);
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return {};
    return FileMapping({static_cast<const std::byte*>(memory), size});
}

FileMapping::FileMapping(FileMapping&& other) noexcept
    : memory_(std::exchange(other.memory_, {})) {}

FileMapping& FileMapping::operator=(FileMapping&& other) noexcept {
    FileMapping old(std::move(*this));
    memory_ = std::exchange(other.memory_, {});
    return *this;
}

FileMapping::~FileMapping() {
    if (memory_.empty()) return;
    // munmap takes no pointer to const.
    (void)::munmap(const_cast<std::byte*>(memory_.data()), memory_.size());
}

bool FileMapping::read(std::uint64_t offset, std::span<std::byte> into) const noexcept {
    if (offset > memory_.size() || into.size() > memory_.size() - offset) return false;
    return copy(into.data(), memory_.data() + offset, into.size());
}

}  // namespace nfsrdma
