// Operation. pump() takes payload memory for every free slot and asks the producer to fill it; a
// filled slot becomes a WRITE, and another one for the rest where the server wrote less. When the
// input has ended and all slots are home, a COMMIT follows, unless everything was written stably;
// its verifier, and that of every WRITE, must be one and the same, or all is written anew.
//
// Ownership. A slot's payload is the producer's from on_room to filled(), then the WRITE's; free
// slots hold none.
//
// Errors. The first one ends the writing; later ones are ignored.
#include "nfs/client/write_file.hpp"

#include <algorithm>
#include <cstring>

namespace nfsrdma::nfs::client {
namespace {

constexpr std::uint32_t kRestartsMax = 3;

}  // namespace

FileWriter::FileWriter(Client& client, std::uint32_t depth)
    : client_(client),
      depth_(std::max(depth, 1u)),
      slots_(std::make_unique<Slot[]>(depth_)),
      finish_task_(on_finished) {
    waiter_.writer = finish_task_.writer = this;
    waiter_.wake = on_wake;
    commit_.user = this;
    commit_.done = on_commit;
    for (std::uint32_t i = 0; i < depth_; ++i) {
        slots_[i].writer_ = this;
        slots_[i].op_.user = &slots_[i];
        slots_[i].op_.done = on_write;
    }
}

FileWriter::~FileWriter() {
    NR_ASSERT(!running_ && busy_ == 0);
    client_.xprt().stop_waiting(waiter_);
}

void FileWriter::start(const Options& options) noexcept {
    NR_ASSERT(!running_ && on_room != nullptr && on_restart != nullptr && done != nullptr);
    options_ = options;
    if (options_.block == 0) options_.block = client_.sizes().write;
    options_.block = std::min(options_.block, client_.sizes().write);
    outcome = Outcome{};
    bytes_ = 0;
    restarts_ = 0;
    has_verifier_ = uncommitted_ = forgotten_ = input_ended_ = finishing_ = false;
    running_ = true;
    pump();
}

bool FileWriter::in_window() const noexcept {
    std::uint64_t first = next_number_;
    for (std::uint32_t i = 0; i < depth_; ++i) {
        if (slots_[i].state_ != Slot::State::free) first = std::min(first, slots_[i].number_);
    }
    return next_number_ - first < std::uint64_t{kWindowDepths} * depth_;
}

void FileWriter::pump() noexcept {
    for (std::uint32_t i = 0; i < depth_ && outcome.ok() && !input_ended_ && in_window(); ++i) {
        Slot& slot = slots_[i];
        if (slot.state_ != Slot::State::free) continue;
        Result<sunrpc::Payload> payload = client_.xprt().get_payload(options_.block);
        if (!payload) {
            if (payload.error().code == Errc::again) {
                client_.xprt().wait_for_slot(waiter_);
                return;
            }
            fail(Outcome::failed(payload.error()));
            return;
        }
        slot.payload_ = *std::move(payload);
        slot.memory_ = slot.payload_.memory().first(options_.block);
        slot.state_ = Slot::State::filling;
        slot.number_ = next_number_++;
        ++busy_;
        on_room(*this, slot);
    }
    maybe_finish();
}

void FileWriter::on_wake(sunrpc::SlotWaiter& waiter) noexcept {
    FileWriter& writer = *static_cast<Waiter&>(waiter).writer;
    if (writer.running_ && !writer.finishing_) writer.pump();
}

void FileWriter::filled(Slot& slot, std::uint64_t offset, std::uint32_t size) noexcept {
    NR_ASSERT(slot.state_ == Slot::State::filling && size != 0 && size <= slot.memory().size());
    if (!outcome.ok()) {
        release(slot);
        return;
    }
    slot.at_ = 0;
    slot.size_ = size;
    slot.op_.args.offset = offset;
    send(slot);
}

void FileWriter::send(Slot& slot) noexcept {
    slot.state_ = Slot::State::writing;
    slot.op_.args.file = options_.file.view();
    slot.op_.args.stable = options_.stable ? FILE_SYNC : UNSTABLE;
    slot.op_.set_data(slot.memory().subspan(slot.at_, slot.size_ - slot.at_));
    client_.start(slot.op_);
}

void FileWriter::end_of_input(Slot& slot) noexcept {
    NR_ASSERT(slot.state_ == Slot::State::filling);
    input_ended_ = true;
    release(slot);
}

void FileWriter::on_write(Op& op) noexcept {
    Slot& slot = *static_cast<Slot*>(op.user);
    slot.writer_->take(slot);
}

void FileWriter::take(Slot& slot) noexcept {
    if (!slot.op_.outcome.ok()) {
        if (outcome.ok()) outcome = slot.op_.outcome;
        release(slot);
        return;
    }
    const WRITE3resok& ok = slot.op_.res.WRITE3res_u.resok;
    if (ok.count == 0) {
        fail(Outcome::failed(Error{Errc::bad_message, 0, "WRITE wrote nothing"}));
        release(slot);
        return;
    }
    bytes_ += ok.count;
    if (raw_value(ok.committed) != FILE_SYNC) uncommitted_ = true;
    note_verifier(ok.verf);
    slot.at_ += ok.count;
    if (slot.at_ < slot.size_ && outcome.ok()) {
        slot.op_.args.offset += ok.count;
        send(slot);
        return;
    }
    release(slot);
}

void FileWriter::note_verifier(const char* verifier) noexcept {
    if (!has_verifier_) {
        std::memcpy(verifier_.data(), verifier, verifier_.size());
        has_verifier_ = true;
    }
    if (std::memcmp(verifier_.data(), verifier, verifier_.size()) != 0) forgotten_ = true;
}

void FileWriter::release(Slot& slot) noexcept {
    slot.state_ = Slot::State::free;
    --busy_;
    slot.memory_ = {};
    slot.payload_.reset();
    if (running_ && !finishing_) pump();
}

void FileWriter::fail(const Outcome& why) noexcept {
    NR_ASSERT(!why.ok());
    if (outcome.ok()) outcome = why;
    maybe_finish();
}

void FileWriter::maybe_finish() noexcept {
    if (!running_ || finishing_ || busy_ != 0) return;
    if (outcome.ok() && !input_ended_) return;  // waits for payload memory
    finishing_ = true;
    client_.xprt().stop_waiting(waiter_);
    // Stable writes under two verifiers are as durable as under one.
    if (!outcome.ok() || !uncommitted_) {
        finish();
    } else if (forgotten_) {
        restart();
    } else {
        ++client_.counters().commits;
        commit_.args.file = options_.file.view();
        commit_.args.offset = 0;
        commit_.args.count = 0;  // to the end
        client_.start(commit_);
    }
}

void FileWriter::on_commit(Op& op) noexcept {
    FileWriter& writer = *static_cast<FileWriter*>(op.user);
    if (!op.outcome.ok()) {
        writer.outcome = op.outcome;
        writer.finish();
        return;
    }
    writer.note_verifier(writer.commit_.res.COMMIT3res_u.resok.verf);
    if (writer.forgotten_) {
        writer.restart();
    } else {
        writer.finish();
    }
}

void FileWriter::restart() noexcept {
    if (++restarts_ > kRestartsMax) {
        outcome = Outcome::failed(
            Error{Errc::bad_message, 0, "the server's write verifier keeps changing"});
        finish();
        return;
    }
    ++client_.counters().rewrites;
    has_verifier_ = uncommitted_ = forgotten_ = input_ended_ = finishing_ = false;
    bytes_ = 0;
    on_restart(*this);
    pump();
}

void FileWriter::finish() noexcept {
    client_.loop().ready(finish_task_);
}

void FileWriter::on_finished(Task& task) noexcept {
    FileWriter& writer = *static_cast<FinishTask&>(task).writer;
    writer.running_ = false;
    writer.done(writer);
}

}  // namespace nfsrdma::nfs::client
