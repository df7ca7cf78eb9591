// Operation. A write becomes a piece of its own memory: sent at once when it is large or nothing
// else is under way, else filled up by the writes that follow it, until it is full, one comes that
// does not follow, somebody waits, or nothing else is under way any more. A write over bytes that
// are not durable yet is done in the piece that is being filled, when it lies in there; else it
// waits, and all others behind it, until those bytes are durable: the server may execute WRITEs in
// any order, and a piece that has to be written anew must not undo what was written later.
//
// advance() does what can be done, in one order, until nothing changes any more.
//
// Ownership. (1) A write is its caller's until it is taken; in queue_ it is untouched. (2) writes_
// is lent by the budget from the first piece until all is durable. (3) `front_sent_`: the payload
// of the first in the queue is a piece of writes_, which has no other; it stays that when its
// writer has given up and it is in the queue no more (`front_gone_`).
//
// Errors. UnstableWrites ends with the first one; it is noted, what had been taken is lost, and
// when everything has been answered, writes go through, one at a time, FILE_SYNC: whoever writes
// is told how that went. After one that succeeded they go behind again.
#include "nfs/client/write_behind.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace nfsrdma::nfs::client {
namespace {

constexpr std::size_t kIdleMax = 16;             // UnstableWrites that are kept for the next file
constexpr std::uint32_t kLarge = 32 << 10;       // is sent as it is, when ...
constexpr std::uint32_t kLargePart = 4;          // ... it is this part of its memory
constexpr std::uint32_t kShrinkMax = 128 << 10;  // is worth a copy to hold it in less memory

bool same(const sunrpc::AuthSys& a, const sunrpc::AuthSys& b) noexcept {
    return a.uid == b.uid && a.gid == b.gid && a.group_count == b.group_count &&
           a.groups == b.groups;
}

bool intersect(std::uint64_t a, std::uint64_t a_size, std::uint64_t b,
               std::uint64_t b_size) noexcept {
    return a < b + b_size && b < a + a_size;
}

}  // namespace

WriteBudget::WriteBudget(Client& client, const Limits& limits)
    : client_(client), limits_(limits), retry_task_(on_retry, *this) {}

WriteBudget::~WriteBudget() {
    NR_ASSERT(dirty_.empty() && starved_.empty() && held_ == 0);
    if (retry_ready_) client_.loop().cancel(retry_task_);
}

std::unique_ptr<UnstableWrites> WriteBudget::get_writes() {
    if (!idle_.empty()) {
        std::unique_ptr<UnstableWrites> writes = std::move(idle_.back());
        idle_.pop_back();
        return writes;
    }
    return std::make_unique<UnstableWrites>(
        client_, UnstableWrites::Limits{.pieces = limits_.pieces,
                                        .depth = limits_.depth,
                                        .commit_after = limits_.commit_after,
                                        .account = &held_});
}

// May run from inside of its own callback: it dies later.
void WriteBudget::put_writes(std::unique_ptr<UnstableWrites> writes) noexcept {
    idle_.push_back(std::move(writes));
    if (idle_.size() > kIdleMax) note_progress();
}

// One at a time: what a server makes durable costs it by the COMMIT.
void WriteBudget::reclaim() noexcept {
    for (WriteBehind& file : dirty_) {
        if (file.writes_->committing()) return;
    }
    for (WriteBehind& file : dirty_) {
        if (file.writes_->kept() == 0) continue;
        file.writes_->commit();
        return;
    }
}

void WriteBudget::note_progress() noexcept {
    if (!starved_.empty()) reclaim();
    const bool released = !starved_.empty() && held_ < held_when_starved_;
    if (!released && idle_.size() <= kIdleMax) return;
    if (std::exchange(retry_ready_, true)) return;
    client_.loop().ready(retry_task_);
}

void WriteBudget::on_retry(Task& task) noexcept {
    WriteBudget& self = static_cast<BudgetTask&>(task).budget;
    self.retry_ready_ = false;
    while (self.idle_.size() > kIdleMax)
        self.idle_.pop_back();
    for (std::uint32_t left = self.starved_.size(); left != 0 && !self.starved_.empty(); --left) {
        WriteBehind& file = self.starved_.front();
        const ObserverGuard guard(file.observer_);
        self.starved_.erase(file);
        file.advance();
    }
}

WriteBehind::WriteBehind(WriteBudget& budget, const FileHandle& file, DataObserver* observer)
    : budget_(budget), observer_(observer), file_(file), go_on_task_(on_go_on, *this) {}

WriteBehind::~WriteBehind() {
    NR_ASSERT(writes_ == nullptr && queue_.empty() && waiters_.empty());
    if (ListHook<OfStarved>::linked()) budget_.starved_.erase(*this);
    if (go_on_ready_) budget_.client_.loop().cancel(go_on_task_);
}

bool WriteBehind::unwritten() const noexcept {
    return !queue_.empty() || (writes_ != nullptr && writes_->under_way() != 0);
}

bool WriteBehind::unwritten_in(std::uint64_t offset, std::uint64_t size) const noexcept {
    // A write that waits has not returned: to read what was before it is right.
    if (writes_ == nullptr) return false;
    if (piece_ != nullptr && intersect(piece_offset_, filled_, offset, size)) return true;
    return writes_->under_way_in(offset, size);
}

bool WriteBehind::dirty_in(std::uint64_t offset, std::uint64_t size) const noexcept {
    if (writes_ == nullptr) return false;
    if (piece_ != nullptr && intersect(piece_offset_, filled_, offset, size)) return true;
    return writes_->overlaps(offset, size);
}

void WriteBehind::begin_writes(bool stable) noexcept {
    if (writes_ == nullptr) {
        writes_ = budget_.get_writes();
        writes_->user = this;
        writes_->changed = on_changed;
        budget_.dirty_.push_back(*this);
    }
    writes_->observer = observer_;
    writes_->begin({.file = file_, .stable = stable});
}

bool WriteBehind::write(Write& write) noexcept {
    NR_ASSERT(!write.linked() && !write.data.empty() && write.done != nullptr);
    ++budget_.counters_.writes;
    write.outcome = Outcome{};
    write.overlaps_ = false;
    if (queue_.empty() && !goes_through() && !failed_ && take(write)) {
        // What it leaves to be done (nothing else is under way) is done now, but nobody is told
        // from inside of here.
        if (piece_ != nullptr && writes_->under_way() == 1) seal();
        return true;
    }
    ++budget_.counters_.queued;
    write.number_ = next_number_++;
    queue_.push_back(write);
    if (!std::exchange(go_on_ready_, true)) budget_.client_.loop().ready(go_on_task_);
    return false;
}

bool WriteBehind::cancel(Write& write) noexcept {
    NR_ASSERT(write.linked());
    const bool sent = front_sent_ && !front_gone_ && &write == &queue_.front();
    if (sent) front_gone_ = true;
    queue_.erase(write);
    if (!std::exchange(go_on_ready_, true)) budget_.client_.loop().ready(go_on_task_);
    if (observer_ != nullptr) observer_->progressed();
    return !sent;
}

void WriteBehind::on_go_on(Task& task) noexcept {
    WriteBehind& self = static_cast<GoOnTask&>(task).file;
    const ObserverGuard guard(self.observer_);
    self.go_on_ready_ = false;
    self.advance();
}

void WriteBehind::on_changed(UnstableWrites& writes) noexcept {
    static_cast<WriteBehind*>(writes.user)->advance();
}

// Into the piece that is being filled.
bool WriteBehind::join(Write& write) noexcept {
    const std::uint64_t size = write.data.size();
    const bool follows = write.offset >= piece_offset_ && write.offset <= piece_offset_ + filled_;
    if (!follows || write.offset - piece_offset_ + size > piece_->memory().size()) return false;
    if (piece_has_sys_ != (write.sys != nullptr)) return false;
    if (piece_has_sys_ && !same(piece_sys_, *write.sys)) return false;
    if (writes_->overlaps(write.offset, size)) return false;
    const std::size_t at = write.offset - piece_offset_;
    std::memcpy(piece_->memory().subspan(at).data(), write.data.data(), size);
    filled_ = std::max(filled_, static_cast<std::uint32_t>(at + size));
    budget_.counters_.copied_bytes += size;
    if (filled_ == piece_->memory().size()) seal();
    write.payload.reset();
    return true;
}

bool WriteBehind::take(Write& write) noexcept {
    if (piece_ != nullptr) {
        if (join(write)) return true;
        seal();
    }
    if (writes_ != nullptr && writes_->overlaps(write.offset, write.data.size())) {
        if (!std::exchange(write.overlaps_, true)) ++budget_.counters_.overlapped;
        return false;
    }
    return begin_piece(write);
}

bool WriteBehind::begin_piece(Write& write) noexcept {
    const std::span<std::byte> memory = write.payload.memory();
    if (!budget_.allows(memory.size())) return starve();
    if (writes_ == nullptr || writes_->empty()) begin_writes(false);
    const auto at = static_cast<std::size_t>(write.data.data() - memory.data());
    const std::uint32_t wanted = std::max<std::uint32_t>(
        budget_.client_.sizes().write, static_cast<std::uint32_t>(write.data.size()));
    const std::size_t room = std::min<std::size_t>(memory.size() - at, wanted);
    Result<UnstableWrites::Piece*> piece =
        writes_->adopt(std::move(write.payload), memory.subspan(at, room));
    if (!piece) return false;
    budget_.counters_.held_max = std::max(budget_.counters_.held_max, budget_.held_);
    piece_ = *piece;
    piece_offset_ = write.offset;
    filled_ = static_cast<std::uint32_t>(write.data.size());
    piece_has_sys_ = write.sys != nullptr;
    if (piece_has_sys_) piece_sys_ = *write.sys;
    const bool large = filled_ >= kLarge && filled_ >= room / kLargePart;
    if (large || filled_ == room) seal();
    return true;
}

// False.
bool WriteBehind::starve() noexcept {
    if (!ListHook<OfStarved>::linked()) budget_.starved_.push_back(*this);
    budget_.held_when_starved_ = budget_.held_;
    budget_.reclaim();
    return false;
}

void WriteBehind::seal() noexcept {
    UnstableWrites::Piece& piece = *std::exchange(piece_, nullptr);
    // What is let go may wake others: as the last thing.
    const sunrpc::Payload larger =
        filled_ <= kShrinkMax ? writes_->shrink(piece, filled_) : sunrpc::Payload();
    if (larger) budget_.counters_.copied_bytes += filled_;
    writes_->write(piece, piece_offset_, filled_, piece_has_sys_ ? &piece_sys_ : nullptr);
}

bool WriteBehind::wait(Waiter& waiter, bool durable) noexcept {
    NR_ASSERT(!waiter.linked() && waiter.done != nullptr);
    waiter.durable_ = durable;
    waiter.counting_ = false;
    waiter.after_ = next_number_;
    if (piece_ != nullptr && queue_.empty()) seal();
    if (is_done(waiter)) return true;
    waiters_.push_back(waiter);
    help_along();
    return false;
}

void WriteBehind::stop_waiting(Waiter& waiter) noexcept {
    if (waiter.linked()) waiters_.erase(waiter);
}

bool WriteBehind::is_done(Waiter& waiter) noexcept {
    if (!waiter.counting_) {
        if (!queue_.empty() && queue_.front().number_ < waiter.after_) return false;
        waiter.counting_ = true;
        waiter.before_ = writes_ == nullptr ? 0 : writes_->next_number();
        if (piece_ != nullptr) seal();
    }
    // Given back: all of it was durable.
    if (writes_ == nullptr) return true;
    if (writes_->answered_before() < waiter.before_) return false;
    return !waiter.durable_ || writes_->durable_before() >= waiter.before_;
}

void WriteBehind::advance() noexcept {
    if (std::exchange(advancing_, true)) {
        advance_again_ = true;
        return;
    }
    do {
        advance_again_ = false;
        step();
    } while (advance_again_);
    advancing_ = false;
    budget_.note_progress();
}

void WriteBehind::step() noexcept {
    if (writes_ != nullptr && !writes_->outcome.ok()) note_failure();
    if (!failed_) {
        if (goes_through()) {
            pump_through();
        } else {
            pump();
        }
    }
    // Nothing is under way that would bring us here again: it has waited long enough.
    if (piece_ != nullptr && writes_->under_way() == 1) seal();
    help_along();
    if (queue_.empty() && ListHook<OfStarved>::linked()) budget_.starved_.erase(*this);
    if (observer_ != nullptr) observer_->progressed();
    for (auto it = waiters_.begin(); it != waiters_.end();) {
        Waiter& waiter = *it;
        ++it;
        if (!is_done(waiter)) continue;
        waiters_.erase(waiter);
        advance_again_ = true;
        waiter.done(waiter);
        return;  // the list may be another now
    }
    if (writes_ != nullptr && writes_->empty() && !front_sent_) {
        budget_.dirty_.erase(*this);
        budget_.put_writes(std::move(writes_));
        if (observer_ != nullptr) observer_->progressed();
    }
}

// Of what had been taken, or of the write that goes through: then its writer is told.
void WriteBehind::note_failure() noexcept {
    if (!failed_) {
        failed_ = true;
        if (piece_ != nullptr) writes_->give_back(*std::exchange(piece_, nullptr));
        if (!front_sent_ || front_gone_) {
            error_ = writes_->outcome;
            ++error_seq_;
        }
    }
    if (!writes_->empty()) return;
    failed_ = false;
    through_ = true;
    const Outcome outcome = writes_->outcome;
    writes_->begin({.file = file_, .stable = true});
    if (front_sent_) finish_front(outcome);
}

void WriteBehind::finish_front(const Outcome& outcome) noexcept {
    front_sent_ = false;
    advance_again_ = true;
    if (std::exchange(front_gone_, false)) return;
    Write& write = queue_.pop_front();
    write.outcome = outcome;
    write.done(write);
}

void WriteBehind::pump() noexcept {
    while (!queue_.empty() && take(queue_.front())) {
        advance_again_ = true;
        finish_front(Outcome{});
        if (goes_through()) return;
    }
}

void WriteBehind::pump_through() noexcept {
    if (front_sent_) {
        // A server may promise less than FILE_SYNC.
        if (writes_->under_way() == 0) writes_->commit();
        if (!writes_->empty()) return;
        through_ = false;
        finish_front(Outcome{});
        return;
    }
    if (queue_.empty()) return;
    // What was taken before comes first.
    if (piece_ != nullptr) seal();
    if (writes_ != nullptr && !writes_->empty()) return;
    Write& write = queue_.front();
    if (!budget_.allows(write.payload.memory().size())) {
        starve();
        return;
    }
    begin_writes(true);
    Result<UnstableWrites::Piece*> piece = writes_->adopt(std::move(write.payload), write.data);
    NR_ASSERT(piece);
    ++budget_.counters_.through;
    front_sent_ = true;
    writes_->write(**piece, write.offset, static_cast<std::uint32_t>(write.data.size()), write.sys);
}

// Whoever waits for a COMMIT gets one, when all that it is to cover has been answered.
void WriteBehind::help_along() noexcept {
    if (writes_ == nullptr || failed_ || !writes_->outcome.ok()) return;
    bool commit = false;
    if (!queue_.empty() && !front_sent_) {
        const Write& front = queue_.front();
        const std::uint64_t size = front.data.size();
        const bool over = writes_->overlaps(front.offset, size);
        commit = (over && !writes_->under_way_in(front.offset, size)) ||
                 (goes_through() && writes_->under_way() == 0);
    }
    for (const Waiter& waiter : waiters_) {
        commit = commit || (waiter.durable_ && waiter.counting_ &&
                            writes_->answered_before() >= waiter.before_);
    }
    if (commit) writes_->commit();
}

}  // namespace nfsrdma::nfs::client
