#include "rpcrdma/pcl.hpp"

#include <algorithm>

#include "base/bytes.hpp"

// Operation. parse_header turns bytes into values (syntax), check_call and check_reply judge the
// values (meaning). The work is bounded by the bytes that were received and by kMaxSegments.
//
// Ownership. Nothing points back into the frame.
//
// Errors. HeaderFault says how to answer; ParsedHeader::fault_at and fault_what say what was wrong.
// The peer's bytes never assert.
namespace nfsrdma::rpcrdma {

const char* to_string(HeaderFault fault) noexcept {
    switch (fault) {
        case HeaderFault::none:
            return "none";
        case HeaderFault::drop:
            return "drop";
        case HeaderFault::err_vers:
            return "ERR_VERS";
        case HeaderFault::err_chunk:
            return "ERR_CHUNK";
    }
    return "?";
}

const char* to_string(Proc proc) noexcept {
    switch (proc) {
        case Proc::msg:
            return "RDMA_MSG";
        case Proc::nomsg:
            return "RDMA_NOMSG";
        case Proc::msgp:
            return "RDMA_MSGP";
        case Proc::done:
            return "RDMA_DONE";
        case Proc::error:
            return "RDMA_ERROR";
    }
    return "?";
}

namespace {

// A cursor over the received bytes which stops for good at the first thing that is wrong.
class Reader {
  public:
    Reader(std::span<const std::byte> frame, ParsedHeader& out) noexcept
        : frame_(frame), out_(out) {}

    std::uint32_t at() const noexcept { return at_; }
    std::uint32_t left() const noexcept { return static_cast<std::uint32_t>(frame_.size()) - at_; }
    bool fail(std::uint32_t at, const char* what) noexcept {
        out_.fault_at = at;
        out_.fault_what = what;
        return false;
    }
    bool word(std::uint32_t& value) noexcept {
        if (left() < kXdrUnit) return fail(at_, "the header ends inside a list");
        value = load_be32(&frame_[at_]);
        at_ += kXdrUnit;
        return true;
    }
    // XDR optional-data: whether an item follows.
    bool present(bool& yes) noexcept {
        std::uint32_t value = 0;
        if (!word(value)) return false;
        if (value > 1) return fail(at_ - kXdrUnit, "a discriminator that is neither 0 nor 1");
        yes = value == 1;
        return true;
    }
    // Appends to out.segments.
    bool segment(std::uint32_t& length) noexcept {
        if (left() < kSegmentSize) return fail(at_, "the header ends inside a segment");
        if (out_.segment_count == kMaxSegments) return fail(at_, "too many segments");
        Segment& segment = out_.segments[out_.segment_count];
        segment.handle = load_be32(&frame_[at_]);
        segment.length = load_be32(&frame_[at_ + 4]);
        segment.offset = load_be64(&frame_[at_ + 8]);
        if (segment.length > UINT64_MAX - segment.offset)
            return fail(at_, "a segment beyond the end of its address space");
        length = segment.length;
        ++out_.segment_count;
        at_ += kSegmentSize;
        return true;
    }
    bool open_chunk(std::uint32_t position) noexcept {
        if (out_.chunk_count == kMaxChunks) return fail(at_, "too many chunks");
        out_.chunks[out_.chunk_count] = {position, 0,
                                         static_cast<std::uint16_t>(out_.segment_count), 0};
        ++out_.chunk_count;
        return true;
    }

  private:
    std::span<const std::byte> frame_;
    ParsedHeader& out_;
    std::uint32_t at_ = 0;
};

// Sums of one list, kept within the limits.
struct Totals {
    const PclLimits& limits;
    std::uint64_t list = 0;

    bool add(Reader& reader, Chunk& chunk, std::uint32_t length) noexcept {
        if (length > limits.max_chunk_bytes - chunk.length)
            return reader.fail(reader.at(), "a chunk above the limit");
        list += length;
        if (list > limits.max_total_bytes)
            return reader.fail(reader.at(), "a list above the limit");
        chunk.length += length;
        ++chunk.count;
        return true;
    }
};

Pcl list_since(const ParsedHeader& out, std::uint32_t first) noexcept {
    return {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(out.chunk_count - first)};
}

// Moves the position-zero chunk out of the middle of the Read list, so that each list is one run of
// chunks.
bool split_call_chunk(Reader& reader, ParsedHeader& out) noexcept {
    const auto begin = out.chunks.begin();
    const auto end = begin + out.chunk_count;
    const auto is_call = [](const Chunk& chunk) noexcept { return chunk.position == 0; };
    const auto call = std::find_if(begin, end, is_call);
    if (call == end) return true;
    if (std::find_if(call + 1, end, is_call) != end) {
        return reader.fail(reader.at(), "a position-zero chunk in pieces");
    }
    std::rotate(call, call + 1, end);
    out.call = {static_cast<std::uint16_t>(out.chunk_count - 1), 1};
    --out.read.count;
    return true;
}

bool parse_read_list(Reader& reader, const PclLimits& limits, ParsedHeader& out) noexcept {
    Totals totals{limits};
    bool more = false;
    if (!reader.present(more)) return false;
    for (Chunk* chunk = nullptr; more;) {
        std::uint32_t position = 0, length = 0;
        if (!reader.word(position)) return false;
        if (position % kXdrUnit != 0)
            return reader.fail(reader.at() - kXdrUnit, "a position that is not a multiple of 4");
        // Segments of the same position are one chunk (RFC 8166 s3.4.5).
        if (chunk == nullptr || chunk->position != position) {
            if (!reader.open_chunk(position)) return false;
            chunk = &out.chunks[out.chunk_count - 1];
        }
        if (!reader.segment(length) || !totals.add(reader, *chunk, length) || !reader.present(more))
            return false;
    }
    out.read = list_since(out, 0);
    return split_call_chunk(reader, out);
}

// The count and the segments of one Write or Reply chunk.
bool parse_write_chunk(Reader& reader, Totals& totals, ParsedHeader& out) noexcept {
    std::uint32_t count = 0;
    if (!reader.word(count)) return false;
    if (count == 0) return reader.fail(reader.at() - kXdrUnit, "a chunk without segments");
    if (count > reader.left() / kSegmentSize) {
        return reader.fail(reader.at() - kXdrUnit, "more segments than bytes were received for");
    }
    if (!reader.open_chunk(0)) return false;
    Chunk& chunk = out.chunks[out.chunk_count - 1];
    for (std::uint32_t i = 0; i < count; ++i) {
        std::uint32_t length = 0;
        if (!reader.segment(length) || !totals.add(reader, chunk, length)) return false;
    }
    return true;
}

bool parse_write_list(Reader& reader, const PclLimits& limits, ParsedHeader& out) noexcept {
    Totals totals{limits};
    const std::uint32_t first = out.chunk_count;
    bool more = false;
    if (!reader.present(more)) return false;
    while (more) {
        if (!parse_write_chunk(reader, totals, out) || !reader.present(more)) return false;
    }
    out.write = list_since(out, first);
    return true;
}

bool parse_reply_chunk(Reader& reader, const PclLimits& limits, ParsedHeader& out) noexcept {
    Totals totals{limits};
    const std::uint32_t first = out.chunk_count;
    bool present = false;
    if (!reader.present(present)) return false;
    if (present && !parse_write_chunk(reader, totals, out)) return false;
    out.reply = list_since(out, first);
    return true;
}

bool parse_error_body(Reader& reader, ParsedHeader& out) noexcept {
    std::uint32_t code = 0;
    if (!reader.word(code)) return false;
    out.error = static_cast<ErrorCode>(code);
    if (out.error == ErrorCode::vers)
        return reader.word(out.vers_low) && reader.word(out.vers_high);
    if (out.error == ErrorCode::chunk) return true;
    return reader.fail(reader.at() - kXdrUnit, "an unknown error code");
}

HeaderFault parse_body(Reader& reader, const PclLimits& limits, ParsedHeader& out) noexcept {
    switch (out.proc) {
        case Proc::msg:
        case Proc::nomsg:
            if (!parse_read_list(reader, limits, out) || !parse_write_list(reader, limits, out) ||
                !parse_reply_chunk(reader, limits, out)) {
                return HeaderFault::err_chunk;
            }
            return HeaderFault::none;
        case Proc::error:
            // An error is never answered by an error.
            return parse_error_body(reader, out) ? HeaderFault::none : HeaderFault::drop;
        case Proc::done:
            (void)reader.fail(kFixedSize - kXdrUnit, "RDMA_DONE, which nobody sends in version 1");
            return HeaderFault::drop;
        case Proc::msgp:
            (void)reader.fail(kFixedSize - kXdrUnit, "RDMA_MSGP, which RFC 8166 forbids");
            return HeaderFault::err_chunk;
    }
    (void)reader.fail(kFixedSize - kXdrUnit, "an unknown procedure");
    return HeaderFault::err_chunk;
}

// Only what counts is reset: the arrays keep what they held.
void reset(ParsedHeader& out) noexcept {
    out.xid = out.vers = out.credits = 0;
    out.proc = Proc::msg;
    out.call = out.read = out.write = out.reply = {};
    out.size = 0;
    out.error = ErrorCode::vers;
    out.vers_low = out.vers_high = 0;
    out.fault_at = 0;
    out.fault_what = "";
    out.chunk_count = out.segment_count = 0;
}

}  // namespace

HeaderFault parse_header(std::span<const std::byte> frame, const PclLimits& limits,
                         ParsedHeader& out) noexcept {
    reset(out);
    // No Send is as long: what is beyond cannot be header, and offsets stay 32 bits wide.
    Reader reader(frame.first(std::min<std::size_t>(frame.size(), UINT32_MAX)), out);
    if (frame.size() < kFixedSize) {
        (void)reader.fail(static_cast<std::uint32_t>(frame.size()), "shorter than the fixed part");
        return HeaderFault::drop;
    }
    std::uint32_t proc = 0;
    (void)(reader.word(out.xid) && reader.word(out.vers) && reader.word(out.credits) &&
           reader.word(proc));
    out.proc = static_cast<Proc>(proc);
    if (out.vers != kVersion) {
        (void)reader.fail(kXdrUnit, "another version than 1");
        return HeaderFault::err_vers;
    }
    const HeaderFault fault = parse_body(reader, limits, out);
    if (fault == HeaderFault::none) {
        out.size = reader.at();
    } else {
        out.call = out.read = out.write = out.reply = {};
    }
    return fault;
}

namespace {

bool overlap(const Segment& a, const Segment& b) noexcept {
    if (a.handle != b.handle || a.length == 0 || b.length == 0) return false;
    return a.offset < b.offset + b.length && b.offset < a.offset + a.length;
}

// Each piece of memory that we are to write is named once. Quadratic, but of at most kMaxSegments;
// one or two are usual.
bool writable_overlap(const ParsedHeader& header) noexcept {
    const Pcl& list = header.write.empty() ? header.reply : header.write;
    if (list.empty()) return false;
    const std::span<const Segment> segments = std::span(header.segments)
                                                  .first(header.segment_count)
                                                  .subspan(header.chunks[list.first].first);
    for (std::size_t i = 1; i < segments.size(); ++i) {
        for (std::size_t k = 0; k < i; ++k) {
            if (overlap(segments[i], segments[k])) return true;
        }
    }
    return false;
}

}  // namespace

// Read chunks are cut out of the Call: between two of them, and before the first, lie bytes of the
// rest, of which there are `base`. A chunk is as long as its XDR item with or without the pad (RFC
// 8166 s3.4.5.2).
HeaderFault check_call(const ParsedHeader& header, std::uint32_t inline_len,
                       const char** why) noexcept {
    const char* ignored = nullptr;
    const char*& reason = why == nullptr ? ignored : *why;
    const auto refuse = [&](const char* what) noexcept {
        reason = what;
        return HeaderFault::err_chunk;
    };
    reason = "";
    if (header.proc != Proc::msg && header.proc != Proc::nomsg) return refuse("not a Call");
    std::uint64_t base = inline_len;
    if (header.proc == Proc::nomsg) {
        if (header.call.empty()) return refuse("RDMA_NOMSG without a position-zero chunk");
        base = header.chunks[header.call.first].length;
        if (base == 0) return refuse("an empty position-zero chunk");
    } else if (!header.call.empty()) {
        return refuse("RDMA_MSG with a position-zero chunk");
    }
    std::uint64_t end = 0;   // of the last chunk, in the unreduced message
    std::uint64_t used = 0;  // bytes of the rest before it
    for (const Chunk& chunk : header.chunks_of(header.read)) {
        if (chunk.position < end)
            return refuse("Read positions that do not ascend, or chunks that overlap");
        used += chunk.position - end;
        if (used > base) return refuse("a Read position beyond the end of the Call");
        end = std::uint64_t{chunk.position} + align_up(std::uint64_t{chunk.length}, kXdrUnit);
        if (end + (base - used) > UINT32_MAX) return refuse("a Call longer than 4 GiB");
    }
    if (writable_overlap(header)) return refuse("Write or Reply segments that overlap");
    return HeaderFault::none;
}

namespace {

// The bytes that the peer says it wrote into `offered`: in order, a segment only when the one
// before it is full.
Result<std::uint32_t> returned_length(std::span<const Segment> returned,
                                      std::span<const Segment> offered) noexcept {
    if (returned.size() != offered.size())
        return Error{Errc::bad_message, 0, "a chunk of another shape than offered"};
    std::uint64_t total = 0;
    bool full = true;
    for (std::size_t i = 0; i < returned.size(); ++i) {
        if (returned[i].handle != offered[i].handle || returned[i].offset != offered[i].offset) {
            return Error{Errc::bad_message, 0, "another segment than offered"};
        }
        if (returned[i].length > offered[i].length)
            return Error{Errc::bad_message, 0, "more written than offered"};
        if (returned[i].length > 0 && !full)
            return Error{Errc::bad_message, 0, "a gap in a written chunk"};
        full = returned[i].length == offered[i].length;
        total += returned[i].length;
    }
    if (total > UINT32_MAX) return Error{Errc::bad_message, 0, "more than 4 GiB written"};
    return static_cast<std::uint32_t>(total);
}

}  // namespace

Result<ReturnedLengths> check_reply(const ParsedHeader& header,
                                    const OfferedChunks& offered) noexcept {
    if (header.proc != Proc::msg && header.proc != Proc::nomsg)
        return Error{Errc::bad_message, 0, "not a Reply"};
    if (!header.read.empty() || !header.call.empty())
        return Error{Errc::bad_message, 0, "a Reply with a Read list"};
    ReturnedLengths lengths;
    if (header.write.count != (offered.write.empty() ? 0 : 1)) {
        return Error{Errc::bad_message, 0, "another Write list than offered"};
    }
    if (!header.write.empty()) {
        NR_TRY_ASSIGN(
            lengths.write,
            returned_length(header.segments_of(header.chunks[header.write.first]), offered.write));
    }
    if (!header.reply.empty()) {
        NR_TRY_ASSIGN(
            lengths.reply,
            returned_length(header.segments_of(header.chunks[header.reply.first]), offered.reply));
    }
    if ((header.proc == Proc::nomsg) != (lengths.reply > 0)) {
        return Error{Errc::bad_message, 0,
                     "a Reply chunk where it cannot be, or none where it must"};
    }
    return lengths;
}

}  // namespace nfsrdma::rpcrdma
