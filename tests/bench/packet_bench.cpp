#include <array>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/bytes.hpp"
#include "verbs/softroce/icrc.hpp"
#include "verbs/softroce/packet.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

// The ICRC of a packet of `range` bytes of payload, as it is sent: headers, then the payload in one
// piece.
void icrc_of_packet(benchmark::State& state) {
    const SockAddr from = SockAddr::v4(0x7F000001, 4791), to = SockAddr::v4(0x7F000002, 4791);
    IcrcHead head(from, to);
    std::array<std::byte, kBthSize> header{};
    const std::vector<std::byte> payload(static_cast<std::size_t>(state.range(0)), std::byte{7});
    const PayloadPiece piece{payload.data(), static_cast<std::uint32_t>(payload.size())};
    std::uint16_t id = 0;
    Bth bth;
    bth.dest_qpn = 17;
    for (auto _ : state) {
        bth.psn = id;
        store_bth(header.data(), bth);
        benchmark::DoNotOptimize(icrc_of(head, id++, TxPacket{header, {&piece, 1}, 0}));
    }
    state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(icrc_of_packet)->Arg(0)->Arg(1024)->Arg(4096);

}  // namespace
}  // namespace nfsrdma::verbs::softroce
