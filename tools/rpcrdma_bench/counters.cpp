#include "tools/rpcrdma_bench/counters.hpp"

#include <algorithm>

#include "verbs/softroce/softroce.hpp"

namespace nfsrdma::bench {
namespace {

constexpr std::uint64_t kWarmUp = 1000, kCounted = 1000;

// What is counted, at one moment, of both processes.
struct Snapshot {
    double calls = 0, keys = 0, local_invs = 0, doorbells = 0;
    double copied = 0, device_rx = 0, device_rx_copied = 0, device_tx_copied = 0;
    bool ok = false;
};

Snapshot take(NfsLoad& load, const BenchServer& server) {
    Snapshot s;
    const auto& transport = load.transport_counters();
    const auto& io = load.io_counters();
    const auto& device = verbs::softroce::counters(load.device());
    const std::string peer = server.statistics();
    const double peer_copied = json_sum(peer, "payload_copied_bytes");
    const double peer_rx = json_sum(peer, "rx_copied_bytes"),
                 peer_tx = json_sum(peer, "tx_copied_bytes");
    s.ok = peer_copied >= 0 && peer_rx >= 0 && peer_tx >= 0;
    s.calls = static_cast<double>(transport.calls);
    s.keys = static_cast<double>(io.binds);
    s.local_invs = static_cast<double>(io.local_invalidations);
    s.doorbells = static_cast<double>(io.doorbells);
    s.copied = static_cast<double>(transport.payload_copied_bytes +
                                   load.clnt_counters().payload_copied_bytes) +
               peer_copied;
    s.device_rx = static_cast<double>(device.rx_payload_bytes) + json_sum(peer, "rx_payload_bytes");
    s.device_rx_copied = static_cast<double>(device.rx_copied_bytes) + peer_rx;
    s.device_tx_copied = static_cast<double>(device.tx_copied_bytes) + peer_tx;
    return s;
}

struct Allocations {
    const BenchServer& server;
    std::uint64_t at_start = 0, at_end = 0;
    static void at_call(void* self, std::uint64_t done) {
        auto& a = *static_cast<Allocations*>(self);
        if (done == kWarmUp) a.at_start = own_allocations() + a.server.allocations();
        if (done == kWarmUp + kCounted) a.at_end = own_allocations() + a.server.allocations();
    }
};

}  // namespace

double CounterResult::row(const std::string& name) const {
    if (name == "keys_per_rpc") return keys_per_rpc;
    if (name == "local_inv_per_rpc") return local_inv_per_rpc;
    if (name == "doorbells_per_call") return doorbells_per_call;
    if (name == "payload_copies_per_rpc") return payload_copies_per_rpc;
    if (name == "device_copies_per_byte") return device_copies_per_byte;
    if (name == "allocs_per_rpc") return allocs_per_rpc;
    return -1;
}

CounterResult count(NfsLoad& load, const BenchServer& server) {
    CounterResult worst;
    for (const NfsOp op : {NfsOp::read, NfsOp::write}) {
        for (const std::uint32_t bytes : {1u << 20, (1u << 20) - 3}) {
            Allocations allocations{.server = server};
            const Snapshot before = take(load, server);
            if (!load.run(op, bytes, 8, kWarmUp + kCounted, Allocations::at_call, &allocations))
                return {};
            const Snapshot after = take(load, server);
            if (!before.ok || !after.ok) return {};
            const double calls = after.calls - before.calls;
            const double payload = calls * bytes;
            auto keep_worst = [](double& slot, double value) { slot = std::max(slot, value); };
            keep_worst(worst.keys_per_rpc, (after.keys - before.keys) / calls);
            keep_worst(worst.local_inv_per_rpc, (after.local_invs - before.local_invs) / calls);
            keep_worst(worst.doorbells_per_call, (after.doorbells - before.doorbells) / calls);
            keep_worst(worst.payload_copies_per_rpc, (after.copied - before.copied) / payload);
            keep_worst(worst.device_copies_per_byte,
                       (after.device_rx_copied - before.device_rx_copied) /
                               (after.device_rx - before.device_rx) +
                           (after.device_tx_copied - before.device_tx_copied));
            keep_worst(worst.allocs_per_rpc,
                       static_cast<double>(allocations.at_end - allocations.at_start) / kCounted);
        }
    }
    if (!server.counts_allocations()) worst.allocs_per_rpc = -1;
    worst.ok = true;
    return worst;
}

}  // namespace nfsrdma::bench
