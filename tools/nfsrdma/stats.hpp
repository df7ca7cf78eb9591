#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "nfs/client/client.hpp"
#include "sunrpc/clnt.hpp"
#include "tools/nfsrdma/json.hpp"
#include "xprtrdma/transport.hpp"

namespace nfsrdma::tool {

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
