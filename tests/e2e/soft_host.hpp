#pragma once
#include <memory>
#include <utility>

#include "base/loop.hpp"
#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "verbs/softroce/softroce.hpp"
#include "verbs/softroce/udp_wire.hpp"

// A loop of this thread and a soft device on it, for programs that load a server from outside.
namespace nfsrdma::testing {

struct SoftHost {
    std::unique_ptr<Loop> loop;
    std::unique_ptr<verbs::Device> device;  // dies first

    // At the address of `server`, which is one of this machine, and a port that is free.
    static Result<SoftHost> beside(const SockAddr& server) {
        SoftHost host;
        NR_TRY_ASSIGN(host.loop, Loop::create({}));
        verbs::softroce::UdpOptions udp;
        udp.bind = server.with_port(0);
        NR_TRY_ASSIGN(auto wire, verbs::softroce::create_udp_wire(udp));
        NR_TRY_ASSIGN(host.device, verbs::softroce::create_device(*host.loop, std::move(wire), {}));
        return host;
    }
};

}  // namespace nfsrdma::testing
