#include "tools/nfsrdmad/service_options.hpp"

#include <CLI/CLI.hpp>

#include "base/sock_addr.hpp"

namespace nfsrdma::nfsrdmad {

namespace {

// Looked at first: it would become a very large one.
CLI::Validator not_negative() {
    return CLI::Validator(
        [](std::string& text) {
            return text.rfind('-', 0) == 0 ? "less than nothing: " + text : std::string();
        },
        "");
}

void declare_peers(CLI::App& app, PeerOptions& out) {
    const auto count = [&app](const char* name, std::uint32_t& to, std::uint32_t most,
                              const char* help) {
        return app.add_option(name, to, help)
            ->check(CLI::Range(0u, most))
            ->capture_default_str()
            ->type_name("N");
    };
    count("--max-connections-per-peer", out.connections, 1u << 20,
          "connections that one address may have; 0: as many as there are");
    count("--max-requests-per-peer", out.requests, 1u << 20,
          "calls of one address in progress at once, others wait; 0: no limit");
    app.add_option("--max-memory-per-peer", out.memory_bytes,
                   "memory that the connections of one address may take for themselves, e.g. 64M; "
                   "0: no limit")
        ->transform(CLI::AsSizeValue(false))
        ->transform(not_negative())
        ->type_name("BYTES[K|M|G]");
    count("--max-connects-per-second", out.connects_per_sec, 100'000,
          "new connections of one address in a second; of all together eight times as many; 0: no "
          "limit");
    count("--quarantine-after", out.faults, 1u << 20,
          "messages or accesses that break the protocol within 10 seconds, after which an address "
          "is kept away for a while; 0: never");
    count("--quarantine-seconds", out.quarantine_seconds, 86'400, "for how long");
    count("--keepalive", out.keepalive_seconds, 86'400,
          "seconds of silence after which a client is asked whether it lives; 0: never");
    count("--idle-timeout", out.idle_seconds, 86'400 * 30,
          "seconds after which a connection that nobody uses is closed; 0: never");
}

std::string limited(std::uint64_t limit, const char* what) {
    return (limit == 0 ? "any number of" : std::to_string(limit)) + std::string(" ") + what;
}

}  // namespace

std::string to_string(const PeerOptions& options) {
    std::string out = "of each address at most " + limited(options.connections, "connections") +
                      ", " + limited(options.requests, "calls in progress") + ", " +
                      limited(options.memory_bytes, "bytes of memory") + ", " +
                      limited(options.connects_per_sec, "connects a second") + "; ";
    out += options.faults == 0 ? std::string("no quarantine")
                               : "quarantine for " + std::to_string(options.quarantine_seconds) +
                                     " s after " + std::to_string(options.faults) + " faults";
    out += options.keepalive_seconds == 0
               ? std::string("; no keepalive")
               : "; keepalive after " + std::to_string(options.keepalive_seconds) + " s";
    if (options.idle_seconds != 0)
        out += "; idle connections are closed after " + std::to_string(options.idle_seconds) + " s";
    return out;
}

void declare_services(CLI::App& app, ServiceOptions& out) {
    app.add_option("--mountd-port", out.mountd_port,
                   "serve MOUNT over TCP and UDP, too, at this port (0: a free one); without it "
                   "only with --rpcbind, at 20048")
        ->check(CLI::Range(0, 65535))
        ->type_name("PORT");
    app.add_flag("--rpcbind", out.rpcbind,
                 "register with this machine's rpcbind (netids rdma, tcp, udp and their IPv6 kin), "
                 "and unregister at the end");
    app.add_option("--metrics", out.metrics,
                   "serve counters in Prometheus' format at http://ADDR:PORT/metrics (port 9949)")
        ->check(
            [](const std::string& text) {
                return SockAddr::parse(text, kMetricsPort)
                           ? std::string()
                           : "not a numeric address (ADDR[:PORT]): " + text;
            },
            "", "address")
        ->type_name("ADDR[:PORT]");
    app.add_option("--memory", out.memory_bytes,
                   "all that payloads, messages and connections may take together, e.g. 512M; "
                   "connections beyond it are refused")
        ->transform(CLI::AsSizeValue(false))
        ->transform(not_negative())
        ->type_name("BYTES[K|M|G]");
    app.add_option("--reply-cache", out.reply_cache,
                   "replies kept to answer repeated calls that must not be executed twice")
        ->check(CLI::Range(16, 1 << 20))
        ->capture_default_str()
        ->type_name("N");
    declare_peers(app, out.peers);
}

}  // namespace nfsrdma::nfsrdmad
