// Operation. A read is answered out of blocks, each one READ's data; what no block has, or has
// under way, is asked for, exactly that. When reads follow each other, blocks ahead of them are
// asked for as well, up to a window that doubles with every read. A block is dropped when all of
// it has been read once: the kernel keeps pages, not we.
//
// Ownership. (1) A block is free, or in its file's list, or under way for a file that was closed,
// or buried: its payload goes home in the next turn of the loop, so that nobody is woken by it who
// would come back here. (2) A read is in waiting_ until every block of it is ready; blocks that a
// waiting read needs are not dropped.
//
// Errors. A READ that fails fails those reads that wait for it, and is forgotten.
#include "nfs/client/read_ahead.hpp"

#include <algorithm>
#include <utility>

namespace nfsrdma::nfs::client {
namespace {

constexpr std::uint64_t kWindowFirst = 256 << 10;
constexpr std::uint32_t kBlockMin = 64 << 10;  // of which smaller READs fill one block
// Pieces of one sequential read may come in any order, so far apart.
constexpr std::uint64_t kSlack = 1 << 20;

std::uint64_t end_of(const ReadAhead::Read& read) noexcept {
    return read.size > UINT64_MAX - read.offset ? UINT64_MAX : read.offset + read.size;
}

}  // namespace

ReadPool::ReadPool(Client& client, const Limits& limits)
    : client_(client),
      limits_(limits),
      blocks_(std::make_unique<Block[]>(limits.blocks)),
      spans_(std::make_unique<std::span<std::byte>[]>(limits.blocks)),
      turn_task_(on_turn, *this) {
    waiter_.pool = this;
    waiter_.wake = on_wake;
    for (std::uint32_t i = 0; i < limits_.blocks; ++i) {
        Block& block = blocks_[i];
        block.pool = this;
        block.op.user = &block;
        block.op.done = on_read;
        free_.push_back(block);
    }
    client_.add(*this);
}

ReadPool::~ReadPool() {
    NR_ASSERT(recent_.empty() && hungry_.empty());
    client_.xprt().stop_waiting(waiter_);
    if (scheduled_) client_.loop().cancel(turn_task_);
    while (!buried_.empty()) {
        Block& block = buried_.pop_front();
        block.payload.reset();
        free_.push_back(block);
    }
    NR_ASSERT(idle());
    client_.remove(*this);
    free_.clear();
}

void ReadPool::let_go() noexcept {
    let_go_ = true;
    schedule();
}

void ReadPool::schedule() noexcept {
    if (!std::exchange(scheduled_, true)) client_.loop().ready(turn_task_);
}

void ReadPool::on_wake(sunrpc::SlotWaiter& waiter) noexcept {
    static_cast<Waiter&>(waiter).pool->schedule();
}

void ReadPool::on_turn(Task& task) noexcept {
    ReadPool& self = static_cast<PoolTask&>(task).pool;
    self.scheduled_ = false;
    if (std::exchange(self.let_go_, false)) {
        const ObserverGuard guard(self.recent_.empty() ? nullptr : self.recent_.front().observer_);
        self.drop_oldest(nullptr);
    }
    if (!self.buried_.empty()) self.client_.note_release();
    while (!self.buried_.empty()) {
        Block& block = self.buried_.pop_front();
        block.state = Block::State::free;
        self.free_.push_back(block);
        const sunrpc::Payload payload = std::move(block.payload);
    }
    for (std::uint32_t left = self.hungry_.size(); left != 0 && !self.hungry_.empty(); --left) {
        ReadAhead& file = self.hungry_.pop_front();
        const ObserverGuard guard(file.observer_);
        file.retry();
    }
}

ReadPool::Block* ReadPool::get(std::uint32_t bytes, bool ahead) noexcept {
    if (free_.empty()) {
        if (!ahead) drop_oldest(nullptr);
        return nullptr;
    }
    Result<sunrpc::Payload> payload =
        ahead ? client_.xprt().get_payload(bytes) : client_.get_payload(bytes);
    if (!payload) {
        if (!ahead) {
            drop_oldest(nullptr);
            client_.xprt().wait_for_slot(waiter_);
        }
        return nullptr;
    }
    Block& block = free_.pop_front();
    block.payload = *std::move(payload);
    block.want = bytes;
    block.got = block.used = 0;
    block.stale = block.ended = false;
    block.ahead = ahead;
    if (ahead) {
        ahead_ += bytes;
        counters_.ahead_max = std::max(counters_.ahead_max, ahead_);
    }
    return &block;
}

void ReadPool::send(Block& block) noexcept {
    block.state = Block::State::reading;
    const std::uint32_t count = std::min(block.want - block.got, client_.sizes().read);
    block.op.args.file = block.handle.view();
    block.op.args.offset = block.offset + block.got;
    block.op.args.count = count;
    block.op.room = block.payload.memory().subspan(block.got, count);
    block.op.sys = block.has_sys ? &block.sys : nullptr;
    if (block.file->observer_ != nullptr) block.number = block.file->observer_->read_sent();
    ++counters_.calls;
    client_.start(block.op);
}

void ReadPool::bury(Block& block) noexcept {
    if (std::exchange(block.ahead, false)) ahead_ -= block.want;
    block.file = nullptr;
    block.state = Block::State::buried;
    buried_.push_back(block);
    schedule();
}

void ReadPool::on_read(Op& op) noexcept {
    Block& block = *static_cast<Block*>(op.user);
    if (block.file == nullptr) {
        block.pool->bury(block);
        return;
    }
    DataObserver* const observer = block.file->observer_;
    const ObserverGuard guard(observer);
    if (observer != nullptr) {
        const READ3res& res = block.op.res;
        const bool good = op.outcome.ok();
        observer->read_answered(block.number, !op.outcome.rpc ? nullptr
                                              : good ? &res.READ3res_u.resok.file_attributes
                                                     : &res.READ3res_u.resfail.file_attributes);
    }
    block.file->answered(block);
}

// What the file keeps that was used least recently, and waits for nothing.
bool ReadPool::drop_oldest(const ReadAhead* but) noexcept {
    for (ReadAhead& file : recent_) {
        if (&file == but || file.waiting()) continue;
        if (file.drop_ready() != 0) return true;
    }
    return false;
}

ReadAhead::ReadAhead(ReadPool& pool, const FileHandle& file, DataObserver* observer)
    : pool_(pool), observer_(observer), file_(file) {
    pool_.recent_.push_back(*this);
}

ReadAhead::~ReadAhead() {
    NR_ASSERT(waiting_.empty());
    while (!blocks_.empty()) {
        Block& block = blocks_.front();
        if (block.state == Block::State::ready) {
            drop_block(block);
            continue;
        }
        blocks_.erase(block);
        if (std::exchange(block.ahead, false)) pool_.ahead_ -= block.want;
        block.file = nullptr;
    }
    if (ListHook<OfHungry>::linked()) pool_.hungry_.erase(*this);
    pool_.recent_.erase(*this);
}

std::uint32_t ReadAhead::block_max() const noexcept {
    return std::min(std::max(pool_.client_.sizes().read, kBlockMin),
                    pool_.client_.xprt().limits().max_payload);
}

bool ReadAhead::is_awaited(const Block& block) noexcept {
    for (const Read& read : waiting_) {
        if (block.within(read.offset, end_of(read))) return true;
    }
    return false;
}

void ReadAhead::drop_block(Block& block) noexcept {
    NR_ASSERT(block.state == Block::State::ready);
    if (block.ahead && block.used == 0) ++pool_.counters_.unused;
    --pool_.ready_blocks_;
    blocks_.erase(block);
    pool_.bury(block);
}

void ReadAhead::make_ready(Block& block) noexcept {
    block.state = Block::State::ready;
    block.ready_ns = pool_.client_.loop().now_ns();
    ++pool_.ready_blocks_;
}

// Returns how many.
std::uint32_t ReadAhead::drop_ready() noexcept {
    std::uint32_t dropped = 0;
    for (auto it = blocks_.begin(); it != blocks_.end();) {
        Block& block = *it;
        ++it;
        if (block.state != Block::State::ready || is_awaited(block)) continue;
        drop_block(block);
        ++dropped;
    }
    return dropped;
}

void ReadAhead::invalidate(std::uint64_t offset, std::uint64_t size) noexcept {
    const std::uint64_t end = size > UINT64_MAX - offset ? UINT64_MAX : offset + size;
    for (Block& block : blocks_)
        block.stale = block.stale || block.within(offset, end);
    file_end_ = UINT64_MAX;
}

void ReadAhead::drop() noexcept {
    invalidate(0, UINT64_MAX);
    drop_ready();
    window_ = 0;
}

// What is not to be used any more, by age or by what others did.
void ReadAhead::sweep(const Read& read) noexcept {
    const std::uint64_t now = pool_.client_.loop().now_ns();
    for (auto it = blocks_.begin(); it != blocks_.end();) {
        Block& block = *it;
        ++it;
        if (block.state != Block::State::ready) continue;
        const bool old = now - block.ready_ns > pool_.limits_.max_age_ns;
        // The file ended here, and is longer now.
        const bool grown = block.ended && block.within(read.offset, end_of(read)) &&
                           block.offset + block.got < read.file_size;
        if (!block.stale && !old && !grown) continue;
        if (!is_awaited(block)) {
            drop_block(block);
        } else if (block.stale) {
            --pool_.ready_blocks_;
            block.got = block.used = 0;
            block.stale = block.ended = false;
            pool_.send(block);
        }
    }
}

void ReadAhead::insert(Block& block) noexcept {
    // To its place: most come last.
    List<Block, Block> behind;
    while (!blocks_.empty() && blocks_.back().offset > block.offset) {
        Block& last = blocks_.back();
        blocks_.erase(last);
        behind.push_front(last);
    }
    blocks_.push_back(block);
    blocks_.splice_back(behind);
}

ReadAhead::Block* ReadAhead::start(std::uint64_t offset, std::uint32_t size,
                                   const sunrpc::AuthSys* sys, bool ahead) noexcept {
    Block* const block = pool_.get(size, ahead);
    if (block == nullptr) return nullptr;
    block->file = this;
    block->offset = offset;
    block->handle = file_;
    block->has_sys = sys != nullptr;
    if (sys != nullptr) block->sys = *sys;
    insert(*block);
    pool_.send(*block);
    return block;
}

// Asks for what no block has. False: there is no memory for it now.
bool ReadAhead::ask(const Read& read) noexcept {
    const std::uint64_t end = end_of(read);
    std::uint64_t at = read.offset;
    while (at < end) {
        std::uint64_t gap_end = end;
        const Block* there = nullptr;
        for (const Block& block : blocks_) {
            if (block.end() <= at) continue;
            if (block.offset <= at) there = &block;
            gap_end = std::min(gap_end, std::max(block.offset, at));
            break;
        }
        if (there != nullptr) {
            // Behind the end of the file there is nothing to ask for.
            if (there->state == Block::State::ready && there->ended) return true;
            at = there->end();
            continue;
        }
        const auto size =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(gap_end - at, block_max()));
        if (start(at, size, read.sys, false) == nullptr) return false;
        at += size;
    }
    return true;
}

// Whether the read belongs to a row of reads.
bool ReadAhead::follow(const Read& read) noexcept {
    const std::uint64_t end = end_of(read);
    const bool goes_on = read_before_ ? read.offset == next_ : read.offset == 0;
    const bool in_window =
        window_ != 0 && read.offset + kSlack >= next_ && read.offset <= ahead_end_;
    read_before_ = true;
    if (!goes_on && !in_window) {
        window_ = 0;
        next_ = end;
        return false;
    }
    if (window_ == 0) {
        window_ = std::min(kWindowFirst, pool_.limits_.window);
        ahead_end_ = next_ = end;
    } else {
        window_ = std::min(2 * window_, pool_.limits_.window);
        next_ = std::max(next_, end);
        ahead_end_ = std::max(ahead_end_, next_);
    }
    return true;
}

void ReadAhead::extend(const Read& read) noexcept {
    const std::uint64_t limit = std::min(read.file_size, file_end_);
    const std::uint64_t until = next_ > UINT64_MAX - window_ ? UINT64_MAX : next_ + window_;
    while (ahead_end_ < std::min(until, limit)) {
        const auto most =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(block_max(), window_ / 2));
        const auto size =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(most, limit - ahead_end_));
        // No small READs for what is left of the window.
        if (until - ahead_end_ < size) return;
        const Block* there = nullptr;
        for (const Block& block : blocks_) {
            if (block.within(ahead_end_, ahead_end_ + size)) there = &block;
        }
        if (there != nullptr) {
            ahead_end_ = there->end();
            continue;
        }
        while (pool_.ahead_ + size > pool_.limits_.bytes) {
            if (!pool_.drop_oldest(this)) return;
        }
        if (start(ahead_end_, size, read.sys, true) == nullptr) return;
        ahead_end_ += size;
    }
}

void ReadAhead::read(Read& read) noexcept {
    NR_ASSERT(!read.linked() && read.size != 0 && read.done != nullptr);
    ++pool_.counters_.reads;
    read.outcome = Outcome{};
    pool_.recent_.erase(*this);
    pool_.recent_.push_back(*this);
    sweep(read);
    const bool follows = follow(read);
    const std::uint64_t calls = pool_.counters_.calls;
    const bool asked = ask(read);
    if (asked && calls == pool_.counters_.calls) ++pool_.counters_.hits;
    if (!asked) {
        ++pool_.counters_.waited;
        if (!ListHook<OfHungry>::linked()) pool_.hungry_.push_back(*this);
    }
    if (follows && asked) extend(read);
    if (!asked || !try_serve(read)) waiting_.push_back(read);
}

void ReadAhead::cancel(Read& read) noexcept {
    waiting_.erase(read);
}

// Answers it when all of it is there.
bool ReadAhead::try_serve(Read& read) noexcept {
    const std::uint64_t end = end_of(read);
    std::uint64_t at = read.offset;
    std::uint32_t count = 0, bytes = 0;
    for (Block& block : blocks_) {
        if (at >= end) break;
        if (block.end() <= at) continue;
        if (block.offset > at || block.state != Block::State::ready) return false;
        const std::uint64_t have = block.offset + block.got;
        if (have > at) {
            const auto part = static_cast<std::uint32_t>(std::min(end, have) - at);
            pool_.spans_[count++] = block.payload.memory().subspan(at - block.offset, part);
            bytes += part;
        }
        at = block.end();
        if (block.ended) at = end;
    }
    if (at < end) return false;
    for (Block& block : blocks_) {
        if (!block.within(read.offset, end)) continue;
        const std::uint64_t first = std::max(block.offset, read.offset);
        block.used += static_cast<std::uint32_t>(std::min(block.end(), end) - first);
    }
    if (read.linked()) waiting_.erase(read);
    read.bytes = bytes;
    read.data = std::span<const std::span<std::byte>>(pool_.spans_.get(), count);
    read.done(read);
    drop_used();
    return true;
}

void ReadAhead::drop_used() noexcept {
    for (auto it = blocks_.begin(); it != blocks_.end();) {
        Block& block = *it;
        ++it;
        if (block.state != Block::State::ready || is_awaited(block)) continue;
        const bool passed = window_ != 0 && block.end() + kSlack < next_;
        if (!block.ahead || block.used >= block.got || passed) drop_block(block);
    }
}

void ReadAhead::serve_waiting() noexcept {
    for (auto it = waiting_.begin(); it != waiting_.end();) {
        Read& read = *it;
        ++it;
        // The list may be another after a callback.
        if (try_serve(read)) it = waiting_.begin();
    }
}

void ReadAhead::fail_waiting(const Block& block, const Outcome& outcome) noexcept {
    for (auto it = waiting_.begin(); it != waiting_.end();) {
        Read& read = *it;
        ++it;
        if (!block.within(read.offset, end_of(read))) continue;
        waiting_.erase(read);
        read.outcome = outcome;
        read.data = {};
        read.bytes = 0;
        read.done(read);
        it = waiting_.begin();
    }
}

void ReadAhead::answered(Block& block) noexcept {
    Outcome outcome = block.op.outcome;
    const std::uint32_t count = outcome.ok() ? block.op.res.READ3res_u.resok.count : 0;
    const bool eof = outcome.ok() && block.op.eof();
    if (outcome.ok() && count == 0 && !eof) {
        // No byte and no end: asking again might go on for ever.
        outcome = Outcome::failed(Error{Errc::bad_message, 0, "empty READ before the end"});
    }
    if (block.stale && outcome.ok() && is_awaited(block)) {
        block.got = block.used = 0;
        block.stale = block.ended = false;
        pool_.send(block);
        return;
    }
    block.got += count;
    if (outcome.ok() && !eof && !block.stale && block.got < block.want) {
        pool_.send(block);
        return;
    }
    if (!outcome.ok() || block.stale) {
        // It is out of the list before anybody is told, so that who asks anew asks the server.
        blocks_.erase(block);
        if (!outcome.ok()) fail_waiting(block, outcome);
        pool_.bury(block);
        return;
    }
    make_ready(block);
    block.ended = eof && block.got < block.want;
    if (eof) file_end_ = block.offset + block.got;
    serve_waiting();
    drop_used();
}

// There may be memory for those that wait.
void ReadAhead::retry() noexcept {
    for (const Read& read : waiting_) {
        if (ask(read)) continue;
        if (!ListHook<OfHungry>::linked()) pool_.hungry_.push_back(*this);
        break;
    }
    serve_waiting();
}

}  // namespace nfsrdma::nfs::client
