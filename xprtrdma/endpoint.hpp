#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "base/loop.hpp"
#include "rpcrdma/private_data.hpp"
#include "verbs/device.hpp"

namespace nfsrdma::xprtrdma {

// The connection of one transport: its queues, and its life from connect to the last flushed
// completion.
//
// idle -> connecting -> connected -> draining -> closed, or connecting -> draining -> closed. It
// never goes back.
//
// Ownership. (1) The queue pair lives until the Endpoint dies, which must be after `closed`:
// nothing is posted then (NR_ASSERT in the destructor). (2) Each of Events runs once at most, on
// the loop, never from inside a call to the Endpoint.
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
        std::uint64_t connect_timeout_ns = 0;
    };

    static Result<std::unique_ptr<Endpoint>> create(verbs::Device& device, const Events& events);
    ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    verbs::ProtectionDomain& pd() noexcept { return *pd_; }
    Loop& loop() noexcept { return device_.loop(); }
    // Makes the queues. Then post Receives, then start().
    Result<verbs::QueuePair*> make_queues(const Parameters& parameters);
    // Sends the connect request; the outcome is one of Events. On an error nothing is left posted.
    Result<void> start(const SockAddr& server) noexcept;
    // Ends the connection, or the attempt. `drained` follows. No effect when it is ending already.
    void disconnect(const Error& why) noexcept;
    State state() const noexcept { return state_; }
    bool connected() const noexcept { return state_ == State::connected; }
    // Once connected: what both ends may send inline.
    rpcrdma::InlineLimits inline_limits() const noexcept { return inline_limits_; }

    void on_cm_event(verbs::CmId& id, const verbs::CmEvent& event) noexcept override;

  private:
    Endpoint(verbs::Device& device, const Events& events) noexcept;
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
