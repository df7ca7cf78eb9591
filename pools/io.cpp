#include "pools/io.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "pools/io_state.hpp"

// Operation. This file: the making of an Io, the one queue in front of the send queue, and the end
// of a connection. exposure.cpp lends memory to the peer, transfer.cpp moves bytes ourselves.
//
// Ownership. (1) A Posting is linked in `waiting` from post() until it was posted or failed, and
// its `posted` runs once. (2) Each RDMA READ that was posted is counted in `reads_in_flight` until
// its Transfer is done: on_disconnect asserts that none is left.
//
// Errors. Errc::reconnect where there is no live queue pair, Errc::too_big for a chain longer than
// the whole send queue.
namespace nfsrdma::pools {

Result<std::unique_ptr<Io>> Io::create(verbs::ProtectionDomain& pd, Arena& arena,
                                       const IoOptions& options) {
    const verbs::DeviceCaps& caps = pd.caps();
    if (options.registration == Registration::bind && !caps.fast_reg) {
        return Error{
            Errc::unsupported, 0,
            "this device cannot bind keys by a work request: use --registration static (unsafe)"};
    }
    if (options.registration == Registration::fixed && arena.static_rkey() == verbs::Rkey{}) {
        return Error{Errc::invalid_argument, 0,
                     "static keys need an arena that was registered with remote access"};
    }
    std::unique_ptr<Io> io(new Io);  // NOLINT(cppcoreguidelines-owning-memory): private constructor
    io->state_ = std::make_unique<State>();
    State& state = *io->state_;
    state.io = io.get();
    state.pd = &pd;
    state.arena = &arena;
    state.options = options;
    state.caps = caps;
    state.sges_max = std::max(1u, std::min(options.send_sges, caps.max_send_sge));
    state.read_sges_max =
        caps.max_read_sge == 0 ? state.sges_max : std::min(state.sges_max, caps.max_read_sge);
    state.binds = options.registration != Registration::fixed && caps.fast_reg;
    const bool keys =
        caps.fast_reg && (state.binds || options.local != LocalStrategy::scatter_gather);
    NR_TRY_ASSIGN(state.mrs, MrPool::create(pd, keys ? options.keys : 0, options.pages_per_key));
    state.pages = std::make_unique<std::byte*[]>(options.pages_per_key + 1);
    state.make_exposures();
    state.make_transfers(options.transfers);
    return io;
}

void Io::State::make_exposures() {
    exposures.count_ = options.keys;
    exposures.all_ = std::make_unique<Exposure[]>(options.keys);
    for (std::uint32_t i = 0; i < options.keys; ++i) {
        Exposure& exposure = exposures.all_[i];
        exposure.io_ = io;
        exposure.home_ = &exposures;
        exposure.inv_.exposure = &exposure;
        exposure.inv_.posted = &State::on_inv_posted;
        exposures.free_.push_back(exposure);
    }
}

void Io::State::make_transfers(std::uint32_t count) {
    const std::uint32_t wrs_each = options.runs_per_transfer;
    const std::uint32_t sges_each =
        wrs_each + kLocalRunsMax;  // each boundary, remote or local, starts another
    TransferBlock block;
    block.count = count;
    block.transfers = std::make_unique<Transfer[]>(count);
    block.storage = std::make_unique<Transfer::Storage[]>(count);
    block.wrs = std::make_unique<verbs::SendWr[]>(std::size_t{count} * wrs_each);
    block.sges = std::make_unique<verbs::Sge[]>(std::size_t{count} * sges_each);
    for (std::uint32_t i = 0; i < count; ++i) {
        Transfer& transfer = block.transfers[i];
        Transfer::Storage& own = block.storage[i];
        own.wrs = {block.wrs.get() + std::size_t{i} * wrs_each, wrs_each};
        own.sges = {block.sges.get() + std::size_t{i} * sges_each, sges_each};
        own.part.done = &State::on_part;
        own.last.done = &State::on_last;
        own.part.transfer = own.last.transfer = own.posting.transfer = &transfer;
        own.posting.posted = &State::on_pull_posted;
        transfer.storage_ = &own;
        transfer.io_ = io;
        transfer.home_ = &transfers;
        transfers.free_.push_back(transfer);
    }
    transfers.count_ += count;
    blocks.push_back(std::move(block));
}

void Io::add_transfers(std::uint32_t count) {
    state_->make_transfers(count);
}

std::uint32_t Io::transfers() const noexcept {
    return state_->transfers.count_;
}

Io::~Io() {
    if (state_ == nullptr) return;
    NR_ASSERT(full());
    state_->exposures.free_.clear();
    state_->transfers.free_.clear();
}

void Io::set_qp(verbs::QueuePair* qp) noexcept {
    state_->qp = qp;
    state_->send_capacity = qp == nullptr ? 0 : qp->send_room();
}

void Io::set_read_depth(std::uint32_t depth) noexcept {
    state_->options.read_depth = std::max(depth, 1u);
}

verbs::Sge Io::sge(std::span<const std::byte> memory) const noexcept {
    verbs::Lkey lkey = state_->arena->lkey();
    if (!state_->arena->contains(memory)) {
        const Region* const region = state_->regions.find(memory);
        NR_ASSERT(region != nullptr);
        lkey = region->mr->lkey();
    }
    return {address_of(memory.data()), narrow<std::uint32_t>(memory.size()), lkey};
}

// ---- memory of the user's own
// -----------------------------------------------------------------------------------------

Result<void> Io::register_memory(std::span<std::byte> memory) {
    State& state = *state_;
    verbs::Access access = verbs::Access::local_write;
    if (state.options.registration == Registration::fixed)
        access = access | verbs::Access::remote_read | verbs::Access::remote_write;
    return state.regions.add(*state.pd, memory, access);
}

Result<void> Io::deregister_memory(std::span<std::byte> memory) noexcept {
    State& state = *state_;
    Region* const region = state.regions.exactly(memory);
    if (region == nullptr) return Error{Errc::invalid_argument, 0, "memory that is not registered"};
    if (region->users > 0) {
        state.starved = true;
        return Error{Errc::again, 0, "memory that is in use"};
    }
    // A key that was flushed may still be bound to it on the queue pair that is in error.
    state.mrs->drop_stale();
    state.regions.remove(*region);
    return {};
}

bool Io::is_registered(std::span<const std::byte> memory) const noexcept {
    return state_->arena->contains(memory) || state_->regions.find(memory) != nullptr;
}

// All of `memory` is the arena's or registered, and stays so until `use` is cleared.
Result<void> Io::State::hold(Runs memory, RegionUse& use) const noexcept {
    NR_ASSERT(use.empty());
    for (const std::span<std::byte> run : memory) {
        if (run.empty() || arena->contains(run)) continue;
        Region* const region = regions.find(run);
        if (region != nullptr && use.add(*region)) continue;
        use.clear();
        if (region == nullptr)
            return Error{Errc::invalid_argument, 0, "memory that is not registered"};
        return Error{Errc::too_big, 0, "too many registered runs of memory at once"};
    }
    return {};
}

verbs::Rkey Io::State::static_rkey(std::span<const std::byte> memory) const noexcept {
    return arena->contains(memory) ? arena->static_rkey() : regions.find(memory)->mr->rkey();
}

// A chain with more READs than the depth goes alone: the device keeps the rest back by itself.
Io::State::Blocked Io::State::blocked(const Posting& posting) const noexcept {
    if (posting.chain.size() > qp->send_room()) return Blocked::send_room;
    if (posting.reads > 0 && reads_in_flight > 0 &&
        reads_in_flight + posting.reads > options.read_depth) {
        return Blocked::read_depth;
    }
    return Blocked::no;
}

Result<void> Io::State::try_post(Posting& posting) noexcept {
    if (qp == nullptr) return Error{Errc::reconnect, 0, "no queue pair"};
    if (qp->in_error()) return Error{Errc::reconnect, 0, "the queue pair is in error"};
    if (posting.chain.empty()) return {};
    if (posting.chain.size() > send_capacity)
        return Error{Errc::too_big, 0, "longer than the send queue"};
    if (blocked(posting) != Blocked::no) return Error{Errc::again, 0, "no room in the send queue"};
    NR_TRY(qp->post_send(posting.chain));
    ++counters.doorbells;
    reads_in_flight += posting.reads;
    return {};
}

void Io::post(Posting& posting) noexcept {
    State& state = *state_;
    NR_ASSERT(posting.posted != nullptr);
    if (state.waiting.empty()) {
        Result<void> result = state.try_post(posting);
        if (result || result.error().code != Errc::again) return posting.posted(posting, result);
    }
    State::Blocked why = state.qp == nullptr ? State::Blocked::send_room : state.blocked(posting);
    if (why == State::Blocked::no && !state.waiting.empty() && state.qp != nullptr) {
        why =
            state.blocked(state.waiting.front());  // waits behind another, for what that one lacks
    }
    ++(why == State::Blocked::read_depth ? state.counters.waited_for_read_depth
                                         : state.counters.waited_for_send_room);
    state.waiting.push_back(posting);
}

void Io::on_send_room() noexcept {
    state_->pump();
}

// `posted` may post again, and so come back here: the queue is consistent whenever it runs.
void Io::State::pump() noexcept {
    while (!waiting.empty()) {
        Posting& posting = waiting.front();
        Result<void> result = try_post(posting);
        if (!result && result.error().code == Errc::again) return;
        waiting.erase(posting);
        posting.posted(posting, result);
    }
}

void Io::State::fail_waiting() noexcept {
    while (!waiting.empty()) {
        Posting& posting = waiting.pop_front();
        posting.posted(posting, Error{Errc::reconnect, 0, "the connection ended"});
    }
}

void Io::on_disconnect() noexcept {
    State& state = *state_;
    state.qp = nullptr;  // what `posted` callbacks post from here on fails at once
    state.fail_waiting();
    NR_ASSERT(state.reads_in_flight == 0);
    for (std::uint32_t i = 0; i < state.exposures.count_; ++i) {
        Exposure& exposure = state.exposures.all_[i];
        if (!exposure.leased_) continue;
        State::flush_keys(exposure);
        State::finish_fence(exposure);
    }
    for (const State::TransferBlock& block : state.blocks) {
        for (std::uint32_t i = 0; i < block.count; ++i) {
            const Transfer::Storage& own = block.storage[i];
            if (own.leased && own.key != nullptr && own.key->live()) own.key->on_flushed();
        }
    }
}

Result<void> Io::renew() noexcept {
    if (!full()) return Error{Errc::again, 0, "memory of the last connection is still held"};
    NR_TRY_ASSIGN(const std::uint32_t renewed, state_->mrs->renew_stale());
    state_->counters.keys_renewed += renewed;
    return {};
}

void Io::on_room(void (*wake)(void*) noexcept, void* arg) noexcept {
    state_->wake = wake;
    state_->wake_arg = arg;
}

void Io::State::came_home() noexcept {
    if (!starved || wake == nullptr) return;
    starved = false;
    wake(wake_arg);
}

bool Io::full() const noexcept {
    const State& state = *state_;
    return state.exposures.free_.size() == state.exposures.count_ &&
           state.transfers.free_.size() == state.transfers.count_ && state.mrs->full() &&
           state.waiting.empty() && state.reads_in_flight == 0;
}

bool Io::remote_invalidate() const noexcept {
    return state_->binds && state_->caps.remote_invalidate;
}

const IoCounters& Io::counters() const noexcept {
    return state_->counters;
}

}  // namespace nfsrdma::pools
