#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "pools/io.hpp"
#include "pools/io_state.hpp"

// Operation. A pull is a chain of RDMA READs, a push one of RDMA WRITEs: one work request a remote
// run, whose SGL names the local memory. Where an SGL would be too long, or the device wants a key
// for a READ's sink, a key is bound in front of them (one local run, seen through the key) and dies
// behind them.
//
// Ownership. (1) A Transfer's work requests, SGEs and key are its own from pull() or push() until
// it goes home. (2) A pull is `pending` from post_pull until its `done` runs, which is once:
// take_home asserts that it is not. (3) A push goes home after the completion of the SEND behind
// it, so that its unsignaled requests are done; a failed one was told to on_part.
//
// Errors. Errc::again (no transfer or key is free), Errc::too_big (more work requests than provided
// for, or a push that the peer's memory cannot hold), Errc::invalid_argument (a pull whose sums
// differ), Errc::unsupported (a key was demanded of a device whose keys cannot be used locally).
namespace nfsrdma::pools {

namespace {

std::uint64_t sum(std::span<const RemoteRun> runs) noexcept {
    std::uint64_t total = 0;
    for (const RemoteRun& run : runs)
        total += run.length;
    return total;
}

std::uint64_t sum(Runs runs) noexcept {
    std::uint64_t total = 0;
    for (const std::span<std::byte> run : runs)
        total += run.size();
    return total;
}

}  // namespace

// One key over all of the memory, and one that an SGE may name: no window can.
bool Io::State::can_key(Runs memory) const noexcept {
    if (options.keys == 0 || !caps.fast_reg || !caps.local_keys || memory.empty()) return false;
    if (!caps.page_list_reg && memory.size() > 1) return false;
    std::uint64_t total = 0;
    std::uint64_t pages_needed = 0;
    for (const std::span<std::byte> run : memory) {
        pages_needed +=
            div_ceil<std::uint64_t>(address_of(run.data()) % kPageSize + run.size(), kPageSize);
    }
    return pages_needed <= options.pages_per_key && static_cast<bool>(check_memory(memory, total));
}

// With R remote and L local runs a walk over both crosses at most L - 1 local boundaries inside
// remote runs, and a request is split only where it has crossed as many as an SGL can hold: at most
// R + (L - 1) / SGEs requests.
std::uint32_t Io::State::transfer_slots(std::uint32_t remote_runs, Runs memory,
                                        bool pull) const noexcept {
    const auto local_runs = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(memory.size()));
    const std::uint32_t sges = pull ? read_sges_max : sges_max;
    const std::uint32_t gathered = remote_runs + (local_runs - 1) / sges;
    const std::uint32_t keyed = remote_runs + 2;  // REG_MR, LOCAL_INV
    if (options.local == LocalStrategy::key || (pull && caps.read_sink_needs_key)) return keyed;
    if (options.local == LocalStrategy::scatter_gather || local_runs <= sges) return gathered;
    return std::max(gathered, keyed);
}

std::uint32_t Io::pull_slots(std::uint32_t remote_runs, Runs memory) const noexcept {
    return state_->transfer_slots(remote_runs, memory, true);
}

std::uint32_t Io::push_slots(std::uint32_t remote_runs, Runs memory) const noexcept {
    return state_->transfer_slots(remote_runs, memory, false);
}

namespace {

// A walk over remote runs and local SGEs at once that forms the work requests.
struct Gather {
    std::span<const RemoteRun> remote;
    std::span<const verbs::Sge> local;
    std::uint64_t left;  // bytes to move
    std::uint32_t sges_max;
    std::span<verbs::SendWr> wrs;
    std::span<verbs::Sge> sges;
    std::uint32_t wrs_used = 0, sges_used = 0;
    bool split = false;      // a remote run needed more than one request
    std::size_t at = 0;      // in `local`
    std::uint32_t done = 0;  // bytes of local[at]

    // One request of at most `want` bytes at `address`; returns how many it moves, 0 when the
    // arrays are full.
    std::uint32_t form(std::uint32_t handle, std::uint64_t address, std::uint32_t want) noexcept {
        if (wrs_used == wrs.size()) return 0;
        const std::uint32_t first = sges_used;
        std::uint32_t moved = 0;
        while (moved < want && sges_used - first < sges_max) {
            if (sges_used == sges.size()) return 0;
            const verbs::Sge& from = local[at];
            const std::uint32_t len = std::min(want - moved, from.length - done);
            sges[sges_used++] = {from.addr + done, len, from.lkey};
            moved += len;
            done += len;
            if (done == from.length) {
                ++at;
                done = 0;
            }
        }
        verbs::SendWr& wr = wrs[wrs_used++];
        wr.remote_addr = address;
        wr.rkey = verbs::Rkey{handle};
        wr.sgl = sges.subspan(first, sges_used - first);
        return moved;
    }

    bool run() noexcept {
        for (const RemoteRun& run : remote) {
            const std::uint32_t want =
                static_cast<std::uint32_t>(std::min<std::uint64_t>(run.length, left));
            for (std::uint32_t moved = 0; moved < want;) {
                if (moved > 0) split = true;
                const std::uint32_t now = form(run.handle, run.offset + moved, want - moved);
                if (now == 0) return false;
                moved += now;
            }
            left -= want;
        }
        return true;
    }
};

}  // namespace

Result<Lease<Transfer>> Io::State::start(Job job) noexcept {
    job.total = sum(job.memory);
    if (job.memory.size() > kLocalRunsMax)
        return Error{Errc::too_big, 0, "too many runs of local memory"};
    if (transfers.free_.empty()) {
        starved = true;
        ++counters.waited_for_keys;
        return Error{Errc::again, 0, "no transfer is free"};
    }
    Transfer& transfer = transfers.free_.front();
    Transfer::Storage& own = *transfer.storage_;
    NR_TRY(hold(job.memory, own.use));
    transfers.free_.erase(transfer);
    own.leased = true;
    own.failed = false;
    own.bytes = job.total;
    transfer.done = nullptr;
    transfer.user = nullptr;
    transfer.chain_ = {};
    Lease<Transfer> lease = Lease<Transfer>::reclaim(transfer);
    if (job.total > 0) NR_TRY(build(transfer, job));
    return lease;
}

Result<void> Io::State::build(Transfer& transfer, const Job& job) noexcept {
    const bool pull = job.op == verbs::SendOp::rdma_read;
    const bool must_key = options.local == LocalStrategy::key || (pull && caps.read_sink_needs_key);
    if (must_key) {
        if (!can_key(job.memory))
            return Error{Errc::unsupported, 0, "no key of this device can cover that memory"};
        return build_keyed(transfer, job);
    }
    Transfer::Storage& own = *transfer.storage_;
    std::size_t count = 0;
    for (const std::span<std::byte> run : job.memory) {
        if (!run.empty()) local[count++] = io->sge(run);
    }
    Gather gather{job.remote, std::span(local).first(count),
                  job.total,  pull ? read_sges_max : sges_max,
                  own.wrs,    own.sges};
    const bool fits = gather.run();
    if ((!fits || gather.split) && options.local == LocalStrategy::automatic &&
        can_key(job.memory)) {
        if (mrs->available() > 0 || !fits) return build_keyed(transfer, job);
    }
    if (!fits) return Error{Errc::too_big, 0, "more work requests than one transfer can hold"};
    for (std::uint32_t i = 0; i < gather.wrs_used; ++i) {
        verbs::SendWr& wr = own.wrs[i];
        const bool last = pull && i + 1 == gather.wrs_used;
        wr.op = job.op;
        wr.signaled = last;
        wr.fenced = false;
        wr.cqe = last ? &own.last : &own.part;
        transfer.chain_.push_back(wr);
    }
    own.wrs_used = gather.wrs_used;
    return {};
}

Result<void> Io::State::build_keyed(Transfer& transfer, const Job& job) noexcept {
    Transfer::Storage& own = *transfer.storage_;
    const bool pull = job.op == verbs::SendOp::rdma_read;
    auto lease = mrs->get();
    if (!lease) {
        starved = true;
        ++counters.waited_for_keys;
        return lease.error();
    }
    Mr& key = **lease;
    // A READ's sink must be remotely writable on iWARP, where the READ tells its peer the key.
    verbs::Access access = verbs::Access::local_write;
    if (pull && caps.read_sink_needs_key) access = access | verbs::Access::remote_write;
    NR_TRY(bind(key, job.memory, access));
    own.key = &std::move(*lease).donate();
    key.carrier = &transfer;
    local[0] = {key.fast->iova(), narrow<std::uint32_t>(job.total), key.fast->lkey()};
    Gather gather{job.remote, std::span(local).first(1), job.total, sges_max, own.wrs, own.sges};
    if (!gather.run())
        return Error{Errc::too_big, 0, "more work requests than one transfer can hold"};
    transfer.chain_.push_back(key.reg_wr);
    for (std::uint32_t i = 0; i < gather.wrs_used; ++i) {
        verbs::SendWr& wr = own.wrs[i];
        wr.op = job.op;
        wr.signaled = false;
        wr.fenced = i == 0;  // behind the REG_MR
        wr.cqe = &own.part;
        transfer.chain_.push_back(wr);
    }
    own.wrs_used = gather.wrs_used;
    key.form_invalidate();
    key.inv_wr.fenced = true;
    key.inv_wr.signaled = pull;
    if (pull) key.inv_wr.cqe = &own.last;
    transfer.chain_.push_back(key.inv_wr);
    ++(pull ? counters.keyed_pulls : counters.keyed_pushes);
    ++counters.local_invalidations;
    return {};
}

Result<Lease<Transfer>> Io::pull(std::span<const RemoteRun> from, Runs memory) noexcept {
    if (sum(from) != sum(memory))
        return Error{Errc::invalid_argument, 0, "a pull into memory of another size"};
    NR_TRY_ASSIGN(Lease<Transfer> transfer,
                  state_->start({from, memory, verbs::SendOp::rdma_read}));
    ++state_->counters.pulls;
    state_->counters.bytes_pulled += transfer->storage_->bytes;
    return transfer;
}

Result<Lease<Transfer>> Io::push(std::span<const RemoteRun> to, Runs memory) noexcept {
    if (sum(to) < sum(memory)) return Error{Errc::too_big, 0, "a push beyond the peer's memory"};
    NR_TRY_ASSIGN(Lease<Transfer> transfer, state_->start({to, memory, verbs::SendOp::rdma_write}));
    ++state_->counters.pushes;
    state_->counters.bytes_pushed += transfer->storage_->bytes;
    return transfer;
}

// Links its requests into `chain`: the Transfer's own chain is not to be posted afterwards.
void Io::append_to(verbs::WrChain& chain, Transfer& transfer) noexcept {
    verbs::SendWr* wr = transfer.chain_.first();
    for (std::uint32_t i = transfer.chain_.size(); i > 0; --i) {
        verbs::SendWr* const next = wr->next;
        chain.push_back(*wr);
        wr = next;
    }
}

void Io::post_pull(Transfer& transfer) noexcept {
    Transfer::Storage& own = *transfer.storage_;
    NR_ASSERT(own.leased && !own.pending && transfer.done != nullptr);
    own.pending = true;
    own.posting.chain = transfer.chain_;
    own.posting.reads = own.bytes == 0 ? 0 : own.wrs_used;
    post(own.posting);
}

void Io::State::on_pull_posted(Posting& posting, Result<void> result) noexcept {
    Transfer& transfer = *static_cast<Transfer::Storage::PullPosting&>(posting).transfer;
    Transfer::Storage& own = *transfer.storage_;
    State& state = *transfer.io_->state_;
    if (result && !posting.chain.empty()) {
        own.reads_charged = posting.reads;
        return;
    }
    if (own.key != nullptr && own.key->live()) own.key->on_never_posted();
    state.finish_pull(transfer, static_cast<bool>(result));
}

void Io::State::on_part(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    if (wc.status == verbs::WcStatus::success) return;
    static_cast<Transfer::Storage::TransferCqe&>(cqe).transfer->storage_->failed = true;
}

void Io::State::on_last(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    Transfer& transfer = *static_cast<Transfer::Storage::TransferCqe&>(cqe).transfer;
    Transfer::Storage& own = *transfer.storage_;
    State& state = *transfer.io_->state_;
    const bool ok = wc.status == verbs::WcStatus::success && !own.failed;
    if (own.key != nullptr && own.key->live()) {
        if (ok) {
            own.key->on_invalidated();
        } else {
            own.key->on_flushed();
        }
    }
    NR_ASSERT(state.reads_in_flight >= own.reads_charged);
    state.reads_in_flight -= std::exchange(own.reads_charged, 0u);
    state.pump();
    state.finish_pull(transfer, ok);
}

// The last thing done with `transfer`: the callback may release it.
void Io::State::finish_pull(Transfer& transfer, bool ok) noexcept {
    transfer.storage_->pending = false;
    transfer.done(transfer, ok);
}

void TransferPool::put(Transfer& transfer) noexcept {
    transfer.io_->state_->take_home(transfer);
}

void Io::State::take_home(Transfer& transfer) noexcept {
    Transfer::Storage& own = *transfer.storage_;
    NR_ASSERT(own.leased && !own.pending);
    if (own.key != nullptr) {
        // Of a push: done with its SEND, or never posted, and unmapping what is free is nothing. A
        // key that failed has said so and is stale.
        if (own.key->live()) own.key->on_never_posted();
        mrs->put(*std::exchange(own.key, nullptr));
    }
    own.wrs_used = 0;
    own.use.clear();
    own.leased = false;
    transfer.chain_ = {};
    transfers.free_.push_front(transfer);
    came_home();
}

}  // namespace nfsrdma::pools
