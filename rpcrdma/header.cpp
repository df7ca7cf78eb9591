#include "rpcrdma/header.hpp"

#include <algorithm>

#include "base/bytes.hpp"

// Operation. A size function and an encoder for each kind of header; the encoder writes what the
// size function says.
//
// Ownership. Nothing is kept.
//
// Errors. Errc::too_big when `out` is shorter than the header, or when more was written than a
// chunk can hold.
namespace nfsrdma::rpcrdma {

namespace {

class Writer {
  public:
    explicit Writer(std::span<std::byte> out) noexcept : out_(out) {}
    void word(std::uint32_t value) noexcept {
        store_be32(&out_[at_], value);
        at_ += kXdrUnit;
    }
    void segment(const Segment& segment) noexcept {
        word(segment.handle);
        word(segment.length);
        store_be64(&out_[at_], segment.offset);
        at_ += 2 * kXdrUnit;
    }
    // A grant or request of no credits would freeze the peer (RFC 8166 s3.3.1).
    void fixed(const FixedPart& fixed) noexcept {
        word(fixed.xid);
        word(kVersion);
        word(std::max(fixed.credits, 1u));
        word(static_cast<std::uint32_t>(fixed.proc));
    }
    void read_chunk(std::uint32_t position, std::span<const Segment> segments) noexcept {
        for (const Segment& piece : segments) {
            word(1);
            word(position);
            segment(piece);
        }
    }
    // With its count, without its present word.
    void write_chunk(std::span<const Segment> segments) noexcept {
        word(static_cast<std::uint32_t>(segments.size()));
        for (const Segment& piece : segments)
            segment(piece);
    }
    // The same, with the lengths that were written: `written` bytes fill the segments in order.
    void returned_chunk(std::span<const Segment> segments, std::uint32_t written) noexcept {
        word(static_cast<std::uint32_t>(segments.size()));
        for (Segment piece : segments) {
            piece.length = std::min(piece.length, written);
            written -= piece.length;
            segment(piece);
        }
    }
    std::uint32_t size() const noexcept { return at_; }

  private:
    std::span<std::byte> out_;
    std::uint32_t at_ = 0;
};

std::uint32_t size32(std::span<const Segment> segments) noexcept {
    return static_cast<std::uint32_t>(segments.size());
}

std::uint32_t write_chunk_size(std::uint32_t segments) noexcept {
    return kWriteChunkSize + segments * kSegmentSize;
}

std::uint32_t reply_chunk_size(std::uint32_t segments) noexcept {
    return kReplyChunkSize + segments * kSegmentSize;
}

const Error kNoRoom{Errc::too_big, 0, "the transport header does not fit"};

}  // namespace

std::uint32_t call_header_size(const CallChunks& chunks) noexcept {
    std::uint32_t size = kMinHeaderSize                             //
                         + size32(chunks.call) * kReadSegmentSize   // the Call itself
                         + size32(chunks.read) * kReadSegmentSize;  // an argument
    if (!chunks.write.empty()) size += write_chunk_size(size32(chunks.write));
    if (!chunks.reply.empty()) size += reply_chunk_size(size32(chunks.reply));
    return size;
}

Result<std::uint32_t> encode_call(std::span<std::byte> out, const FixedPart& fixed,
                                  const CallChunks& chunks) noexcept {
    const std::uint32_t size = call_header_size(chunks);
    if (size > out.size()) return kNoRoom;
    Writer writer(out);
    writer.fixed(fixed);
    writer.read_chunk(0, chunks.call);
    writer.read_chunk(chunks.read_position, chunks.read);
    writer.word(0);
    if (!chunks.write.empty()) {
        writer.word(1);
        writer.write_chunk(chunks.write);
    }
    writer.word(0);
    writer.word(chunks.reply.empty() ? 0 : 1);
    if (!chunks.reply.empty()) writer.write_chunk(chunks.reply);
    NR_ASSERT(writer.size() == size);
    return size;
}

std::uint32_t reply_header_size(const ParsedHeader& call) noexcept {
    std::uint32_t size = kMinHeaderSize;
    for (const Chunk& chunk : call.chunks_of(call.write))
        size += write_chunk_size(chunk.count);
    for (const Chunk& chunk : call.chunks_of(call.reply))
        size += reply_chunk_size(chunk.count);
    return size;
}

Result<std::uint32_t> encode_reply(std::span<std::byte> out, const FixedPart& fixed,
                                   const ParsedHeader& call,
                                   std::span<const std::uint32_t> write_lengths,
                                   std::uint32_t reply_length) noexcept {
    const std::uint32_t size = reply_header_size(call);
    if (size > out.size()) return kNoRoom;
    const std::span<const Chunk> writes = call.chunks_of(call.write);
    const std::span<const Chunk> reply = call.chunks_of(call.reply);
    if (write_lengths.size() > writes.size())
        return Error{Errc::too_big, 0, "more was written than chunks were offered"};
    for (std::size_t i = 0; i < write_lengths.size(); ++i) {
        if (write_lengths[i] > writes[i].length)
            return Error{Errc::too_big, 0, "more was written than a Write chunk holds"};
    }
    if (reply_length > (reply.empty() ? 0 : reply[0].length)) {
        return Error{Errc::too_big, 0, "more was written than the Reply chunk holds"};
    }
    Writer writer(out);
    writer.fixed(fixed);
    writer.word(0);
    for (std::size_t i = 0; i < writes.size(); ++i) {
        writer.word(1);
        writer.returned_chunk(call.segments_of(writes[i]),
                              i < write_lengths.size() ? write_lengths[i] : 0);
    }
    writer.word(0);
    writer.word(reply.empty() ? 0 : 1);
    if (!reply.empty()) writer.returned_chunk(call.segments_of(reply[0]), reply_length);
    NR_ASSERT(writer.size() == size);
    return size;
}

Result<std::uint32_t> encode_err_vers(std::span<std::byte> out, std::uint32_t xid,
                                      std::uint32_t credits) noexcept {
    if (out.size() < kErrVersSize) return kNoRoom;
    Writer writer(out);
    writer.fixed({.xid = xid, .credits = credits, .proc = Proc::error});
    writer.word(static_cast<std::uint32_t>(ErrorCode::vers));
    writer.word(kVersion);  // lowest and
    writer.word(kVersion);  // highest that we speak
    return writer.size();
}

Result<std::uint32_t> encode_err_chunk(std::span<std::byte> out, std::uint32_t xid,
                                       std::uint32_t credits) noexcept {
    if (out.size() < kErrChunkSize) return kNoRoom;
    Writer writer(out);
    writer.fixed({.xid = xid, .credits = credits, .proc = Proc::error});
    writer.word(static_cast<std::uint32_t>(ErrorCode::chunk));
    return writer.size();
}

}  // namespace nfsrdma::rpcrdma
