#include "tirpc/options.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/bytes.hpp"

namespace nfsrdma::tirpc {
namespace {

constexpr std::uint32_t kFlags =
    RPCRDMA_ZERO_COPY | RPCRDMA_RECONNECT | RPCRDMA_RPCBIND | RPCRDMA_SVC_THREADS;
// Of the first version of the struct: what every later one begins with.
constexpr std::uint32_t kFirstSize =
    offsetof(rpcrdma_opts, connections_max) + sizeof(std::uint32_t);
constexpr std::uint32_t kSizeMax = 4096;
// What a connection of a server is granted at first; it grows with its use.
constexpr std::uint32_t kFirstCredits = 8;

Error no_sense(const char* what) noexcept {
    return {Errc::invalid_argument, 0, what};
}

// The members of this version, of a struct that may be of a later one.
Result<rpcrdma_opts> read_struct(const rpcrdma_opts& opts) noexcept {
    if (opts.size < kFirstSize || opts.size > kSizeMax)
        return no_sense("rpcrdma_opts.size is no size of it");
    rpcrdma_opts out{};
    std::memcpy(&out, &opts, std::min<std::size_t>(opts.size, sizeof out));
    const auto* const bytes = static_cast<const std::byte*>(static_cast<const void*>(&opts));
    for (std::size_t at = sizeof out; at < opts.size; ++at) {
        if (bytes[at] != std::byte{0})
            return no_sense("rpcrdma_opts is of a later version and uses what this has not");
    }
    return out;
}

// 0 leaves the default.
Result<void> set(std::uint32_t& member, std::uint32_t wanted, std::uint32_t least,
                 std::uint32_t most, const char* what) noexcept {
    if (wanted == 0) return {};
    if (wanted < least || wanted > most) return no_sense(what);
    member = wanted;
    return {};
}

Result<void> set_device(Options& options, const rpcrdma_opts& in) {
    if (in.device != nullptr) {
        const auto choice = devices::parse_choice(in.device);
        if (!choice) return no_sense("device: softroce, rdmacore, rdmacore:NAME or auto");
        options.device = *choice;
    }
    if (in.bind != nullptr) {
        auto address = SockAddr::parse(in.bind, 0);
        if (!address) return no_sense("bind: an address, with or without a port");
        options.bind = *address;
    }
    if (in.peer_udp_port != 0) options.peer_udp_port = in.peer_udp_port;
    if (in.port != 0) options.port = in.port;
    return {};
}

Result<void> set_sizes(Options& options, const rpcrdma_opts& in) noexcept {
    NR_TRY(set(options.credits, in.credits, 1, kCreditsMax, "credits: at most 1024"));
    NR_TRY(set(options.inline_size, in.inline_size, kInlineMin, kInlineMax,
               "inline_size: 1024 to 262,144"));
    // What the private data of a connection can say (RFC 8797 s4).
    options.inline_size = align_down(options.inline_size, 1024u);
    NR_TRY(set(options.max_payload, in.max_payload, 1, kPayloadMax, "max_payload: at most 64 MiB"));
    NR_TRY(set(options.max_message, in.max_message, 1, kMessageMax, "max_message: at most 64 MiB"));
    // Messages are whole XDR units: one that is as long as it may be is no longer with its padding.
    options.max_payload = align_up(options.max_payload, 4u);
    options.max_message = align_up(options.max_message, 4u);
    options.reply_max = options.max_message;
    NR_TRY(set(options.reply_max, in.reply_max, 1, options.max_message,
               "reply_max: at most max_message"));
    return set(options.connections_max, in.connections_max, 1, kConnectionsMax,
               "connections_max: at most 65,536");
}

devices::Request request_of(const Options& options, const SockAddr& address) {
    devices::Request request;
    request.choice = options.device;
    request.address = address;
    request.peer_udp_port = options.peer_udp_port;
    request.demand = demand_of(options);
    return request;
}

}  // namespace

Result<Options> check_options(const rpcrdma_opts* opts) {
    Options options;
    if (opts == nullptr) return options;
    NR_TRY_ASSIGN(const rpcrdma_opts in, read_struct(*opts));
    if ((in.flags & ~kFlags) != 0) return no_sense("flags that this version has not");
    options.flags = in.flags;
    if (in.connect_timeout_ms != 0)
        options.connect_timeout_ns = std::uint64_t{in.connect_timeout_ms} * kNsPerMs;
    NR_TRY(set_device(options, in));
    NR_TRY(set_sizes(options, in));
    return options;
}

pools::Demand demand_of(const Options& options) noexcept {
    pools::Demand demand;
    demand.credits = options.credits;
    demand.max_payload = options.max_payload;
    demand.max_message = options.max_message + kMessageOverhead;
    demand.inline_size = options.inline_size;
    return demand;
}

xprtrdma::TransportOptions transport_options(const Options& options) noexcept {
    xprtrdma::TransportOptions out;
    out.demand = demand_of(options);
    out.connect_timeout_ns = options.connect_timeout_ns;
    // Each call has its own; a peer that is gone is found by pings.
    out.reply_timeout_ns = 0;
    out.min_chunk_bytes = kMinChunkBytes;
    out.recovery.on = options.has(RPCRDMA_RECONNECT);
    return out;
}

devices::Request client_request(const Options& options, const SockAddr& server) {
    devices::Request request = request_of(options, server);
    request.bind = options.bind;
    request.acks_wait = true;  // the program makes its next call between turns
    return request;
}

svcrdma::ServerOptions server_options(const Options& options) noexcept {
    svcrdma::ServerOptions out;
    out.demand = demand_of(options);
    out.connections_max = options.connections_max;
    out.first_credits = std::min(kFirstCredits, options.credits);
    return out;
}

devices::Request server_request(const Options& options, const SockAddr& local) {
    devices::Request request = request_of(options, local);
    request.passive = true;
    request.acks_wait = true;  // replies are made between turns, too
    request.bind = options.bind;
    if (request.bind && request.bind->port() == 0)
        request.bind = request.bind->with_port(verbs::softroce::kRoceV2Port);
    request.server = server_options(options);
    return request;
}

}  // namespace nfsrdma::tirpc
