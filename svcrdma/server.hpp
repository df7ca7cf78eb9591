#pragma once
#include <memory>
#include <span>
#include <vector>

#include "pools/io.hpp"
#include "pools/page_list.hpp"
#include "pools/provision.hpp"
#include "svcrdma/listener.hpp"
#include "svcrdma/payload_runs.hpp"
#include "verbs/device.hpp"

namespace nfsrdma::svcrdma {

class SvcTransport;

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
    ServerCounters counters;
    bool draining = false;  // new Calls are not answered any more

    std::uint32_t receives() const noexcept;       // Receives of a connection
    std::uint32_t receive_batch() const noexcept;  // posted together
    std::uint32_t contexts() const noexcept;       // RecvCtxts of a connection
    std::size_t slab_bytes() const noexcept;
    Result<std::span<std::byte>> get_slab();
    void put_slab(std::span<std::byte> slab) noexcept { slabs.push_back(slab); }
};

}  // namespace nfsrdma::svcrdma
