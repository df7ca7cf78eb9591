#include "tools/nfsrdma/put_job.hpp"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

#include "tools/nfsrdma/local_file.hpp"

namespace nfsrdma::tool {

using nfs::client::FileHandle;
using nfs::client::FileWriter;
using nfs::client::Op;
using nfs::client::Outcome;

void set_mode(sattr3& attributes, std::uint32_t mode) noexcept {
    attributes.mode.set_it = TRUE;
    attributes.mode.set_mode3_u.mode = mode & 07777;
}

void set_mtime(sattr3& attributes, const timespec& mtime) noexcept {
    attributes.mtime.set_it = SET_TO_CLIENT_TIME;
    attributes.mtime.set_mtime_u.mtime = to_nfstime(mtime);
}

PutJob::PutJob(nfs::client::Client& client, std::uint32_t depth, Progress& progress)
    : client_(client),
      progress_(progress),
      writer_(client, depth),
      reads_(std::make_unique<LocalRead[]>(writer_.depth())) {
    writer_.user = create_.user = lookup_.user = setattr_.user = this;
    writer_.on_room = on_room;
    writer_.on_restart = on_restart;
    writer_.done = on_write_done;
    create_.done = on_created;
    lookup_.done = on_looked_up;
    setattr_.done = on_setattr;
    for (std::uint32_t i = 0; i < writer_.depth(); ++i) {
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
    next_ = data_end_ = 0;
    sparse_ = static_cast<std::uint64_t>(task_.attributes.st_blocks) * 512 < size();
    in_line_ = answers_from_memory(task_.fd.get());
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
    if (!op.outcome.ok()) {
        job.finish(op.outcome);
    } else if (!job.create_.object.empty()) {
        job.write_file(job.create_.object);
    } else {
        job.lookup_.args.what = {job.task_.directory.view(), job.task_.name.data()};
        job.client_.start(job.lookup_);
    }
}

void PutJob::on_looked_up(Op& op) noexcept {
    PutJob& job = *static_cast<PutJob*>(op.user);
    if (!op.outcome.ok()) {
        job.finish(op.outcome);
    } else {
        job.write_file(job.lookup_.object);
    }
}

void PutJob::write_file(const FileHandle& file) noexcept {
    file_ = file;
    if (size() == 0) {
        set_attributes();
        return;
    }
    FileWriter::Options options;
    options.file = file;
    options.block =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(size(), client_.sizes().write));
    options.one_stable_write = size() <= client_.sizes().write && !sparse_;
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
        job.writer_.filled(*op.slot, op.offset, static_cast<std::uint32_t>(result));
    }
}

void PutJob::on_restart(FileWriter& writer) noexcept {
    PutJob& job = *static_cast<PutJob*>(writer.user);
    job.next_ = job.data_end_ = 0;
}

void PutJob::on_write_done(FileWriter& writer) noexcept {
    PutJob& job = *static_cast<PutJob*>(writer.user);
    if (!writer.outcome.ok()) {
        job.finish(writer.outcome);
    } else {
        job.set_attributes();
    }
}

void PutJob::set_attributes() noexcept {
    setattr_.args.object = file_.view();
    setattr_.args.guard.check = FALSE;
    sattr3& attributes = setattr_.args.new_attributes;
    attributes = sattr3{};
    set_mode(attributes, task_.attributes.st_mode);
    set_mtime(attributes, task_.attributes.st_mtim);
    const bool ends_in_hole = static_cast<std::uint64_t>(task_.attributes.st_blocks) * 512 < size();
    if (ends_in_hole) {
        attributes.size.set_it = TRUE;
        attributes.size.set_size3_u.size = size();
    }
    client_.start(setattr_);
}

void PutJob::on_setattr(Op& op) noexcept {
    PutJob& job = *static_cast<PutJob*>(op.user);
    if (op.outcome.ok()) job.progress_.add_file();
    job.finish(op.outcome);
}

void PutJob::finish(const Outcome& why) noexcept {
    outcome = why;
    task_.fd.reset();
    busy_ = false;
    done(*this);
}

}  // namespace nfsrdma::tool
