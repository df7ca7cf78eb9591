#pragma once
#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "devices/open.hpp"
#include "svcrdma/listener.hpp"
#include "tirpc/tirpc_rdma.h"
#include "xprtrdma/transport.hpp"

// struct rpcrdma_opts, checked and with its defaults filled in, and what the floors below make of
// it: the one place that knows both.
namespace nfsrdma::tirpc {

inline constexpr std::uint32_t kPayloadMax = 64u << 20, kMessageMax = 64u << 20;
inline constexpr std::uint32_t kInlineMin = 1024, kInlineMax = 256 * 1024;  // RFC 8797 s4
inline constexpr std::uint32_t kCreditsMax = 1024, kConnectionsMax = 65536;
// An item of a call that is shorter goes within the message; so does one of a result that has no
// more room, where the rest of the message leaves it.
inline constexpr std::uint32_t kMinChunkBytes = 2048;
// Of an RPC message beside arguments or results of max_message bytes: the header with its largest
// credential and verifier, and what RPCSEC_GSS adds.
inline constexpr std::uint32_t kMessageOverhead = 4096;

struct Options {
    std::uint32_t flags = 0;
    devices::Choice device;
    std::optional<SockAddr> bind;  // port 0: not given
    std::uint16_t peer_udp_port = verbs::softroce::kRoceV2Port;
    std::uint16_t port = RPCRDMA_PORT;
    std::uint64_t connect_timeout_ns = 10 * kNsPerSec;
    std::uint32_t credits = 16;
    std::uint32_t inline_size = 4096;  // a multiple of 1024
    std::uint32_t max_payload = 1u << 20;
    std::uint32_t max_message = 1u << 20;
    std::uint32_t reply_max = 1u << 20;  // at most max_message
    std::uint32_t connections_max = 1024;
    // A client's connection ends when for so long no reply came, and calls that were given up have
    // every credit.
    std::uint64_t stall_ns = 60 * kNsPerSec;
    bool has(std::uint32_t flag) const noexcept { return (flags & flag) != 0; }
};

// `opts` may be nullptr. Errc::invalid_argument: a member that makes no sense, or one of a later
// version that is not zero.
Result<Options> check_options(const rpcrdma_opts* opts);

// Of a connection: both ends have room for messages of max_message bytes *behind* their headers.
pools::Demand demand_of(const Options& options) noexcept;

// Client.
xprtrdma::TransportOptions transport_options(const Options& options) noexcept;
devices::Request client_request(const Options& options, const SockAddr& server);

// Listener. A softroce device of it has its standard UDP port unless `bind` says another.
svcrdma::ServerOptions server_options(const Options& options) noexcept;
devices::Request server_request(const Options& options, const SockAddr& local);

}  // namespace nfsrdma::tirpc
