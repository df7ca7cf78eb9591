#pragma once
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "devices/open.hpp"
#include "nfs/client/client.hpp"
#include "rpcrdma/private_data.hpp"

// What another machine's RPC over RDMA is like, seen by connecting to it.
namespace nfsrdma::doctor {

struct PeerQuestion {
    SockAddr server;
    devices::Request device;
    std::uint64_t timeout_ns = 10 * kNsPerSec;
    std::uint32_t nulls = 10;
    std::uint16_t rpcbind_port = 111;
};

enum class MountWay : std::uint8_t { unknown, rdma, tcp, udp, none };

struct Peer {
    SockAddr server;
    std::string device;        // that we used: "softroce", "rxe0"
    std::string device_line;   // and why
    std::string device_error;  // why there is none; nothing else is valid then
    bool fast_reg = false, offers_invalidation = false;  // of our device

    Result<void> connected = Error{Errc::again, 0, "not tried"};
    std::uint16_t reject_reason = 0;
    std::uint64_t connect_ns = 0;
    bool has_private_data = false;  // RFC 8797's, by its magic
    rpcrdma::PrivateData private_data;
    rpcrdma::InlineLimits agreed;
    std::uint32_t reads_by_peer = 0;  // RDMA READs that the peer may keep in flight towards us

    nfs::client::Outcome null;  // of NFS version 3
    std::uint32_t nulls = 0;    // that were answered
    std::uint64_t null_min_ns = 0, null_sum_ns = 0;
    std::uint32_t credits = 0;
    MountWay mount = MountWay::unknown;
    std::uint16_t mount_port = 0;
};

// Runs a loop of its own until everything is told or the time is over. Two connections: one that
// only looks at the private data, and one of the transport.
Peer look_at_peer(const PeerQuestion& question);

}  // namespace nfsrdma::doctor
