#pragma once
#include <list>
#include <memory>
#include <optional>

#include "base/prng.hpp"
#include "base/trace.hpp"
#include "tests/sim/sim_call.hpp"
#include "xprtrdma/transport.hpp"

namespace nfsrdma::test {

// The client's upper layer: makes seeded calls until its number is done, over as many connections
// as that takes, and keeps the books: each call is answered once, and every byte is the one asked
// for.
class SimClient {
  public:
    struct Options {
        std::uint64_t seed = 1;
        std::uint32_t calls = 100;  // to be answered or given up
        std::uint32_t window = 8;   // made at a time
        std::uint32_t payload_max = 64 << 10, message_max = 16 << 10;
        std::uint32_t abandon_ppm = 0;
        std::uint64_t patience_ns = 0;  // a call that is not answered by then is abandoned; 0: none
        bool honest_server = true;      // every answered call must be right
        xprtrdma::TransportOptions transport;
    };
    struct Books {
        std::uint32_t made = 0, right = 0, reconnect = 0, closed = 0, bad_message = 0,
                      abandoned = 0;
        std::uint32_t wrong = 0;  // answered with other bytes than asked for
        std::uint32_t twice = 0;  // answered more than once
        std::uint32_t connections = 0, refused = 0;
        // Calls that a connection's end took are made again.
        std::uint32_t over() const { return right + bad_message + abandoned + wrong; }
    };

    SimClient(verbs::Device& device, const SockAddr& server, TraceRing& trace,
              const Options& options);
    ~SimClient();
    void start();
    void kill();    // closes the connection; the client goes on with another
    void finish();  // closes for good
    bool done() const { return books_.over() >= options_.calls && pending_.empty(); }
    bool idle() const { return transport_ == nullptr || transport_->idle(); }
    const Books& books() const { return books_; }
    xprtrdma::Transport* transport() { return transport_.get(); }

  private:
    struct Pending {
        SimClient* client = nullptr;
        SimCall call;
        sunrpc::Rqst* rqst = nullptr;
        sunrpc::Payload payload, room;
        bool answered = false;
        std::uint64_t made_ns = 0;
        std::list<Pending>::iterator self;
    };
    struct Tick : Timer {
        using Timer::Timer;
        SimClient* client = nullptr;
    };
    SimCall next_call();
    void connect();
    void pump();
    bool make_one();
    void drop_next();
    void on_answer(Pending& pending, Result<void> result);
    void forget(Pending& pending);
    void on_tick();
    bool is_right(const Pending& pending) const;

    verbs::Device& device_;
    SockAddr server_;
    TraceRing& trace_;
    Options options_;
    Prng prng_;
    Books books_;
    std::uint32_t next_xid_ = 1;
    // The next call, and what it holds already: memory that was got is kept over an `again`.
    std::optional<SimCall> next_;
    sunrpc::Payload next_payload_, next_room_;
    bool finishing_ = false, pumping_ = false, reconnect_ = false;
    std::list<Pending> pending_;
    std::unique_ptr<xprtrdma::Transport> transport_;
    Tick tick_;
};

}  // namespace nfsrdma::test
