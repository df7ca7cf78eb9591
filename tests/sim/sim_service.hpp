#pragma once
#include <list>

#include "base/loop.hpp"
#include "base/prng.hpp"
#include "base/trace.hpp"
#include "sunrpc/xprt.hpp"
#include "tests/sim/sim_call.hpp"

namespace nfsrdma::test {

// The server's upper layer: checks each call, works for a seeded while, answers what the call asked
// for.
class SimService final : public sunrpc::Service {
  public:
    struct Options {
        std::uint64_t seed = 1;
        std::uint64_t work_ns_max = 0;  // 0: answers from inside dispatch
        std::uint32_t drop_ppm = 0;     // calls that are never answered
        std::uint32_t message_max = 0;
    };
    SimService(Loop& loop, TraceRing& trace, const Options& options);
    ~SimService();
    std::uint32_t scratch_bytes() const noexcept override { return 0; }
    void dispatch(sunrpc::SvcRqst& rqst) noexcept override;
    void wake(sunrpc::SvcRqst& rqst) noexcept override;
    std::uint64_t calls = 0, corrupt = 0, nonsense = 0, waited = 0, dropped = 0;
    bool busy() const { return !working_.empty(); }

  private:
    struct Work : Timer {
        using Timer::Timer;
        SimService* service = nullptr;
        sunrpc::SvcRqst* rqst = nullptr;
        SimCall call;
        bool intact = false;
        std::list<Work>::iterator self;
    };
    void answer(sunrpc::SvcRqst& rqst, const SimCall& call, bool intact) noexcept;
    static bool is_intact(const sunrpc::SvcRqst& rqst, const SimCall& call);
    Loop& loop_;
    TraceRing& trace_;
    Options options_;
    Prng prng_;
    std::list<Work> working_;
    struct Waiting {
        sunrpc::SvcRqst* rqst;
        SimCall call;
        bool intact;
    };
    std::list<Waiting> waiting_;
};

}  // namespace nfsrdma::test
