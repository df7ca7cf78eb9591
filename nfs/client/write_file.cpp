// Operation. pump() takes a piece with memory as long as there may be more under way and asks the
// producer to fill it; a filled one is UnstableWrites' until it is durable. When the input has
// ended and nothing is under way, a COMMIT follows for what is still kept, and again until nothing
// is.
//
// Ownership. A slot is the producer's from on_room to filled() or end_of_input(), else writes_'s.
//
// Errors. The first one ends the writing; later ones are ignored.
#include "nfs/client/write_file.hpp"

#include <algorithm>

namespace nfsrdma::nfs::client {
namespace {

// COMMITs go by the half of what the connection has memory for: the other half is written
// meanwhile.
UnstableWrites::Limits limits_of(Client& client, std::uint32_t depth) noexcept {
    UnstableWrites::Limits limits;
    limits.depth = depth;
    limits.commit_after = std::max(depth, client.xprt().limits().slots / 2);
    limits.pieces = depth + 2 * limits.commit_after;
    return limits;
}

}  // namespace

FileWriter::FileWriter(Client& client, std::uint32_t depth)
    : client_(client),
      depth_(std::max(depth, 1u)),
      writes_(client, limits_of(client, depth_)),
      finish_task_(on_finished) {
    waiter_.writer = finish_task_.writer = this;
    waiter_.wake = on_wake;
    writes_.user = this;
    writes_.changed = on_changed;
}

FileWriter::~FileWriter() {
    NR_ASSERT(!running_);
    client_.xprt().stop_waiting(waiter_);
}

void FileWriter::start(const Options& options) noexcept {
    NR_ASSERT(!running_ && on_room != nullptr && done != nullptr);
    block_ = options.block == 0 ? client_.sizes().write : options.block;
    block_ = std::min(block_, client_.sizes().write);
    outcome = Outcome{};
    writes_.begin({.file = options.file, .stable = options.stable});
    input_ended_ = finishing_ = false;
    running_ = true;
    pump();
}

bool FileWriter::may_go_on() const noexcept {
    return outcome.ok() && !input_ended_ && writes_.under_way() < depth_ &&
           writes_.window() < std::uint64_t{kWindowDepths} * depth_;
}

void FileWriter::pump() noexcept {
    while (may_go_on()) {
        Result<Slot*> slot = writes_.take(block_);
        if (slot) {
            on_room(*this, **slot);
            continue;
        }
        if (slot.error().code != Errc::again) {
            fail(Outcome::failed(slot.error()));
        } else {
            client_.xprt().wait_for_slot(waiter_);
        }
        break;
    }
    maybe_finish();
}

void FileWriter::on_wake(sunrpc::SlotWaiter& waiter) noexcept {
    FileWriter& writer = *static_cast<Waiter&>(waiter).writer;
    if (writer.running_ && !writer.finishing_) writer.pump();
}

void FileWriter::on_changed(UnstableWrites& writes) noexcept {
    FileWriter& writer = *static_cast<FileWriter*>(writes.user);
    if (!writer.running_ || writer.finishing_) return;
    if (writer.outcome.ok()) writer.outcome = writes.outcome;
    writer.pump();
}

void FileWriter::filled(Slot& slot, std::uint64_t offset, std::uint32_t size) noexcept {
    writes_.write(slot, offset, size);
    maybe_finish();
}

void FileWriter::end_of_input(Slot& slot) noexcept {
    input_ended_ = true;
    writes_.give_back(slot);
    maybe_finish();
}

void FileWriter::fail(const Outcome& why) noexcept {
    NR_ASSERT(!why.ok());
    if (outcome.ok()) outcome = why;
    writes_.fail(why);
    maybe_finish();
}

void FileWriter::maybe_finish() noexcept {
    if (!running_ || finishing_ || writes_.under_way() != 0) return;
    // Memory that was let go may have woken us before on_changed could tell.
    if (outcome.ok()) outcome = writes_.outcome;
    if (outcome.ok()) {
        if (!input_ended_) return;  // waits for memory
        if (writes_.kept() != 0) {
            writes_.commit();
            return;
        }
    }
    if (!writes_.empty()) return;
    finishing_ = true;
    client_.xprt().stop_waiting(waiter_);
    client_.loop().ready(finish_task_);
}

void FileWriter::on_finished(Task& task) noexcept {
    FileWriter& writer = *static_cast<FinishTask&>(task).writer;
    writer.running_ = false;
    writer.done(writer);
}

}  // namespace nfsrdma::nfs::client
