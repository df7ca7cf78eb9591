#include "tools/mount_nfsrdma/channel.hpp"

#include <cerrno>
#include <cstring>
#include <linux/fuse.h>
#include <mutex>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

#include "base/assert.hpp"
#include "tools/mount_nfsrdma/fate.hpp"
#include "tools/mount_nfsrdma/mount.hpp"
#include "tools/mount_nfsrdma/stats_note.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

namespace nfsrdma::mount {
namespace {

// All of a WRITE but its data.
constexpr std::size_t kFirst = sizeof(fuse_in_header) + sizeof(fuse_write_in);
constexpr std::uint32_t kRequestsATurn = 16;
// How long a connection is without memory before that is more than a moment.
constexpr std::uint64_t kDryNs = 200 * kNsPerMs;

fuse_in_header header_of(const std::byte* request) noexcept {
    fuse_in_header header{};
    std::memcpy(&header, request, sizeof header);
    return header;
}

}  // namespace

Channel::Channel(Worker& worker) noexcept
    : worker_(worker), watch_(on_ready, *this), poll_(*this), dry_timer_(on_dry, *this) {
    waiter_.channel = this;
    waiter_.wake = on_wake;
}

Channel::~Channel() {
    NR_ASSERT(fd_ < 0);
}

Result<void> Channel::start(int fd, fuse_session* session) {
    const std::uint32_t room = worker_.mount().limits.payload;
    request_ = std::make_unique<std::byte[]>(kFirst + room);
    parked_.reserve(kParkedMax);
    // Not touched until it is needed: then it costs no memory.
    while (spare_.size() < kParkedMax)
        spare_.push_back(std::make_unique_for_overwrite<std::byte[]>(kFirst + room));
    watch_.fd = fd;
    watch_.events = POLLIN;
    NR_TRY(worker_.loop().watch(watch_));
    fd_ = fd;
    session_ = session;
    worker_.loop().add(poll_);
    return {};
}

void Channel::stop() noexcept {
    if (fd_ < 0) return;
    Loop& loop = worker_.loop();
    if (waiting_) worker_.client().xprt().stop_waiting(waiter_);
    loop.unwatch(watch_);
    loop.disarm(dry_timer_);
    loop.remove(poll_);
    waiting_ = reads_dry_ = false;
    fd_ = -1;
    payload_.reset();
    parked_.clear();  // nobody waits for them: the kernel has ended all of the mount
}

void Channel::on_ready(FdWatch& watch, std::uint32_t events) noexcept {
    Channel& channel = static_cast<ReadWatch&>(watch).channel;
    // Nothing is read at present, but this is told all the same: of umount, and umount -f.
    if (channel.watch_.events == 0 && (events & (POLLERR | POLLHUP)) != 0) return channel.ended();
    (void)channel.read_some();
}

std::uint32_t Channel::Poll::poll() noexcept {
    return channel.read_some();
}

std::uint32_t Channel::read_some() noexcept {
    std::uint32_t done = 0;
    while (done < kRequestsATurn && read_one())
        ++done;
    return done;
}

bool Channel::have_payload() noexcept {
    if (payload_) return true;
    if (waiting_) return false;
    {
        // Others may commit for this, and what is told of that is shared.
        const std::lock_guard guard(worker_.mount().lock);
        Result<sunrpc::Payload> payload =
            worker_.client().get_payload(worker_.mount().limits.payload);
        if (payload) {
            payload_ = *std::move(payload);
            return true;
        }
    }
    ++counters_.waited_for_payload;
    waiting_ = true;
    worker_.client().xprt().wait_for_slot(waiter_);
    if (!dry_timer_.armed()) worker_.loop().arm(dry_timer_, worker_.loop().now_ns() + kDryNs);
    return false;
}

void Channel::on_wake(sunrpc::SlotWaiter& waiter) noexcept {
    Channel& channel = *static_cast<Waiter&>(waiter).channel;
    channel.waiting_ = false;
    if (!channel.have_payload()) return;
    // What is parked is taken in the next turn, and the descriptor is looked at.
    channel.reads_dry_ = false;
    if (channel.parked_.empty()) channel.worker_.loop().disarm(channel.dry_timer_);
    channel.listen(true);
}

void Channel::on_dry(Timer& timer) noexcept {
    Channel& channel = static_cast<DryTimer&>(timer).channel;
    if (!channel.waiting_ && channel.parked_.empty()) return;
    channel.reads_dry_ = channel.waiting_;
    channel.drop_dying();
    if (channel.full()) channel.worker_.look_for_dying();
    Loop& loop = channel.worker_.loop();
    loop.arm(timer, loop.now_ns() + kDryNs);
    (void)channel.read_some();
}

// The descriptor is watched for its end in any case.
void Channel::listen(bool to_requests) noexcept {
    const std::uint32_t events = to_requests ? POLLIN : 0;
    if (watch_.events == events) return;
    watch_.events = events;
    if (!worker_.loop().watch(watch_)) ended();
}

bool Channel::read_one() noexcept {
    if (fd_ < 0) return false;
    const bool wet = have_payload();
    if (wet && !parked_.empty()) {
        take_parked();
        return fd_ >= 0;
    }
    const bool reads = wet || (reads_dry_ && !full());
    listen(reads);
    if (fd_ < 0 || !reads) return false;
    const std::size_t room = worker_.mount().limits.payload;
    std::byte* const rest = wet ? payload_.memory().data() : request_.get() + kFirst;
    std::array<iovec, 2> places{{{request_.get(), kFirst}, {rest, room}}};
    const ssize_t got = ::readv(fd_, places.data(), static_cast<int>(places.size()));
    if (got > 0) {
        ++counters_.requests;
        take(static_cast<std::size_t>(got));
        return fd_ >= 0;
    }
    // ENOENT: the request was taken back before it was read.
    if (got < 0 && (errno == EINTR || errno == ENOENT)) return true;
    if (got < 0 && errno == EAGAIN) {
        ++counters_.empty_reads;
        return false;
    }
    ended();  // ENODEV: unmounted, or given up by umount -f
    return false;
}

void Channel::take(std::size_t size) noexcept {
    const fuse_in_header header = header_of(request_.get());
    worker_.mount().routes.note(header.unique, header.opcode, fd_);
    note_request(worker_.stats(), {request_.get(), size});
    if (!payload_ && header.opcode == FUSE_WRITE) return park(size);
    // libfuse does not look at a WRITE's data, but tells where it would be.
    if (payload_ && header.opcode != FUSE_WRITE && size > kFirst) {
        std::memcpy(request_.get() + kFirst, payload_.memory().data(), size - kFirst);
        counters_.copied_bytes += size - kFirst;
    }
    process(request_.get(), size);
}

void Channel::park(std::size_t size) noexcept {
    ++counters_.parked;
    parked_.push_back({std::exchange(request_, std::move(spare_.back())), size});
    spare_.pop_back();
}

// With memory for its data.
void Channel::take_parked() noexcept {
    Parked parked = std::move(parked_.front());
    parked_.erase(parked_.begin());
    const std::size_t data = parked.size > kFirst ? parked.size - kFirst : 0;
    std::memcpy(payload_.memory().data(), parked.request.get() + kFirst, data);
    counters_.copied_bytes += data;
    process(parked.request.get(), parked.size);
    spare_.push_back(std::move(parked.request));
}

// Who is to die waits for an answer first, and is given one.
void Channel::drop_dying() noexcept {
    for (std::size_t i = 0; i < parked_.size();) {
        const fuse_in_header header = header_of(parked_[i].request.get());
        if (fate_of(static_cast<std::int32_t>(header.pid)) != Fate::dies) {
            ++i;
            continue;
        }
        fuse_out_header answer{};
        answer.len = sizeof answer;
        answer.error = -EINTR;
        answer.unique = header.unique;
        const int fd = worker_.mount().routes.take(header.unique);
        (void)!::write(fd < 0 ? fd_ : fd, &answer, sizeof answer);
        spare_.push_back(std::move(parked_[i].request));
        parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

// `request`: all of it, but of a WRITE the data is in the payload.
void Channel::process(std::byte* request, std::size_t size) noexcept {
    fuse_buf buffer{};
    buffer.mem = request;
    buffer.size = size;
    Mount& mount = worker_.mount();
    const std::lock_guard guard(mount.lock);
    opcode_ = header_of(request).opcode;
    mount.reading = this;
    fuse_session_process_buf(session_, &buffer);
    mount.reading = nullptr;
}

void Channel::ended() noexcept {
    stop();
    worker_.mount().end();
}

}  // namespace nfsrdma::mount
