#include "tools/device/options.hpp"

#include <CLI/CLI.hpp>

namespace nfsrdma::devices {

void add_device_option(CLI::App& app, std::string& device) {
    app.add_option("--device", device, kChoiceHelp)
        ->check(check_choice)
        ->type_name(kChoiceType)
        ->capture_default_str();
}

void add_client_options(CLI::App& app, ClientOptions& options, double timeout_least_s,
                        const char* timeout_help) {
    add_device_option(app, options.device);
    app.add_option("--bind", options.bind,
                   "softroce: local ADDRESS[:PORT] of the device (default: the address that leads "
                   "to the server)");
    app.add_option(
           "--registration", options.registration,
           "how memory is opened to the server: a key bound for each call (auto, bind; umr: "
           "by a way that only mlx5 has, and that has not been tried on a card), or all of "
           "it for good (static: unsafe, for measurements)")
        ->check(CLI::IsMember({"auto", "bind", "umr", "static"}))
        ->capture_default_str();
    app.add_option("--loop", options.loop, "how to wait for events")
        ->check(CLI::IsMember({"auto", "io_uring", "epoll"}))
        ->capture_default_str();
    app.add_option("--timeout", options.timeout_s, timeout_help)
        ->check(CLI::Range(timeout_least_s, 86400.0))
        ->capture_default_str();
    app.add_option("--mountproto", options.mount_proto,
                   "how MOUNT is asked; auto: over RDMA, and where the server has none there (a "
                   "Linux server) over TCP, then UDP")
        ->check(CLI::IsMember({"auto", "rdma", "tcp", "udp"}))
        ->capture_default_str();
    app.add_option("--mountport", options.mount_port,
                   "port of the server's mountd over TCP or UDP (default: its rpcbind is asked)")
        ->check(CLI::Range(1, 65535));
}

std::string check_client_options(const ClientOptions& options) {
    if (options.mount_port != 0 && options.mount_proto == "rdma") {
        return "--mountport is the port of MOUNT over TCP or UDP: it has no meaning with "
               "--mountproto rdma";
    }
    if (options.registration == "umr" && options.device.rfind("rdmacore", 0) != 0)
        return "--registration umr is of mlx5's devices alone: it needs --device rdmacore";
    return {};
}

LoopOptions loop_options(const ClientOptions& options) {
    LoopOptions how;
    if (options.loop == "io_uring") how.backend = LoopBackend::io_uring;
    if (options.loop == "epoll") how.backend = LoopBackend::epoll;
    return how;
}

pools::Registration registration_of(const ClientOptions& options) {
    if (options.registration == "bind" || options.registration == "umr")
        return pools::Registration::bind;
    if (options.registration == "static") return pools::Registration::fixed;
    return pools::Registration::automatic;
}

Result<Request> request_of(const ClientOptions& options, const SockAddr& server) {
    Request request;
    request.choice = parse_choice(options.device).value_or(Choice{});
    request.address = server;
    if (options.registration == "umr") request.strategy = verbs::rdmacore::Strategy::umr;
    if (!options.bind.empty()) {
        NR_TRY_ASSIGN(request.bind, SockAddr::parse(options.bind, 0));
    }
    return request;
}

}  // namespace nfsrdma::devices
