#include "tools/nfsrdma/stream_put.hpp"

#include <array>
#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "nfs/client/write_file.hpp"
#include "tools/nfsrdma/put_job.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::FileHandle;
using nfs::client::FileWriter;
using nfs::client::Outcome;

constexpr std::uint32_t kStreamDepth = 8;

// Reading a pipe may take for ever: it is left to a helper thread, one piece after the other.
class StreamPut {
  public:
    StreamPut(Calls& calls, int fd, Progress& progress)
        : calls_(calls), progress_(progress), fd_(fd), writer_(calls.client(), kStreamDepth) {
        work_.run = on_helper;
        work_.done = on_read;
        work_.put = this;
        writer_.user = this;
        writer_.on_room = [](FileWriter& writer, FileWriter::Slot& slot) noexcept {
            StreamPut& self = *static_cast<StreamPut*>(writer.user);
            self.waiting_[self.waiting_count_++] = &slot;
            self.read_next();
        };
        writer_.done = [](FileWriter& writer) noexcept {
            static_cast<StreamPut*>(writer.user)->finished_ = true;
        };
    }
    Outcome run(const FileHandle& file) {
        FileWriter::Options options;
        options.file = file;
        writer_.start(options);
        calls_.wait_or_leave([this] { return finished_; });
        return writer_.outcome;
    }

  private:
    struct Work final : BlockingWork {
        StreamPut* put = nullptr;
        FileWriter::Slot* slot = nullptr;
        std::size_t size = 0;
        int error = 0;
    };
    static void on_helper(BlockingWork& base) noexcept {
        Work& work = static_cast<Work&>(base);
        work.size = 0;
        work.error = 0;
        const std::span<std::byte> memory = work.slot->memory();
        while (work.size < memory.size()) {
            const ssize_t got =
                ::read(work.put->fd_, memory.data() + work.size, memory.size() - work.size);
            if (got == 0) return;
            if (got > 0) {
                work.size += static_cast<std::size_t>(got);
            } else if (errno != EINTR) {
                work.error = errno;
                return;
            }
        }
    }
    static void on_read(BlockingWork& base) noexcept {
        Work& work = static_cast<Work&>(base);
        StreamPut& self = *work.put;
        FileWriter::Slot& slot = *std::exchange(work.slot, nullptr);
        self.at_end_ = work.size < slot.memory().size();
        if (work.error != 0) {
            self.writer_.fail(
                Outcome::failed(Error{Errc::system, work.error, "read standard input"}));
        }
        if (work.size == 0 || work.error != 0) {
            self.writer_.end_of_input(slot);
        } else {
            const std::uint64_t offset = self.offset_;
            self.offset_ += work.size;
            self.progress_.add_bytes(work.size);
            self.writer_.filled(slot, offset, static_cast<std::uint32_t>(work.size));
        }
        self.read_next();
    }
    void read_next() noexcept {
        if (work_.slot != nullptr) return;
        if (at_end_ || !writer_.outcome.ok()) {
            while (waiting_count_ != 0)
                writer_.end_of_input(*waiting_[--waiting_count_]);
            return;
        }
        if (waiting_count_ == 0) return;
        work_.slot = waiting_[--waiting_count_];
        calls_.loop().submit(work_);
    }

    Calls& calls_;
    Progress& progress_;
    const int fd_;
    FileWriter writer_;
    Work work_;
    std::array<FileWriter::Slot*, kStreamDepth> waiting_{};
    std::size_t waiting_count_ = 0;
    std::uint64_t offset_ = 0;
    bool at_end_ = false, finished_ = false;
};

Outcome create(Calls& calls, const Found& target, FileHandle& made) {
    std::string name = target.name;
    nfs::client::CreateOp op;
    op.args.where = {target.handle.view(), name.data()};
    op.args.how.mode = UNCHECKED;
    sattr3& attributes = op.args.how.createhow3_u.obj_attributes;
    set_mode(attributes, permitted_by_umask(0666));
    attributes.size.set_it = TRUE;
    attributes.size.set_size3_u.size = 0;
    const Outcome outcome = calls.run(op);
    made = op.object;
    if (!outcome.ok() || !made.empty()) return outcome;
    const Found found = calls.look_up(target.handle, name);
    made = found.handle;
    return found.outcome;
}

}  // namespace

bool put_stream(Calls& calls, int fd, const Found& target, const std::string& label,
                Progress& progress, CopyReport& report) {
    FileHandle file;
    Outcome outcome = create(calls, target, file);
    if (outcome.ok()) outcome = StreamPut(calls, fd, progress).run(file);
    if (outcome.ok()) {
        progress.add_file();
        ++report.files;
        return true;
    }
    report.failed(label, calls.explain(outcome), calls.interrupted());
    return false;
}

}  // namespace nfsrdma::tool
