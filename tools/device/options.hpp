#pragma once
#include <cstdint>
#include <string>

#include "base/loop.hpp"
#include "devices/open.hpp"
#include "pools/page_list.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

// The options that several programs have, declared once.
namespace nfsrdma::devices {

// --device; what stands in `device` is the default. Everything given here outlives the parsing.
void add_device_option(CLI::App& app, std::string& device);

// How a client of NFS over RDMA reaches its server, as the command line says it.
struct ClientOptions {
    std::string device = "softroce", bind, registration = "auto", loop = "auto";
    std::string mount_proto = "auto";
    std::uint16_t mount_port = 0;  // 0: rpcbind is asked
    double timeout_s = 60;
};
// --device, --bind, --registration, --loop, --timeout (at least `timeout_least_s`, and what
// `timeout_help` says of it), --mountproto, --mountport.
void add_client_options(CLI::App& app, ClientOptions& options, double timeout_least_s,
                        const char* timeout_help);
// After parsing: which options contradict each other, for people; empty: none.
std::string check_client_options(const ClientOptions& options);

LoopOptions loop_options(const ClientOptions& options);
pools::Registration registration_of(const ClientOptions& options);
// The device that leads to `server`; its demand is the caller's to add. Errc::invalid_argument:
// --bind is no address.
Result<Request> request_of(const ClientOptions& options, const SockAddr& server);

}  // namespace nfsrdma::devices
