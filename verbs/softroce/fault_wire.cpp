#include "verbs/softroce/fault_wire.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "verbs/softroce/cm.hpp"
#include "verbs/softroce/cm_mad.hpp"
#include "verbs/softroce/device.hpp"
#include "verbs/softroce/packet.hpp"

namespace nfsrdma::verbs::softroce {

namespace {
constexpr std::uint32_t kGsiHeader = kBthSize + kDethSize;
constexpr std::uint32_t kResv8aByte = 4;  // the ICRC does not cover it

bool to_gsi(std::span<const std::byte> header) noexcept {
    return load_be24(header.data() + 5) == kGsiQpn;
}
}  // namespace

FaultWire::FaultWire(Loop& loop, std::unique_ptr<Wire> below, const FaultSpec& spec,
                     FaultDice& dice, FaultCounters& counters)
    : loop_(loop),
      below_(std::move(below)),
      spec_(spec),
      dice_(dice),
      faults_(counters),
      memory_(std::make_unique_for_overwrite<std::byte[]>(std::size_t{kFrames} * kFrameMax)),
      frames_(kFrames) {
    free_.reserve(kFrames);
    lent_.reserve(kFrames);
    out_.due.reserve(kFrames);
    in_.due.reserve(kFrames);
    for (std::uint32_t i = kFrames; i-- > 0;) {
        frames_[i].data = &memory_[std::size_t{i} * kFrameMax];
        free_.push_back(i);
    }
    if (spec_.link.corrupt_ppm != 0) below_->set_tamper(this);
}

FaultWire::~FaultWire() {
    below_->set_tamper(nullptr);
}

std::uint32_t FaultWire::frames_in_use() const noexcept {
    return kFrames - static_cast<std::uint32_t>(free_.size());
}

bool FaultWire::later(const Due& a, const Due& b) noexcept {
    return a.at_ns != b.at_ns ? a.at_ns > b.at_ns : a.sequence > b.sequence;
}

// When a packet that is not late arrives: never before one that went ahead of it.
std::uint64_t FaultWire::in_order(Way& way, const PacketFate& fate, std::size_t size) noexcept {
    const std::uint64_t now = loop_.now_ns();
    std::uint64_t at = now;
    if (spec_.link.bytes_per_sec != 0) {
        way.line_free_ns = std::max(way.line_free_ns, now);
        way.line_free_ns += size * kNsPerSec / spec_.link.bytes_per_sec;
        at = way.line_free_ns;
    }
    at += fate.delay_ns;
    if (fate.late) return at + spec_.link.reorder_ns;
    way.last_ns = std::max(way.last_ns, at);
    return way.last_ns;
}

// A packet that is to wait and finds no frame never was on the line, whose time it leaves to
// others.
bool FaultWire::lost_for_room(const Way& way, const PacketFate& fate, std::size_t size) noexcept {
    const bool waits = spec_.link.bytes_per_sec != 0 || fate.delay_ns != 0 || fate.late ||
                       way.last_ns > loop_.now_ns();
    if (!waits || (!free_.empty() && size <= kFrameMax)) return false;
    ++faults_.overflows;
    return true;
}

void FaultWire::send(const Path& path, const TxPacket& packet) noexcept {
    if (to_gsi(packet.header) && packet.payload.size() == 1 &&
        !manage(path, {packet.payload[0].data, packet.payload[0].size}, true))
        return;
    const PacketFate fate = dice_.draw(spec_.link);
    if (fate.lost) {
        ++faults_.lost;
        return;
    }
    std::size_t size = packet.header.size();
    for (const PayloadPiece& piece : packet.payload)
        size += piece.size;
    if (lost_for_room(out_, fate, size)) return;
    const std::uint64_t at = in_order(out_, fate, size);
    if (fate.duplicated) {
        ++faults_.duplicated;
        hold_sent(path, packet, at + fate.dup_delay_ns);
    }
    TxPacket changed = packet;
    if (fate.corrupted) {
        ++faults_.corrupted;
        changed.icrc_xor ^= 1u << (fate.corrupt_draw % 32);
    }
    if (fate.late) ++faults_.reordered;
    if (at > loop_.now_ns()) {
        ++faults_.delayed;
        hold_sent(path, changed, at);
    } else {
        below_->send(path, changed);
    }
}

bool FaultWire::take_frame(std::uint32_t& index) noexcept {
    if (free_.empty()) {
        ++faults_.overflows;
        return false;
    }
    index = free_.back();
    free_.pop_back();
    return true;
}

void FaultWire::hold_sent(const Path& path, const TxPacket& packet, std::uint64_t at_ns) noexcept {
    std::uint32_t index = 0;
    if (!take_frame(index)) return;
    Frame& frame = frames_[index];
    frame.path = path;
    frame.pad = packet.pad;
    frame.icrc_xor = packet.icrc_xor;
    frame.header_size = static_cast<std::uint32_t>(packet.header.size());
    std::memcpy(frame.data, packet.header.data(), packet.header.size());
    std::size_t size = packet.header.size();
    for (const PayloadPiece& piece : packet.payload) {
        NR_ASSERT(size + piece.size <= kFrameMax);
        if (piece.size > 0) std::memcpy(frame.data + size, piece.data, piece.size);
        size += piece.size;
    }
    frame.size = static_cast<std::uint32_t>(size);
    hold(out_, index, at_ns);
}

void FaultWire::hold_received(const RxPacket& packet, std::uint64_t at_ns) noexcept {
    std::uint32_t index = 0;
    if (packet.bytes.size() > kFrameMax) {
        ++faults_.overflows;
        return;
    }
    if (!take_frame(index)) return;
    Frame& frame = frames_[index];
    frame.path = {packet.to, packet.from};
    frame.size = static_cast<std::uint32_t>(packet.bytes.size());
    std::memcpy(frame.data, packet.bytes.data(), packet.bytes.size());
    hold(in_, index, at_ns);
}

void FaultWire::hold(Way& way, std::uint32_t index, std::uint64_t at_ns) noexcept {
    way.due.push_back({at_ns, sequence_++, index});
    std::push_heap(way.due.begin(), way.due.end(), later);
    arm();
}

void FaultWire::arm() noexcept {
    for (const Way* way : {&out_, &in_}) {
        if (way->due.empty()) continue;
        const std::uint64_t at = way->due.front().at_ns;
        if (!timer_.armed() || at < timer_.deadline_ns()) loop_.arm(timer_, at);
    }
}

bool FaultWire::take_due(Way& way, std::uint64_t now, std::uint32_t& index) noexcept {
    if (way.due.empty() || way.due.front().at_ns > now) return false;
    std::pop_heap(way.due.begin(), way.due.end(), later);
    index = way.due.back().frame;
    way.due.pop_back();
    return true;
}

void FaultWire::flush() noexcept {
    const std::uint64_t now = loop_.now_ns();
    std::uint32_t index = 0;
    while (take_due(out_, now, index)) {
        const Frame& frame = frames_[index];
        const std::span<const std::byte> header(frame.data, frame.header_size);
        const PayloadPiece piece{frame.data + frame.header_size, frame.size - frame.header_size};
        const std::span<const PayloadPiece> payload(&piece, piece.size > 0 ? 1 : 0);
        below_->send(frame.path, TxPacket{header, payload, frame.pad, frame.icrc_xor});
        lent_.push_back(index);
    }
    below_->flush();
    free_.insert(free_.end(), lent_.begin(), lent_.end());
    lent_.clear();
    arm();
}

std::uint32_t FaultWire::poll(RxSink& sink) noexcept {
    sink_ = &sink;
    const std::uint32_t received = below_->poll(*this);
    const std::uint64_t now = loop_.now_ns();
    std::uint32_t index = 0, late = 0;
    for (; take_due(in_, now, index); ++late) {
        const Frame& frame = frames_[index];
        sink.on_packet({frame.path.peer, frame.path.local, {frame.data, frame.size}});
        free_.push_back(index);
    }
    sink_ = nullptr;
    arm();
    // What is due to be sent needs this turn's flush.
    const bool to_send = !out_.due.empty() && out_.due.front().at_ns <= now;
    return received + late + (to_send ? 1 : 0);
}

void FaultWire::on_raw(std::span<std::byte> bytes) noexcept {
    if (bytes.empty() || !dice_.chance_ppm(spec_.link.corrupt_ppm)) return;
    std::uint64_t bit = dice_.next() % (bytes.size() * 8);
    if (bit / 8 == kResv8aByte) bit = 0;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    ++faults_.corrupted;
}

void FaultWire::on_packet(const RxPacket& packet) noexcept {
    const bool managed = packet.bytes.size() == kGsiHeader + kMadBytes && to_gsi(packet.bytes);
    if (managed && !manage({packet.to, packet.from}, packet.bytes.subspan(kGsiHeader), false))
        return;
    PacketFate fate = dice_.draw(spec_.link);
    if (fate.lost) {
        ++faults_.lost;
        return;
    }
    if (lost_for_room(in_, fate, packet.bytes.size())) return;
    const std::uint64_t at = in_order(in_, fate, packet.bytes.size());
    if (fate.duplicated) {
        ++faults_.duplicated;
        hold_received(packet, at + fate.dup_delay_ns);
    }
    if (fate.late) ++faults_.reordered;
    if (at > loop_.now_ns()) {
        ++faults_.delayed;
        hold_received(packet, at);
    } else {
        sink_->on_packet(packet);
    }
}

// False: the MAD is not to go on.
bool FaultWire::manage(const Path& path, std::span<const std::byte> mad, bool sent) noexcept {
    if (dice_.chance_ppm(spec_.cm_drop_ppm)) {
        ++faults_.cm_dropped;
        return false;
    }
    if (spec_.cm_reject_ppm == 0) return true;
    auto header = decode_header(mad);
    if (!header || header->attr != CmAttr::req || !dice_.chance_ppm(spec_.cm_reject_ppm))
        return true;
    reject(path, mad, sent);
    return false;
}

// Answers a REQ as a peer would that has no resources left.
void FaultWire::reject(const Path& path, std::span<const std::byte> mad, bool sent) noexcept {
    auto header = decode_header(mad);
    auto req = decode_req(mad);
    if (!header || !req) return;
    ++faults_.cm_rejected;
    CmRej rej;
    rej.ids.remote = req->local_comm;
    rej.reason = static_cast<std::uint16_t>(RejReason::no_resources);
    const Mad answer = encode(rej, header->tid);
    std::array<std::byte, kGsiHeader + kMadBytes> bytes{};
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(Opcode::ud_send_only);
    bth.dest_qpn = kGsiQpn;
    store_bth(bytes.data(), bth);
    store_be32(&bytes[kBthSize], kGsiQkey);
    store_be32(&bytes[kBthSize + 4], kGsiQpn);
    std::copy(answer.begin(), answer.end(), bytes.begin() + kGsiHeader);
    const RxPacket packet{path.peer, path.local, bytes};
    if (sent) return hold_received(packet, loop_.now_ns());
    const PayloadPiece piece{&bytes[kGsiHeader], kMadBytes};
    hold_sent(path_back(packet), TxPacket{std::span(bytes).first(kGsiHeader), {&piece, 1}, 0},
              loop_.now_ns());
}

}  // namespace nfsrdma::verbs::softroce
