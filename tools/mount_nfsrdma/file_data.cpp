#include "tools/mount_nfsrdma/file_data.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/assert.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

namespace nfsrdma::mount {
namespace {

// Of a connection's payload memory, in sixteenths: the rest is for requests that are being read and
// for reads that somebody waits for.
constexpr std::uint64_t kWriteShare = 9, kReadShare = 5, kShares = 16;
constexpr std::uint32_t kDepth = 16;  // WRITEs of one file in flight

nfs::client::WriteBudget::Limits write_limits(nfs::client::Client& client, std::uint32_t payload) {
    const std::uint64_t slots = client.xprt().limits().slots;
    nfs::client::WriteBudget::Limits limits;
    limits.bytes = slots * payload * kWriteShare / kShares;
    limits.pieces = static_cast<std::uint32_t>(slots);
    limits.depth = std::clamp<std::uint32_t>(limits.pieces / 4, 1, kDepth);
    // The half of what may be held: the other half is written while the server commits the first.
    limits.commit_after = std::max<std::uint32_t>(1, limits.pieces / 4);
    return limits;
}

nfs::client::ReadPool::Limits read_limits(nfs::client::Client& client, std::uint32_t payload,
                                          bool no_ac) {
    nfs::client::ReadPool::Limits limits;
    const std::uint64_t slots = client.xprt().limits().slots;
    limits.bytes = slots * payload * kReadShare / kShares;
    limits.blocks = static_cast<std::uint32_t>(slots) * 4;
    if (no_ac) limits.max_age_ns = kNsPerSec;  // less, and rows of reads were asked for twice
    return limits;
}

}  // namespace

FilePools::FilePools(nfs::client::Client& client, std::uint32_t payload, bool no_ac)
    : writes(client, write_limits(client, payload)),
      reads(client, read_limits(client, payload, no_ac)) {}

OpenFile::OpenFile(FileData& of, Caller opener, int how)
    : data(of),
      who(std::move(opener)),
      flags(how),
      error_seen(of.writes().error_seq()),
      ahead(of.home().files().reads, of.node().handle, &of) {}

FileData::FileData(Mount& mount, Node& node, Worker& home)
    : mount_(mount),
      node_(node),
      home_(home),
      writes_(home.files().writes, node.handle, this),
      settled_task_(on_settled, *this) {
    closing_.done = [](nfs::client::WriteBehind::Waiter&) noexcept {};
    if (mount.options.no_ac) writes_.always_through();
}

FileData::~FileData() {
    if (settled_ready_) home_.loop().cancel(settled_task_);
}

FileData& FileData::of(Mount& mount, Node& node, Worker& at) {
    if (node.file == nullptr) {
        node.home = &at;
        node.file = std::make_unique<FileData>(mount, node, at);
    }
    return static_cast<FileData&>(*node.file);
}

OpenFile& FileData::open(const Caller& who, int flags) {
    return *files_.emplace_back(std::make_unique<OpenFile>(*this, who, flags));
}

void FileData::close(OpenFile& file) noexcept {
    const auto it = std::find_if(files_.begin(), files_.end(),
                                 [&](const auto& one) { return one.get() == &file; });
    NR_ASSERT(it != files_.end());
    files_.erase(it);
    if (files_.empty() && !clean()) {
        // What a mapping wrote after the last flush: nobody else would ask for its COMMIT.
        writes_.stop_waiting(closing_);
        static_cast<void>(writes_.sync(closing_));
    }
    maybe_end();
}

// Of a node that is open no more nothing is kept.
void FileData::maybe_end() noexcept {
    if (!files_.empty() || node_.opens != 0 || !writes_.idle() || pin_ || node_.unwritten) return;
    node_.home = nullptr;
    const std::unique_ptr<FileState> self = std::move(node_.file);
}

void FileData::took(std::uint64_t offset, std::uint64_t size) noexcept {
    for (const auto& file : files_)
        file->ahead.invalidate(offset, size);
    if (!pin_) pin_ = NodePin(mount_.nodes, node_);
    progressed();
    node_.attributes.note_written(offset + size);
}

// Bytes of this range that are on their way; also those behind it that make the file longer than
// the server knows, for what is before them then reads as zeros.
bool FileData::must_wait(std::uint64_t offset, std::uint64_t size) const noexcept {
    if (!node_.unwritten) return false;
    if (offset + size > end_at_server_) size = UINT64_MAX - offset;
    return writes_.unwritten_in(offset, size);
}

void FileData::progressed() noexcept {
    const bool unwritten = writes_.unwritten();
    if (unwritten && !node_.unwritten) end_at_server_ = node_.attributes.now().size;
    node_.unwritten = unwritten;
    if (!unwritten && std::exchange(failures_, writes_.error_seq()) != writes_.error_seq()) {
        // What was lost is neither in the file nor a part of its size, as had been believed.
        node_.attributes.expire();
        mount_.invalidate_data(node_);
    }
    if (!pin_ || !clean() || std::exchange(settled_ready_, true)) return;
    home_.loop().ready(settled_task_);
}

void FileData::on_settled(Task& task) noexcept {
    FileData& self = static_cast<SettledTask&>(task).data;
    const std::lock_guard guard(self.mount_.lock);
    self.settled_ready_ = false;
    if (!self.clean()) return;
    if (!self.writes_.idle()) {
        self.progressed();  // in the middle of something: once more
        return;
    }
    // With the pin the node may go, and this object before or with it.
    const NodePin pin = std::move(self.pin_);
    self.maybe_end();
}

bool FileData::when_written(Waiter& waiter) noexcept {
    waiter.done = on_written;
    return writes_.flush(waiter);
}

bool FileData::when_durable(Waiter& waiter) noexcept {
    waiter.done = on_written;
    return writes_.sync(waiter);
}

void FileData::on_written(nfs::client::WriteBehind::Waiter& waiter) noexcept {
    Waiter& self = static_cast<Waiter&>(waiter);
    self.ready(self);
}

void FileData::stop_waiting(Waiter& waiter) noexcept {
    writes_.stop_waiting(waiter);
}

void FileData::drop_ahead() noexcept {
    for (const auto& file : files_)
        file->ahead.invalidate(0, UINT64_MAX);
}

std::uint64_t FileData::change_sent() noexcept {
    node_.attributes.begin_change();
    return mount_.next_order();
}

// What was read ahead since took() may be of before the WRITE was done.
void FileData::range_answered(std::uint64_t offset, std::uint64_t size) noexcept {
    for (const auto& file : files_)
        file->ahead.invalidate(offset, size);
}

void FileData::change_answered(std::uint64_t number, const wcc_data* told) noexcept {
    if (told != nullptr) {
        mount_.take(node_, *told, number);
    } else {
        node_.attributes.expire();
    }
    node_.attributes.end_change(mount_.order());
}

void FileData::read_answered(std::uint64_t number, const post_op_attr* told) noexcept {
    if (told != nullptr) mount_.take(node_, *told, number);
}

}  // namespace nfsrdma::mount
