#include "verbs/softroce/cm.hpp"

#include <algorithm>
#include <cerrno>

#include "base/assert.hpp"
#include "verbs/softroce/cm_id.hpp"
#include "verbs/softroce/device.hpp"
#include "verbs/softroce/group.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

constexpr std::uint16_t kFirstEntropyPort = 0xC000;
constexpr std::size_t kRemoteBuckets = 1024;
constexpr std::uint64_t kDreqIntervalNs = 100 * kNsPerMs;  // doubled each time
constexpr std::uint8_t kDreqSends = 5;
constexpr std::uint64_t kRejectMemoryNs = 5 * kNsPerSec;
constexpr std::uint32_t kFirstListenPort = 0x8000, kListenPorts = 0x4000;

constexpr std::uint32_t loop_of(std::uint32_t comm) noexcept {
    return comm & ((1u << kCmLoopBits) - 1);
}
constexpr std::uint32_t slot_of(std::uint32_t comm) noexcept {
    return (comm >> kCmLoopBits) & (kCmIdsMax - 1);
}

}  // namespace

Path path_back(const RxPacket& packet) noexcept {
    const bool return_port = packet.from.port() != 0 && packet.from.port() < kFirstEntropyPort;
    return {packet.to, return_port ? packet.from : packet.from.with_port(kRoceV2Port)};
}

Cm::Cm(SoftDevice& device)
    : device_(device),
      ca_guid_(device.random()),
      slots_(kCmIdsMax, nullptr),
      remote_buckets_(kRemoteBuckets, nullptr),
      linger_pool_(kCmLingersMax),
      event_timer_(*this, [](Timer& t) noexcept { static_cast<CmTimer&>(t).cm.tell_all(); }),
      linger_timer_(*this,
                    [](Timer& t) noexcept { static_cast<CmTimer&>(t).cm.repeat_lingers(); }) {
    next_slot_ = static_cast<std::uint32_t>(device.random() % kCmIdsMax);
    unseen_.reserve(kCmHalfOpenMax);
    for (Linger& linger : linger_pool_)
        free_lingers_.push_back(linger);
}

Cm::~Cm() {
    // Their destructors refuse what was never shown.
    std::vector<std::unique_ptr<SoftCmId>> unseen = std::move(unseen_);
    unseen.clear();
    NR_ASSERT(ids_used_ == 0);
    NR_ASSERT(listeners_.empty());
}

Loop& Cm::loop() noexcept {
    return device_.loop();
}

Result<std::unique_ptr<verbs::CmId>> Cm::create_id(CmHandler& handler) {
    auto id = std::make_unique<SoftCmId>(*this, &handler);
    if (!take_slot(*id)) return Error{Errc::again, 0, "create id: too many connections"};
    return std::unique_ptr<verbs::CmId>(std::move(id));
}

Result<std::unique_ptr<verbs::Listener>> Cm::listen(const SockAddr& local, ListenHandler& handler) {
    if (!local.is_v4() && !local.is_v6()) {
        return Error{Errc::invalid_argument, 0, "listen: not an IP address"};
    }
    SockAddr address = local;
    const auto taken = [&](std::uint16_t port) {
        return std::any_of(listeners_.begin(), listeners_.end(), [&](const SoftListener* l) {
            return l->local() == address.with_port(port);
        });
    };
    if (address.port() == 0) {
        const std::uint64_t start = device_.random();
        for (std::uint32_t i = 0; i < kListenPorts && address.port() == 0; ++i) {
            const auto port =
                static_cast<std::uint16_t>(kFirstListenPort + (start + i) % kListenPorts);
            if (!taken(port)) address = address.with_port(port);
        }
    }
    if (address.port() == 0 || taken(address.port())) {
        return Error{Errc::system, EADDRINUSE, "listen"};
    }
    auto listener = std::make_unique<SoftListener>(*this, address, handler);
    listeners_.push_back(listener.get());
    if (group_ != nullptr) group_->add_listener(device_.options().loop_index, address);
    return std::unique_ptr<verbs::Listener>(std::move(listener));
}

void Cm::on_mad(const RxPacket& packet, std::span<const std::byte> mad) noexcept {
    auto header = decode_header(mad);
    if (!header) {
        ++counters_.malformed;
        return;
    }
    if (group_ != nullptr) {
        const std::uint32_t mine = device_.options().loop_index;
        std::uint32_t to = mine;
        if (header->attr == CmAttr::req) {
            if (auto req = decode_req(mad)) to = group_->loop_for(path_back(packet), *req, mine);
        } else {
            to = loop_of(decode_ids(mad).remote);
        }
        if (to != mine && to < group_->loops()) {
            const bool sent = group_->forward(to, packet, mad);
            ++(sent ? counters_.forwarded : counters_.forwards_dropped);
            return;
        }
    }
    handle(packet, *header, mad);
}

void Cm::on_forwarded_mad(const RxPacket& packet, std::span<const std::byte> mad) noexcept {
    auto header = decode_header(mad);
    NR_ASSERT(header);
    handle(packet, *header, mad);
}

void Cm::handle(const RxPacket& packet, const MadHeader& header,
                std::span<const std::byte> mad) noexcept {
    const auto known = [&](const CmIds& ids) {
        SoftCmId* id = find_local(ids.remote, packet.from);
        if (id == nullptr) ++counters_.stray;
        return id;
    };
    switch (header.attr) {
        case CmAttr::req: {
            auto req = decode_req(mad);
            if (!req) {
                ++counters_.malformed;
                return;
            }
            return on_req(packet, header, *req);
        }
        case CmAttr::rep: {
            auto rep = decode_rep(mad);
            if (!rep) {
                ++counters_.malformed;
                return;
            }
            return on_rep(packet, header, *rep);
        }
        case CmAttr::mra: {
            auto mra = decode_mra(mad);
            if (SoftCmId* id = known(mra->ids)) id->on_mra(*mra);
            return;
        }
        case CmAttr::rej: {
            auto rej = decode_rej(mad);
            return on_rej(packet, header, *rej);
        }
        case CmAttr::rtu: {
            const CmIds ids = decode_ids(mad);
            if (SoftCmId* id = known(ids)) id->on_rtu(ids);
            return;
        }
        case CmAttr::dreq:
            return on_dreq(packet, header, *decode_dreq(mad));
        case CmAttr::drep:
            return on_drep(packet, decode_ids(mad));
    }
}

void Cm::on_req(const RxPacket& packet, const MadHeader& header, const CmReq& req) noexcept {
    ++counters_.requests;
    const Path path = path_back(packet);
    if (answered_before(path, header, req)) {
        ++counters_.duplicates;
        return;
    }
    if (!take_token() || half_open() >= kCmHalfOpenMax || ids_used_ >= kCmIdsMax) {
        ++counters_.requests_dropped;
        return;
    }
    SoftListener* listener = find_listener(packet.to, req.service_id);
    if (listener == nullptr) {
        return refuse(path, header, req.local_comm, RejReason::invalid_service_id);
    }
    if (pmtu_bytes(req.pmtu_code) > device_.wire().mtu()) {
        return refuse(path, header, req.local_comm, RejReason::invalid_path_mtu);
    }
    take_request(path, header, req, *listener);
}

bool Cm::answered_before(const Path& path, const MadHeader& header, const CmReq& req) noexcept {
    if (SoftCmId* id = find_remote(path.peer, req.qpn)) {
        if (id->remote_comm() == req.local_comm) {
            id->on_req_again();
            return true;
        }
        id->on_stale();  // the peer began anew with this queue pair number
    }
    for (Linger& linger : lingers_) {
        if (linger.kind == Linger::Kind::reject && linger.ids.remote == req.local_comm &&
            linger.path.peer == path.peer && decode_header(linger.mad)->tid == header.tid) {
            send(path, linger.mad);
            return true;
        }
    }
    return false;
}

void Cm::take_request(const Path& path, const MadHeader& header, const CmReq& req,
                      SoftListener& listener) noexcept {
    auto id = std::make_unique<SoftCmId>(*this, nullptr);
    if (!take_slot(*id)) {
        ++counters_.requests_dropped;
        return;
    }
    id->take_request(path, header, req, listener);
    tell_later(*id);
    unseen_.push_back(std::move(id));
}

void Cm::show(SoftCmId& id) noexcept {
    const auto at = std::find_if(unseen_.begin(), unseen_.end(),
                                 [&](const auto& unseen) { return unseen.get() == &id; });
    NR_ASSERT(at != unseen_.end());
    std::unique_ptr<SoftCmId> owner = std::move(*at);
    unseen_.erase(at);
    SoftListener* listener = id.listener();
    if (listener == nullptr || id.state() != SoftCmId::State::req_received) return;
    const ConnectRequest request = id.request();
    // The handler may destroy the id before it reads on.
    std::array<std::byte, kReqUserBytes> data{};
    std::copy(request.private_data.begin(), request.private_data.end(), data.begin());
    listener->handler().on_connect_request(
        std::move(owner), {data, request.initiator_depth, request.responder_resources});
}

void Cm::refuse(const Path& path, const MadHeader& header, std::uint32_t remote_comm,
                RejReason reason) noexcept {
    CmRej rej;
    rej.ids.remote = remote_comm;
    rej.reason = static_cast<std::uint16_t>(reason);
    if (reason == RejReason::invalid_path_mtu) rej.pmtu_code = pmtu_code(device_.wire().mtu());
    ++counters_.rejects_sent;
    send(path, encode(rej, header.tid));
}

void Cm::on_rep(const RxPacket& packet, const MadHeader& header, const CmRep& rep) noexcept {
    if (SoftCmId* id = find_local(rep.ids.remote, packet.from)) return id->on_rep(header, rep);
    ++counters_.stray;
    // Its sender would wait for nothing.
    CmRej rej;
    rej.ids = {rep.ids.remote, rep.ids.local};
    rej.rejected = CmMessage::rep;
    rej.reason = static_cast<std::uint16_t>(RejReason::invalid_comm_id);
    ++counters_.rejects_sent;
    send(path_back(packet), encode(rej, header.tid));
}

void Cm::on_dreq(const RxPacket& packet, const MadHeader& header, const CmDreq& dreq) noexcept {
    SoftCmId* id = find_local(dreq.ids.remote, packet.from);
    if (id != nullptr && !id->on_dreq(dreq)) {
        ++counters_.stray;  // not about the connection that this id has
        return;
    }
    if (id == nullptr)
        ++counters_.duplicates;  // the connection is gone already, and its peer wants to hear it
    send(path_back(packet), encode_drep({dreq.ids.remote, dreq.ids.local}, header.tid));
}

void Cm::on_drep(const RxPacket& packet, const CmIds& ids) noexcept {
    for (Linger& linger : lingers_) {
        if (linger.kind == Linger::Kind::disconnect && linger.ids.local == ids.remote &&
            linger.ids.remote == ids.local && linger.path.peer.same_address(packet.from)) {
            end_linger(linger);
            return arm_lingers();
        }
    }
    ++counters_.stray;
}

void Cm::on_rej(const RxPacket& packet, const MadHeader& header, const CmRej& rej) noexcept {
    SoftCmId* id = find_local(rej.ids.remote, packet.from);
    // A peer that gave up before it had our answer does not know our id.
    if (id == nullptr && rej.ids.remote == 0) id = find_half_open(rej.ids.local, packet.from);
    if (id != nullptr) return id->on_rej(header, rej);
    ++counters_.stray;
}

void Cm::half_open_changed(SoftCmId& id, bool more) noexcept {
    if (more) {
        half_open_.push_back(id);
    } else {
        half_open_.erase(id);
    }
}

SoftCmId* Cm::find_half_open(std::uint32_t remote_comm, const SockAddr& from) noexcept {
    for (SoftCmId& id : half_open_) {
        if (id.remote_comm() == remote_comm && id.path().peer.same_address(from)) return &id;
    }
    return nullptr;
}

bool Cm::take_token() noexcept {
    constexpr std::uint64_t kCost = kNsPerSec / kCmRequestsPerSec;
    const std::uint64_t now = loop().now_ns();
    const std::uint64_t full = kCost * kCmRequestBurst;
    if (tokens_used_to_ns_ + full < now) tokens_used_to_ns_ = now - full;
    if (tokens_used_to_ns_ + kCost > now) return false;
    tokens_used_to_ns_ += kCost;
    return true;
}

bool Cm::take_slot(SoftCmId& id) noexcept {
    if (ids_used_ == kCmIdsMax) return false;
    while (slots_[next_slot_] != nullptr)
        next_slot_ = (next_slot_ + 1) % kCmIdsMax;
    slots_[next_slot_] = &id;
    ++ids_used_;
    const auto generation = static_cast<std::uint32_t>(device_.random());
    const std::uint32_t low = next_slot_ << kCmLoopBits | device_.options().loop_index;
    id.set_local_comm(generation << (kCmLoopBits + kCmSlotBits) | low);
    next_slot_ = (next_slot_ + 1) % kCmIdsMax;
    return true;
}

SoftCmId* Cm::find_local(std::uint32_t comm, const SockAddr& from) noexcept {
    SoftCmId* id = slots_[slot_of(comm)];
    const bool same =
        id != nullptr && id->local_comm() == comm && id->path().peer.same_address(from);
    return same ? id : nullptr;
}

SoftCmId*& Cm::bucket_of(std::uint32_t qpn) noexcept {
    return remote_buckets_[(qpn * 0x9E3779B1u >> 16) % kRemoteBuckets];
}

SoftCmId* Cm::find_remote(const SockAddr& peer, std::uint32_t qpn) noexcept {
    for (SoftCmId* id = bucket_of(qpn); id != nullptr; id = id->remote_next) {
        if (id->remote_qpn() == qpn && id->path().peer == peer &&
            id->state() != SoftCmId::State::closed) {
            return id;
        }
    }
    return nullptr;
}

void Cm::index_remote(SoftCmId& id) noexcept {
    NR_ASSERT(!id.remote_indexed);
    SoftCmId*& first = bucket_of(id.remote_qpn());
    id.remote_next = first;
    id.remote_indexed = true;
    first = &id;
}

SoftListener* Cm::find_listener(const SockAddr& to, std::uint64_t service_id) noexcept {
    if ((service_id & ~std::uint64_t{0xFFFF}) != kServiceIdTcp) return nullptr;
    const auto port = static_cast<std::uint16_t>(service_id);
    SoftListener* best = nullptr;
    for (SoftListener* listener : listeners_) {
        if (!listener->covers(to, port)) continue;
        if (best == nullptr || best->local().is_any()) best = listener;
    }
    return best;
}

void Cm::forget(SoftCmId& id) noexcept {
    const ListHook<>& to_tell = id;
    if (to_tell.linked()) to_tell_.erase(id);
    if (id.remote_indexed) {
        SoftCmId** at = &bucket_of(id.remote_qpn());
        while (*at != &id)
            at = &(*at)->remote_next;
        *at = id.remote_next;
    }
    SoftCmId*& slot = slots_[slot_of(id.local_comm())];
    if (slot != &id) return;  // never had one
    slot = nullptr;
    --ids_used_;
}

void Cm::forget(SoftListener& listener) noexcept {
    listeners_.erase(std::find(listeners_.begin(), listeners_.end(), &listener));
    if (group_ != nullptr) {
        group_->remove_listener(device_.options().loop_index, listener.local());
    }
    for (auto& id : unseen_) {
        if (id->listener() == &listener) id->refuse_unseen();
    }
}

void Cm::tell_later(SoftCmId& id) noexcept {
    const ListHook<>& to_tell = id;
    if (!to_tell.linked()) to_tell_.push_back(id);
    if (!event_timer_.armed()) loop().arm(event_timer_, loop().now_ns());
}

void Cm::tell_all() noexcept {
    // Those that come meanwhile have their turn in the next iteration.
    for (std::uint32_t left = to_tell_.size(); left > 0 && !to_tell_.empty(); --left) {
        to_tell_.pop_front().tell();
    }
    if (!to_tell_.empty() && !event_timer_.armed()) loop().arm(event_timer_, loop().now_ns());
}

void Cm::send(const Path& path, const Mad& mad) noexcept {
    device_.send_mad(path, mad);
}

std::uint64_t Cm::new_tid() noexcept {
    return device_.random();
}

void Cm::linger(Linger::Kind kind, const Path& path, const CmIds& ids, const Mad& mad) noexcept {
    send(path, mad);
    if (free_lingers_.empty()) end_linger(lingers_.front());
    Linger& linger = free_lingers_.pop_front();
    const bool repeats = kind == Linger::Kind::disconnect;
    linger.kind = kind;
    linger.ids = ids;
    linger.path = path;
    linger.mad = mad;
    linger.sends_left = repeats ? kDreqSends - 1 : 0;
    linger.interval_ns = repeats ? kDreqIntervalNs : kRejectMemoryNs;
    linger.next_ns = loop().now_ns() + linger.interval_ns;
    lingers_.push_back(linger);
    if (!linger_timer_.armed() || linger_timer_.deadline_ns() > linger.next_ns) {
        loop().arm(linger_timer_, linger.next_ns);
    }
}

void Cm::repeat_lingers() noexcept {
    const std::uint64_t now = loop().now_ns();
    for (std::uint32_t left = lingers_.size(); left > 0; --left) {
        Linger& linger = lingers_.pop_front();
        if (linger.next_ns > now) {
            lingers_.push_back(linger);
        } else if (linger.sends_left == 0) {
            free_lingers_.push_back(linger);
        } else {
            --linger.sends_left;
            ++counters_.retries;
            linger.interval_ns *= 2;
            linger.next_ns = now + linger.interval_ns;
            send(linger.path, linger.mad);
            lingers_.push_back(linger);
        }
    }
    arm_lingers();
}

void Cm::arm_lingers() noexcept {
    if (lingers_.empty()) {
        loop().disarm(linger_timer_);
        return;
    }
    std::uint64_t first = ~std::uint64_t{0};
    for (const Linger& linger : lingers_)
        first = std::min(first, linger.next_ns);
    loop().arm(linger_timer_, first);
}

void Cm::end_linger(Linger& linger) noexcept {
    lingers_.erase(linger);
    free_lingers_.push_back(linger);
}

}  // namespace nfsrdma::verbs::softroce
