#pragma once
#include <memory>

#include "base/loop.hpp"
#include "base/prng.hpp"
#include "tests/sim/sim_call.hpp"
#include "tests/support/raw_peer.hpp"

namespace nfsrdma::test {

// A client that breaks every rule of RFC 8166, again and again, on connections of its own.
class HostileClient {
  public:
    HostileClient(verbs::Device& device, const SockAddr& server, std::uint64_t seed,
                  std::uint64_t pace_ns);
    void start();
    void stop();
    std::uint64_t sent = 0, connections = 0;

  private:
    struct Tick : Timer {
        using Timer::Timer;
        HostileClient* client = nullptr;
    };
    void on_tick();
    Bytes next_message();
    rpcrdma::Segment segment();
    verbs::Device& device_;
    SockAddr server_;
    Prng prng_;
    std::uint64_t pace_ns_;
    std::unique_ptr<RawConn> conn_;
    Tick tick_;
};

}  // namespace nfsrdma::test
