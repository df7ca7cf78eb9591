#include "tests/sim/nfs_workers.hpp"

#include <algorithm>
#include <cstring>

#include "tests/support/byte_pattern.hpp"
#include "tests/support/raw_peer.hpp"

namespace nfsrdma::test {
namespace {

constexpr std::uint32_t kDepth = 4, kBlock = 8192;

}  // namespace

FileWorker::FileWorker(nfs::client::Client& client, const nfs::client::FileHandle& root,
                       std::uint64_t seed, std::uint32_t files, std::uint32_t bytes_max)
    : client_(client),
      root_(root),
      prng_(seed),
      seed_(seed),
      left_(files),
      bytes_max_(bytes_max),
      writer_(client, kDepth),
      reader_(client, kDepth) {
    create_.user = writer_.user = reader_.user = this;
    create_.done = on_created;
    writer_.on_room = on_room;
    writer_.done = on_written;
    reader_.on_data = on_data;
    reader_.done = on_read;
}

bool FileWorker::good(const nfs::client::Outcome& outcome, const char* what) {
    ++steps;
    if (outcome.ok()) return true;
    trouble = std::string(what) + " " + name_ + ": " + to_string(outcome);
    return false;
}

void FileWorker::start() {
    next();
}

void FileWorker::next() {
    if (finished()) return;
    name_ = "file-" + std::to_string(seed_) + "-" + std::to_string(left_);
    content_ = pattern(1 + static_cast<std::uint32_t>(prng_.below(bytes_max_)), prng_.next());
    create_.args = {};
    create_.args.where = {root_.view(), name_.data()};
    create_.args.how.mode = GUARDED;
    create_.args.how.createhow3_u.obj_attributes.mode.set_it = TRUE;
    create_.args.how.createhow3_u.obj_attributes.mode.set_mode3_u.mode = 0644;
    client_.start(create_);
}

void FileWorker::on_created(nfs::client::Op& op) noexcept {
    auto& self = *static_cast<FileWorker*>(op.user);
    if (!self.good(op.outcome, "CREATE")) return;
    if (self.create_.object.empty()) {
        self.trouble = "CREATE without a handle";
        return;
    }
    self.file_ = self.create_.object;
    self.offset_ = 0;
    self.writer_.start({.file = self.file_, .block = kBlock});
}

void FileWorker::on_room(nfs::client::FileWriter& writer,
                         nfs::client::FileWriter::Slot& slot) noexcept {
    auto& self = *static_cast<FileWorker*>(writer.user);
    const std::uint64_t left = self.content_.size() - self.offset_;
    if (left == 0) {
        writer.end_of_input(slot);
        return;
    }
    const auto size =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(left, slot.memory().size()));
    std::copy_n(self.content_.begin() + static_cast<std::ptrdiff_t>(self.offset_), size,
                slot.memory().begin());
    const std::uint64_t at = self.offset_;
    self.offset_ += size;
    writer.filled(slot, at, size);
}

void FileWorker::on_written(nfs::client::FileWriter& writer) noexcept {
    auto& self = *static_cast<FileWorker*>(writer.user);
    if (!self.good(writer.outcome, "write")) return;
    self.committed[self.name_] = self.content_;
    self.read_ = 0;
    self.reader_.start({.file = self.file_, .block = kBlock});
}

void FileWorker::on_data(nfs::client::FileReader& reader,
                         nfs::client::FileReader::Slot& slot) noexcept {
    auto& self = *static_cast<FileWorker*>(reader.user);
    const auto data = slot.data();
    const std::uint64_t at = slot.offset();
    const bool right = at + data.size() <= self.content_.size() &&
                       std::equal(data.begin(), data.end(),
                                  self.content_.begin() + static_cast<std::ptrdiff_t>(at));
    if (!right) self.trouble = "READ of " + self.name_ + " at " + std::to_string(at) + " is wrong";
    self.read_ += data.size();
    reader.consumed(slot);
}

void FileWorker::on_read(nfs::client::FileReader& reader) noexcept {
    auto& self = *static_cast<FileWorker*>(reader.user);
    if (!self.good(reader.outcome, "read")) return;
    if (self.read_ != self.content_.size()) self.trouble = "READ of " + self.name_ + " is short";
    --self.left_;
    self.next();
}

NameWorker::NameWorker(nfs::client::Client& client, const nfs::client::FileHandle& root,
                       std::uint64_t seed, std::uint32_t rounds)
    : client_(client), root_(root), seed_(seed), rounds_(rounds) {
    nfs::client::Op* const all[] = {&mkdir_,      &create_, &link_op_, &rename_,
                                    &symlink_op_, &remove_, &rmdir_};
    for (nfs::client::Op* op : all) {
        op->user = this;
        op->done = on_done;
    }
}

std::string NameWorker::name(const char* kind) const {
    return std::string(kind) + "-" + std::to_string(seed_) + "-" + std::to_string(round_);
}

void NameWorker::begin(nfs::client::Op& op, const char* what) {
    what_ = what;
    running_ = &op;
    client_.start(op);
}

void NameWorker::on_done(nfs::client::Op& op) noexcept {
    auto& self = *static_cast<NameWorker*>(op.user);
    self.running_ = nullptr;
    ++self.steps;
    if (!op.outcome.ok()) {
        self.trouble = std::string(self.what_) + " of round " + std::to_string(self.round_) + ": " +
                       to_string(op.outcome);
        return;
    }
    self.next();
}

// One round: what it made it removes, but for every third, whose names stay.
void NameWorker::next() {
    if (finished()) return;
    const bool keeps = round_ % 3 == 0;
    switch (step_++) {
        case 0:
            directory_ = name("directory");
            file_ = name("file");
            link_ = name("link");
            renamed_ = name("renamed");
            symlink_ = name("symlink");
            mkdir_.args = {};
            mkdir_.args.where = in_root(directory_);
            mkdir_.args.attributes.mode.set_it = TRUE;
            mkdir_.args.attributes.mode.set_mode3_u.mode = 0755;
            return begin(mkdir_, "MKDIR");
        case 1:
            create_.args = {};
            create_.args.where = in_root(file_);
            if (round_ % 2 == 0) {
                create_.args.how.mode = EXCLUSIVE;
                std::memcpy(create_.args.how.createhow3_u.verf, &round_, sizeof round_);
            } else {
                create_.args.how.mode = GUARDED;
                create_.args.how.createhow3_u.obj_attributes.mode.set_it = TRUE;
                create_.args.how.createhow3_u.obj_attributes.mode.set_mode3_u.mode = 0640;
            }
            return begin(create_, "CREATE");
        case 2:
            link_op_.args.file = create_.object.view();
            link_op_.args.link = in_root(link_);
            return begin(link_op_, "LINK");
        case 3:
            rename_.args.from = in_root(file_);
            rename_.args.to = in_root(renamed_);
            rename_.object = create_.object;
            return begin(rename_, "RENAME");
        case 4:
            symlink_op_.args = {};
            symlink_op_.args.where = in_root(symlink_);
            symlink_op_.args.symlink.symlink_data = text_.data();
            return begin(symlink_op_, "SYMLINK");
        case 5:
            remove_.args.object = in_root(link_);
            return begin(remove_, "REMOVE of the link");
        case 6:
            if (keeps) {
                there.insert(there.end(), {directory_, renamed_, symlink_});
                gone.insert(gone.end(), {file_, link_});
                break;
            }
            remove_.args.object = in_root(renamed_);
            return begin(remove_, "REMOVE of the file");
        case 7:
            remove_.args.object = in_root(symlink_);
            return begin(remove_, "REMOVE of the symbolic link");
        case 8:
            rmdir_.args.object = in_root(directory_);
            return begin(rmdir_, "RMDIR");
        default:
            gone.insert(gone.end(), {directory_, file_, link_, renamed_, symlink_});
            break;
    }
    step_ = 0;
    ++round_;
    next();
}

}  // namespace nfsrdma::test
