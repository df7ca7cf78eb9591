#include "tools/rpcrdma_dump/dump.hpp"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <string>

#include "base/bytes.hpp"
#include "rpcrdma/pcl.hpp"
#include "rpcrdma/private_data.hpp"

namespace nfsrdma::rpcrdma_dump {

namespace {

using rpcrdma::Chunk;
using rpcrdma::ErrorCode;
using rpcrdma::HeaderFault;
using rpcrdma::ParsedHeader;
using rpcrdma::Pcl;
using rpcrdma::Proc;
using rpcrdma::Segment;

// Everything that can be said in 32 bits: a dump judges the form, not what a receiver would accept.
constexpr rpcrdma::PclLimits kNoLimits{UINT32_MAX, UINT32_MAX};
constexpr std::size_t kAnyLength = std::size_t{1} << 30;

std::string hex(std::uint64_t value, int digits) {
    std::string text = "0x";
    for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4)
        text += "0123456789abcdef"[(value >> shift) & 0xF];
    return text;
}

void print_segment(std::ostream& out, const Segment& segment) {
    out << "    handle " << hex(segment.handle, 8) << "  length " << segment.length << "  offset "
        << hex(segment.offset, 16) << "\n";
}

void print_list(std::ostream& out, const ParsedHeader& header, const Pcl& list, const char* name,
                bool positions) {
    if (list.empty()) {
        out << name << ": none\n";
        return;
    }
    for (const Chunk& chunk : header.chunks_of(list)) {
        out << name << ": " << chunk.length << " bytes in " << chunk.count
            << (chunk.count == 1 ? " segment" : " segments");
        if (positions) out << " at position " << chunk.position;
        out << "\n";
        for (const Segment& segment : header.segments_of(chunk))
            print_segment(out, segment);
    }
}

// What was received, with a mark at the byte that is wrong.
void print_bytes(std::ostream& out, std::span<const std::byte> bytes, std::uint32_t fault_at) {
    constexpr std::size_t kPerLine = 16, kLinesMax = 64;
    const std::size_t shown = std::min(bytes.size(), kPerLine * kLinesMax);
    for (std::size_t at = 0; at < shown || at == 0; at += kPerLine) {
        out << "  " << std::setw(5) << at << " ";
        for (std::size_t i = at; i < std::min(at + kPerLine, shown); ++i) {
            out << (i == fault_at ? '>' : ' ') << hex(load_u8(&bytes[i]), 2).substr(2);
        }
        out << "\n";
    }
    if (fault_at >= bytes.size()) out << "  (the fault is behind the last byte)\n";
    if (shown < bytes.size()) out << "  ... " << bytes.size() - shown << " more bytes\n";
}

void print_fixed(std::ostream& out, const ParsedHeader& header) {
    out << "xid: " << hex(header.xid, 8) << "\n"
        << "vers: " << header.vers << "\n"
        << "credits: " << header.credits << "\n"
        << "proc: " << static_cast<std::uint32_t>(header.proc) << " (" << to_string(header.proc)
        << ")\n";
}

bool print_fault(std::ostream& out, std::span<const std::byte> bytes, const ParsedHeader& header,
                 HeaderFault fault) {
    out << "malformed: " << header.fault_what << ", at byte " << header.fault_at << "\n"
        << "a receiver: " << (fault == HeaderFault::drop ? "drops it" : "answers ")
        << (fault == HeaderFault::drop ? "" : to_string(fault)) << "\n";
    print_bytes(out, bytes, header.fault_at);
    return false;
}

bool print_error(std::ostream& out, const ParsedHeader& header) {
    if (header.error == ErrorCode::vers) {
        out << "error: ERR_VERS, versions " << header.vers_low << " to " << header.vers_high
            << "\n";
    } else {
        out << "error: ERR_CHUNK\n";
    }
    return true;
}

// A Call or a Reply? Only what follows the header tells: the message type behind the XID. Of
// RDMA_NOMSG nothing follows: a position-zero chunk makes it a Call.
bool may_be_call(const ParsedHeader& header, std::span<const std::byte> message) {
    if (header.proc == Proc::nomsg) return !header.call.empty() || header.reply.empty();
    return message.size() < 8 || load_be32(&message[4]) == 0;
}

}  // namespace

bool dump_header(std::ostream& out, std::span<const std::byte> bytes) {
    ParsedHeader header;
    const HeaderFault fault = parse_header(bytes, kNoLimits, header);
    if (bytes.size() >= rpcrdma::kFixedSize) print_fixed(out, header);
    if (fault != HeaderFault::none) return print_fault(out, bytes, header, fault);
    if (header.proc == Proc::error) return print_error(out, header);
    print_list(out, header, header.call, "position-zero Read chunk", false);
    print_list(out, header, header.read, "Read chunk", true);
    print_list(out, header, header.write, "Write chunk", false);
    print_list(out, header, header.reply, "Reply chunk", false);
    out << "header: " << header.size << " bytes\n";
    const auto message = bytes.subspan(header.size);
    out << "inline: " << message.size() << " bytes\n";
    if (!may_be_call(header, message)) return true;
    const char* why = "";
    const auto inline_len = static_cast<std::uint32_t>(
        message.empty() ? kAnyLength : std::min(message.size(), kAnyLength));
    if (check_call(header, inline_len, &why) == HeaderFault::none) return true;
    out << "as a Call: " << why << "; a receiver answers ERR_CHUNK\n";
    return false;
}

bool dump_private_data(std::ostream& out, std::span<const std::byte> bytes) {
    const rpcrdma::PrivateData data = rpcrdma::decode_private_data(bytes);
    const auto own = rpcrdma::encode_private_data(data);
    // The defaults are what anything else means as well; only magic and version tell them apart.
    const bool ours = bytes.size() >= rpcrdma::kPrivateDataSize &&
                      std::equal(own.begin(), own.begin() + 5, bytes.begin());
    if (!ours)
        out << "malformed: not the private data of RFC 8797; a receiver takes the defaults\n";
    out << "remote invalidation: " << (data.remote_invalidation ? "yes" : "no") << "\n"
        << "send size: " << data.send_size << " bytes\n"
        << "receive size: " << data.recv_size << " bytes\n";
    return ours;
}

}  // namespace nfsrdma::rpcrdma_dump
