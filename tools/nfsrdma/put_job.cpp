#include "tools/nfsrdma/put_job.hpp"

#include <algorithm>
#include <cerrno>
#include <unistd.h>
#include <utility>

#include "tools/nfsrdma/local_file.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

constexpr std::uint32_t kAttempts = 3;  // at a source that changes while it is copied

}  // namespace

using nfs::client::FileHandle;
using nfs::client::FileWriter;
using nfs::client::Op;
using nfs::client::Outcome;

void set_mode(sattr3& attributes, std::uint32_t mode) noexcept {
    attributes.mode.set_it = TRUE;
    attributes.mode.set_mode3_u.mode = mode & 07777;
}

void set_times(sattr3& attributes, const struct stat& from) noexcept {
    attributes.atime.set_it = SET_TO_CLIENT_TIME;
    attributes.atime.set_atime_u.atime = to_nfstime(from.st_atim);
    attributes.mtime.set_it = SET_TO_CLIENT_TIME;
    attributes.mtime.set_mtime_u.mtime = to_nfstime(from.st_mtim);
}

PutJob::PutJob(nfs::client::Client& client, std::uint32_t depth, Progress& progress)
    : client_(client),
      progress_(progress),
      depth_(depth),
      writer_(client, depth),
      reads_(std::make_unique<LocalRead[]>(writer_.slots())) {
    writer_.user = create_.user = lookup_.user = setattr_.user = commit_.user = this;
    writer_.on_room = on_room;
    writer_.done = on_write_done;
    create_.done = on_created;
    lookup_.done = on_looked_up;
    setattr_.done = on_setattr;
    commit_.done = on_kept;
    for (std::uint32_t i = 0; i < writer_.slots(); ++i) {
        reads_[i].job = this;
        reads_[i].slot = &writer_.slot(i);
        reads_[i].done = on_read;
        writer_.slot(i).user = &reads_[i];
    }
}

void PutJob::start(Task task) noexcept {
    NR_ASSERT(!busy_ && done != nullptr);
    busy_ = true;
    task_ = std::move(task);
    outcome = Outcome{};
    result = CopyResult{};
    attempts_ = 0;
    begin_ = read_ = 0;
    made_ = writing_ = false;
    in_line_ = answers_from_memory(task_.fd.get());
    if (task_.rules.resume) {
        look_up();
    } else {
        create();
    }
}

void PutJob::look_up() noexcept {
    lookup_.args.what = {task_.directory.view(), task_.name.data()};
    client_.start(lookup_);
}

void PutJob::create() noexcept {
    create_.args.where = {task_.directory.view(), task_.name.data()};
    create_.args.how.mode = UNCHECKED;
    sattr3& attributes = create_.args.how.createhow3_u.obj_attributes;
    attributes = sattr3{};
    // Ours alone until it is whole; its own mode comes last.
    set_mode(attributes, 0600);
    attributes.size.set_it = TRUE;
    attributes.size.set_size3_u.size = 0;
    client_.start(create_);
}

void PutJob::on_created(Op& op) noexcept {
    PutJob& job = *static_cast<PutJob*>(op.user);
    job.made_ = op.outcome.ok();
    if (!op.outcome.ok()) {
        job.finish(op.outcome);
    } else if (!job.create_.object.empty()) {
        job.write_file(job.create_.object, 0);
    } else {
        job.look_up();
    }
}

void PutJob::on_looked_up(Op& op) noexcept {
    PutJob& job = *static_cast<PutJob*>(op.user);
    const bool absent = op.outcome.rpc && op.outcome.status == NFS3ERR_NOENT;
    if (job.made_ && op.outcome.ok()) {
        job.write_file(job.lookup_.object, 0);
    } else if (!job.made_ && absent) {
        job.create();
    } else if (!op.outcome.ok()) {
        job.finish(op.outcome);
    } else {
        job.take_what_is_there();
    }
}

// Of an earlier copy: skipped when it is whole, gone on with where that can be.
void PutJob::take_what_is_there() noexcept {
    const fattr3* const there = lookup_.attributes();
    if (there == nullptr || there->type != NF3REG) {
        create();
        return;
    }
    file_ = lookup_.object;
    CopyWish wish;
    wish.size = size();
    wish.mtime = to_nfstime(task_.attributes.st_mtim);
    wish.resume = !has_holes();  // pieces of such a file do not lie side by side
    wish.overlap = resume_overlap(client_, depth_);
    if (there->size == wish.size && same_time(there->mtime, wish.mtime)) {
        result.skipped = true;
        if (task_.rules.verify) {
            verify();
        } else {
            finish(Outcome{});
        }
        return;
    }
    const std::uint64_t begin = resume_offset(there->size, there->mtime, wish);
    if (begin == 0) {
        create();
        return;
    }
    result.continued = true;
    begin_ = begin;
    // Nobody may have made it durable, and what this copy keeps is only its own.
    commit_.args = COMMIT3args{};
    commit_.args.file = file_.view();
    client_.start(commit_);
}

void PutJob::on_kept(Op& op) noexcept {
    PutJob& job = *static_cast<PutJob*>(op.user);
    if (!op.outcome.ok()) {
        job.finish(op.outcome);
        return;
    }
    const post_op_attr& now = job.commit_.res.COMMIT3res_u.resok.file_wcc.after;
    const bool lost =
        now.attributes_follow != FALSE && now.post_op_attr_u.attributes.size < job.begin_;
    if (lost) {
        job.result.continued = false;
        job.begin_ = 0;
        job.create();
    } else {
        job.write_file(job.file_, job.begin_);
    }
}

void PutJob::write_file(const FileHandle& file, std::uint64_t begin) noexcept {
    file_ = file;
    begin_ = next_ = begin;
    data_end_ = 0;
    sparse_ = has_holes();
    if (size() == 0) {
        set_attributes();
        return;
    }
    FileWriter::Options options;
    options.file = file;
    options.block =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(size() - begin, client_.sizes().write));
    options.stable = size() <= client_.sizes().write && !sparse_;
    writing_ = true;
    writer_.start(options);
}

// The next piece of data, at most a block; false at the end. Holes are left out.
bool PutJob::next_extent(std::uint64_t& offset, std::uint64_t& bytes) noexcept {
    if (sparse_ && next_ >= data_end_) {
        const off_t data = ::lseek(task_.fd.get(), static_cast<off_t>(next_), SEEK_DATA);
        if (data < 0) {
            if (errno == ENXIO) return false;  // nothing but a hole is left
            sparse_ = false;                   // the file system cannot tell: read it all
        } else {
            next_ = static_cast<std::uint64_t>(data);
            const off_t hole = ::lseek(task_.fd.get(), data, SEEK_HOLE);
            data_end_ = hole < 0 ? size() : static_cast<std::uint64_t>(hole);
        }
    }
    if (next_ >= size()) return false;
    offset = next_;
    bytes = (sparse_ ? std::min(data_end_, size()) : size()) - next_;
    return bytes != 0;
}

void PutJob::on_room(FileWriter& writer, FileWriter::Slot& slot) noexcept {
    PutJob& job = *static_cast<PutJob*>(writer.user);
    std::uint64_t offset = 0, bytes = 0;
    if (!job.next_extent(offset, bytes)) {
        writer.end_of_input(slot);
        return;
    }
    LocalRead& op = *static_cast<LocalRead*>(slot.user);
    op.kind = FileOp::Kind::read;
    op.in_line = job.in_line_;
    op.fd = job.task_.fd.get();
    op.buffer = slot.memory().first(std::min<std::uint64_t>(bytes, slot.memory().size()));
    op.offset = offset;
    op.result = 0;
    job.next_ = offset + op.buffer.size();
    job.client_.loop().submit(op);
}

void PutJob::on_read(FileOp& file_op, std::int64_t result) noexcept {
    LocalRead& op = static_cast<LocalRead&>(file_op);
    PutJob& job = *op.job;
    if (result < 0) {
        job.writer_.fail(
            Outcome::failed(Error{Errc::system, static_cast<int>(-result), "read the local file"}));
        job.writer_.end_of_input(*op.slot);
    } else if (result == 0) {
        job.writer_.end_of_input(*op.slot);  // it became shorter meanwhile
    } else {
        job.progress_.add_bytes(static_cast<std::uint64_t>(result));
        job.read_ += static_cast<std::uint64_t>(result);
        job.writer_.filled(*op.slot, op.offset, static_cast<std::uint32_t>(result));
    }
}

void PutJob::on_write_done(FileWriter& writer) noexcept {
    PutJob& job = *static_cast<PutJob*>(writer.user);
    if (!writer.outcome.ok()) {
        job.finish(writer.outcome);
        return;
    }
    if (has_changed(job.task_.fd.get(), job.task_.attributes)) {
        if (job.copy_anew()) return;
        job.result.trouble =
            "the file keeps changing; the copy at the server may be a mixture of its states";
    }
    job.set_attributes();
}

// From the first byte on; false when that cannot be, or has not helped.
bool PutJob::copy_anew() noexcept {
    if (++attempts_ >= kAttempts || ::fstat(task_.fd.get(), &task_.attributes) != 0) return false;
    progress_.take_back_bytes(std::exchange(read_, 0));
    create();
    return true;
}

void PutJob::set_attributes() noexcept {
    setattr_.args.object = file_.view();
    setattr_.args.guard.check = FALSE;
    sattr3& attributes = setattr_.args.new_attributes;
    attributes = sattr3{};
    set_mode(attributes, task_.attributes.st_mode);
    set_times(attributes, task_.attributes);
    if (has_holes()) {
        attributes.size.set_it = TRUE;
        attributes.size.set_size3_u.size = size();
    }
    client_.start(setattr_);
}

void PutJob::on_setattr(Op& op) noexcept {
    PutJob& job = *static_cast<PutJob*>(op.user);
    if (op.outcome.ok() && job.task_.rules.verify && job.result.trouble.empty()) {
        job.verify();
    } else {
        job.finish(op.outcome);
    }
}

void PutJob::verify() noexcept {
    if (verifier_ == nullptr) {
        verifier_ = std::make_unique<VerifyJob>(client_, depth_);
        verifier_->user = this;
        verifier_->done = on_verified;
    }
    verifier_->start(file_, size(), task_.fd.get());
}

void PutJob::on_verified(VerifyJob& verifier) noexcept {
    PutJob& job = *static_cast<PutJob*>(verifier.user);
    job.result.verified = verifier.same();
    if (verifier.outcome.ok() && !verifier.same()) {
        // What an earlier copy has left was not what it seemed to be.
        const bool was_old = job.result.skipped || job.result.continued;
        job.result.skipped = job.result.continued = false;
        if (was_old && job.copy_anew()) return;
        job.result.trouble = difference_text(verifier);
    }
    job.finish(verifier.outcome);
}

std::string PutJob::remains() const {
    if (!made_ && !result.continued) return "";
    const std::uint64_t there = begin_ + (writing_ ? writer_.bytes() : 0);
    if (there == 0) return "; an empty file is left at the server";
    return "; " + human_bytes(static_cast<double>(there)) +
           " of it are at the server, and put --continue goes on with them";
}

void PutJob::finish(const Outcome& why) noexcept {
    outcome = why;
    const bool good = why.ok() && result.trouble.empty();
    if (good) progress_.add_file();
    task_.fd.reset();
    busy_ = false;
    done(*this);
}

}  // namespace nfsrdma::tool
