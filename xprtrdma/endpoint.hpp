#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "base/loop.hpp"
#include "rpcrdma/private_data.hpp"
#include "verbs/device.hpp"
#include "xprtrdma/probe.hpp"

namespace nfsrdma::xprtrdma {

// The connections of one transport, one after another: the queues, and each one's life from connect
// to the last flushed completion.
//
// idle -> connecting -> connected -> draining -> closed, or connecting -> draining -> closed; and
// by renew() from closed to idle, with another queue pair.
//
// Ownership. (1) A queue pair lives until renew(), or until the Endpoint dies, which must be after
// `closed`: nothing is posted then (NR_ASSERT in drop_id). Protection domain and completion queue
// live as long as the Endpoint. (2) Each of Events runs once at most for each connection, on the
// loop, never from inside a call to the Endpoint.
//
// Errors. Every way in which a connection can end comes together in drain(): what the peer did,
// what the device found, and what we asked for.
class Endpoint final : public verbs::CmHandler {
  public:
    enum class State : std::uint8_t { idle, connecting, connected, draining, closed };
    struct Events {
        void (*connected)(void* arg) noexcept = nullptr;
        // The connection, or the attempt, ended, and every completion was polled. `why` is what
        // ended it first.
        void (*drained)(void* arg, const Error& why) noexcept = nullptr;
        void* arg = nullptr;
    };
    struct Parameters {
        verbs::QpOptions qp;
        std::uint32_t cq_entries = 0;
        rpcrdma::PrivateData private_data;  // what we offer
    };

    static Result<std::unique_ptr<Endpoint>> create(verbs::Device& device, const Events& events);
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    verbs::ProtectionDomain& pd() noexcept { return *pd_; }
    // A question beside the connection, by the same device.
    Result<std::unique_ptr<Probe>> probe(const SockAddr& server, const Probe::Told& told);
    Loop& loop() noexcept { return device_.loop(); }
    // Makes the queues. Then post Receives, then start().
    Result<verbs::QueuePair*> make_queues(const Parameters& parameters);
    // Once closed: the queue pair of the last connection goes, and there is one for the next. Keys
    // that are bound on the old one are gone by then. On an error it is closed still.
    Result<verbs::QueuePair*> renew();
    // Sends the connect request; the outcome is one of Events. On an error nothing is left posted.
    Result<void> start(const SockAddr& server, std::uint64_t timeout_ns) noexcept;
    // Ends the connection, or the attempt. `drained` follows. No effect when it is ending already.
    void disconnect(const Error& why) noexcept;
    State state() const noexcept { return state_; }
    bool connected() const noexcept { return state_ == State::connected; }
    // Once connected: what both ends may send inline.
    rpcrdma::InlineLimits inline_limits() const noexcept { return inline_limits_; }

    void on_cm_event(verbs::CmId& id, const verbs::CmEvent& event) noexcept override;

  private:
    Endpoint(verbs::Device& device, const Events& events) noexcept;
    Result<verbs::QueuePair*> make_id();
    void drop_id() noexcept;
    void on_established(const verbs::CmEvent& event) noexcept;
    void drain(const Error& why) noexcept;
    static void on_poll(Timer& timer) noexcept;
    static void on_connected(Task& task) noexcept;

    struct PollTimer : Timer {
        using Timer::Timer;
        Endpoint* endpoint = nullptr;
    };
    struct ConnectedTask : Task {
        using Task::Task;
        Endpoint* endpoint = nullptr;
    };

    verbs::Device& device_;
    Events events_;
    Parameters parameters_;
    State state_ = State::idle;
    rpcrdma::InlineLimits inline_limits_;
    std::optional<Error> why_;
    std::unique_ptr<verbs::ProtectionDomain> pd_;
    std::unique_ptr<verbs::CompletionQueue> cq_;
    std::unique_ptr<verbs::CmId> id_;  // dies first: it owns the queue pair
    PollTimer poll_timer_;
    ConnectedTask connected_task_;
};

const char* to_string(Endpoint::State state) noexcept;

}  // namespace nfsrdma::xprtrdma
