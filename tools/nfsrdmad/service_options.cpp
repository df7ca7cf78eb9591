#include "tools/nfsrdmad/service_options.hpp"

#include <CLI/CLI.hpp>

#include "base/sock_addr.hpp"

namespace nfsrdma::nfsrdmad {

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
        // Looked at first: it would become a very large one.
        ->transform(CLI::Validator(
            [](std::string& text) {
                return text.rfind('-', 0) == 0 ? "less than nothing: " + text : std::string();
            },
            ""))
        ->type_name("BYTES[K|M|G]");
    app.add_option("--reply-cache", out.reply_cache,
                   "replies kept to answer repeated calls that must not be executed twice")
        ->check(CLI::Range(16, 1 << 20))
        ->capture_default_str()
        ->type_name("N");
}

}  // namespace nfsrdma::nfsrdmad
