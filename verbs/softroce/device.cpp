#include "verbs/softroce/device.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/random.h>

#include "base/assert.hpp"
#include "verbs/softroce/cm.hpp"
#include "verbs/softroce/cq.hpp"
#include "verbs/softroce/fault_device.hpp"
#include "verbs/softroce/qp.hpp"

// Operation. poll() takes a batch of packets from the wire; their completions go to the queues that
// the loop polls next, and what they make us send waits on the work list. flush(), last in the
// loop's turn, lets each queue pair of that list send what it may, first its own requests and then
// its answers, so that a reply and the acknowledgement of its call share one batch.
//
// Ownership. 1. Queue pairs belong to their makers; the device's lists and hash hold them until
// their destructor. 2. Payload lent to the wire stays until flush() has flushed it: no code of the
// consumer runs in between.
//
// Errors. Packets that make no sense are counted and dropped. Queue pairs tell their owners of
// fatal errors from poll(), where nothing else is on the stack.
namespace nfsrdma::verbs::softroce {

namespace {
constexpr std::uint32_t kQuantum = 64 * 1024;  // of one queue pair in one pass over the work list
constexpr std::uint32_t kFlushBudget = 1024 * 1024;  // of all in one flush
constexpr std::uint32_t kFastRegPagesMax = 40960;    // a payload of 64 MiB and a message of 64 MiB
constexpr std::uint32_t kQueueMax = 16384;
constexpr std::uint32_t kReadWindowMin = 16 * 1024;
}  // namespace

SoftDevice::WireWatch::WireWatch() noexcept : FdWatch([](FdWatch&, std::uint32_t) noexcept {}) {}

Result<std::unique_ptr<Device>> create_device(Loop& loop, std::unique_ptr<Wire> wire,
                                              const SoftOptions& options) {
    NR_TRY_ASSIGN(std::unique_ptr<SoftDevice> device,
                  SoftDevice::create(loop, std::move(wire), options));
    return std::unique_ptr<Device>(std::move(device));
}

const SoftCounters& counters(const Device& device) noexcept {
    return static_cast<const SoftDevice&>(device).counters();
}

const WireCounters& wire_counters(const Device& device) noexcept {
    return static_cast<const SoftDevice&>(device).wire().counters();
}

FaultCounters fault_counters(const Device& device) noexcept {
    const DeviceFaults* const faults = static_cast<const SoftDevice&>(device).faults();
    return faults != nullptr ? faults->counters() : FaultCounters{};
}

void hold_kills(Device& device, bool held) noexcept {
    if (auto* const faults = static_cast<SoftDevice&>(device).faults()) faults->hold_kills(held);
}

Result<std::unique_ptr<SoftDevice>> SoftDevice::create(Loop& loop, std::unique_ptr<Wire> wire,
                                                       const SoftOptions& options) {
    if (options.loop_count == 0 || options.loop_count > 256 ||
        options.loop_index >= options.loop_count || options.ack_timeout_exp > 31)
        return Error{Errc::invalid_argument, 0, "soft device options"};
    std::array<std::byte, 16> probe{};
    if (options.seed == 0 && ::getrandom(probe.data(), probe.size(), 0) != ssize_t{probe.size()})
        return Error{Errc::system, errno, "getrandom"};
    std::unique_ptr<SoftDevice> device(new SoftDevice(loop, std::move(wire), options));
    if (device->watch_.fd >= 0) NR_TRY(loop.watch(device->watch_));
    device->cm_ = std::make_unique<Cm>(*device);
    if (device->faults_ != nullptr) device->faults_->start(*device);
    return device;
}

SoftDevice::SoftDevice(Loop& loop, std::unique_ptr<Wire> wire, const SoftOptions& options)
    : loop_(loop), wire_(std::move(wire)), options_(options), prng_(options.seed), keys_(*this) {
    if (options.faults.on_device()) {
        faults_ = std::make_unique<DeviceFaults>(loop, options.faults,
                                                 options.fault_seed + options.loop_index);
        wire_ = faults_->around(std::move(wire_));
    }
    caps_.max_send_wr = caps_.max_recv_wr = kQueueMax;
    caps_.max_send_sge = kSendSgesMax;
    caps_.max_recv_sge = kRecvSgesMax;
    caps_.max_fast_reg_pages = kFastRegPagesMax;
    caps_.max_read_depth = caps_.max_read_responses = kReadDepthMax;
    caps_.fast_reg = caps_.page_list_reg = caps_.remote_invalidate = caps_.local_keys = true;
    read_window_ = std::max(wire_->receive_window() / 2, kReadWindowMin);
    mad_psn_ = static_cast<std::uint32_t>(random()) & kPsnMask;
    now_ns_ = loop_.now_ns();
    watch_.fd = wire_->fd();
    watch_.events = POLLIN;
    loop_.add(*this);
}

SoftDevice::~SoftDevice() {
    cm_.reset();
    NR_ASSERT(qp_count_ == 0 && keys_.size() == 0);
    loop_.remove(*this);
    if (watch_.linked()) loop_.unwatch(watch_);
}

std::uint64_t SoftDevice::random() noexcept {
    if (options_.seed != 0) return prng_.next();
    if (entropy_left_ == 0) {
        // 256 bytes are never cut short, and the first call in create() has shown that the kernel
        // has the call.
        const ssize_t n = ::getrandom(entropy_.data(), sizeof entropy_, 0);
        NR_ASSERT(n == ssize_t{sizeof entropy_});
        entropy_left_ = static_cast<std::uint32_t>(entropy_.size());
    }
    return entropy_[--entropy_left_];
}

Result<std::unique_ptr<ProtectionDomain>> SoftDevice::alloc_pd() {
    return std::unique_ptr<ProtectionDomain>(std::make_unique<SoftPd>(*this));
}

Result<std::unique_ptr<CompletionQueue>> SoftDevice::create_cq(std::uint32_t entries) {
    constexpr std::uint32_t kCqMax = 1u << 20;
    if (entries == 0 || entries > kCqMax)
        return Error{Errc::invalid_argument, 0, "create completion queue"};
    return std::unique_ptr<CompletionQueue>(std::make_unique<SoftCq>(*this, entries));
}

Result<std::unique_ptr<CmId>> SoftDevice::create_id(CmHandler& handler) {
    return cm_->create_id(handler);
}

Result<std::unique_ptr<Listener>> SoftDevice::listen(const SockAddr& local,
                                                     ListenHandler& handler) {
    return cm_->listen(local, handler);
}

Result<std::unique_ptr<SoftQp>> SoftDevice::create_qp(ProtectionDomain& pd, CompletionQueue& cq,
                                                      const QpOptions& options) {
    constexpr Error kBad{Errc::invalid_argument, 0, "create queue pair"};
    auto& soft_pd = static_cast<SoftPd&>(pd);
    auto& soft_cq = static_cast<SoftCq&>(cq);
    if (&soft_pd.device() != this || &soft_cq.device() != this) return kBad;
    if (options.send_wrs == 0 || options.send_wrs > kQueueMax || options.recv_wrs == 0 ||
        options.recv_wrs > kQueueMax)
        return kBad;
    if (options.send_sges == 0 || options.send_sges > kSendSgesMax || options.recv_sges == 0 ||
        options.recv_sges > kRecvSgesMax)
        return kBad;
    if (qp_count_ >= 0x8000) return Error{Errc::again, 0, "create queue pair"};
    std::unique_ptr<SoftQp> qp(new SoftQp(*this, soft_pd, soft_cq, draw_qpn(), options));
    SoftQp*& bucket = qps_[(qp->qpn() / options_.loop_count) % kQpBuckets];
    qp->hash_next = bucket;
    bucket = qp.get();
    ++qp_count_;
    return qp;
}

// The low byte of a QPN says which loop of the process owns it: the kernel steers by it.
std::uint32_t SoftDevice::draw_qpn() noexcept {
    for (;;) {
        const std::uint64_t r = random();
        const std::uint32_t steps =
            (256 - options_.loop_index + options_.loop_count - 1) / options_.loop_count;
        const auto low = static_cast<std::uint32_t>(options_.loop_index +
                                                    options_.loop_count * ((r >> 32) % steps));
        const std::uint32_t qpn = (static_cast<std::uint32_t>(r) & 0xFFFF00) | low;
        const auto retired = retired_qpns_.begin() + std::min(retired_count_, kRetiredQpns);
        // QPNs below 0x100 are left to management (0 and 1), 0xFFFFFF to multicast.
        if (qpn < 0x100 || qpn == kQpnMask || find_qp(qpn) != nullptr) continue;
        if (std::find(retired_qpns_.begin(), retired, qpn) == retired) return qpn;
    }
}

SoftQp* SoftDevice::find_qp(std::uint32_t qpn) const noexcept {
    SoftQp* qp = qps_[(qpn / options_.loop_count) % kQpBuckets];
    while (qp != nullptr && qp->qpn() != qpn)
        qp = qp->hash_next;
    return qp;
}

void SoftDevice::remove(SoftQp& qp) noexcept {
    if (static_cast<ListHook<WorkList>&>(qp).linked()) work_.erase(qp);
    if (static_cast<ListHook<ReadWaitList>&>(qp).linked()) read_waiters_.erase(qp);
    if (static_cast<ListHook<EventList>&>(qp).linked()) events_.erase(qp);
    SoftQp** at = &qps_[(qp.qpn() / options_.loop_count) % kQpBuckets];
    while (*at != &qp)
        at = &(*at)->hash_next;
    *at = qp.hash_next;
    --qp_count_;
    retired_qpns_[retired_count_ % kRetiredQpns] = qp.qpn();
    ++retired_count_;
}

void SoftDevice::send_mad(const Path& path, std::span<const std::byte, kMadSize> mad) noexcept {
    if (mads_used_ == kMadSlots) {
        wire_->flush();
        mads_used_ = 0;
    }
    auto& slot = mads_[mads_used_++];
    std::copy(mad.begin(), mad.end(), slot.begin());
    std::array<std::byte, kBthSize + kDethSize> header{};
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(Opcode::ud_send_only);
    bth.dest_qpn = kGsiQpn;
    bth.psn = mad_psn_++;
    store_bth(header.data(), bth);
    store_be32(&header[kBthSize], kGsiQkey);
    store_be32(&header[kBthSize + 4], kGsiQpn);
    const PayloadPiece piece{slot.data(), kMadSize};
    wire_->send(path, TxPacket{header, {&piece, 1}, 0});
    more_ = true;  // a flush is owed
}

void SoftDevice::on_packet(const RxPacket& packet) noexcept {
    if (packet.bytes.size() < kBthSize) {
        ++counters_.rx_dropped;
        return;
    }
    const Bth bth = load_bth(packet.bytes.data());
    if (bth.version != 0 || bth.pkey != kDefaultPkey) {
        ++counters_.rx_dropped;
        return;
    }
    if (bth.dest_qpn == kGsiQpn) {
        on_gsi_packet(packet, bth);
        return;
    }
    SoftQp* const qp = find_qp(bth.dest_qpn);
    if (qp == nullptr) {
        ++counters_.rx_dropped;
        return;
    }
    qp->on_packet(packet, bth);
}

void SoftDevice::on_gsi_packet(const RxPacket& packet, const Bth& bth) noexcept {
    constexpr std::uint32_t kHeader = kBthSize + kDethSize;
    if (bth.opcode != static_cast<std::uint8_t>(Opcode::ud_send_only) || bth.pad != 0 ||
        packet.bytes.size() != kHeader + kMadSize ||
        load_be32(&packet.bytes[kBthSize]) != kGsiQkey ||
        (load_be32(&packet.bytes[kBthSize + 4]) & kQpnMask) != kGsiQpn) {
        ++counters_.mads_dropped;
        return;
    }
    ++counters_.mads_received;
    cm_->on_mad(packet, packet.bytes.subspan(kHeader));
}

std::uint32_t SoftDevice::poll() noexcept {
    now_ns_ = loop_.now_ns();
    const std::uint32_t received = wire_->poll(*this);
    const bool told = deliver_events();
    const bool waiting = more_ || !work_.empty() || !events_.empty();
    return received + (told || waiting ? 1 : 0);
}

bool SoftDevice::deliver_events() noexcept {
    // Those that come meanwhile wait for the next turn.
    std::uint32_t count = events_.size();
    const bool any = count > 0;
    for (; count > 0 && !events_.empty(); --count)
        events_.pop_front().deliver_event();
    return any;
}

void SoftDevice::flush() noexcept {
    more_ = false;
    now_ns_ = loop_.now_ns();
    std::uint32_t passes = kFlushBudget / kQuantum;
    List<SoftQp, WorkList> waiting;
    while (!work_.empty() && passes > 0) {
        --passes;
        SoftQp& qp = work_.pop_front();
        const SoftQp::Left left = qp.transmit({kQuantum}, {kQuantum});
        if (left != SoftQp::Left::nothing)
            (left == SoftQp::Left::more ? work_ : waiting).push_back(qp);
    }
    work_.splice_back(waiting);
    wire_->flush();
    mads_used_ = 0;
}

bool SoftDevice::arm() noexcept {
    return !more_ && work_.empty() && events_.empty();
}

bool SoftDevice::receives_withheld() noexcept {
    return faults_ != nullptr && faults_->withhold_receive(now_ns_);
}

bool SoftDevice::kill_qp(std::uint64_t draw) noexcept {
    std::uint64_t connected = 0;
    for (SoftQp* qp : qps_) {
        for (; qp != nullptr; qp = qp->hash_next)
            connected += qp->connected();
    }
    if (connected == 0) return false;
    std::uint64_t left = draw % connected;
    for (SoftQp* qp : qps_) {
        for (; qp != nullptr; qp = qp->hash_next) {
            if (!qp->connected() || left-- > 0) continue;
            qp->fail(WcStatus::local_error, WcStatus::flushed);
            return true;
        }
    }
    return false;
}

void SoftDevice::schedule(SoftQp& qp) noexcept {
    if (!static_cast<ListHook<WorkList>&>(qp).linked()) work_.push_back(qp);
}

void SoftDevice::add_event(SoftQp& qp) noexcept {
    if (!static_cast<ListHook<EventList>&>(qp).linked()) events_.push_back(qp);
}

void SoftDevice::wait_to_read(SoftQp& qp) noexcept {
    if (!static_cast<ListHook<ReadWaitList>&>(qp).linked()) read_waiters_.push_back(qp);
}

void SoftDevice::release_read_bytes(std::uint32_t bytes) noexcept {
    NR_ASSERT(bytes <= read_bytes_);
    read_bytes_ -= bytes;
    while (!read_waiters_.empty())
        schedule(read_waiters_.pop_front());
}

}  // namespace nfsrdma::verbs::softroce
