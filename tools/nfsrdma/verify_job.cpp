#include "tools/nfsrdma/verify_job.hpp"

#include <algorithm>
#include <sys/stat.h>

#include "tools/nfsrdma/local_file.hpp"

namespace nfsrdma::tool {

using nfs::client::FileReader;
using nfs::client::Outcome;

VerifyJob::VerifyJob(nfs::client::Client& client, std::uint32_t depth)
    : client_(client),
      reader_(client, depth),
      reads_(std::make_unique<LocalRead[]>(reader_.depth())) {
    reader_.user = this;
    reader_.on_data = on_data;
    reader_.done = on_read_done;
    for (std::uint32_t i = 0; i < reader_.depth(); ++i) {
        reads_[i].job = this;
        reads_[i].slot = &reader_.slot(i);
        reads_[i].done = on_read;
        reader_.slot(i).user = &reads_[i];
    }
}

void VerifyJob::start(const nfs::client::FileHandle& file, std::uint64_t size, int fd) {
    NR_ASSERT(done != nullptr);
    outcome = Outcome{};
    difference_ = UINT64_MAX;
    size_ = size;
    fd_ = fd;
    in_line_ = answers_from_memory(fd);
    struct stat st {};
    if (::fstat(fd, &st) == 0 && static_cast<std::uint64_t>(st.st_size) != size)
        differs_at(std::min(size, static_cast<std::uint64_t>(st.st_size)));
    const std::uint64_t block = std::min<std::uint64_t>(client_.sizes().read, size + 1);
    for (std::uint32_t i = 0; i < reader_.depth(); ++i) {
        if (reads_[i].memory.size() < block) reads_[i].memory.resize(block);
    }
    FileReader::Options options;
    options.file = file;
    options.size_hint = size;
    options.length = size + 1;  // the byte more tells whether it is longer
    reader_.start(options);
}

void VerifyJob::on_data(FileReader& reader, FileReader::Slot& slot) noexcept {
    VerifyJob& job = *static_cast<VerifyJob*>(reader.user);
    LocalRead& op = *static_cast<LocalRead*>(slot.user);
    op.kind = FileOp::Kind::read;
    op.in_line = job.in_line_;
    op.fd = job.fd_;
    op.buffer = std::span(op.memory).first(slot.data().size());
    op.offset = slot.offset();
    op.result = 0;
    job.client_.loop().submit(op);
}

void VerifyJob::on_read(FileOp& file_op, std::int64_t result) noexcept {
    LocalRead& op = static_cast<LocalRead&>(file_op);
    VerifyJob& job = *op.job;
    const std::span<std::byte> theirs = op.slot->data();
    if (result < 0) {
        job.reader_.fail(Outcome::failed(
            Error{Errc::system, static_cast<int>(-result), "read the local file again"}));
    } else {
        const auto most = static_cast<std::ptrdiff_t>(
            std::min<std::uint64_t>(static_cast<std::uint64_t>(result), theirs.size()));
        const auto [ours, other] =
            std::mismatch(op.memory.begin(), op.memory.begin() + most, theirs.begin());
        const auto at = static_cast<std::uint64_t>(other - theirs.begin());
        if (at < theirs.size()) job.differs_at(op.slot->offset() + at);
    }
    job.reader_.consumed(*op.slot);
}

void VerifyJob::differs_at(std::uint64_t offset) noexcept {
    difference_ = std::min(difference_, offset);
}

void VerifyJob::on_read_done(FileReader& reader) noexcept {
    VerifyJob& job = *static_cast<VerifyJob*>(reader.user);
    job.outcome = reader.outcome;
    if (reader.bytes() != job.size_) job.differs_at(std::min(reader.bytes(), job.size_));
    job.done(job);
}

std::string difference_text(const VerifyJob& job) {
    return "verification failed: the copy is not what the source is, from byte " +
           std::to_string(job.difference()) + " on";
}

}  // namespace nfsrdma::tool
