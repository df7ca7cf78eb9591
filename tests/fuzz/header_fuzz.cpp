// links: nr_rpcrdma
//
// Any bytes as a transport header: parsed within bounds; what parses is written again as the same
// bytes; what does not can be answered.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "rpcrdma/header.hpp"
#include "rpcrdma/pcl.hpp"

namespace nfsrdma::rpcrdma {
namespace {

constexpr PclLimits kLimits{1u << 30, 1u << 30};

std::span<const Segment> segments_of(const ParsedHeader& header, const Pcl& list) {
    return list.empty() ? std::span<const Segment>{}
                        : header.segments_of(header.chunks[list.first]);
}

void check_lists(const ParsedHeader& header, std::size_t size) {
    NR_ASSERT(header.size <= size && header.size >= kErrChunkSize);
    NR_ASSERT(header.chunk_count <= kMaxChunks && header.segment_count <= kMaxSegments);
    for (const Pcl& list : {header.call, header.read, header.write, header.reply}) {
        NR_ASSERT(list.first + list.count <= header.chunk_count);
        std::uint64_t total = 0;
        for (const Chunk& chunk : header.chunks_of(list)) {
            NR_ASSERT(chunk.count > 0 && chunk.first + chunk.count <= header.segment_count);
            std::uint64_t sum = 0;
            for (const Segment& segment : header.segments_of(chunk)) {
                NR_ASSERT(segment.length <= UINT64_MAX - segment.offset);
                sum += segment.length;
            }
            NR_ASSERT(sum == chunk.length && sum <= kLimits.max_chunk_bytes);
            total += sum;
        }
        NR_ASSERT(total <= kLimits.max_total_bytes);
    }
}

void check_same_bytes(const ParsedHeader& header, std::span<const std::byte> frame) {
    const bool call_first =
        header.call.empty() || header.read.empty() ||
        header.chunks[header.call.first].first < header.chunks[header.read.first].first;
    if (header.credits == 0 || header.read.count > 1 || header.write.count > 1 || !call_first)
        return;
    std::array<std::byte, 8192> out{};
    const CallChunks chunks{segments_of(header, header.read),
                            header.read.empty() ? 0 : header.chunks[header.read.first].position,
                            segments_of(header, header.call), segments_of(header, header.write),
                            segments_of(header, header.reply)};
    auto size = encode_call(out, {header.xid, header.credits, header.proc}, chunks);
    NR_ASSERT(size && *size == header.size);
    NR_ASSERT(std::equal(out.begin(), out.begin() + *size, frame.begin()));
}

void check_answer(const ParsedHeader& call) {
    std::array<std::byte, 8192> out{};
    std::array<std::uint32_t, kMaxChunks> lengths{};
    const auto writes = call.chunks_of(call.write);
    for (std::size_t i = 0; i < writes.size(); ++i)
        lengths[i] = writes[i].length / 2;
    const std::uint32_t reply = call.reply.empty() ? 0 : call.chunks[call.reply.first].length / 3;
    const Proc proc = reply > 0 ? Proc::nomsg : Proc::msg;
    auto size = encode_reply(out, {call.xid, 1, proc}, call,
                             std::span(lengths).first(writes.size()), reply);
    NR_ASSERT(size && *size == reply_header_size(call));
    ParsedHeader back;
    NR_ASSERT(parse_header(std::span(out).first(*size), kLimits, back) == HeaderFault::none);
    if (writes.size() > 1) return;
    auto checked =
        check_reply(back, {segments_of(call, call.write), segments_of(call, call.reply)});
    NR_ASSERT(checked && checked->reply == reply);
    NR_ASSERT(checked->write == (writes.empty() ? 0 : lengths[0]));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> frame = std::as_bytes(std::span(data, size));
    ParsedHeader header;
    const HeaderFault fault = parse_header(frame, kLimits, header);
    NR_ASSERT((fault == HeaderFault::none) == (header.fault_what[0] == '\0'));
    if (fault != HeaderFault::none) {
        NR_ASSERT(header.fault_at <= size);
        NR_ASSERT(header.read.empty() && header.call.empty() && header.write.empty() &&
                  header.reply.empty());
        return 0;
    }
    check_lists(header, size);
    const auto inline_len = static_cast<std::uint32_t>(size - header.size);
    const char* why = nullptr;
    NR_ASSERT((check_call(header, inline_len, &why) == HeaderFault::none) == (why[0] == '\0'));
    (void)check_reply(header, {});
    if (header.proc == Proc::error) return 0;
    check_same_bytes(header, frame);
    check_answer(header);
    return 0;
}

}  // namespace nfsrdma::rpcrdma
