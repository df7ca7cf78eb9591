#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nfs/client/client.hpp"
#include "sunrpc/clnt.hpp"
#include "tools/nfsrdma/json.hpp"
#include "xprtrdma/transport.hpp"

namespace nfsrdma::tool {

// Of two structures of nothing but counts.
template <class Counters>
Counters sum_of(const Counters& a, const Counters& b) noexcept {
    static_assert(sizeof(Counters) % sizeof(std::uint64_t) == 0);
    using Words = std::array<std::uint64_t, sizeof(Counters) / sizeof(std::uint64_t)>;
    Words words = std::bit_cast<Words>(a);
    const Words more = std::bit_cast<Words>(b);
    for (std::size_t i = 0; i < words.size(); ++i)
        words[i] += more[i];
    return std::bit_cast<Counters>(words);
}

// What was copied, and how long that took.
struct Moved {
    double seconds = 0;
    std::uint64_t bytes = 0;
};

// One line of --stats, one member of --json.
struct Statistic {
    const char* name;
    double value;
    bool whole;  // a count
};

std::vector<Statistic> statistics_of(const xprtrdma::TransportCounters& rdma,
                                     const pools::IoCounters& io, const sunrpc::ClntCounters& rpc,
                                     const nfs::client::ClientCounters& nfs, const Moved& moved);
std::string to_text(const std::vector<Statistic>& statistics);
void add_to(JsonObject& object, const std::vector<Statistic>& statistics);

}  // namespace nfsrdma::tool
