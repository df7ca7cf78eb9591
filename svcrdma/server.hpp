#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/list.hpp"
#include "base/log.hpp"
#include "pools/io.hpp"
#include "pools/page_list.hpp"
#include "pools/provision.hpp"
#include "svcrdma/listener.hpp"
#include "svcrdma/payload_runs.hpp"
#include "verbs/device.hpp"

namespace nfsrdma::svcrdma {

class SvcTransport;

// A connection's place in the queue of those that wait for another call of their peer to end.
struct PeerWaiter : ListHook<PeerWaiter> {
    SvcTransport* transport = nullptr;
};

// Told by a connection when nothing of it is lent any more and every event that it was owed has
// come.
class ConnectionOwner {
  public:
    virtual void on_connection_over(SvcTransport& transport) noexcept = 0;

  protected:
    ~ConnectionOwner() = default;
};

// What the connections of one listener share; one loop's. Outlives them.
struct Server {
    Server(verbs::Device& d, sunrpc::Service& s, const ServerOptions& o) noexcept
        : device(d), service(s), options(o) {}
    verbs::Device& device;
    sunrpc::Service& service;
    ServerOptions options;
    pools::Provision provision;  // of one connection
    ConnectionOwner* owner = nullptr;
    std::unique_ptr<verbs::ProtectionDomain> pd;
    std::unique_ptr<pools::Arena> arena;
    std::unique_ptr<PayloadRuns> runs;
    std::span<std::byte> zeros;  // one page for XDR pads, never written
    // Inline buffers of connections that are over, for the next ones: an arena never takes memory
    // back.
    std::vector<std::span<std::byte>> slabs;
    log::RateLimit refusals{kNsPerSec};
    ServerCounters counters;
    bool draining = false;         // new Calls are not answered any more
    std::uint32_t handshakes = 0;  // connections that are being made
    // Connections with frames whose peer has as many calls in progress as it may.
    List<PeerWaiter, PeerWaiter> peer_waiters;

    // A connection begins with few credits, and what they need; both grow with its use.
    std::uint32_t first_credits() const noexcept;
    std::uint32_t more_credits(std::uint32_t credits) const noexcept;
    // Of a connection with so many credits: Receives, those that are posted together, and RecvCtxts
    // at most.
    static std::uint32_t receives(std::uint32_t credits) noexcept;
    static std::uint32_t receive_batch(std::uint32_t credits) noexcept;
    static std::uint32_t contexts(std::uint32_t credits) noexcept;
    // When it is at its largest.
    std::uint32_t receives() const noexcept {
        return receives(provision.credits) + options.backward_credits;
    }
    std::uint32_t receive_batch() const noexcept { return receive_batch(provision.credits); }
    std::uint32_t contexts() const noexcept { return contexts(provision.credits); }
    std::uint32_t transfers() const noexcept;
    std::uint32_t first_transfers() const noexcept;

    // Inline buffers for so many Receives more.
    std::size_t slab_bytes(std::uint32_t receives) const noexcept;
    std::size_t slabs_bytes_max() const noexcept;  // of a whole connection
    // Of one connection, to send backward calls from and to receive their replies in.
    std::size_t backward_bytes() const noexcept;
    Result<std::span<std::byte>> get_slab(std::uint32_t receives);
    void put_slab(std::span<std::byte> slab) noexcept { slabs.push_back(slab); }

    // Against the memory budget, when there is one.
    std::uint64_t scratch_bytes() const noexcept;     // of one RecvCtxt
    std::uint64_t connection_bytes() const noexcept;  // queues and whatever never grows
    bool charge(std::uint64_t bytes) noexcept {
        return options.memory == nullptr || options.memory->take(bytes);
    }
    void discharge(std::uint64_t bytes) noexcept {
        if (options.memory != nullptr) options.memory->give_back(bytes);
    }
};

}  // namespace nfsrdma::svcrdma
