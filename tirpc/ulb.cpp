#include "tirpc/ulb.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <new>

#include "nfs/binding.hpp"

namespace nfsrdma::tirpc {
namespace {

constexpr std::uint32_t kNfsProg = 100003, kNfsVers = 3;
// No struct of rpcgen comes near; no program has more procedures.
constexpr std::int32_t kOffsetMax = 1 << 20;
constexpr std::uint32_t kProcsMax = 1 << 16;
constexpr std::uint32_t kStringMax = 64u << 20;  // the most that is ever placed

constexpr rpcrdma_ddp kNoItem{-1, 0, 0, nullptr};

// Bindings are prepended and stay: who walks the list needs no lock.
struct Registry {
    std::mutex mutex;  // of those that register
    std::atomic<Binding*> first{nullptr};
};
Registry& registry() noexcept {
    static Registry all;
    return all;
}

bool lower_number(const rpcrdma_proc& left, const rpcrdma_proc& right) noexcept {
    return left.proc < right.proc;
}

// A struct of which nothing was set but a few members: rpcgen has no opaque<> at its very
// beginning, where its length is, so that zeroes mean none.
bool is_none(const rpcrdma_ddp& ddp) noexcept {
    return ddp.match == nullptr &&
           (ddp.ptr_off == -1 || (ddp.ptr_off == 0 && ddp.string_bound == 0));
}

bool makes_sense(const rpcrdma_ddp& ddp) noexcept {
    if (is_none(ddp) || ddp.match != nullptr) return true;
    return ddp.ptr_off >= 0 && ddp.ptr_off <= kOffsetMax &&
           static_cast<std::size_t>(ddp.ptr_off) % alignof(char*) == 0 &&
           (ddp.string_bound <= kStringMax || ddp.string_bound == RPCRDMA_IN_PLACE);
}

rpcrdma_ddp normal(const rpcrdma_ddp& ddp) noexcept {
    if (is_none(ddp)) return kNoItem;
    rpcrdma_ddp item = ddp;
    if (item.match != nullptr) item.ptr_off = -1;
    return item;
}

bool same(const rpcrdma_ddp& left, const rpcrdma_ddp& right) noexcept {
    return left.ptr_off == right.ptr_off && left.min == right.min &&
           left.string_bound == right.string_bound && left.match == right.match;
}
bool same(const rpcrdma_proc& left, const rpcrdma_proc& right) noexcept {
    return left.proc == right.proc && same(left.arg, right.arg) && same(left.res, right.res) &&
           left.res_max == right.res_max && left.reply_max == right.reply_max;
}
bool same(const Binding& left, const Binding& right) noexcept {
    return std::equal(
        left.procs.begin(), left.procs.end(), right.procs.begin(), right.procs.end(),
        [](const rpcrdma_proc& a, const rpcrdma_proc& b) noexcept { return same(a, b); });
}

Binding* search(std::uint32_t prog, std::uint32_t vers) noexcept {
    for (Binding* at = registry().first.load(std::memory_order_acquire); at != nullptr;
         at = at->next.load(std::memory_order_relaxed)) {
        if (at->prog == prog && at->vers == vers) return at;
    }
    return nullptr;
}

int add(const rpcrdma_ulb& ulb) {
    auto binding = std::make_unique<Binding>();
    binding->prog = ulb.prog;
    binding->vers = ulb.vers;
    for (std::uint32_t i = 0; i < ulb.proc_count; ++i) {
        rpcrdma_proc proc = ulb.procs[i];
        if (!makes_sense(proc.arg) || !makes_sense(proc.res)) return EINVAL;
        proc.arg = normal(proc.arg);
        proc.res = normal(proc.res);
        proc.res.min = 0;  // results go where the client made room for them, whatever their length
        binding->procs.push_back(proc);
    }
    std::sort(binding->procs.begin(), binding->procs.end(), lower_number);
    const auto twice = std::adjacent_find(
        binding->procs.begin(), binding->procs.end(),
        [](const rpcrdma_proc& a, const rpcrdma_proc& b) noexcept { return a.proc == b.proc; });
    if (twice != binding->procs.end()) return EINVAL;

    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    if (const Binding* const there = search(ulb.prog, ulb.vers); there != nullptr)
        return same(*there, *binding) ? 0 : EEXIST;
    binding->next.store(all.first.load(std::memory_order_relaxed), std::memory_order_relaxed);
    all.first.store(binding.release(), std::memory_order_release);
    return 0;
}

rpcrdma_ddp ddp_of(const sunrpc::DdpItem& item) noexcept {
    // No arm of NFS's unions has a pointer where another has its item.
    const bool in_place = item.pointer_offset >= 0 && item.string_bound == 0;
    return {item.pointer_offset, item.min, in_place ? RPCRDMA_IN_PLACE : item.string_bound,
            item.match};
}

// nullptr without memory: then NFS's items are not placed.
const Binding* nfs3() noexcept {
    static const std::unique_ptr<const Binding> binding = []() noexcept {
        std::unique_ptr<Binding> made;
        try {
            made = std::make_unique<Binding>();
            made->prog = kNfsProg;
            made->vers = kNfsVers;
            std::uint32_t number = 0;
            for (const sunrpc::ProcInfo& info : nfs::nfs3_procs()) {
                made->procs.push_back({number++, ddp_of(info.arg_item), ddp_of(info.res_item),
                                       info.result_item_max, info.reply_max});
            }
        } catch (const std::bad_alloc&) {
            made = nullptr;
        }
        return made;
    }();
    return binding.get();
}

}  // namespace

const rpcrdma_proc* Binding::proc(std::uint32_t number) const noexcept {
    const auto at = std::lower_bound(
        procs.begin(), procs.end(), number,
        [](const rpcrdma_proc& each, std::uint32_t wanted) noexcept { return each.proc < wanted; });
    return at == procs.end() || at->proc != number ? nullptr : &*at;
}

const Binding* find_binding(std::uint32_t prog, std::uint32_t vers) noexcept {
    if (const Binding* const found = search(prog, vers); found != nullptr) return found;
    return prog == kNfsProg && vers == kNfsVers ? nfs3() : nullptr;
}

sunrpc::DdpItem ddp_item(const rpcrdma_ddp& ddp, std::uint32_t default_min) noexcept {
    sunrpc::DdpItem item;
    if (is_none(ddp)) return item;
    item.pointer_offset = ddp.match == nullptr ? ddp.ptr_off : -1;
    item.string_bound = ddp.string_bound == RPCRDMA_IN_PLACE ? 0 : ddp.string_bound;
    item.min = ddp.min != 0 ? ddp.min : default_min;
    item.match = ddp.match;
    return item;
}

bool may_be_in_place(const rpcrdma_ddp& ddp) noexcept {
    return ddp.ptr_off >= 0 && ddp.match == nullptr && ddp.string_bound == RPCRDMA_IN_PLACE;
}

std::uint32_t result_item_max(const rpcrdma_proc* proc, const void* args,
                              std::uint32_t max_payload) noexcept {
    if (proc == nullptr || is_none(proc->res)) return 0;
    if (proc->res_max == nullptr || args == nullptr) return max_payload;
    return std::min(proc->res_max(args), max_payload);
}

std::uint32_t reply_max(const rpcrdma_proc* proc, const void* args,
                        std::uint32_t otherwise) noexcept {
    if (proc == nullptr || proc->reply_max == nullptr || args == nullptr) return otherwise;
    return proc->reply_max(args);
}

}  // namespace nfsrdma::tirpc

extern "C" int rpcrdma_ulb_register(const struct rpcrdma_ulb* ulb) {
    if (ulb == nullptr) return EINVAL;
    // The first version of both; a later one takes the sizes of those before it as well.
    if (ulb->size != sizeof(rpcrdma_ulb) || ulb->proc_size != sizeof(rpcrdma_proc)) return EINVAL;
    if (ulb->proc_count > nfsrdma::tirpc::kProcsMax) return EINVAL;
    if (ulb->proc_count != 0 && ulb->procs == nullptr) return EINVAL;
    try {
        return nfsrdma::tirpc::add(*ulb);
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
}
