#include <algorithm>
#include <cerrno>
#include <liburing.h>
#include <poll.h>
#include <sys/stat.h>
#include <vector>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "base/loop_backend.hpp"

// Operation. One ring. A watch is a one-shot poll that is armed again only when the loop next looks
// or sleeps (not once an event), which gives level-triggered watches at no system call of their
// own. File operations are queued during a turn and handed to the kernel by its flush.
//
// Ownership. The kernel may complete a poll after its watch is gone, so a completion names a slot
// and the slot's generation, never the watch. A file operation lives until it is done.

namespace nfsrdma {

namespace {

constexpr unsigned kSubmitEntries = 256;
constexpr unsigned kCompletionEntries = 2048;
constexpr std::uint32_t kFileOpsMax = 1024;  // in the kernel; more wait here
constexpr std::size_t kWatchesReserved = 256;
constexpr std::uint32_t kCompletionsPerWait = 256;
constexpr std::size_t kBytesPerOpMax = std::size_t{1} << 30;  // an SQE's length is 32 bits

// The low bits of user_data; a FileOp's address has them free.
constexpr std::uint64_t kTagMask = 3;
constexpr std::uint64_t kTagFileOp = 0;
constexpr std::uint64_t kTagWatch = 1;
constexpr std::uint64_t kTagIgnored = 2;
static_assert(alignof(FileOp) > kTagMask);

struct Slot {
    FdWatch* watch = nullptr;
    std::uint32_t generation = 0;
    bool armed = false;    // a poll is in the kernel or on its way
    bool waiting = false;  // listed in to_arm_
};

class UringBackend final : public LoopBackendImpl {
  public:
    explicit UringBackend(Loop& loop) : LoopBackendImpl(loop) {
        slots_.reserve(kWatchesReserved);
        free_slots_.reserve(kWatchesReserved);
        to_arm_.reserve(kWatchesReserved);
    }
    ~UringBackend() override;
    UringBackend(const UringBackend&) = delete;
    UringBackend& operator=(const UringBackend&) = delete;
    Result<void> open();

    Result<void> watch(FdWatch& watch) noexcept override;
    Result<void> rewatch(FdWatch& watch) noexcept override;
    void unwatch(FdWatch& watch) noexcept override;
    std::uint32_t peek() noexcept override;
    std::uint32_t wait(std::uint64_t timeout_ns) noexcept override;
    bool submit(FileOp& op) noexcept override;
    std::uint16_t add_personality() noexcept override;
    void flush() noexcept override;

  private:
    std::uint32_t reap() noexcept;
    std::uint32_t deliver(std::uint64_t user_data, std::int32_t result) noexcept;
    std::uint32_t deliver_watch(std::uint64_t user_data, std::int32_t result) noexcept;
    void complete(FileOp& op, std::int32_t result) noexcept;
    io_uring_sqe* next_sqe() noexcept;
    bool queue(FileOp& op) noexcept;
    void arm_watches() noexcept;
    void cancel_poll(std::uint32_t index) noexcept;
    void want_armed(std::uint32_t index) noexcept;
    std::uint64_t token(std::uint32_t index) const noexcept {
        return (std::uint64_t{slots_[index].generation} << 32) | (std::uint64_t{index} << 2) |
               kTagWatch;
    }
    static std::uint32_t index_of(const FdWatch& watch) noexcept {
        return static_cast<std::uint32_t>(address_of(watch.backend)) - 1;
    }

    io_uring ring_{};
    bool open_ = false;
    std::uint32_t ops_in_kernel_ = 0;
    List<FileOp, FileOp> pending_;  // found no room in the ring
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_slots_;
    std::vector<std::uint32_t> to_arm_;
};

UringBackend::~UringBackend() {
    if (!open_) return;
    pending_.clear();
    // The kernel writes into buffers of operations that run: they must end first.
    while (ops_in_kernel_ > 0) {
        io_uring_cqe* cqe = nullptr;
        const int rc = io_uring_submit_and_wait(&ring_, 1);
        if (rc < 0 && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY) break;
        while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
            if ((cqe->user_data & kTagMask) == kTagFileOp) --ops_in_kernel_;
            io_uring_cqe_seen(&ring_, cqe);
        }
    }
    io_uring_queue_exit(&ring_);
}

Result<void> UringBackend::open() {
    io_uring_params params{};
    params.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | IORING_SETUP_COOP_TASKRUN |
                   IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL;
    params.cq_entries = kCompletionEntries;
    int rc = io_uring_queue_init_params(kSubmitEntries, &ring_, &params);
    if (rc == -EINVAL) {  // before Linux 5.19
        params = io_uring_params{};
        params.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
        params.cq_entries = kCompletionEntries;
        rc = io_uring_queue_init_params(kSubmitEntries, &ring_, &params);
    }
    if (rc < 0) return Error{Errc::unsupported, -rc, "io_uring_setup"};
    open_ = true;
    constexpr unsigned kNeeded = IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_FAST_POLL;
    if ((params.features & kNeeded) != kNeeded) {
        return Error{Errc::unsupported, ENOSYS, "io_uring of this kernel is too old"};
    }
    return {};
}

io_uring_sqe* UringBackend::next_sqe() noexcept {
    if (io_uring_sqe* sqe = io_uring_get_sqe(&ring_)) return sqe;
    io_uring_submit(&ring_);
    return io_uring_get_sqe(&ring_);
}

// ---- watches

Result<void> UringBackend::watch(FdWatch& watch) noexcept {
    // A bad fd would only show in a completion; say so at once, as epoll does.
    struct stat status {};
    if (::fstat(watch.fd, &status) != 0)
        return Error{Errc::system, errno, "watch a file descriptor"};
    if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) {
        return Error{Errc::system, EPERM, "watch a file descriptor"};
    }
    std::uint32_t index = 0;
    if (free_slots_.empty()) {
        index = static_cast<std::uint32_t>(slots_.size());
        slots_.emplace_back();
    } else {
        index = free_slots_.back();
        free_slots_.pop_back();
    }
    slots_[index].watch = &watch;
    watch.backend = bytes_at(std::uint64_t{index} + 1);
    want_armed(index);
    return {};
}

Result<void> UringBackend::rewatch(FdWatch& watch) noexcept {
    const std::uint32_t index = index_of(watch);
    if (slots_[index].armed) cancel_poll(index);
    want_armed(index);
    return {};
}

void UringBackend::unwatch(FdWatch& watch) noexcept {
    const std::uint32_t index = index_of(watch);
    if (slots_[index].armed) {
        cancel_poll(index);
        // Now, for the poll holds the file: a socket closed next must leave its port.
        io_uring_submit(&ring_);
    }
    ++slots_[index].generation;
    slots_[index].watch = nullptr;
    free_slots_.push_back(index);
    watch.backend = nullptr;
}

void UringBackend::cancel_poll(std::uint32_t index) noexcept {
    if (io_uring_sqe* sqe = next_sqe()) {
        io_uring_prep_poll_remove(sqe, token(index));
        sqe->user_data = kTagIgnored;
    }
    ++slots_[index].generation;
    slots_[index].armed = false;
}

void UringBackend::want_armed(std::uint32_t index) noexcept {
    if (slots_[index].waiting) return;
    slots_[index].waiting = true;
    to_arm_.push_back(index);
}

void UringBackend::arm_watches() noexcept {
    while (!to_arm_.empty()) {
        const std::uint32_t index = to_arm_.back();
        Slot& slot = slots_[index];
        if (slot.watch != nullptr && !slot.armed) {
            io_uring_sqe* const sqe = next_sqe();
            if (sqe == nullptr) return;  // the next look goes on
            io_uring_prep_poll_add(sqe, slot.watch->fd, slot.watch->events);
            sqe->user_data = token(index);
            slot.armed = true;
        }
        slot.waiting = false;
        to_arm_.pop_back();
    }
}

// ---- file operations

bool UringBackend::submit(FileOp& op) noexcept {
    if (!pending_.empty() || !queue(op)) pending_.push_back(op);
    return true;
}

bool UringBackend::queue(FileOp& op) noexcept {
    if (ops_in_kernel_ >= kFileOpsMax) return false;
    io_uring_sqe* const sqe = next_sqe();
    if (sqe == nullptr) return false;
    const auto moved = static_cast<std::size_t>(op.result);
    std::byte* const at = op.buffer.data() + moved;
    const auto len = static_cast<unsigned>(std::min(op.buffer.size() - moved, kBytesPerOpMax));
    switch (op.kind) {
        case FileOp::Kind::read:
            io_uring_prep_read(sqe, op.fd, at, len, op.offset + moved);
            break;
        case FileOp::Kind::write:
            io_uring_prep_write(sqe, op.fd, at, len, op.offset + moved);
            break;
        case FileOp::Kind::sync:
            io_uring_prep_fsync(sqe, op.fd, 0);
            break;
        case FileOp::Kind::data_sync:
            io_uring_prep_fsync(sqe, op.fd, IORING_FSYNC_DATASYNC);
            break;
    }
    sqe->personality = op.personality;
    sqe->user_data = address_of(&op) | kTagFileOp;
    ++ops_in_kernel_;
    return true;
}

void UringBackend::complete(FileOp& op, std::int32_t result) noexcept {
    --ops_in_kernel_;
    const bool again = result == -EINTR || result == -EAGAIN;
    if (op.kind == FileOp::Kind::sync || op.kind == FileOp::Kind::data_sync) {
        if (!again) return finish(op, result);
    } else {
        if (result == 0) return finish(op, op.result);
        if (result < 0 && !again) return finish(op, op.result > 0 ? op.result : result);
        if (result > 0) op.result += result;
        if (static_cast<std::size_t>(op.result) == op.buffer.size()) return finish(op, op.result);
    }
    pending_.push_back(op);
}

std::uint16_t UringBackend::add_personality() noexcept {
    const int id = io_uring_register_personality(&ring_);
    return id > 0 && id <= UINT16_MAX ? static_cast<std::uint16_t>(id) : std::uint16_t{0};
}

// ---- waiting

void UringBackend::flush() noexcept {
    while (!pending_.empty() && queue(pending_.front()))
        pending_.pop_front();
    if (io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
}

std::uint32_t UringBackend::peek() noexcept {
    if (io_uring_cq_ready(&ring_) == 0 &&
        (IO_URING_READ_ONCE(*ring_.sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) == 0) {
        return 0;
    }
    return reap();
}

std::uint32_t UringBackend::wait(std::uint64_t timeout_ns) noexcept {
    arm_watches();
    flush();
    if (timeout_ns != 0 && io_uring_cq_ready(&ring_) == 0) {
        __kernel_timespec limit{};
        limit.tv_sec = static_cast<decltype(limit.tv_sec)>(timeout_ns / kNsPerSec);
        limit.tv_nsec = static_cast<decltype(limit.tv_nsec)>(timeout_ns % kNsPerSec);
        io_uring_cqe* first = nullptr;
        io_uring_submit_and_wait_timeout(&ring_, &first, 1,
                                         timeout_ns == UINT64_MAX ? nullptr : &limit, nullptr);
    }
    return reap();
}

std::uint32_t UringBackend::reap() noexcept {
    std::uint32_t delivered = 0;
    io_uring_cqe* cqe = nullptr;
    for (std::uint32_t i = 0; i < kCompletionsPerWait; ++i) {
        if (io_uring_peek_cqe(&ring_, &cqe) != 0) break;
        const std::uint64_t user_data = cqe->user_data;
        const std::int32_t result = cqe->res;
        // Handed back first: the callback may queue more, or look again.
        io_uring_cqe_seen(&ring_, cqe);
        delivered += deliver(user_data, result);
    }
    return delivered;
}

std::uint32_t UringBackend::deliver(std::uint64_t user_data, std::int32_t result) noexcept {
    const std::uint64_t tag = user_data & kTagMask;
    if (tag == kTagWatch) return deliver_watch(user_data, result);
    if (tag == kTagIgnored) return 0;
    void* const object = bytes_at(user_data);
    complete(*static_cast<FileOp*>(object), result);
    return 1;
}

std::uint32_t UringBackend::deliver_watch(std::uint64_t user_data, std::int32_t result) noexcept {
    const auto index = static_cast<std::uint32_t>(user_data) >> 2;
    NR_ASSERT(index < slots_.size());
    if (token(index) != user_data) return 0;  // unwatched, or its events changed, meanwhile
    Slot& slot = slots_[index];
    slot.armed = false;
    want_armed(index);
    FdWatch& watch = *slot.watch;
    watch.ready(watch, result > 0 ? static_cast<std::uint32_t>(result) : std::uint32_t{POLLERR});
    return 1;
}

}  // namespace

Result<std::unique_ptr<LoopBackendImpl>> make_uring_backend(Loop& loop) {
    auto backend = std::make_unique<UringBackend>(loop);
    NR_TRY(backend->open());
    return std::unique_ptr<LoopBackendImpl>(std::move(backend));
}

}  // namespace nfsrdma
