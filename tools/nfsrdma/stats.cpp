#include "tools/nfsrdma/stats.hpp"

#include <array>
#include <cstdio>

namespace nfsrdma::tool {
namespace {

std::string number(const Statistic& statistic) {
    std::array<char, 48> out{};
    (void)std::snprintf(out.data(), out.size(), statistic.whole ? "%.0f" : "%.3f", statistic.value);
    return out.data();
}

}  // namespace

std::vector<Statistic> statistics_of(const xprtrdma::TransportCounters& rdma,
                                     const pools::IoCounters& io, const sunrpc::ClntCounters& rpc,
                                     const nfs::client::ClientCounters& nfs, const Moved& moved) {
    const auto n = [](std::uint64_t value) { return static_cast<double>(value); };
    const double keyed = n(rdma.read_chunk_calls + rdma.write_chunk_calls + rdma.reply_chunk_calls +
                           rdma.long_calls);
    return {
        {"seconds", moved.seconds, false},
        {"bytes", n(moved.bytes), true},
        {"bytes_per_second", moved.seconds > 0 ? n(moved.bytes) / moved.seconds : 0, true},
        {"calls", n(rdma.calls), true},
        {"replies", n(rdma.replies), true},
        {"inline_calls", n(rdma.inline_calls), true},
        {"read_chunk_calls", n(rdma.read_chunk_calls), true},
        {"write_chunk_calls", n(rdma.write_chunk_calls), true},
        {"reply_chunk_calls", n(rdma.reply_chunk_calls), true},
        {"long_calls", n(rdma.long_calls), true},
        {"in_flight_max", n(rdma.in_flight_max), true},
        {"binds", n(io.binds), true},
        {"remote_invalidations", n(io.remote_invalidations), true},
        {"local_invalidations", n(io.local_invalidations), true},
        {"keys_per_rpc", keyed > 0 ? n(io.binds) / keyed : 0, false},
        {"doorbells", n(io.doorbells), true},
        {"payload_copied_bytes", n(rdma.payload_copied_bytes + rpc.payload_copied_bytes), true},
        {"waited_for_credit", n(rdma.waited_for_credit), true},
        {"waited_for_key", n(rdma.waited_for_key), true},
        {"waited_for_slot", n(rdma.waited_for_slot), true},
        {"waited_for_payload", n(rdma.waited_for_payload), true},
        {"timeouts", n(rpc.timeouts), true},
        {"reconnects", n(rdma.reconnects), true},
        {"resends", n(rdma.resends), true},
        {"recover_seconds_max", n(rdma.recover_ns_max) / static_cast<double>(kNsPerSec), false},
        {"pings", n(rdma.pings), true},
        {"commits", n(nfs.commits), true},
        {"rewrites", n(nfs.rewrites), true},
        {"resolved", n(nfs.resolved), true},
        {"unresolved", n(nfs.unresolved), true},
    };
}

void add_to(JsonObject& object, const std::vector<Statistic>& statistics) {
    for (const Statistic& statistic : statistics)
        object.add_raw(statistic.name, number(statistic));
}

std::string to_text(const std::vector<Statistic>& statistics) {
    std::string out;
    for (const Statistic& statistic : statistics) {
        std::string name = statistic.name;
        name.resize(24, ' ');
        out += "  " + name + number(statistic) + "\n";
    }
    return out;
}

}  // namespace nfsrdma::tool
