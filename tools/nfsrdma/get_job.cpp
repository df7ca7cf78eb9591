#include "tools/nfsrdma/get_job.hpp"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

constexpr std::uint32_t kAttempts = 3;  // at a source that changes while it is copied

}  // namespace

using nfs::client::FileReader;
using nfs::client::Outcome;

std::uint64_t resume_overlap(nfs::client::Client& client, std::uint32_t depth) noexcept {
    // The largest pieces that the connection carries: the earlier copy may have used other sizes.
    return std::uint64_t{FileReader::kWindowDepths} * depth * client.xprt().limits().max_payload;
}

GetJob::GetJob(nfs::client::Client& client, std::uint32_t depth, Progress& progress)
    : client_(client),
      progress_(progress),
      depth_(depth),
      reader_(client, depth),
      writes_(std::make_unique<LocalWrite[]>(reader_.depth())),
      finish_task_(on_finished) {
    reader_.user = this;
    reader_.on_data = on_data;
    reader_.done = on_read_done;
    finish_task_.job = this;
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
    result = CopyResult{};
    attempts_ = 0;
    end_ = 0;
    created_ = false;
    outcome.rpc = open_file();
    if (outcome.ok() && !result.skipped) {
        read_from(end_);
    } else if (outcome.ok() && task_.rules.verify) {
        verify();
    } else {
        finish();
    }
}

Result<void> GetJob::open_file() noexcept {
    CopyWish wish;
    wish.size = task_.attributes.size;
    wish.mtime = task_.attributes.mtime;
    wish.resume = task_.rules.resume && attempts_ == 0;
    wish.readable = task_.rules.verify;
    wish.overlap = resume_overlap(client_, depth_);
    NR_TRY_ASSIGN(CopyFile file, open_copy(task_.directory.get(), task_.name, wish));
    fd_ = std::move(file.fd);
    created_ = created_ || file.created;
    result.skipped = file.complete;
    result.continued = file.begin != 0;
    end_ = file.begin;
    return {};
}

void GetJob::read_from(std::uint64_t offset) noexcept {
    // Blocks of zeros are looked for only where the server has holes: looking costs a pass over the
    // data.
    sparse_ = task_.attributes.used < task_.attributes.size;
    in_line_ = answers_from_memory(fd_.get());
    FileReader::Options options;
    options.file = task_.file;
    options.offset = offset;
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
    op.fd = fd_.get();
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

// Whether what was read is, as far as the server tells, not the file that was to be copied. Its new
// attributes are taken over.
bool GetJob::source_changed() noexcept {
    const fattr3* const now = reader_.attributes();
    const bool known = now != nullptr && now->type == NF3REG;
    const bool changed = end_ != task_.attributes.size ||
                         (known && (now->size != task_.attributes.size ||
                                    now->mtime.seconds != task_.attributes.mtime.seconds ||
                                    now->mtime.nseconds != task_.attributes.mtime.nseconds));
    if (changed && known) task_.attributes = *now;
    if (changed && !known) task_.attributes.size = end_;
    return changed;
}

// From the first byte on; false when that cannot be.
bool GetJob::copy_anew() noexcept {
    if (++attempts_ >= kAttempts) return false;
    progress_.take_back_bytes(reader_.bytes());
    fd_.reset();
    outcome.rpc = open_file();
    if (!outcome.ok()) return false;
    read_from(0);
    return true;
}

void GetJob::on_read_done(FileReader& reader) noexcept {
    GetJob& job = *static_cast<GetJob*>(reader.user);
    job.outcome = reader.outcome;
    if (job.outcome.ok() && job.source_changed()) {
        if (job.copy_anew()) return;
        if (job.outcome.ok()) {
            job.result.trouble =
                "the file keeps changing at the server; the copy may be a mixture of its states";
        }
    }
    if (job.outcome.ok()) job.outcome.rpc = job.finish_file();
    if (job.outcome.ok() && job.result.trouble.empty() && job.task_.rules.verify) {
        job.verify();
    } else {
        job.finish();
    }
}

void GetJob::verify() noexcept {
    if (verifier_ == nullptr) {
        verifier_ = std::make_unique<VerifyJob>(client_, depth_);
        verifier_->user = this;
        verifier_->done = on_verified;
    }
    verifier_->start(task_.file, task_.attributes.size, fd_.get());
}

void GetJob::on_verified(VerifyJob& verifier) noexcept {
    GetJob& job = *static_cast<GetJob*>(verifier.user);
    job.outcome = verifier.outcome;
    job.result.verified = verifier.same();
    if (job.outcome.ok() && !verifier.same()) {
        // What an earlier copy has left was not what it seemed to be.
        const bool was_old = job.result.skipped || job.result.continued;
        job.result.skipped = job.result.continued = false;
        if (was_old && job.copy_anew()) return;
        if (job.outcome.ok()) job.result.trouble = difference_text(verifier);
    }
    job.finish();
}

Result<void> GetJob::finish_file() noexcept {
    const int fd = fd_.get();
    if (sparse_ && ::ftruncate(fd, static_cast<off_t>(end_)) != 0) {
        return Error{Errc::system, errno, "set the size of the local file"};
    }
    NR_TRY(set_mode_and_times(fd, task_.attributes.mode, task_.attributes.atime,
                              task_.attributes.mtime));
    if (task_.rules.verify) return {};  // it is still needed
    // Some file systems tell of a full disk only here.
    if (::close(fd_.release()) != 0) return Error{Errc::system, errno, "close the local file"};
    return {};
}

std::string GetJob::remains() const {
    if (end_ == 0) return "";
    return "; " + human_bytes(static_cast<double>(end_)) +
           " of it are there, and get --continue goes on with them";
}

// Not from inside start().
void GetJob::finish() noexcept {
    client_.loop().ready(finish_task_);
}

void GetJob::on_finished(::nfsrdma::Task& task) noexcept {
    GetJob& job = *static_cast<FinishTask&>(task).job;
    const bool good = job.outcome.ok() && job.result.trouble.empty();
    if (!good && job.created_ && job.end_ == 0)
        (void)::unlinkat(job.task_.directory.get(), job.task_.name.c_str(), 0);
    job.fd_.reset();
    job.task_.directory.reset();
    if (good) job.progress_.add_file();
    job.busy_ = false;
    job.done(job);
}

}  // namespace nfsrdma::tool
