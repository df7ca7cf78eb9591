// rpcrdma-ping: rping's protocol over pools and any device. Checks that two hosts reach each other
// by RDMA, both ways, and how long that takes.
#include <atomic>
#include <CLI/CLI.hpp>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <string>

#include "base/loop.hpp"
#include "devices/open.hpp"
#include "tools/device/options.hpp"
#include "tools/rpcrdma_ping/ping_client.hpp"
#include "tools/rpcrdma_ping/ping_server.hpp"

namespace nfsrdma::ping {
namespace {

namespace soft = verbs::softroce;

std::atomic<bool> interrupted{false};  // lock-free: a signal handler may touch it
static_assert(std::atomic<bool>::is_always_lock_free);

struct Options {
    bool server = false, client = false, persistent = false;
    std::string address, bind, device = "softroce";
    std::uint16_t port = kDefaultPort, peer_udp_port = soft::kRoceV2Port;
    double interval_s = 0;
    ClientOptions ping;
};

int complain(const char* step, const Error& error) {
    (void)std::fprintf(stderr, "rpcrdma-ping: %s: %s\n", step, to_string(error).c_str());
    return 1;
}

Result<devices::Request> device_request(const Options& options, const SockAddr& address) {
    devices::Request request;
    request.choice = devices::parse_choice(options.device).value_or(devices::Choice{});
    request.address = address;
    request.passive = options.server;
    request.peer_udp_port = options.peer_udp_port;
    if (!options.bind.empty()) {
        NR_TRY_ASSIGN(request.bind, SockAddr::parse(options.bind, soft::kRoceV2Port));
    }
    return request;
}

int run_server(Loop& loop, verbs::Device& device, const SockAddr& address, bool persistent) {
    auto server = PingServer::create(device, address);
    if (!server) return complain("listen", server.error());
    (void)std::printf("rpcrdma-ping: listening at %s\n", (*server)->local().to_string().c_str());
    (void)std::fflush(stdout);
    bool done = false;
    while (!done && !interrupted) {
        loop.run_once(100 * kNsPerMs);
        done = (*server)->reap() > 0 && !persistent;
        (void)std::fflush(stdout);
    }
    const bool failed = (*server)->any_failed();
    server->reset();
    loop.run_once(0);  // says goodbye
    return failed ? 1 : 0;
}

int run_client(Loop& loop, verbs::Device& device, const SockAddr& peer,
               const ClientOptions& options) {
    auto client = PingClient::create(device, peer, options);
    if (!client) return complain("connect", client.error());
    bool stopped = false;
    while (!(*client)->over()) {
        loop.run_once(100 * kNsPerMs);
        if (interrupted && !stopped) {
            stopped = true;
            (*client)->stop();
        }
    }
    const RoundTrips& trips = (*client)->round_trips();
    const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000; };
    if (trips.count > 0) {
        (void)std::printf("%llu pings of %u bytes, data verified: min %.1f avg %.1f max %.1f us\n",
                          static_cast<unsigned long long>(trips.count), options.size,
                          us(trips.min_ns), us(trips.sum_ns) / static_cast<double>(trips.count),
                          us(trips.max_ns));
    }
    if (const auto& failed = (*client)->failed()) {
        return complain(peer.to_string().c_str(), *failed);
    }
    const bool short_of = options.count != 0 && trips.count < options.count && !stopped;
    client->reset();
    loop.run_once(0);  // says goodbye
    if (short_of) {
        (void)std::fprintf(stderr, "rpcrdma-ping: the peer disconnected early\n");
        return 1;
    }
    return 0;
}

int run(const Options& options) {
    auto address = options.address.empty() ? Result<SockAddr>(SockAddr::v4(0, options.port))
                                           : SockAddr::resolve(options.address, options.port);
    if (!address) return complain(options.address.c_str(), address.error());
    auto loop = Loop::create({});
    if (!loop) return complain("event loop", loop.error());
    auto request = device_request(options, *address);
    if (!request) return complain(options.bind.c_str(), request.error());
    auto opened = devices::open(**loop, *request);
    if (!opened) {
        (void)std::fprintf(stderr, "rpcrdma-ping: %s\n",
                           devices::explain(*request, opened.error()).c_str());
        return 1;
    }
    if (request->choice.kind == devices::Kind::automatic)
        (void)std::fprintf(stderr, "rpcrdma-ping: %s\n", opened->line.c_str());
    verbs::Device& device = *opened->device;
    return options.server ? run_server(**loop, device, *address, options.persistent)
                          : run_client(**loop, device, *address, options.ping);
}

void add_options(CLI::App& app, Options& options) {
    auto* server = app.add_flag("-s,--server", options.server, "wait for a client");
    app.add_flag("-c,--client", options.client, "ping a server")->excludes(server);
    app.add_option("-a,--address", options.address,
                   "server: the address to listen at (default: any); client: the server's");
    app.add_option("-p,--port", options.port, "RDMA port")->capture_default_str();
    app.add_option("-C,--count", options.ping.count, "client: pings; 0: until interrupted")
        ->capture_default_str();
    app.add_option("-S,--size", options.ping.size,
                   "client: bytes of a ping; rping takes up to 65536")
        ->check(CLI::Range(kSizeMin, kSizeMax))
        ->capture_default_str();
    app.add_option("-i,--interval", options.interval_s, "client: seconds between pings")
        ->check(CLI::Range(0.0, 3600.0));
    app.add_flag("-v,--verbose", options.ping.verbose, "client: show the data");
    app.add_flag("-P,--persistent", options.persistent, "server: serve more than one client");
    devices::add_device_option(app, options.device);
    app.add_option("--bind", options.bind,
                   "softroce: local ADDRESS[:UDPPORT] of our device (port 4791 unless given)");
    app.add_option("--peer-udp-port", options.peer_udp_port,
                   "softroce: UDP port of the server's device")
        ->capture_default_str();
}

int parse_and_run(int argc, char** argv) {
    Options options;
    CLI::App app("Pings by RDMA: SEND, RDMA READ and RDMA WRITE, in rping's protocol.",
                 "rpcrdma-ping");
    app.footer("Exit status: 0 all pings verified, 1 failed, 2 usage.");
    add_options(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    if (options.server == options.client) {
        (void)std::fprintf(stderr, "rpcrdma-ping: one of -s and -c is needed; see --help\n");
        return 2;
    }
    if (options.client && options.address.empty()) {
        (void)std::fprintf(stderr, "rpcrdma-ping: -c needs -a ADDRESS\n");
        return 2;
    }
    options.ping.interval_ns = static_cast<std::uint64_t>(std::llround(options.interval_s * 1e9));
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = true; };
    (void)sigaction(SIGINT, &action, nullptr);
    (void)sigaction(SIGTERM, &action, nullptr);
    return run(options);
}

}  // namespace
}  // namespace nfsrdma::ping

int main(int argc, char** argv) {
    try {
        return nfsrdma::ping::parse_and_run(argc, argv);
    } catch (...) {  // CLI11 throws for a wrong set of options
        return 2;
    }
}
