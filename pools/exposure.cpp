#include <utility>

#include "base/bytes.hpp"
#include "pools/io.hpp"
#include "pools/io_state.hpp"

// Operation. expose_* binds keys to memory: their REG_MRs go in front of the caller's chain. The
// peer's SEND_WITH_INV or fence() ends each.
//
// Ownership. (1) A key belongs to its Exposure from expose until the Exposure goes home: Mr::user.
// (2) `live_keys_` counts the keys that are bound or invalidating; an Exposure goes home at 0 only:
// take_home asserts it. (3) A fence has one callback, which runs once: fence asserts that none is
// pending. (4) Memory of the user stays registered while an Exposure names it: Exposure::use_.
//
// Errors. Errc::again (keys or exposures are dry), Errc::too_big (more pages or runs than provided
// for), Errc::invalid_argument (empty memory, or several runs that do not meet at page boundaries),
// Errc::unsupported.
namespace nfsrdma::pools {

std::uint32_t Io::State::keys_for(Runs memory) const noexcept {
    if (!binds) return 0;
    return caps.page_list_reg || memory.size() == 1 ? 1 : static_cast<std::uint32_t>(memory.size());
}

std::uint32_t Io::expose_slots(Runs memory) const noexcept {
    return state_->keys_for(memory);
}

// Several runs under one key are consecutive in the peer's view, so all but the outer edges lie on
// page boundaries.
Result<void> Io::State::check_memory(Runs memory, std::uint64_t& total) const noexcept {
    total = 0;
    for (std::size_t i = 0; i < memory.size(); ++i) {
        const std::span<std::byte> run = memory[i];
        if (run.empty()) return Error{Errc::invalid_argument, 0, "an empty run of memory"};
        if (!io->is_registered(run))
            return Error{Errc::invalid_argument, 0, "memory that is not registered"};
        const std::uint64_t start = address_of(run.data());
        const bool inner_start = i > 0 && start % kPageSize != 0;
        const bool inner_end = i + 1 < memory.size() && (start + run.size()) % kPageSize != 0;
        if (inner_start || inner_end)
            return Error{Errc::invalid_argument, 0, "runs meet inside of a page"};
        total += run.size();
    }
    if (total == 0) return Error{Errc::invalid_argument, 0, "no memory to expose"};
    if (total > UINT32_MAX) return Error{Errc::too_big, 0, "more than one key can cover"};
    return {};
}

Result<void> Io::State::bind(Mr& mr, Runs memory, verbs::Access access) noexcept {
    std::uint32_t count = 0, length = 0;
    for (const std::span<std::byte> run : memory) {
        const std::size_t inset = address_of(run.data()) % kPageSize;
        const std::size_t pages_here = div_ceil<std::size_t>(inset + run.size(), kPageSize);
        if (pages_here > options.pages_per_key - count) {
            return Error{Errc::too_big, 0, "more pages than a key can hold"};
        }
        std::byte* const first = run.data() - inset;
        for (std::size_t i = 0; i < pages_here; ++i)
            pages[count++] = first + i * kPageSize;
        length += static_cast<std::uint32_t>(run.size());
    }
    const std::uint64_t iova = address_of(memory.front().data());
    NR_TRY(mr.bind({{pages.get(), count},
                    static_cast<std::uint32_t>(iova % kPageSize),
                    length,
                    iova,
                    access}));
    mr.done = &State::on_reg;
    mr.inv.done = &State::on_inv;
    ++counters.binds;
    return {};
}

// One key over all runs, or one a run.
Result<void> Io::State::bind_all(Exposure& exposure, Runs memory, verbs::Access access) noexcept {
    const std::uint32_t keys = keys_for(memory);
    for (std::uint32_t i = 0; i < keys; ++i) {
        auto mr = mrs->get();
        NR_ASSERT(static_cast<bool>(mr));  // the caller counted them
        Mr& key = std::move(*mr).donate();
        exposure.mrs_[exposure.key_count_++] = &key;
        key.user = &exposure;
        const Runs mine = keys == 1 ? memory : memory.subspan(i, 1);
        NR_TRY(bind(key, mine, access));
        std::uint32_t length = 0;
        for (const std::span<std::byte> run : mine)
            length += static_cast<std::uint32_t>(run.size());
        exposure.runs_[exposure.run_count_++] = {static_cast<std::uint32_t>(key.fast->rkey()),
                                                 length, key.fast->iova()};
        ++exposure.live_keys_;
    }
    return {};
}

Result<Lease<Exposure>> Io::State::expose(Runs memory, verbs::Access access,
                                          verbs::WrChain& then) noexcept {
    const bool fixed = options.registration == Registration::fixed;
    if (!binds && !fixed) {
        return Error{
            Errc::unsupported, 0,
            "this device cannot bind keys by a work request: use --registration static (unsafe)"};
    }
    std::uint64_t total = 0;
    NR_TRY(check_memory(memory, total));
    const std::uint32_t keys = keys_for(memory);
    if ((fixed ? memory.size() : keys) > Exposure::kRunsMax || keys > options.keys) {
        return Error{Errc::too_big, 0, "more runs of memory than one exposure can hold"};
    }
    if (exposures.free_.empty() || mrs->available() < keys) {
        ++counters.waited_for_keys;
        starved = true;
        return Error{Errc::again, 0, "no key is free"};
    }
    Exposure& exposure = exposures.free_.front();
    NR_TRY(hold(memory, exposure.use_));
    exposures.free_.erase(exposure);
    exposure.leased_ = true;
    exposure.stale_ = false;
    exposure.user = nullptr;
    if (fixed) {
        for (const std::span<std::byte> run : memory) {
            exposure.runs_[exposure.run_count_++] = {static_cast<std::uint32_t>(static_rkey(run)),
                                                     static_cast<std::uint32_t>(run.size()),
                                                     address_of(run.data())};
        }
    } else if (auto bound = bind_all(exposure, memory, access); !bound) {
        io->unexpose(Lease<Exposure>::reclaim(exposure));
        return bound.error();
    }
    if (exposure.key_count_ > 0) {
        verbs::SendWr* own = then.first();  // behind what an earlier expose put in front
        while (own != nullptr && own->op == verbs::SendOp::reg_mr)
            own = own->next;
        if (own != nullptr) own->fenced = true;
    }
    for (std::uint32_t i = exposure.key_count_; i-- > 0;)
        then.push_front(exposure.mrs_[i]->reg_wr);
    ++counters.exposures;
    counters.bytes_exposed += total;
    return Lease<Exposure>::reclaim(exposure);
}

Result<Lease<Exposure>> Io::expose_read(Runs memory, verbs::WrChain& then) noexcept {
    return state_->expose(memory, verbs::Access::remote_read, then);
}

Result<Lease<Exposure>> Io::expose_write(Runs memory, verbs::WrChain& then) noexcept {
    return state_->expose(memory, verbs::Access::local_write | verbs::Access::remote_write, then);
}

void Io::unexpose(Lease<Exposure> exposure) noexcept {
    for (std::uint32_t i = 0; i < exposure->key_count_; ++i) {
        if (exposure->mrs_[i]->live()) exposure->mrs_[i]->on_never_posted();
    }
    exposure->live_keys_ = 0;
}

void ExposurePool::put(Exposure& exposure) noexcept {
    exposure.io_->state_->take_home(exposure);
}

void Io::State::take_home(Exposure& exposure) noexcept {
    NR_ASSERT(exposure.leased_ && exposure.dead() && exposure.fenced_ == nullptr);
    for (std::uint32_t i = 0; i < exposure.key_count_; ++i)
        mrs->put(*exposure.mrs_[i]);
    exposure.key_count_ = exposure.run_count_ = 0;
    exposure.use_.clear();
    exposure.leased_ = false;
    exposures.free_.push_front(exposure);
    came_home();
}

Exposure* Io::on_remote_invalidate(verbs::Rkey key) noexcept {
    Mr* const mr = state_->mrs->find(key);
    if (mr == nullptr || mr->state != MrState::bound || mr->user == nullptr) {
        ++state_->counters.bad_remote_invalidations;
        return nullptr;
    }
    ++state_->counters.remote_invalidations;
    mr->on_invalidated();
    --mr->user->live_keys_;
    return mr->user;
}

void Io::fence(Exposure& exposure, void (*then)(Exposure&, bool ok) noexcept) noexcept {
    NR_ASSERT(exposure.leased_ && exposure.fenced_ == nullptr && then != nullptr);
    if (exposure.dead()) return then(exposure, !exposure.stale_);
    exposure.fenced_ = then;
    verbs::WrChain chain;
    for (std::uint32_t i = 0; i < exposure.key_count_; ++i) {
        Mr& mr = *exposure.mrs_[i];
        if (mr.state != MrState::bound) continue;
        mr.form_invalidate();
        chain.push_back(mr.inv_wr);
        exposure.inv_last_ = &mr;
    }
    exposure.inv_last_->inv_wr.signaled = true;
    exposure.inv_.chain = chain;
    state_->counters.local_invalidations += chain.size();
    post(exposure.inv_);
}

void Io::State::on_inv_posted(Posting& posting, Result<void> result) noexcept {
    if (result) return;
    Exposure& exposure = *static_cast<Exposure::InvPosting&>(posting).exposure;
    flush_keys(exposure);
    finish_fence(exposure);
}

void Io::State::flush_keys(Exposure& exposure) noexcept {
    for (std::uint32_t i = 0; i < exposure.key_count_; ++i) {
        if (!exposure.mrs_[i]->live()) continue;
        exposure.mrs_[i]->on_flushed();
        exposure.stale_ = true;
    }
    exposure.live_keys_ = 0;
}

// The last thing done with `exposure`: the callback may release it.
void Io::State::finish_fence(Exposure& exposure) noexcept {
    if (exposure.fenced_ == nullptr) return;
    const auto then = std::exchange(exposure.fenced_, nullptr);
    exposure.inv_last_ = nullptr;
    then(exposure, !exposure.stale_);
}

// REG_MR is unsignaled, but the queue pair may signal any request for its own ends: success says
// nothing new here.
void Io::State::on_reg(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    Mr& mr = static_cast<Mr&>(cqe);
    if (wc.status == verbs::WcStatus::success || !mr.live()) return;
    mr.on_flushed();
    if (mr.user != nullptr) {
        mr.user->stale_ = true;
        --mr.user->live_keys_;
    }
    if (mr.carrier != nullptr) mr.carrier->storage_->failed = true;
}

void Io::State::on_inv(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    Mr& mr = *static_cast<Mr::InvCqe&>(cqe).mr;
    Exposure* const exposure = mr.user;
    const bool ok = wc.status == verbs::WcStatus::success;
    if (exposure == nullptr || exposure->inv_last_ != &mr) {
        if (ok || mr.state != MrState::invalidating) return;
        mr.on_flushed();
        if (exposure != nullptr) {
            exposure->stale_ = true;
            --exposure->live_keys_;
        }
        if (mr.carrier != nullptr) mr.carrier->storage_->failed = true;
        return;
    }
    if (ok) {
        // Completions come in order: all before it are done as well.
        for (std::uint32_t i = 0; i < exposure->key_count_; ++i) {
            if (exposure->mrs_[i]->state != MrState::invalidating) continue;
            exposure->mrs_[i]->on_invalidated();
            --exposure->live_keys_;
        }
    } else {
        flush_keys(*exposure);
    }
    exposure->io_->state_->pump();
    finish_fence(*exposure);
}

}  // namespace nfsrdma::pools
