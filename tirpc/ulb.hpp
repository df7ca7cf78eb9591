#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "sunrpc/binding.hpp"
#include "tirpc/tirpc_rdma.h"

// The upper-layer bindings of this process (RFC 8166 s6): which items of which program are placed
// by RDMA. Those that programs registered, and NFSv3's (RFC 8267 s4), which is built in and which a
// program may replace by its own (its structs may be laid out otherwise).
namespace nfsrdma::tirpc {

// Immutable once it is found; lives as long as the process, so that CLIENTs and listeners may keep
// it.
struct Binding {
    std::uint32_t prog = 0, vers = 0;
    std::vector<rpcrdma_proc> procs;      // in order of their numbers
    std::atomic<Binding*> next{nullptr};  // the list of all
    // nullptr: the procedure has no item, and nothing is known of its reply.
    const rpcrdma_proc* proc(std::uint32_t number) const noexcept;
};

// Any thread, beside registrations; allocates nothing and takes no lock. nullptr: there is none,
// and every long message of that program goes whole.
const Binding* find_binding(std::uint32_t prog, std::uint32_t vers) noexcept;

// An item as the XDR streams want it. Does not exist when `ddp` says that there is none.
// `default_min` is the CLIENT's own limit, for items of calls; results are placed whatever their
// length once the client made room for them (facts/libtirpc s3), so 0 there.
sunrpc::DdpItem ddp_item(const rpcrdma_ddp& ddp, std::uint32_t default_min = 0) noexcept;
// Whether its pointer may be set before the struct is decoded: see RPCRDMA_IN_PLACE.
bool may_be_in_place(const rpcrdma_ddp& ddp) noexcept;

// Bytes that a call makes room for, by its arguments. `proc` may be nullptr.
// The item of the results, at most `max_payload`; 0: it has none.
std::uint32_t result_item_max(const rpcrdma_proc* proc, const void* args,
                              std::uint32_t max_payload) noexcept;
// The encoded results without that item; `otherwise` when no table says it.
std::uint32_t reply_max(const rpcrdma_proc* proc, const void* args,
                        std::uint32_t otherwise) noexcept;

}  // namespace nfsrdma::tirpc
