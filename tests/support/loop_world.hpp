#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/loop.hpp"
#include "verbs/softroce/loop_wire.hpp"
#include "verbs/softroce/softroce.hpp"

// Two hosts, each with a soft device, on one LoopNet in simulated time. A run is a function of its
// seed.
namespace nfsrdma::test {

struct LoopWorld {
    struct Options {
        std::uint64_t seed = 1;
        verbs::softroce::LoopFaults faults;
        verbs::softroce::LoopNetOptions net;
    };

    LoopWorld() : LoopWorld(Options{}) {}
    explicit LoopWorld(const Options& options);
    // What was made from the devices is gone by then.
    ~LoopWorld() = default;

    // Simulated time passes until `done()` holds, at most `limit_ns`; whether it does.
    bool run_until(const std::function<bool()>& done, std::uint64_t limit_ns = 20 * kNsPerSec);
    void run_for(std::uint64_t ns);

    static SockAddr client_address() { return SockAddr::v4(0x7f000101, 0); }
    static SockAddr server_address(std::uint16_t port = 20049) {
        return SockAddr::v4(0x7f000102, port);
    }

    ManualClock clock;
    std::unique_ptr<Loop> loop;
    std::unique_ptr<verbs::softroce::LoopNet> net;
    std::unique_ptr<verbs::Device> client, server;
};

}  // namespace nfsrdma::test
