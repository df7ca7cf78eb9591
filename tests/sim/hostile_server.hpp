#pragma once
#include <memory>

#include "base/loop.hpp"
#include "base/prng.hpp"
#include "tests/sim/sim_call.hpp"
#include "tests/xprtrdma/client_fixture.hpp"

namespace nfsrdma::test {

// A server that answers most calls right, and the others in every wrong way; it may also be short
// of Receives (RNR).
class HostileServer {
  public:
    struct Options {
        std::uint64_t seed = 1;
        std::uint32_t evil_ppm = 100'000;  // replies that break the protocol
        std::uint32_t silence_ppm = 0;     // calls without an answer
        std::uint32_t receives = 64;
        std::uint64_t repost_ns_max = 0;  // how late a Receive is reposted; 0: at once
    };
    HostileServer(verbs::Device& device, const SockAddr& address, const Options& options);
    std::uint64_t calls = 0, evil = 0, silent = 0, corrupt = 0;
    RawListener& listener() { return listener_; }

  private:
    void on_call(RawConn& conn, const RawMessage& message);
    void answer(RawConn& conn, const SeenCall& seen, const SimCall& call);
    void answer_badly(RawConn& conn, const SeenCall& seen, const SimCall& call);
    verbs::Device& device_;
    Options options_;
    Prng prng_;
    RawListener listener_;
    std::vector<std::uint32_t> old_handles_;
    struct Repost : Timer {
        using Timer::Timer;
        HostileServer* server = nullptr;
        RawConn* conn = nullptr;
        std::list<Repost>::iterator self;
    };
    std::list<Repost> reposts_;
};

}  // namespace nfsrdma::test
