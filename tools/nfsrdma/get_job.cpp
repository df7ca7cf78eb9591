#include "tools/nfsrdma/get_job.hpp"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

#include "tools/nfsrdma/local_file.hpp"

namespace nfsrdma::tool {

using nfs::client::FileReader;
using nfs::client::Outcome;

GetJob::GetJob(nfs::client::Client& client, std::uint32_t depth, Progress& progress)
    : client_(client),
      progress_(progress),
      reader_(client, depth),
      writes_(std::make_unique<LocalWrite[]>(reader_.depth())) {
    reader_.user = this;
    reader_.on_data = on_data;
    reader_.done = on_read_done;
    for (std::uint32_t i = 0; i < reader_.depth(); ++i) {
        writes_[i].job = this;
        writes_[i].slot = &reader_.slot(i);
        writes_[i].done = on_written;
        reader_.slot(i).user = &writes_[i];
    }
}

void GetJob::start(Task task) noexcept {
    NR_ASSERT(!busy_ && done != nullptr);
    busy_ = true;
    task_ = std::move(task);
    outcome = Outcome{};
    end_ = 0;
    // Blocks of zeros are looked for only where the server has holes: looking costs a pass over the
    // data.
    sparse_ = task_.attributes.used < task_.attributes.size;
    in_line_ = answers_from_memory(task_.fd.get());
    FileReader::Options options;
    options.file = task_.file;
    options.size_hint = task_.attributes.size;
    if (task_.attributes.size == 0)
        options.length = client_.sizes().read;  // it may have grown; one look
    reader_.start(options);
}

void GetJob::on_data(FileReader& reader, FileReader::Slot& slot) noexcept {
    GetJob& job = *static_cast<GetJob*>(reader.user);
    const std::span<std::byte> data = slot.data();
    job.end_ = std::max(job.end_, slot.offset() + data.size());
    job.progress_.add_bytes(data.size());
    if (job.sparse_ && is_zero(data.data(), data.size())) {
        reader.consumed(slot);
        return;
    }
    job.write(slot);
}

void GetJob::write(FileReader::Slot& slot) noexcept {
    LocalWrite& op = *static_cast<LocalWrite*>(slot.user);
    op.kind = FileOp::Kind::write;
    op.in_line = in_line_;
    op.fd = task_.fd.get();
    op.buffer = slot.data();
    op.offset = slot.offset();
    op.result = 0;
    client_.loop().submit(op);
}

void GetJob::on_written(FileOp& file_op, std::int64_t result) noexcept {
    LocalWrite& op = static_cast<LocalWrite&>(file_op);
    GetJob& job = *op.job;
    if (result <= 0) {
        const auto error = result == 0 ? ENOSPC : static_cast<int>(-result);
        job.reader_.fail(Outcome::failed(Error{Errc::system, error, "write the local file"}));
    } else if (static_cast<std::size_t>(result) < op.buffer.size()) {
        // What is in the way comes to light when the rest is tried.
        op.buffer = op.buffer.subspan(static_cast<std::size_t>(result));
        op.offset += static_cast<std::uint64_t>(result);
        op.result = 0;
        job.client_.loop().submit(op);
        return;
    }
    job.reader_.consumed(*op.slot);
}

void GetJob::on_read_done(FileReader& reader) noexcept {
    GetJob& job = *static_cast<GetJob*>(reader.user);
    job.outcome = reader.outcome;
    if (job.outcome.ok()) job.outcome.rpc = job.finish_file();
    job.task_.fd.reset();
    if (job.outcome.ok()) job.progress_.add_file();
    job.busy_ = false;
    job.done(job);
}

Result<void> GetJob::finish_file() noexcept {
    const int fd = task_.fd.get();
    if (sparse_ && ::ftruncate(fd, static_cast<off_t>(end_)) != 0) {
        return Error{Errc::system, errno, "set the size of the local file"};
    }
    NR_TRY(set_mode_and_mtime(fd, task_.attributes.mode, task_.attributes.mtime));
    // Some file systems tell of a full disk only here.
    if (::close(task_.fd.release()) != 0) return Error{Errc::system, errno, "close the local file"};
    return {};
}

}  // namespace nfsrdma::tool
