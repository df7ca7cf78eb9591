#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "sunrpc/xprt_group.hpp"
#include "verbs/device.hpp"
#include "xprtrdma/transport.hpp"

namespace nfsrdma::tool {

// The connections of one run, --nconnect of them, as one transport. All of one device and loop.
class Connections {
  public:
    // Begins to connect all of them; `told` runs once, on the loop: with success when at least one
    // is connected and each other one has been answered, or has failed once and goes on trying
    // (RecoveryOptions::first_too); with the error of the first when all have been answered and
    // none is connected. `options` are those of each. Errors: those of Transport::create.
    using Told = void (*)(void* arg, Result<void> outcome) noexcept;
    static Result<std::unique_ptr<Connections>> create(verbs::Device& device,
                                                       const SockAddr& server,
                                                       const xprtrdma::TransportOptions& options,
                                                       std::uint32_t count, Told told, void* arg);
    ~Connections() = default;  // close first, and run the loop until idle()
    Connections(const Connections&) = delete;
    Connections& operator=(const Connections&) = delete;

    sunrpc::Xprt& xprt() noexcept;
    void close() noexcept;
    bool idle() const noexcept;
    std::uint32_t count() const noexcept { return static_cast<std::uint32_t>(members_.size()); }
    std::uint32_t connected() const noexcept;   // how many are
    std::uint32_t recovering() const noexcept;  // how many are not, and go on trying
    // Why the first of those that are not connected is not; nullptr: all are.
    const Error* why_down() const noexcept;
    // Sums; maxima where they are maxima.
    xprtrdma::TransportCounters counters() const noexcept;
    pools::IoCounters io_counters() const noexcept;

  private:
    struct Member {
        Connections* home = nullptr;
        std::unique_ptr<xprtrdma::Transport> transport;
        Result<void> outcome;
        bool answered = false;
        bool failed = false;  // once, and goes on
    };
    Connections() = default;
    static void on_connected(void* arg, Result<void> outcome) noexcept;
    static void on_recovery(void* arg, bool connected) noexcept;
    void maybe_tell() noexcept;

    std::vector<std::unique_ptr<Member>> members_;
    std::unique_ptr<sunrpc::XprtGroup> group_;  // of more than one; dies first
    Told told_ = nullptr;
    void* arg_ = nullptr;
};

// What each of `count` connections has of the calls that all together may have in flight: no fewer
// than a few, so that one alone still keeps the wire busy.
std::uint32_t credits_each(std::uint32_t credits, std::uint32_t count) noexcept;

}  // namespace nfsrdma::tool
