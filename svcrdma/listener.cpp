#include "svcrdma/listener.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "rpcrdma/private_data.hpp"
#include "svcrdma/registered.hpp"
#include "svcrdma/transport.hpp"

namespace nfsrdma::svcrdma {

namespace {

class Acceptor final : public Listener, public verbs::ListenHandler, public ConnectionOwner {
  public:
    Acceptor(verbs::Device& device, sunrpc::Service& service, const ServerOptions& options)
        : server_(device, service, options) {
        server_.owner = this;
        bury_.acceptor = grace_.acceptor = this;
    }
    Acceptor(const Acceptor&) = delete;
    Acceptor& operator=(const Acceptor&) = delete;
    ~Acceptor() override;
    Result<void> start(const SockAddr& local);

    SockAddr local() const noexcept override { return local_; }
    void shut_down(std::uint64_t grace_ns) noexcept override;
    bool idle() const noexcept override { return connections() == 0; }
    std::uint32_t connections() const noexcept override { return count_; }
    const ServerCounters& counters() const noexcept override { return server_.counters; }
    std::uint32_t connection_stats(std::span<ConnectionStats> out) const noexcept override;
    pools::IoCounters io_counters() const noexcept override;

    void on_connect_request(std::unique_ptr<verbs::CmId> id,
                            const verbs::ConnectRequest& request) noexcept override;
    void on_connection_over(SvcTransport& transport) noexcept override;

  private:
    struct BuryTask : Task {
        BuryTask() noexcept : Task(&Acceptor::on_bury) {}
        Acceptor* acceptor = nullptr;
        bool scheduled = false;
    };
    struct GraceTimer : Timer {
        GraceTimer() noexcept : Timer(&Acceptor::on_grace) {}
        Acceptor* acceptor = nullptr;
        std::uint64_t end_ns = 0;
    };
    static void on_bury(Task& task) noexcept;
    static void on_grace(Timer& timer) noexcept;
    void close_idle() noexcept;
    void reject(verbs::CmId& id) noexcept;
    bool may_come(const SockAddr& from, Peer*& peer) noexcept;
    void tell_refusal(const SockAddr& peer, const char* why) noexcept;
    void tell_no_memory(const SockAddr& peer, const Error& error) noexcept;

    Server server_;
    SockAddr local_;
    std::unique_ptr<verbs::Listener> listener_;
    // Slots, so that a connection costs no allocation of ours but its own.
    std::vector<std::unique_ptr<SvcTransport>> living_;
    List<SvcTransport, SvcTransport> over_;
    std::uint32_t count_ = 0;
    std::uint64_t charged_ = 0;  // against the memory budget
    pools::IoCounters io_of_the_dead_;
    BuryTask bury_;
    GraceTimer grace_;
};

// How often shut_down looks for connections that have become idle.
constexpr std::uint64_t kGracePollNs = 10 * kNsPerMs;

void add(pools::IoCounters& sum, const pools::IoCounters& one) noexcept {
    sum.binds += one.binds;
    sum.local_invalidations += one.local_invalidations;
    sum.remote_invalidations += one.remote_invalidations;
    sum.bad_remote_invalidations += one.bad_remote_invalidations;
    sum.exposures += one.exposures;
    sum.pulls += one.pulls;
    sum.pushes += one.pushes;
    sum.keyed_pulls += one.keyed_pulls;
    sum.keyed_pushes += one.keyed_pushes;
    sum.doorbells += one.doorbells;
    sum.waited_for_send_room += one.waited_for_send_room;
    sum.waited_for_read_depth += one.waited_for_read_depth;
    sum.waited_for_keys += one.waited_for_keys;
    sum.bytes_pulled += one.bytes_pulled;
    sum.bytes_pushed += one.bytes_pushed;
    sum.bytes_exposed += one.bytes_exposed;
}

Result<void> Acceptor::start(const SockAddr& local) {
    const verbs::DeviceCaps& caps = server_.device.caps();
    const ServerOptions& options = server_.options;
    if (caps.max_send_sge < std::tuple_size_v<decltype(SendCtxt::sges)>)
        return Error{Errc::unsupported, 0, "the device gathers too few pieces for a reply"};
    if (options.connections_max == 0)
        return Error{Errc::invalid_argument, 0, "a server for no connection"};
    NR_TRY_ASSIGN(server_.provision, pools::Provision::for_server(options.demand, caps));
    // A call in order needs two or three: a pull or a push, and the SEND. What more segments need
    // waits for room.
    constexpr std::uint32_t kSendWrsMax = 216;
    if (options.first_credits != 0)
        server_.provision.send_wrs = std::min(server_.provision.send_wrs, kSendWrsMax);
    NR_TRY_ASSIGN(server_.pd, server_.device.alloc_pd());
    const std::size_t shared = shared_bytes(options);
    if (!server_.charge(shared))
        return Error{Errc::too_big, 0, "the memory budget is too small for the payloads of a loop"};
    charged_ = shared;
    const std::size_t bytes =
        shared + (server_.slabs_bytes_max() + server_.backward_bytes()) * options.connections_max;
    // No peer ever gets a key to this memory, so its registration is local whatever the option says
    // for clients.
    NR_TRY_ASSIGN(server_.arena,
                  pools::Arena::create(*server_.pd, bytes, pools::Registration::automatic));
    // Most messages use a few pages of their run, most connections a few of their Receives.
    server_.arena->use_small_pages(0, pools::kPageSize + PayloadRuns::message_bytes(options));
    server_.arena->use_small_pages(shared, bytes - shared);
    NR_TRY_ASSIGN(server_.zeros, server_.arena->carve(pools::kPageSize));
    NR_TRY_ASSIGN(server_.runs, PayloadRuns::create(*server_.arena, options));
    constexpr std::size_t kSlabsEach = 32;  // credits double each time
    server_.slabs.reserve(options.connections_max * kSlabsEach);
    living_.resize(options.connections_max);
    NR_TRY_ASSIGN(listener_, server_.device.listen(local, *this));
    local_ = listener_->local();
    return {};
}

Acceptor::~Acceptor() {
    NR_ASSERT(idle());
    if (bury_.scheduled) server_.device.loop().cancel(bury_);
    NR_ASSERT(server_.runs == nullptr || server_.runs->full());
    server_.discharge(charged_);
}

void Acceptor::reject(verbs::CmId& id) noexcept {
    ++server_.counters.rejected;
    const std::uint32_t size = server_.options.demand.inline_size;
    // A peer that is told our sizes at least knows that it spoke to an RPC-over-RDMA server.
    static_cast<void>(id.reject(rpcrdma::encode_private_data({false, size, size})));
}

void Acceptor::on_connect_request(std::unique_ptr<verbs::CmId> id,
                                  const verbs::ConnectRequest& request) noexcept {
    if (server_.draining || request.initiator_depth == 0) return reject(*id);
    const SockAddr from = id->peer();
    Peer* known = nullptr;
    if (!may_come(from, known)) return reject(*id);
    verbs::CmId& peer = *id;
    auto made = SvcTransport::create(server_, known, id, request);
    if (!made) {
        tell_no_memory(from, made.error());
        if (id != nullptr) reject(peer);
        return;
    }
    *std::find(living_.begin(), living_.end(), nullptr) = *std::move(made);
    ++count_;
    ++server_.counters.accepted;
}

// Whether there is room for one more, and the peer may have it: then it is counted as one of the
// peer's.
bool Acceptor::may_come(const SockAddr& from, Peer*& peer) noexcept {
    ServerCounters& counters = server_.counters;
    const ServerOptions& options = server_.options;
    if (count_ == living_.size()) {
        ++counters.refused_full;
        tell_refusal(from, "there are as many connections as may be");
        return false;
    }
    if (options.handshakes_max != 0 && server_.handshakes >= options.handshakes_max) {
        ++counters.refused_handshakes;
        tell_refusal(from, "too many connections are being made");
        return false;
    }
    if (options.peers == nullptr) return true;
    const Admission admission = options.peers->admit(from, server_.device.loop().now_ns(), peer);
    switch (admission) {
        case Admission::admitted:
            if (options.peers->begin_handshake(*peer)) return true;
            options.peers->leave(*peer);
            ++counters.refused_handshakes;
            tell_refusal(from, "too many connections of it are being made");
            return false;
        case Admission::quarantined:
            ++counters.refused_quarantined;
            return false;  // was told when it began
        case Admission::too_many:
        case Admission::unknown:
            ++counters.refused_per_peer;
            break;
        case Admission::too_fast:
            ++counters.refused_too_fast;
            break;
    }
    tell_refusal(from, to_string(admission));
    return false;
}

void Acceptor::tell_refusal(const SockAddr& peer, const char* why) noexcept {
    if (!server_.refusals.pass(server_.device.loop().now_ns())) return;
    log::warn("refused a connection from {}: {} ({} more refused)", peer.to_string(), why,
              server_.refusals.held_back());
}

void Acceptor::tell_no_memory(const SockAddr& peer, const Error& error) noexcept {
    if (error.code == Errc::refused) {  // of the peer's own
        ++server_.counters.refused_per_peer;
        return tell_refusal(peer, error.what);
    }
    if (error.code != Errc::too_big || server_.options.memory == nullptr) return;
    ++server_.counters.refused_for_memory;
    if (!server_.refusals.pass(server_.device.loop().now_ns())) return;
    const MemoryBudget& memory = *server_.options.memory;
    log::warn("refused a connection from {}: {} of {} bytes of memory are in use ({} more refused)",
              peer.to_string(), memory.used(), memory.limit(), server_.refusals.held_back());
}

void Acceptor::on_connection_over(SvcTransport& transport) noexcept {
    over_.push_back(transport);
    if (bury_.scheduled) return;
    bury_.scheduled = true;
    server_.device.loop().ready(bury_);
}

void Acceptor::on_bury(Task& task) noexcept {
    auto& bury = static_cast<BuryTask&>(task);
    Acceptor& self = *bury.acceptor;
    bury.scheduled = false;
    while (!self.over_.empty()) {
        SvcTransport* const dead = &self.over_.pop_front();
        add(self.io_of_the_dead_, dead->io_counters());
        const auto slot = std::find_if(self.living_.begin(), self.living_.end(),
                                       [dead](const auto& living) { return living.get() == dead; });
        NR_ASSERT(slot != self.living_.end());
        slot->reset();
        --self.count_;
        ++self.server_.counters.closed;
    }
}

pools::IoCounters Acceptor::io_counters() const noexcept {
    pools::IoCounters sum = io_of_the_dead_;
    for (const auto& living : living_) {
        if (living != nullptr) add(sum, living->io_counters());
    }
    return sum;
}

std::uint32_t Acceptor::connection_stats(std::span<ConnectionStats> out) const noexcept {
    std::uint32_t count = 0;
    for (const auto& living : living_) {
        if (living == nullptr || living->closing()) continue;
        if (count == out.size()) break;
        out[count++] = living->stats();
    }
    return count;
}

// Those that have nothing in progress at once, the others when they have finished, all when the
// grace is over.
void Acceptor::shut_down(std::uint64_t grace_ns) noexcept {
    Loop& loop = server_.device.loop();
    listener_.reset();
    server_.draining = true;
    grace_.end_ns = loop.now_ns() + grace_ns;
    close_idle();
}

void Acceptor::close_idle() noexcept {
    Loop& loop = server_.device.loop();
    const bool over = loop.now_ns() >= grace_.end_ns;
    bool busy = false;
    for (const auto& living : living_) {
        if (living == nullptr || living->closing()) continue;
        if (over || living->calls_in_progress() == 0) {
            living->close();
        } else {
            busy = true;
        }
    }
    if (busy) loop.arm(grace_, std::min(grace_.end_ns, loop.now_ns() + kGracePollNs));
}

void Acceptor::on_grace(Timer& timer) noexcept {
    static_cast<GraceTimer&>(timer).acceptor->close_idle();
}

}  // namespace

std::uint32_t payload_runs_within(const ServerOptions& options, std::uint64_t bytes) noexcept {
    ServerOptions fewer = options;
    while (fewer.payload_runs > 0 && PayloadRuns::arena_bytes(fewer) + pools::kPageSize > bytes)
        --fewer.payload_runs;
    return fewer.payload_runs;
}

Result<std::unique_ptr<Listener>> Listener::create(verbs::Device& device, const SockAddr& local,
                                                   sunrpc::Service& service,
                                                   const ServerOptions& options) {
    auto acceptor = std::make_unique<Acceptor>(device, service, options);
    NR_TRY(acceptor->start(local));
    return std::unique_ptr<Listener>(std::move(acceptor));
}

}  // namespace nfsrdma::svcrdma
