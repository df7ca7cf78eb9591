#include <algorithm>

#include "base/assert.hpp"
#include "verbs/softroce/device.hpp"
#include "verbs/softroce/qp.hpp"

// The requester: from work requests to packets.
//
// Operation. A cursor walks over the send queue. A work request that is reached for the first time
// is started: it gets its PSNs, or is executed at once when it is local (REG_MR, LOCAL_INV), so
// that all behind it finds the key as it left it. Going back (a NAK, a timeout) moves the cursor to
// an earlier packet. SENDs and WRITEs are limited by a window of bytes that shrinks on loss; READs
// by their number and by the response bytes that our own receive buffer can take, for which a long
// one is split.
//
// Ownership. 1. unacked_psn <= cursor_psn <= sent_psn or the packets up to cursor_psn were sent;
// sent_psn <= next_psn. 2. Payload is lent to the wire from where it lies until the flush that ends
// this turn.
//
// Errors. A work request that is wrong by itself stops the requester, and fails when all before it
// have completed.
namespace nfsrdma::verbs::softroce {

namespace {
constexpr std::uint32_t kReadChunkMax = 1024 * 1024;
}  // namespace

bool SoftQp::transmit_requests(Budget& budget) noexcept {
    if (req_.rnr_until_ns != 0) {
        if (device_.now_ns() < req_.rnr_until_ns) return false;
        end_rnr_wait(device_.now_ns());
    }
    const std::uint64_t sent_before = req_.cursor_psn;
    bool more = false;
    while (SendWqe* const wqe = wqe_to_send()) {
        if (budget.exhausted()) {
            more = true;
            break;
        }
        const bool sent = wqe->op == SendOp::rdma_read ? send_read_request(*wqe, budget)
                                                       : send_data(*wqe, budget);
        if (!sent) break;
    }
    if (req_.cursor_psn != sent_before) note_sent();
    reap();
    return more;
}

// The time from the first packet under way counts; progress restarts it.
void SoftQp::note_sent() noexcept {
    if (req_.retry_deadline_ns != 0) return;
    const std::uint64_t now = device_.now_ns();
    if (req_.timeouts == 0) req_.progress_ns = now;
    req_.retry_deadline_ns = now + backed_off_ns();
    arm_timer();
}

SendWqe* SoftQp::wqe_to_send() noexcept {
    while (req_.cursor_wqe != sq_.tail) {
        SendWqe& wqe = sq_.at(req_.cursor_wqe);
        if (wqe.state == WqeState::posted && !start(wqe)) return nullptr;
        if (wqe.state == WqeState::failed) return nullptr;
        if (req_.cursor_psn < wqe.end_psn()) return &wqe;
        ++req_.cursor_wqe;
        req_.cursor_offset_packet = 0;
        req_.sge = {};
    }
    return nullptr;
}

bool SoftQp::start(SendWqe& wqe) noexcept {
    if (wqe.fenced && req_.reads_incomplete > 0) return false;
    wqe.first_psn = req_.next_psn;
    wqe.cost_base = req_.next_cost;
    if (wqe.status != WcStatus::success) {
        wqe.state = WqeState::failed;
        return true;
    }
    if (wqe.op == SendOp::reg_mr || wqe.op == SendOp::local_inv) {
        // What is still to be sent again from a key must find it.
        if (wqe.op == SendOp::local_inv && req_.fast_incomplete > 0) return false;
        run_local(wqe);
        return true;
    }
    wqe.state = WqeState::started;
    wqe.psn_count = packets_of(wqe.length, attr_.pmtu);
    req_.next_psn += wqe.psn_count;
    if (wqe.op == SendOp::rdma_read) {
        ++req_.reads_incomplete;
    } else {
        req_.next_cost += wqe.length + std::uint64_t{wqe.psn_count} * kPacketCost;
    }
    if (wqe.fast_sges) ++req_.fast_incomplete;
    return true;
}

void SoftQp::run_local(SendWqe& wqe) noexcept {
    const bool good = wqe.op == SendOp::reg_mr ? wqe.mr->bind(pd_, qpn_, wqe.rkey)
                                               : wqe.mr->invalidate(pd_, qpn_, wqe.rkey);
    wqe.state = good ? WqeState::done : WqeState::failed;
    if (!good) wqe.status = WcStatus::mr_error;
}

bool SoftQp::send_read_request(SendWqe& wqe, Budget& budget) noexcept {
    if (attr_.read_depth == 0) {
        wqe.state = WqeState::failed;
        wqe.status = WcStatus::local_error;
        return false;
    }
    if (req_.reads_tail - req_.reads_head >= attr_.read_depth) return false;
    const auto packet = static_cast<std::uint32_t>(req_.cursor_psn - wqe.first_psn);
    const std::uint32_t offset = packet * attr_.pmtu;
    const std::uint32_t chunk_max =
        std::max(std::min(device_.read_window() / 4, kReadChunkMax) / attr_.pmtu, 1u) * attr_.pmtu;
    // What is asked for again ends where it ended before.
    const std::uint32_t length = std::min(wqe.length - offset, chunk_max - offset % chunk_max);
    const std::uint32_t packets = packets_of(length, attr_.pmtu);
    const std::uint32_t cost = length + packets * kPacketCost;
    if (device_.read_bytes() > 0 && device_.read_bytes() + cost > device_.read_window()) {
        device_.wait_to_read(*this);
        return false;
    }
    std::array<std::byte, kBthSize + kRethSize> header{};
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(Opcode::read_request);
    bth.ack_request = true;
    bth.dest_qpn = attr_.dest_qpn;
    bth.psn = wire_psn(req_.cursor_psn);
    store_bth(header.data(), bth);
    store_reth(&header[kBthSize],
               {wqe.remote_addr + offset, static_cast<std::uint32_t>(wqe.rkey), length});
    device_.wire().send(attr_.path, TxPacket{header, {}, 0});
    if (req_.cursor_psn < req_.sent_psn) {
        ++device_.counters().retransmits;
    } else {
        time_from_now(req_.cursor_psn);
    }
    req_.cursor_psn += packets;
    req_.reads[req_.reads_tail++ % kReadDepthMax] = {req_.cursor_psn, cost};
    if (req_.retry_deadline_ns != 0) {  // the READ's time counts, not that of what went before it
        req_.retry_deadline_ns =
            std::max(req_.retry_deadline_ns, device_.now_ns() + ack_timeout_ns());
    }
    device_.add_read_bytes(cost);
    req_.sent_psn = std::max(req_.sent_psn, req_.cursor_psn);
    budget.take(kPacketCost);
    return true;
}

bool SoftQp::send_data(SendWqe& wqe, Budget& budget) noexcept {
    const auto packet = static_cast<std::uint32_t>(req_.cursor_psn - wqe.first_psn);
    const std::uint32_t size = std::min(wqe.length - packet * attr_.pmtu, attr_.pmtu);
    const std::uint32_t cost = size + kPacketCost;
    const std::uint64_t under_way = req_.cursor_cost - req_.acked_cost;
    if (under_way > 0 && under_way + cost > req_.window) return false;
    std::array<PayloadPiece, kPayloadPieces> pieces;
    std::uint32_t piece_count = 0;
    if (size > 0) {
        piece_count = gather(wqe, packet, size, pieces.data());
        if (piece_count == 0) {
            wqe.state = WqeState::failed;
            wqe.status = WcStatus::local_error;
            return false;
        }
    }
    std::array<std::byte, kHeaderMax> header;
    const std::uint32_t header_size = data_header(wqe, packet, size, header.data());
    const bool ack_asked = req_.ack_asked_cost == req_.cursor_cost + cost;
    device_.wire().send(attr_.path, TxPacket{std::span<const std::byte>(header.data(), header_size),
                                             {pieces.data(), piece_count},
                                             pad_of(size)});
    SoftCounters& counters = device_.counters();
    if (req_.cursor_psn < req_.sent_psn) {
        ++counters.retransmits;
    } else if (ack_asked) {
        time_from_now(req_.cursor_psn);
    }
    counters.tx_payload_bytes += size;
    ++req_.cursor_psn;
    req_.sent_psn = std::max(req_.sent_psn, req_.cursor_psn);
    req_.cursor_cost += cost;
    budget.take(cost);
    return true;
}

std::uint32_t SoftQp::data_header(const SendWqe& wqe, std::uint32_t packet, std::uint32_t size,
                                  std::byte* header) noexcept {
    const bool first = packet == 0;
    const bool last = packet + 1 == wqe.psn_count;
    const bool write = wqe.op == SendOp::rdma_write;
    const Opcode opcode = write ? write_opcode(first, last)
                                : send_opcode(first, last, wqe.op == SendOp::send_with_inv);
    // An answer is asked for at the end of each message, four times in a window, and before the
    // window closes.
    const std::uint64_t cost = req_.cursor_cost + size + kPacketCost;
    const bool closing = cost - req_.acked_cost + attr_.pmtu + kPacketCost > req_.window;
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(opcode);
    bth.pad = pad_of(size);
    bth.ack_request = last || closing || cost - req_.ack_asked_cost >= req_.window / 4;
    bth.dest_qpn = attr_.dest_qpn;
    bth.psn = wire_psn(req_.cursor_psn);
    if (bth.ack_request) req_.ack_asked_cost = cost;
    store_bth(header, bth);
    if (write && first) {
        store_reth(header + kBthSize,
                   {wqe.remote_addr, static_cast<std::uint32_t>(wqe.rkey), wqe.length});
        return kBthSize + kRethSize;
    }
    if (!write && last && wqe.op == SendOp::send_with_inv) {
        store_be32(header + kBthSize, static_cast<std::uint32_t>(wqe.rkey));
        return kBthSize + kIethSize;
    }
    return kBthSize;
}

// The pieces of memory that make one packet's payload; 0 when a key does not allow it. Packets
// mostly come in order, so the place where the last one ended is kept.
std::uint32_t SoftQp::gather(SendWqe& wqe, std::uint32_t packet, std::uint32_t size,
                             PayloadPiece* pieces) noexcept {
    const Sge* const sges = sq_.sges(req_.cursor_wqe);
    if (wqe.fast_sges) {
        const std::uint64_t addr = sges[0].addr + std::uint64_t{packet} * attr_.pmtu;
        const Region* region = device_.keys().find(static_cast<std::uint32_t>(sges[0].lkey));
        if (region == nullptr || !region->allows_local(pd_, qpn_, addr, size, false)) return 0;
        std::uint32_t count = 0;
        std::uint64_t offset = addr - region->bound().iova;
        for (std::uint32_t left = size; left > 0; ++count) {
            const auto run = region->bound().run_at(offset);
            const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(run.size(), left));
            pieces[count] = {run.data(), n};
            offset += n;
            left -= n;
        }
        return count;
    }
    if (req_.cursor_offset_packet != packet) {
        req_.sge = {};
        NR_ASSERT(advance(sges, wqe.sge_count, req_.sge, packet * attr_.pmtu));
    }
    std::uint32_t count = 0;
    for (std::uint32_t left = size; left > 0;) {
        const Sge& sge = sges[req_.sge.index];
        const std::uint32_t n = std::min(left, sge.length - req_.sge.offset);
        if (n > 0) pieces[count++] = {bytes_at(sge.addr + req_.sge.offset), n};
        left -= n;
        req_.sge.offset += n;
        if (req_.sge.offset == sge.length) req_.sge = {req_.sge.index + 1, 0};
    }
    req_.cursor_offset_packet = packet + 1;
    return count;
}

// The window cost of all that was started before `psn`, which lies in work request `index` or ends
// it.
std::uint64_t SoftQp::cost_at(std::uint32_t index, std::uint64_t psn) noexcept {
    if (index == sq_.tail) return req_.next_cost;
    const SendWqe& wqe = sq_.at(index);
    if (wqe.state == WqeState::posted) return req_.next_cost;
    if (wqe.op == SendOp::rdma_read || psn <= wqe.first_psn) return wqe.cost_base;
    const std::uint64_t packets = std::min<std::uint64_t>(psn - wqe.first_psn, wqe.psn_count);
    return wqe.cost_base + std::min<std::uint64_t>(packets * attr_.pmtu, wqe.length) +
           packets * kPacketCost;
}

// The next packet to be sent is `psn`, which was sent before.
void SoftQp::go_back(std::uint64_t psn) noexcept {
    req_.timed_psn = 0;  // which of the two was answered could not be told (Karn)
    req_.cursor_psn = psn;
    req_.cursor_wqe = sq_.head;
    while (req_.cursor_wqe != sq_.tail) {
        const SendWqe& wqe = sq_.at(req_.cursor_wqe);
        if (wqe.state == WqeState::posted || wqe.state == WqeState::failed || psn < wqe.end_psn())
            break;
        ++req_.cursor_wqe;
    }
    req_.cursor_offset_packet = 0;
    req_.sge = {};
    req_.cursor_cost = cost_at(req_.cursor_wqe, psn);
    req_.ack_asked_cost = req_.cursor_cost;
    drop_reads_from(psn);
    schedule();
}

// READ requests that reach beyond `psn` are asked for again.
void SoftQp::drop_reads_from(std::uint64_t psn) noexcept {
    while (req_.reads_tail != req_.reads_head) {
        const Requester::Read& read = req_.reads[(req_.reads_tail - 1) % kReadDepthMax];
        if (read.end_psn <= psn) break;
        --req_.reads_tail;
        release_read_bytes(read.bytes_left);
    }
}

}  // namespace nfsrdma::verbs::softroce
