#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "nfs/client/client.hpp"
#include "verbs/device.hpp"
#include "xprtrdma/transport.hpp"

namespace nfsrdma::stress {

// Adds what the result tells of, and what no right server makes, to `sum`.
void add(xprtrdma::TransportCounters& sum, const xprtrdma::TransportCounters& part) noexcept;
// For people: what came that a right server never sends, also in answer to calls that were
// cancelled, which nobody else looks at. Empty: nothing.
std::string bad_answers(const xprtrdma::TransportCounters& counters);

class Connection;

class ConnectionOwner {
  public:
    virtual void connection_up(Connection& connection) noexcept = 0;
    // Whether a call on it still waits to be answered: some failures are told a turn later.
    virtual bool connection_busy(const Connection& connection) const noexcept = 0;
    // Before the transport dies, when all of its calls have been answered: gives back what is its.
    virtual void connection_gone(Connection& connection) noexcept = 0;
    // `why`: what ended it, when it was not disconnect() or close().
    virtual void connection_lost(Connection& connection, const Error& why) noexcept = 0;

  protected:
    ~ConnectionOwner() = default;
};

struct ConnectionOptions {
    SockAddr server;
    xprtrdma::TransportOptions transport;
    std::uint64_t timeout_ns = 60 * kNsPerSec;   // of an answer
    std::uint64_t patience_ns = 30 * kNsPerSec;  // for a server that does not take connections
};

// One connection to the server, that is made anew whenever it ended, until close().
class Connection {
  public:
    Connection(verbs::Device& device, const ConnectionOptions& options, std::uint32_t index,
               ConnectionOwner& owner);
    ~Connection();  // closed() by then
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // What ended and what is to begin anew; from the main loop, not from a callback.
    void tick() noexcept;
    bool up() const noexcept { return state_ == State::up; }
    std::uint32_t index() const noexcept { return index_; }
    nfs::client::Client& client() noexcept { return *client_; }
    xprtrdma::Transport& transport() noexcept { return *transport_; }
    // In the middle of everything. Its calls are answered with Errc::closed or Errc::reconnect.
    void disconnect() noexcept;
    // Whether it is we who ended it.
    bool ended_by_us() const noexcept { return by_us_; }
    void close() noexcept;  // for good
    bool closed() const noexcept { return state_ == State::closed; }
    std::uint64_t connects() const noexcept { return connects_; }
    // Of all transports so far.
    xprtrdma::TransportCounters counters() const noexcept;
    // What FSINFO said; for this and the next clients.
    void set_sizes(const FSINFO3resok& info) noexcept;

  private:
    enum class State : std::uint8_t { down, connecting, up, ending, closed };
    static void on_connected(void* arg, Result<void> outcome) noexcept;
    static void on_lost(void* arg) noexcept;
    void open() noexcept;
    void failed(const Error& why) noexcept;
    void end() noexcept;

    verbs::Device& device_;
    ConnectionOptions options_;
    const std::uint32_t index_;
    ConnectionOwner& owner_;
    sunrpc::AuthSys sys_;
    State state_ = State::down;
    bool by_us_ = false, final_ = false;
    std::uint64_t next_try_ns_ = 0, down_since_ns_ = 0, connects_ = 0;
    std::optional<Error> refused_;  // the last attempt
    std::optional<FSINFO3resok> info_;
    xprtrdma::TransportCounters past_;
    std::unique_ptr<xprtrdma::Transport> transport_;
    std::unique_ptr<nfs::client::Client> client_;
};

}  // namespace nfsrdma::stress
