#include "tools/mount_nfsrdma/channel.hpp"

#include <cerrno>
#include <cstring>
#include <linux/fuse.h>
#include <mutex>
#include <poll.h>
#include <sys/uio.h>

#include "base/assert.hpp"
#include "tools/mount_nfsrdma/mount.hpp"
#include "tools/mount_nfsrdma/stats_note.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

namespace nfsrdma::mount {
namespace {

// All of a WRITE but its data.
constexpr std::size_t kFirst = sizeof(fuse_in_header) + sizeof(fuse_write_in);
constexpr std::uint32_t kRequestsATurn = 16;

}  // namespace

Channel::Channel(Worker& worker) noexcept : worker_(worker), watch_(on_ready, *this), poll_(*this) {
    waiter_.channel = this;
    waiter_.wake = on_wake;
}

Channel::~Channel() {
    NR_ASSERT(fd_ < 0);
}

Result<void> Channel::start(int fd, fuse_session* session) {
    const std::uint32_t room = worker_.mount().limits.payload;
    request_ = std::make_unique<std::byte[]>(kFirst + room);
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
    if (waiting_)
        worker_.client().xprt().stop_waiting(waiter_);
    else
        loop.unwatch(watch_);
    loop.remove(poll_);
    waiting_ = false;
    fd_ = -1;
    payload_.reset();
}

void Channel::on_ready(FdWatch& watch, std::uint32_t /*events*/) noexcept {
    (void)static_cast<ReadWatch&>(watch).channel.read_some();
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

// What waits for memory does not keep the loop awake: the descriptor is not watched meanwhile.
bool Channel::have_payload() noexcept {
    if (payload_) return true;
    if (waiting_) return false;
    Result<sunrpc::Payload> payload = worker_.client().get_payload(worker_.mount().limits.payload);
    if (payload) {
        payload_ = *std::move(payload);
        return true;
    }
    ++counters_.waited_for_payload;
    waiting_ = true;
    worker_.loop().unwatch(watch_);
    worker_.client().xprt().wait_for_slot(waiter_);
    return false;
}

void Channel::on_wake(sunrpc::SlotWaiter& waiter) noexcept {
    Channel& channel = *static_cast<Waiter&>(waiter).channel;
    channel.waiting_ = false;
    if (!channel.worker_.loop().watch(channel.watch_)) {
        channel.waiting_ = true;
        channel.ended();
        return;
    }
    (void)channel.have_payload();
}

bool Channel::read_one() noexcept {
    if (fd_ < 0 || !have_payload()) return false;
    const std::span<std::byte> room = payload_.memory().first(worker_.mount().limits.payload);
    std::array<iovec, 2> places{{{request_.get(), kFirst}, {room.data(), room.size()}}};
    const ssize_t got = ::readv(fd_, places.data(), static_cast<int>(places.size()));
    if (got > 0) {
        ++counters_.requests;
        process(static_cast<std::size_t>(got));
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

void Channel::process(std::size_t size) noexcept {
    fuse_in_header header{};
    std::memcpy(&header, request_.get(), sizeof header);
    // libfuse does not look at a WRITE's data, but tells where it would be.
    if (header.opcode != FUSE_WRITE && size > kFirst) {
        std::memcpy(request_.get() + kFirst, payload_.memory().data(), size - kFirst);
        counters_.copied_bytes += size - kFirst;
    }
    fuse_buf buffer{};
    buffer.mem = request_.get();
    buffer.size = size;
    Mount& mount = worker_.mount();
    mount.routes.note(header.unique, header.opcode, fd_);
    note_request(worker_.stats(), {request_.get(), size});
    const std::lock_guard guard(mount.lock);
    mount.reading = this;
    fuse_session_process_buf(session_, &buffer);
    mount.reading = nullptr;
}

void Channel::ended() noexcept {
    stop();
    worker_.mount().end();
}

}  // namespace nfsrdma::mount
