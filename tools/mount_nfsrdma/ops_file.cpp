#include "tools/mount_nfsrdma/ops_file.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/uio.h>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "tools/mount_nfsrdma/ops.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

// read, write.
namespace nfsrdma::mount {
namespace {

using nfs::client::ReadAhead;
using nfs::client::WriteBehind;

class ReadJob final : public FileJob {
  public:
    ReadJob(Worker& at, fuse_req_t request, const fuse_file_info& info, std::uint64_t offset,
            std::uint32_t size)
        : FileJob(at, request, info) {
        read_.job = waiter_.job = this;
        read_.offset = offset;
        read_.size = size;
        read_.done = [](ReadAhead::Read& read) noexcept { static_cast<Read&>(read).job->done(); };
        waiter_.done = [](WriteBehind::Waiter& waiter) noexcept {
            static_cast<Waiter&>(waiter).job->written();
        };
    }
    void start() noexcept override {
        if (!at_home()) return;
        if (read_.size == 0) return reply_buffer(nullptr, 0);
        // What was written comes first, and what is being read since before that is too old. Who
        // reads past all caches reads what stays, whatever becomes of the server.
        WriteBehind& writes = data().writes();
        const bool durably =
            (file().flags & O_DIRECT) != 0 && writes.dirty_in(read_.offset, read_.size);
        const bool must_wait = durably || data().must_wait(read_.offset, read_.size);
        if (must_wait && !(durably ? writes.sync(waiter_) : writes.flush(waiter_))) {
            state_ = State::flushing;
            return;
        }
        read();
    }
    void give_up() noexcept override {
        if (state_ == State::flushing) {
            data().writes().stop_waiting(waiter_);
        } else if (state_ == State::reading) {
            file().ahead.cancel(read_);
        } else {
            return;
        }
        state_ = State::none;
        fail(EINTR);
    }

  private:
    struct Read final : ReadAhead::Read {
        ReadJob* job = nullptr;
    };
    struct Waiter final : WriteBehind::Waiter {
        ReadJob* job = nullptr;
    };
    void written() noexcept {
        file().ahead.invalidate(read_.offset, read_.size);
        read();
    }
    void read() noexcept {
        state_ = State::reading;
        // While writes are under way, the file's end is where they will have put it, and nothing
        // of it is read ahead.
        read_.file_size =
            node().unwritten ? read_.offset + read_.size : node().attributes.now().size;
        read_.sys = file().who.get();
        file().ahead.read(read_);
    }
    void done() noexcept {
        state_ = State::none;
        if (!read_.outcome.ok()) return fail(errno_of(read_.outcome));
        if (read_.data.size() <= 1) {
            const std::span<std::byte> all =
                read_.data.empty() ? std::span<std::byte>() : read_.data.front();
            return reply_buffer(as_chars(all.data()), all.size());
        }
        std::array<iovec, kFew> few{};
        std::vector<iovec> many;
        if (read_.data.size() > kFew) many.resize(read_.data.size());
        iovec* const parts = many.empty() ? few.data() : many.data();
        for (std::size_t i = 0; i < read_.data.size(); ++i)
            parts[i] = {read_.data[i].data(), read_.data[i].size()};
        (void)fuse_reply_iov(take_request(), parts, static_cast<int>(read_.data.size()));
        finish();
    }
    static constexpr std::size_t kFew = 16;
    enum class State : std::uint8_t { none, flushing, reading } state_ = State::none;
    Read read_;
    Waiter waiter_;
};

// Bytes that another loop has read from the kernel are copied into memory of the file's own loop,
// and their payload goes back where it came from, with the job.
class WriteJob final : public FileJob {
  public:
    WriteJob(Worker& at, fuse_req_t request, const fuse_file_info& info, sunrpc::Payload payload,
             std::uint64_t offset, std::uint32_t size)
        : FileJob(at, request, info), payload_(std::move(payload)), size_(size) {
        write_.job = waiter_.job = this;
        write_.offset = offset;
        write_.sys = file().who.get();
        write_.done = [](WriteBehind::Write& write) noexcept {
            static_cast<Write&>(write).job->done();
        };
        waiter_.wake = on_wake;
        flags_ = info.writepage == 0 ? info.flags : 0;
    }
    void start() noexcept override {
        if (returning_) return finish();
        if (&worker() != &data().home()) origin_ = &worker();
        if (!at_home()) return;
        if (origin_ != nullptr) return copy();
        write_.payload = std::move(payload_);
        write();
    }
    void give_up() noexcept override {
        if (state_ == State::waiting) {
            worker().client().xprt().stop_waiting(waiter_);
        } else if (state_ != State::queued) {
            return;
        } else if (!data().writes().cancel(write_)) {
            // It goes on, and may make the file longer than the kernel believes.
            data().took(write_.offset, size_);
            mount().invalidate_data(node());
        }
        end(EINTR);
    }

  private:
    struct Write final : WriteBehind::Write {
        WriteJob* job = nullptr;
    };
    struct Waiter final : sunrpc::SlotWaiter {
        WriteJob* job = nullptr;
    };
    void copy() noexcept {
        Result<sunrpc::Payload> room = worker().client().get_payload(size_);
        if (room) {
            std::memcpy(room->memory().data(), payload_.memory().data(), size_);
            write_.payload = *std::move(room);
            return write();
        }
        if (room.error().code != Errc::again) return end(EIO);
        state_ = State::waiting;
        worker().client().xprt().wait_for_slot(waiter_);
    }
    static void on_wake(sunrpc::SlotWaiter& waiter) noexcept {
        WriteJob& job = *static_cast<Waiter&>(waiter).job;
        const std::lock_guard guard(job.mount().lock);
        job.state_ = State::none;
        job.copy();
    }
    void write() noexcept {
        write_.data = write_.payload.memory().first(size_);
        const std::uint64_t asked = std::exchange(
            write_.offset, append_offset(write_.offset, node().attributes.now().size, flags_));
        // Somebody else has made it longer or shorter, and the kernel does not know yet.
        if (asked != write_.offset) mount().invalidate_data(node());
        if (write_.offset > mount().limits.file_max - size_) return end(EFBIG);
        state_ = State::queued;
        if (data().writes().write(write_)) done();
    }
    void done() noexcept {
        state_ = State::none;
        if (!write_.outcome.ok()) return end(errno_of(write_.outcome));
        data().took(write_.offset, size_);
        end(0);
    }
    void end(int error) noexcept {
        state_ = State::none;
        write_.payload.reset();
        if (origin_ == nullptr) {
            if (error != 0) return fail(error);
            return reply_write(size_);
        }
        if (error != 0) {
            (void)fuse_reply_err(take_request(), error);
        } else {
            (void)fuse_reply_write(take_request(), size_);
        }
        returning_ = true;
        move_to(*origin_);
    }
    enum class State : std::uint8_t { none, waiting, queued } state_ = State::none;
    sunrpc::Payload payload_;
    const std::uint32_t size_;
    Worker* origin_ = nullptr;  // who has read it, if that is not the file's own loop
    int flags_ = 0;             // O_*, where they say where it goes
    bool returning_ = false;
    Write write_;
    Waiter waiter_;
};

void on_read(fuse_req_t req, fuse_ino_t /*ino*/, std::size_t size, off_t offset,
             fuse_file_info* info) noexcept {
    begin<ReadJob>(req, *info, static_cast<std::uint64_t>(offset),
                   static_cast<std::uint32_t>(size));
}

// The data is where the channel has put it.
void on_write(fuse_req_t req, fuse_ino_t /*ino*/, const char* /*bytes*/, std::size_t size,
              off_t offset, fuse_file_info* info) noexcept {
    sunrpc::Payload payload = worker_of(req).channel().take_payload();
    if (size == 0 || size > payload.memory().size()) {
        (void)(size == 0 ? fuse_reply_write(req, 0) : fuse_reply_err(req, EIO));
        return;
    }
    begin<WriteJob>(req, *info, std::move(payload), static_cast<std::uint64_t>(offset),
                    static_cast<std::uint32_t>(size));
}

}  // namespace

std::uint64_t append_offset(std::uint64_t at, std::uint64_t size, int flags) noexcept {
    return (flags & (O_APPEND | O_DIRECT)) == O_APPEND ? size : at;
}

bool is_writable(int flags) noexcept {
    return (flags & O_ACCMODE) != O_RDONLY;
}

OpenFile& open_file(const fuse_file_info& info) noexcept {
    return *static_cast<OpenFile*>(static_cast<void*>(bytes_at(info.fh)));
}

bool FileJob::at_home() noexcept {
    if (&worker() == &data().home()) return true;
    move_to(data().home());
    return false;
}

void add_file_operations(fuse_lowlevel_ops& ops) noexcept {
    ops.read = on_read;
    ops.write = on_write;
    add_open_operations(ops);
    add_sync_operations(ops);
    // lseek, fallocate and copy_file_range: libfuse answers ENOSYS, and the kernel does without.
}

}  // namespace nfsrdma::mount
