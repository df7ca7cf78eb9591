#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/prng.hpp"

// Which faults are to happen, and the dice that decide for each packet: one type and one
// implementation for the simulated network (LoopNet) and for a live device (FaultWire).
namespace nfsrdma::verbs::softroce {

// What happens to packets, each by itself. Chances are in a million.
struct LinkFaults {
    std::uint32_t loss_ppm = 0, dup_ppm = 0, reorder_ppm = 0, corrupt_ppm = 0;
    std::uint64_t delay_ns_min = 2'000, delay_ns_max = 2'000;
    std::uint64_t reorder_ns = 50'000;  // what a reordered packet is late
    std::uint64_t bytes_per_sec = 0;    // each way; 0: no limit
    bool any() const noexcept {
        return (loss_ppm | dup_ppm | reorder_ppm | corrupt_ppm) != 0 || delay_ns_max != 0 ||
               bytes_per_sec != 0;
    }
};

// About each `every_ns` (half to one and a half of it, drawn), for `for_ns`. 0: never.
struct Spell {
    std::uint64_t every_ns = 0, for_ns = 0;
};

struct FaultSpec {
    LinkFaults link{.delay_ns_min = 0, .delay_ns_max = 0};
    std::uint32_t cm_drop_ppm = 0;    // MADs of connection management that are lost
    std::uint32_t cm_reject_ppm = 0;  // connect requests, either way, that are answered by a REJ
    Spell rnr;                        // no Receive is found: the peer gets RNR NAKs
    std::uint64_t qp_kill_ns = 0;     // about so often one connected queue pair fails
    // Faults of the server's process, for whoever runs it.
    std::uint64_t server_kill_ns = 0;
    Spell server_stop;

    bool on_packets() const noexcept {
        return link.any() || cm_drop_ppm != 0 || cm_reject_ppm != 0;
    }
    bool on_device() const noexcept { return on_packets() || rnr.every_ns != 0 || qp_kill_ns != 0; }
    bool on_server() const noexcept { return server_kill_ns != 0 || server_stop.every_ns != 0; }
};

// "loss=1%,dup=1%,delay=2ms" and so on; kFaultsHelp says what is allowed. On failure: nothing, and
// in `why`, for people, which part is wrong and what would do.
std::optional<FaultSpec> parse_faults(std::string_view text, std::string& why);
extern const char* const kFaultsHelp;

// What happens to one packet.
struct PacketFate {
    bool lost = false, duplicated = false, corrupted = false, late = false;
    std::uint64_t delay_ns = 0;      // of the packet; a late one is reorder_ns later still
    std::uint64_t dup_delay_ns = 0;  // of the duplicate, beyond delay_ns
    std::uint64_t corrupt_draw = 0;  // modulo the packet's bits: the one that is turned
};

// A run is a function of the seed and of the packets.
class FaultDice {
  public:
    explicit FaultDice(std::uint64_t seed) noexcept : prng_(seed) {}
    PacketFate draw(const LinkFaults& faults) noexcept;
    bool chance_ppm(std::uint32_t ppm) noexcept { return ppm != 0 && prng_.chance_ppm(ppm); }
    std::uint64_t next() noexcept { return prng_.next(); }
    // When the next spell begins, or queue pair fails, after `now_ns`.
    std::uint64_t after(std::uint64_t now_ns, std::uint64_t every_ns) noexcept;

  private:
    Prng prng_;
};

}  // namespace nfsrdma::verbs::softroce
