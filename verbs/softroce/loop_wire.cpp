#include "verbs/softroce/loop_wire.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "verbs/softroce/icrc.hpp"
#include "verbs/softroce/opcode.hpp"

// Operation. A packet that is sent is copied into a frame of a fixed pool, sealed with its ICRC,
// and put on a heap by the time at which it arrives. A timer moves what is due to the receive ring
// of its host; poll() checks the ICRC and hands it on.
//
// Ownership. 1. A frame is in the free list, on the heap, or in one host's ring (frames_in_use()
// counts the latter two).
//
// Errors. There are none: what does not fit is lost and counted, as a socket would.
namespace nfsrdma::verbs::softroce {

namespace {
constexpr std::uint32_t kFrameMax = kHeaderMax + 4096 + 4 + kIcrcBytes;
constexpr std::uint32_t kFrameCharge = 256;  // of the receive buffer, beyond the frame's bytes
constexpr std::uint32_t kPollBatch = 64;
constexpr std::uint32_t kResv8aByte = 4;
}  // namespace

class LoopHost final : public Wire {
  public:
    LoopHost(LoopNet& net, const SockAddr& address) : net_(net), address_(address) {
        ring_.resize(net.options_.frames);
    }
    ~LoopHost() override { net_.forget(*this); }
    LoopHost(const LoopHost&) = delete;
    LoopHost& operator=(const LoopHost&) = delete;

    void send(const Path& path, const TxPacket& packet) noexcept override {
        ++counters_.tx_packets;
        ++counters_.tx_calls;
        net_.send(*this, path.peer, packet);
    }
    void flush() noexcept override {}
    std::uint32_t poll(RxSink& sink) noexcept override;
    Result<SockAddr> local_towards(const SockAddr& peer) noexcept override {
        if (peer.family() != address_.family()) return Error{Errc::system, ENETUNREACH, "route"};
        return address_;
    }
    std::uint32_t mtu() const noexcept override { return net_.options_.mtu; }
    std::uint32_t receive_window() const noexcept override { return net_.options_.receive_window; }
    std::uint16_t port() const noexcept override { return address_.port(); }
    int fd() const noexcept override { return -1; }

    const SockAddr& address() const noexcept { return address_; }
    bool take(std::uint32_t frame, std::uint32_t size) noexcept;
    std::uint32_t queued() const noexcept { return tail_ - head_; }
    // The times of the last arrivals at other hosts, by their index in the net; and when our way
    // out is free again.
    std::vector<std::uint64_t> last_arrival;
    std::uint64_t line_free_ns = 0;

  private:
    friend class LoopNet;
    LoopNet& net_;
    SockAddr address_;
    std::vector<std::uint32_t> ring_;
    std::uint32_t head_ = 0, tail_ = 0;
    std::uint32_t queued_bytes_ = 0;
};

bool LoopHost::take(std::uint32_t frame, std::uint32_t size) noexcept {
    const std::uint32_t charge = size + kFrameCharge;
    if (queued_bytes_ + charge > net_.options_.receive_window) return false;
    queued_bytes_ += charge;
    ring_[tail_++ % ring_.size()] = frame;
    return true;
}

std::uint32_t LoopHost::poll(RxSink& sink) noexcept {
    std::uint32_t done = 0;
    if (head_ != tail_) ++counters_.rx_calls;
    while (done < kPollBatch && head_ != tail_) {
        const std::uint32_t index = ring_[head_++ % ring_.size()];
        const LoopNet::Frame& frame = net_.frames_[index];
        queued_bytes_ -= frame.size + kFrameCharge;
        ++done;
        if (tamper_ != nullptr) tamper_->on_raw({frame.data, frame.size});
        ++counters_.rx_packets;
        counters_.rx_bytes += frame.size;
        const std::span<const std::byte> bytes(frame.data, frame.size - kIcrcBytes);
        if (bytes.size() < kBthSize) {
            ++counters_.rx_short;
        } else if (icrc_of({frame.from, frame.to, 0}, bytes) !=
                   load_icrc(frame.data + bytes.size())) {
            ++counters_.rx_bad_icrc;
        } else {
            sink.on_packet({frame.from, frame.to, bytes});
        }
        net_.free_frame(index);
    }
    return done;
}

LoopNet::LoopNet(Loop& loop, std::uint64_t seed, const LoopFaults& faults,
                 const LoopNetOptions& options)
    : loop_(loop),
      dice_(seed),
      faults_(faults),
      options_(options),
      memory_(std::make_unique_for_overwrite<std::byte[]>(std::size_t{options.frames} * kFrameMax)),
      frames_(options.frames),
      timer_([](Timer& timer) noexcept { static_cast<NetTimer&>(timer).net.deliver_due(); },
             *this) {
    free_.reserve(options.frames);
    due_.reserve(options.frames);
    for (std::uint32_t i = options.frames; i-- > 0;) {
        frames_[i].data = &memory_[std::size_t{i} * kFrameMax];
        free_.push_back(i);
    }
}

LoopNet::~LoopNet() {
    NR_ASSERT(std::all_of(hosts_.begin(), hosts_.end(), [](LoopHost* h) { return h == nullptr; }));
}

std::unique_ptr<Wire> LoopNet::add_host(const SockAddr& address) {
    NR_ASSERT(host_at(address) == nullptr);
    auto host = std::make_unique<LoopHost>(*this, address);
    hosts_.push_back(host.get());
    for (LoopHost* other : hosts_) {
        if (other != nullptr) other->last_arrival.resize(hosts_.size());
    }
    return host;
}

std::uint32_t LoopNet::frames_in_use() const noexcept {
    return options_.frames - static_cast<std::uint32_t>(free_.size());
}

LoopHost* LoopNet::host_at(const SockAddr& address) noexcept {
    for (LoopHost* host : hosts_) {
        if (host != nullptr && host->address() == address) return host;
    }
    return nullptr;
}

void LoopNet::forget(LoopHost& host) noexcept {
    while (host.head_ != host.tail_)
        free_frame(host.ring_[host.head_++ % host.ring_.size()]);
    for (Frame& frame : frames_) {
        if (frame.host == &host) frame.host = nullptr;
    }
    std::replace(hosts_.begin(), hosts_.end(), &host, static_cast<LoopHost*>(nullptr));
}

bool LoopNet::take_frame(std::uint32_t& index) noexcept {
    if (free_.empty()) {
        ++counters_.overflows;
        return false;
    }
    index = free_.back();
    free_.pop_back();
    return true;
}

void LoopNet::free_frame(std::uint32_t index) noexcept {
    frames_[index].host = nullptr;
    free_.push_back(index);
}

void LoopNet::seal(Frame& frame) noexcept {
    const std::span<const std::byte> bytes(frame.data, frame.size - kIcrcBytes);
    store_icrc(frame.data + bytes.size(), icrc_of({frame.from, frame.to, 0}, bytes));
}

void LoopNet::send(LoopHost& from, const SockAddr& to, const TxPacket& packet) noexcept {
    ++counters_.sent;
    LoopHost* const host = host_at(to);
    if (host == nullptr) {
        ++counters_.unreachable;
        return;
    }
    std::uint32_t index = 0;
    if (!take_frame(index)) return;
    Frame& frame = frames_[index];
    frame.from = from.address();
    frame.to = to;
    frame.host = host;
    std::size_t size = packet.header.size();
    NR_ASSERT(size <= kHeaderMax);
    std::memcpy(frame.data, packet.header.data(), size);
    for (const PayloadPiece& piece : packet.payload) {
        NR_ASSERT(size + piece.size <= kFrameMax - kIcrcBytes - 3);
        if (piece.size > 0) std::memcpy(frame.data + size, piece.data, piece.size);
        size += piece.size;
    }
    std::memset(frame.data + size, 0, packet.pad);
    size += packet.pad;
    frame.size = static_cast<std::uint32_t>(size) + kIcrcBytes;
    if (tap_ != nullptr) {
        LoopFrame seen{frame.from, frame.to, {frame.data, size}};
        if (!tap_->on_frame(seen)) {
            ++counters_.lost;
            return free_frame(index);
        }
    }
    seal(frame);
    store_icrc(frame.data + size, load_icrc(frame.data + size) ^ packet.icrc_xor);
    const PacketFate fate = dice_.draw(faults_);
    if (fate.lost) {
        ++counters_.lost;
        return free_frame(index);
    }
    const std::uint64_t now = loop_.now_ns();
    from.line_free_ns = std::max(from.line_free_ns, now);
    if (faults_.bytes_per_sec != 0)
        from.line_free_ns += frame.size * kNsPerSec / faults_.bytes_per_sec;
    const std::uint64_t at = from.line_free_ns + fate.delay_ns;
    if (fate.duplicated) {
        ++counters_.duplicated;
        copy_frame(index, at + fate.dup_delay_ns);
    }
    if (fate.corrupted) corrupt(frame, fate.corrupt_draw);
    if (fate.late) {
        ++counters_.reordered;
        return schedule(index, at + faults_.reorder_ns);
    }
    const auto which =
        static_cast<std::size_t>(std::find(hosts_.begin(), hosts_.end(), host) - hosts_.begin());
    std::uint64_t& last = from.last_arrival[which];
    last = std::max(last, at);
    schedule(index, last);
}

void LoopNet::inject(const SockAddr& from, const SockAddr& to,
                     std::span<const std::byte> bytes) noexcept {
    LoopHost* const host = host_at(to);
    std::uint32_t index = 0;
    if (host == nullptr || bytes.size() > kFrameMax - kIcrcBytes || !take_frame(index)) return;
    Frame& frame = frames_[index];
    frame.from = from;
    frame.to = to;
    frame.host = host;
    if (!bytes.empty()) std::memcpy(frame.data, bytes.data(), bytes.size());
    frame.size = static_cast<std::uint32_t>(bytes.size()) + kIcrcBytes;
    if (bytes.size() >= kBthSize) seal(frame);
    schedule(index, loop_.now_ns() + faults_.delay_ns_min);
}

void LoopNet::copy_frame(std::uint32_t index, std::uint64_t at_ns) noexcept {
    std::uint32_t copy = 0;
    if (!take_frame(copy)) return;
    Frame& to = frames_[copy];
    std::byte* const data = to.data;
    to = frames_[index];
    to.data = data;
    std::memcpy(data, frames_[index].data, to.size);
    schedule(copy, at_ns);
}

void LoopNet::corrupt(Frame& frame, std::uint64_t draw) noexcept {
    ++counters_.corrupted;
    std::uint64_t bit = draw % (std::uint64_t{frame.size} * 8);
    if (bit / 8 == kResv8aByte) bit += 8;  // the one byte that the ICRC does not cover
    frame.data[bit / 8] ^= std::byte{1} << (bit % 8);
}

bool LoopNet::later(const Due& a, const Due& b) noexcept {
    return a.at_ns != b.at_ns ? a.at_ns > b.at_ns : a.sequence > b.sequence;
}

void LoopNet::schedule(std::uint32_t index, std::uint64_t at_ns) noexcept {
    due_.push_back({at_ns, sequence_++, index});
    std::push_heap(due_.begin(), due_.end(), later);
    if (!timer_.armed() || due_.front().at_ns < timer_.deadline_ns())
        loop_.arm(timer_, due_.front().at_ns);
}

void LoopNet::deliver_due() noexcept {
    const std::uint64_t now = loop_.now_ns();
    while (!due_.empty() && due_.front().at_ns <= now) {
        std::pop_heap(due_.begin(), due_.end(), later);
        const std::uint32_t index = due_.back().frame;
        due_.pop_back();
        Frame& frame = frames_[index];
        if (frame.host == nullptr) {
            free_frame(index);
        } else if (!frame.host->take(index, frame.size)) {
            ++counters_.overflows;
            free_frame(index);
        } else {
            ++counters_.delivered;
        }
    }
    if (!due_.empty()) loop_.arm(timer_, due_.front().at_ns);
}

}  // namespace nfsrdma::verbs::softroce
