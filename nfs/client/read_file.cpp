// Operation. pump() starts READs one block after the other while slots and payload memory are
// there. A READ that returned less than was asked for, without the end of the file, is followed by
// one for the rest, in the same slot.
//
// Ownership. A slot's payload belongs to the READ, then to the consumer until consumed(); free
// slots hold none. `busy_` counts the slots that are not free; `done` runs when it is 0 and nothing
// is left to read.
//
// Errors. The first one ends the reading; later ones are ignored.
#include "nfs/client/read_file.hpp"

#include <algorithm>

namespace nfsrdma::nfs::client {

FileReader::FileReader(Client& client, std::uint32_t depth)
    : client_(client),
      depth_(std::max(depth, 1u)),
      slots_(std::make_unique<Slot[]>(depth_)),
      finish_task_(on_finished) {
    waiter_.reader = finish_task_.reader = this;
    waiter_.wake = on_wake;
    for (std::uint32_t i = 0; i < depth_; ++i) {
        slots_[i].reader_ = this;
        slots_[i].op_.user = &slots_[i];
        slots_[i].op_.done = on_read;
    }
}

FileReader::~FileReader() {
    NR_ASSERT(!running_ && busy_ == 0);
    client_.xprt().stop_waiting(waiter_);
}

void FileReader::start(const Options& options) noexcept {
    NR_ASSERT(!running_ && on_data != nullptr && done != nullptr);
    options_ = options;
    if (options_.block == 0) options_.block = client_.sizes().read;
    options_.block = std::min(options_.block, client_.sizes().read);
    outcome = Outcome{};
    next_ = options.offset;
    end_ =
        options.length > UINT64_MAX - options.offset ? UINT64_MAX : options.offset + options.length;
    if (!options.into.empty()) {
        const std::uint64_t room = std::min<std::uint64_t>(options.into.size(), options.length);
        end_ = room > UINT64_MAX - options.offset ? UINT64_MAX : options.offset + room;
    }
    bytes_ = 0;
    running_ = true;
    finishing_ = has_attributes_ = false;
    pump();
}

// Up to the size that is known READs go out as slots allow; behind it one at a time, until the
// server says that it is the end.
bool FileReader::may_read_on() const noexcept {
    if (!outcome.ok() || next_ >= end_) return false;
    if (busy_ == 0) return true;
    if (next_ >= options_.size_hint) return false;
    std::uint64_t first = next_;
    for (std::uint32_t i = 0; i < depth_; ++i) {
        if (slots_[i].state_ != Slot::State::free) first = std::min(first, slots_[i].offset());
    }
    return next_ - first < std::uint64_t{kWindowDepths} * depth_ * options_.block;
}

void FileReader::note_attributes(const post_op_attr& told) noexcept {
    if (told.attributes_follow == FALSE) return;
    const fattr3& attr = told.post_op_attr_u.attributes;
    const auto is_newer = [](const nfstime3& a, const nfstime3& b) {
        return a.seconds != b.seconds ? a.seconds > b.seconds : a.nseconds > b.nseconds;
    };
    if (has_attributes_ && !is_newer(attr.ctime, attributes_.ctime)) return;
    attributes_ = attr;
    clean_type(attributes_);
    has_attributes_ = true;
}

void FileReader::pump() noexcept {
    for (std::uint32_t i = 0; i < depth_ && may_read_on(); ++i) {
        Slot& slot = slots_[i];
        if (slot.state_ != Slot::State::free) continue;
        std::uint64_t want = std::min<std::uint64_t>(options_.block, end_ - next_);
        // A small file takes little memory; the byte more tells whether it has grown.
        if (next_ < options_.size_hint) want = std::min(want, options_.size_hint - next_ + 1);
        if (const Result<void> made = make_room(slot, want); !made) {
            if (made.error().code == Errc::again) {
                client_.xprt().wait_for_slot(waiter_);
                return;
            }
            fail(Outcome::failed(made.error()));
            return;
        }
        slot.op_.args.file = options_.file.view();
        slot.op_.args.offset = next_;
        slot.op_.args.count = static_cast<count3>(want);
        slot.state_ = Slot::State::reading;
        ++busy_;
        next_ += want;
        client_.start(slot.op_);
    }
    maybe_finish();
}

// Where the next READ of the slot, at next_, is to be placed.
Result<void> FileReader::make_room(Slot& slot, std::uint64_t want) noexcept {
    if (!options_.into.empty()) {
        slot.op_.room = into(next_, want);
        return {};
    }
    NR_TRY_ASSIGN(slot.payload_, client_.get_payload(static_cast<std::uint32_t>(want)));
    slot.op_.room = slot.payload_.memory().first(want);
    return {};
}

void FileReader::on_wake(sunrpc::SlotWaiter& waiter) noexcept {
    FileReader& reader = *static_cast<Waiter&>(waiter).reader;
    if (reader.running_ && !reader.finishing_) reader.pump();
}

void FileReader::on_read(Op& op) noexcept {
    Slot& slot = *static_cast<Slot*>(op.user);
    slot.reader_->take(slot);
}

void FileReader::take(Slot& slot) noexcept {
    if (!slot.op_.outcome.ok()) {
        if (outcome.ok()) outcome = slot.op_.outcome;
        release(slot);
        return;
    }
    const std::uint32_t count = slot.op_.res.READ3res_u.resok.count;
    note_attributes(slot.op_.res.READ3res_u.resok.file_attributes);
    if (slot.op_.eof()) end_ = std::min(end_, slot.offset() + count);
    if (count == 0) {
        // No byte and no end: asking again might go on for ever.
        if (!slot.op_.eof())
            fail(Outcome::failed(Error{Errc::bad_message, 0, "empty READ before the end"}));
        release(slot);
        return;
    }
    if (!outcome.ok()) {
        release(slot);
        return;
    }
    slot.state_ = Slot::State::consuming;
    bytes_ += count;
    on_data(*this, slot);
}

void FileReader::consumed(Slot& slot) noexcept {
    NR_ASSERT(slot.state_ == Slot::State::consuming);
    const std::uint32_t count = slot.op_.res.READ3res_u.resok.count;
    const std::uint32_t rest = slot.op_.args.count - count;
    const std::uint64_t offset = slot.offset() + count;
    if (rest == 0 || offset >= end_ || !outcome.ok()) {
        release(slot);
        return;
    }
    slot.state_ = Slot::State::reading;
    slot.op_.args.offset = offset;
    slot.op_.args.count = rest;
    slot.op_.room = options_.into.empty() ? slot.payload_.memory().first(rest) : into(offset, rest);
    client_.start(slot.op_);
}

void FileReader::release(Slot& slot) noexcept {
    slot.state_ = Slot::State::free;
    --busy_;
    // May wake, and pump, others of this transport.
    slot.payload_.reset();
    if (running_ && !finishing_) pump();
}

void FileReader::fail(const Outcome& why) noexcept {
    NR_ASSERT(!why.ok());
    if (outcome.ok()) outcome = why;
    maybe_finish();
}

void FileReader::maybe_finish() noexcept {
    if (!running_ || finishing_ || busy_ != 0) return;
    if (outcome.ok() && next_ < end_) return;  // waits for payload memory
    finishing_ = true;
    client_.xprt().stop_waiting(waiter_);
    client_.loop().ready(finish_task_);
}

void FileReader::on_finished(Task& task) noexcept {
    FileReader& reader = *static_cast<FinishTask&>(task).reader;
    reader.running_ = false;
    reader.done(reader);
}

}  // namespace nfsrdma::nfs::client
