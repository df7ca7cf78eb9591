#include <algorithm>

#include "base/assert.hpp"
#include "verbs/softroce/cq.hpp"
#include "verbs/softroce/device.hpp"
#include "verbs/softroce/qp.hpp"

// The responder: what the peer asks of us.
//
// Operation. A request is checked in the order of the InfiniBand specification (volume 1, 9.7.4):
// PSN, opcode sequence, opcode, resources, length, key; then executed. Acknowledgements are owed,
// not sent: one answers for all that came since the last flush. READs are queued in PSN order and
// streamed from flush to flush; whatever else is owed waits behind them.
//
// Ownership. 1. Payload is copied once, from the packet to where it belongs. 2. Keys are looked up
// for every packet, received or sent: an invalidated key ends a transfer that is under way.
//
// Errors. What breaks the protocol is refused by one fatal NAK; the queue pair goes to error once
// the NAK is sent. Duplicates are acknowledged, or answered again, and never executed.
namespace nfsrdma::verbs::softroce {

void SoftQp::owe(Answer answer) noexcept {
    if (answer > resp_.answer) resp_.answer = answer;
    schedule();
}

void SoftQp::refuse(NakCode code, WcStatus recv_status) noexcept {
    if (code != NakCode::remote_operation) ++counters_.peer_faults;  // that one is ours
    resp_.closing = true;
    resp_.fatal_code = code;
    resp_.recv_status = recv_status;
    owe(Answer::fatal_nak);
}

void SoftQp::on_request(const Incoming& in) noexcept {
    if (resp_.closing) return;
    if (!first_packet_seen_) {
        first_packet_seen_ = true;
        if (owner_ != nullptr) {
            tell_first_packet_ = true;
            device_.add_event(*this);
        }
    }
    const std::uint64_t psn = extend_psn(resp_.expected_psn, in.bth.psn);
    if (psn < resp_.expected_psn) return on_duplicate(in, psn);
    if (psn > resp_.expected_psn) {
        resp_.ooo_psn = std::max(resp_.ooo_psn, psn);
        if (resp_.nak_sent) return;
        resp_.nak_sent = true;
        return owe(Answer::sequence_nak);
    }
    resp_.nak_sent = false;
    if (!in_sequence(in)) return refuse(NakCode::invalid_request);
    switch (in.info.kind) {
        case OpKind::send:
            take_send(in);
            break;
        case OpKind::write:
            take_write(in);
            break;
        case OpKind::read_request:
            take_read(in);
            break;
        case OpKind::read_response:
        case OpKind::ack:
        case OpKind::datagram:
        case OpKind::unknown:
            refuse(NakCode::invalid_request);
            break;
    }
}

// A message begins where none is under way, and goes on with its own kind.
bool SoftQp::in_sequence(const Incoming& in) const noexcept {
    if (in.info.first) return resp_.message == OpKind::unknown;
    return in.info.kind == resp_.message;
}

void SoftQp::on_duplicate(const Incoming& in, std::uint64_t psn) noexcept {
    ++device_.counters().duplicates;
    if (in.info.kind != OpKind::read_request) return owe(Answer::ack);
    const Reth reth = load_reth(in.extended);
    if (!in.payload.empty() || reth.length > kMessageMax) return;
    const std::uint64_t end = psn + packets_of(reth.length, attr_.pmtu);
    if (end > resp_.expected_psn) return;
    const Responder::Read again{psn, psn, end, reth.addr, reth.rkey, reth.length, resp_.msn, true};
    for (std::uint32_t i = 0; i < resp_.read_count; ++i) {
        Responder::Read& read = resp_.reads[i];
        if (psn < read.first_psn || psn >= read.end_psn) continue;
        // It is being answered: from there again if that packet has gone already.
        if (read.next_psn > psn && end == read.end_psn) read = again;
        return;
    }
    queue_read(again);
}

void SoftQp::take_send(const Incoming& in) noexcept {
    if (in.info.first) {
        if (rq_.empty() || device_.receives_withheld()) {
            resp_.nak_sent = true;  // what follows is silent until this one comes again
            return owe(Answer::rnr_nak);
        }
        resp_.recv_offset = 0;
        resp_.recv_sge = {};
    }
    const auto size = static_cast<std::uint32_t>(in.payload.size());
    const bool length_fits =
        in.info.last ? size <= attr_.pmtu && (in.info.first || size > 0) : size == attr_.pmtu;
    if (!length_fits) return refuse(NakCode::invalid_request);
    const RecvWqe& wqe = rq_.at(rq_.head);
    if (wqe.bad) return refuse(NakCode::remote_operation, WcStatus::local_error);
    if (size > wqe.capacity - resp_.recv_offset)
        return refuse(NakCode::invalid_request, WcStatus::local_error);
    Wc wc;
    if (in.info.invalidate) {
        const std::uint32_t key = load_be32(in.extended);
        Region* const region = device_.keys().find(key);
        const bool fast = region != nullptr && region->fast();
        if (!fast || !static_cast<SoftFastMr*>(region)->invalidate(pd_, qpn_, Rkey{key})) {
            ++device_.counters().access_refused;
            return refuse(NakCode::remote_access);
        }
        ++counters_.remote_invs;
        wc.with_invalidate = true;
        wc.invalidated = Rkey{key};
    }
    place_recv(in.payload);
    resp_.message = in.info.last ? OpKind::unknown : OpKind::send;
    ++resp_.expected_psn;
    if (in.info.last) {
        wc.byte_len = resp_.recv_offset;
        finish_recv(wc);
        ++resp_.msn;
    }
    if (in.bth.ack_request) owe(Answer::ack);
}

void SoftQp::place_recv(std::span<const std::byte> payload) noexcept {
    const Sge* const sges = rq_.sges(rq_.head);
    SoftCounters& counters = device_.counters();
    counters.rx_payload_bytes += payload.size();
    counters.rx_copied_bytes += payload.size();
    resp_.recv_offset += static_cast<std::uint32_t>(payload.size());
    SgeCursor& at = resp_.recv_sge;
    while (!payload.empty()) {
        const Sge& sge = sges[at.index];
        const std::size_t n = std::min<std::size_t>(payload.size(), sge.length - at.offset);
        if (n > 0) std::memcpy(bytes_at(sge.addr + at.offset), payload.data(), n);
        payload = payload.subspan(n);
        at.offset += static_cast<std::uint32_t>(n);
        if (at.offset == sge.length) at = {at.index + 1, 0};
    }
}

void SoftQp::finish_recv(const Wc& wc) noexcept {
    push_recv(rq_.at(rq_.head), wc);
    ++rq_.head;
}

AccessFault SoftQp::check_key(std::uint32_t key, Access right, std::uint64_t addr,
                              std::uint64_t length) noexcept {
    if (length == 0) return AccessFault::none;  // no memory is touched (9.7.4.1.5)
    const Region* region = device_.keys().find(key);
    const AccessFault fault = region == nullptr
                                  ? AccessFault::no_key
                                  : region->check_remote(pd_, qpn_, right, addr, length);
    if (fault != AccessFault::none) ++device_.counters().access_refused;
    return fault;
}

void SoftQp::take_write(const Incoming& in) noexcept {
    const auto size = static_cast<std::uint32_t>(in.payload.size());
    const bool length_fits =
        in.info.last ? size <= attr_.pmtu && (in.info.first || size > 0) : size == attr_.pmtu;
    if (!length_fits) return refuse(NakCode::invalid_request);
    Responder& r = resp_;
    std::uint64_t checked = size;
    if (in.info.first) {
        const Reth reth = load_reth(in.extended);
        if (reth.length > kMessageMax) return refuse(NakCode::invalid_request);
        r.write_addr = reth.addr;
        r.write_key = reth.rkey;
        r.write_left = reth.length;
        checked = reth.length;
    }
    if (in.info.last ? r.write_left != size : r.write_left <= size)
        return refuse(NakCode::invalid_request);
    if (check_key(r.write_key, Access::remote_write, r.write_addr, checked) != AccessFault::none)
        return refuse(NakCode::remote_access);
    if (size > 0) {
        device_.keys().find(r.write_key)->copy_in(r.write_addr, in.payload);
        device_.counters().rx_payload_bytes += size;
        device_.counters().rx_copied_bytes += size;
    }
    r.write_addr += size;
    r.write_left -= size;
    r.message = in.info.last ? OpKind::unknown : OpKind::write;
    ++r.expected_psn;
    if (in.info.last) ++r.msn;
    if (in.bth.ack_request) owe(Answer::ack);
}

void SoftQp::take_read(const Incoming& in) noexcept {
    const Reth reth = load_reth(in.extended);
    const auto fresh = static_cast<std::uint32_t>(
        std::count_if(resp_.reads.begin(), resp_.reads.begin() + resp_.read_count,
                      [](const Responder::Read& read) { return !read.again; }));
    if (fresh >= attr_.read_responses) return refuse(NakCode::invalid_request);
    if (resp_.read_count == resp_.reads.size()) return;  // as if lost: the peer asks again
    if (!in.payload.empty() || reth.length > kMessageMax) return refuse(NakCode::invalid_request);
    if (check_key(reth.rkey, Access::remote_read, reth.addr, reth.length) != AccessFault::none)
        return refuse(NakCode::remote_access);
    const std::uint64_t psn = resp_.expected_psn;
    resp_.expected_psn += packets_of(reth.length, attr_.pmtu);
    ++resp_.msn;
    queue_read({psn, psn, resp_.expected_psn, reth.addr, reth.rkey, reth.length, resp_.msn, false});
}

// Kept in PSN order, so that what is asked for again goes out before what was asked for later.
void SoftQp::queue_read(const Responder::Read& read) noexcept {
    if (resp_.read_count == resp_.reads.size())
        return;  // duplicates without end: the peer asks again
    std::uint32_t at = resp_.read_count;
    for (; at > 0 && resp_.reads[at - 1].first_psn > read.first_psn; --at)
        resp_.reads[at] = resp_.reads[at - 1];
    resp_.reads[at] = read;
    ++resp_.read_count;
    schedule();
}

bool SoftQp::transmit_answers(Budget& budget) noexcept {
    while (resp_.read_count > 0) {
        if (budget.exhausted()) return true;
        Responder::Read& read = resp_.reads[0];
        if (!send_read_response(read, budget)) {
            if (!read.again) {
                // Invalidated while it was being read: nothing behind it is answered any more.
                resp_.read_count = 0;
                resp_.expected_psn = read.next_psn;
                refuse(NakCode::remote_access);
                break;
            }
        } else if (read.next_psn != read.end_psn) {
            continue;
        }
        --resp_.read_count;
        std::copy_n(resp_.reads.begin() + 1, resp_.read_count, resp_.reads.begin());
    }
    if (resp_.answer != Answer::none) send_answer();
    return false;
}

bool SoftQp::send_read_response(Responder::Read& read, Budget& budget) noexcept {
    const std::uint32_t offset =
        static_cast<std::uint32_t>(read.next_psn - read.first_psn) * attr_.pmtu;
    const std::uint32_t size = std::min(read.length - offset, attr_.pmtu);
    const std::uint64_t addr = read.addr + offset;
    std::array<PayloadPiece, kPayloadPieces> pieces;
    std::uint32_t count = 0;
    if (size > 0) {
        if (check_key(read.key, Access::remote_read, addr, size) != AccessFault::none) return false;
        const Binding& bound = device_.keys().find(read.key)->bound();
        std::uint64_t at = addr - bound.iova;
        for (std::uint32_t left = size; left > 0; ++count) {
            const auto run = bound.run_at(at);
            const auto n = static_cast<std::uint32_t>(std::min<std::size_t>(run.size(), left));
            pieces[count] = {run.data(), n};
            at += n;
            left -= n;
        }
    }
    const bool first = read.next_psn == read.first_psn;
    const bool last = read.next_psn + 1 == read.end_psn;
    std::array<std::byte, kBthSize + kAethSize> header{};
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(read_response_opcode(first, last));
    bth.pad = pad_of(size);
    bth.dest_qpn = attr_.dest_qpn;
    bth.psn = wire_psn(read.next_psn);
    store_bth(header.data(), bth);
    std::uint32_t header_size = kBthSize;
    if (first || last) {
        store_aeth(&header[kBthSize], ack_syndrome(), read.msn);
        header_size += kAethSize;
    }
    device_.wire().send(attr_.path, TxPacket{std::span<const std::byte>(header.data(), header_size),
                                             {pieces.data(), count},
                                             bth.pad});
    device_.counters().tx_payload_bytes += size;
    ++read.next_psn;
    budget.take(size + kPacketCost);
    return true;
}

void SoftQp::send_answer() noexcept {
    Answer answer = std::exchange(resp_.answer, Answer::none);
    // The gap was closed by a packet that came late.
    if (answer == Answer::sequence_nak && resp_.expected_psn > resp_.ooo_psn) answer = Answer::ack;
    if (answer == Answer::rnr_nak && !resp_.nak_sent) answer = Answer::ack;
    SoftCounters& counters = device_.counters();
    std::uint64_t psn = resp_.expected_psn;
    std::uint8_t syndrome = ack_syndrome();
    switch (answer) {
        case Answer::none:
            return;
        case Answer::ack:
            --psn;
            break;
        case Answer::sequence_nak:
            syndrome = nak_syndrome(NakCode::sequence);
            ++counters.naks_sent;
            break;
        case Answer::rnr_nak:
            syndrome = rnr_syndrome(rnr_timer_code(device_.options().min_rnr_timer_us));
            ++counters.rnr_naks_sent;
            ++counters_.rnr_naks_sent;
            break;
        case Answer::fatal_nak:
            syndrome = nak_syndrome(resp_.fatal_code);
            ++counters.naks_sent;
            break;
    }
    std::array<std::byte, kBthSize + kAethSize> header{};
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(Opcode::acknowledge);
    bth.dest_qpn = attr_.dest_qpn;
    bth.psn = wire_psn(psn);
    store_bth(header.data(), bth);
    store_aeth(&header[kBthSize], syndrome, resp_.msn);
    device_.wire().send(attr_.path, TxPacket{header, {}, 0});
    if (answer == Answer::fatal_nak) fail(WcStatus::flushed, resp_.recv_status);
}

}  // namespace nfsrdma::verbs::softroce
