// links: nr_rpcrdma
//
// Bytes choose a set of chunks; it is encoded, parsed and compared; then one byte of the encoding
// is changed and it is parsed again.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "rpcrdma/header.hpp"
#include "rpcrdma/pcl.hpp"

namespace nfsrdma::rpcrdma {
namespace {

constexpr PclLimits kLimits{UINT32_MAX, UINT32_MAX};
constexpr std::uint32_t kSegmentsEach = 40;  // of each of four chunks: all fit into one header

class Source {
  public:
    explicit Source(std::span<const std::byte> bytes) : bytes_(bytes) {}
    std::uint32_t word() {
        std::array<std::byte, 4> next{};
        const std::size_t n = std::min(next.size(), bytes_.size());
        std::copy_n(bytes_.begin(), n, next.begin());
        bytes_ = bytes_.subspan(n);
        return load_be32(next.data());
    }
    std::span<const Segment> segments(std::array<Segment, kSegmentsEach>& out) {
        const std::uint32_t count = word() % (kSegmentsEach + 1);
        for (std::uint32_t i = 0; i < count; ++i) {
            out[i].handle = word();
            out[i].length = word() % (1u << 24);
            out[i].offset = std::uint64_t{word()} << (word() % 32);
        }
        return std::span(out).first(count);
    }

  private:
    std::span<const std::byte> bytes_;
};

void check_same(const ParsedHeader& header, const Pcl& list, std::span<const Segment> segments) {
    NR_ASSERT(list.count == (segments.empty() ? 0 : 1));
    if (list.empty()) return;
    const auto parsed = header.segments_of(header.chunks[list.first]);
    NR_ASSERT(std::equal(parsed.begin(), parsed.end(), segments.begin(), segments.end()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Source source(std::as_bytes(std::span(data, size)));
    std::array<std::array<Segment, kSegmentsEach>, 4> memory{};
    const std::uint32_t flip = source.word();
    CallChunks chunks;
    chunks.read_position = (source.word() / 4 + 1) * 4 % 0xFFFFFFF0u + 4;
    chunks.read = source.segments(memory[0]);
    chunks.call = source.segments(memory[1]);
    chunks.write = source.segments(memory[2]);
    chunks.reply = source.segments(memory[3]);
    const FixedPart fixed{source.word(), std::max(source.word(), 1u),
                          chunks.call.empty() ? Proc::msg : Proc::nomsg};
    std::array<std::byte, 8192> out{};
    auto encoded = encode_call(out, fixed, chunks);
    NR_ASSERT(encoded && *encoded == call_header_size(chunks));
    NR_ASSERT(!encode_call(std::span(out).first(*encoded - 1), fixed, chunks));
    const auto frame = std::span(out).first(*encoded);
    ParsedHeader header;
    NR_ASSERT(parse_header(frame, kLimits, header) == HeaderFault::none);
    NR_ASSERT(header.size == *encoded && header.xid == fixed.xid &&
              header.credits == fixed.credits);
    check_same(header, header.read, chunks.read);
    check_same(header, header.call, chunks.call);
    check_same(header, header.write, chunks.write);
    check_same(header, header.reply, chunks.reply);
    std::byte& changed = frame[(flip >> 8) % frame.size()];
    changed ^= static_cast<std::byte>(flip & 0xFF);
    if (parse_header(frame, kLimits, header) == HeaderFault::none) (void)check_call(header, 0);
    return 0;
}

}  // namespace nfsrdma::rpcrdma
