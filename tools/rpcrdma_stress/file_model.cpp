#include "tools/rpcrdma_stress/file_model.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <vector>

namespace nfsrdma::stress {
namespace {

constexpr std::size_t kShown = 16;  // bytes in a message

std::string hex(std::span<const std::byte> bytes) {
    std::string text;
    for (const std::byte b : bytes.first(std::min(bytes.size(), kShown))) {
        std::array<char, 4> out{};
        (void)std::snprintf(out.data(), out.size(), "%02x", std::to_integer<unsigned>(b));
        text += out.data();
    }
    return text;
}

bool all_are(std::span<const std::byte> bytes, std::byte value) {
    return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == value; });
}

std::string write_text(std::uint32_t generation) {
    return generation == 0 ? "zeros (nothing was written there)"
                           : "WRITE number " + std::to_string(generation) + " of this file";
}

}  // namespace

std::string file_text(std::uint32_t worker, std::uint32_t serial) {
    const bool stripe = serial >= kFileSerials;
    return (stripe ? "stripe " + std::to_string(serial - kFileSerials)
                   : "file " + std::to_string(serial)) +
           " of worker " + std::to_string(worker);
}

FileModel::FileModel(std::uint32_t worker, std::uint32_t serial) noexcept
    : worker_(worker), serial_(serial) {}

Stamp FileModel::stamp(std::uint32_t generation) const noexcept {
    return {worker_, serial_ % kSerials, generation, 0};
}

std::uint32_t FileModel::next_generation() noexcept {
    generation_ = generation_ + 1 == kGenerations ? 1 : generation_ + 1;
    return generation_;
}

// Afterwards a piece begins at `offset`.
void FileModel::split(std::uint64_t offset) {
    if (pieces_.empty()) pieces_[0] = Piece{};
    auto next = pieces_.lower_bound(offset);
    if (next != pieces_.end() && next->first == offset) return;
    pieces_.emplace_hint(next, offset, std::prev(next)->second);
}

void FileModel::wrote(std::uint64_t offset, std::uint64_t length, std::uint32_t generation) {
    if (length == 0) return;
    split(offset + length);
    split(offset);
    pieces_.erase(pieces_.lower_bound(offset), pieces_.lower_bound(offset + length));
    pieces_[offset] = Piece{generation, std::nullopt};
    size_ = std::max(size_, offset + length);
    size_max_ = std::max(size_max_, size_);
}

void FileModel::may_have_written(std::uint64_t offset, std::uint64_t length,
                                 std::uint32_t generation) {
    if (length == 0) return;
    split(offset + length);
    split(offset);
    for (auto at = pieces_.find(offset); at != pieces_.end() && at->first < offset + length; ++at)
        at->second.other = generation;
    size_max_ = std::max(size_max_, offset + length);
}

void FileModel::set_size(std::uint64_t size) {
    if (size < size_) {
        split(size);
        pieces_.erase(pieces_.lower_bound(size), pieces_.end());
        pieces_[size] = Piece{};
    }
    size_ = size_max_ = size;
}

std::optional<Difference> FileModel::compare(const Content& content, std::uint64_t offset,
                                             std::span<const std::byte> data) const {
    std::optional<Difference> difference;
    std::vector<std::byte> expected, other;
    const std::uint64_t end = offset + data.size();
    auto piece = pieces_.upper_bound(offset);
    for (std::uint64_t at = offset; at < end;) {
        const std::uint64_t piece_end = std::min(end, piece == pieces_.end() ? end : piece->first);
        const Piece what = piece == pieces_.begin() ? Piece{} : std::prev(piece)->second;
        const auto got = data.subspan(at - offset, piece_end - at);
        expected.resize(got.size());
        content.fill(expected, stamp(what.generation), at);
        if (std::memcmp(expected.data(), got.data(), got.size()) != 0) {
            other = expected;
            if (what.other) content.fill(other, stamp(*what.other), at);
            for (std::size_t i = 0; i < got.size(); ++i) {
                if (got[i] == expected[i] || got[i] == other[i]) continue;
                const std::size_t where = at - offset + i;
                if (!difference) difference = explain(content, offset, data, where, what);
                ++difference->bytes;
            }
        }
        at = piece_end;
        if (piece != pieces_.end()) ++piece;
    }
    return difference;
}

Difference FileModel::explain(const Content& content, std::uint64_t offset,
                              std::span<const std::byte> data, std::size_t at,
                              const Piece& piece) const {
    Difference difference;
    difference.offset = offset + at;
    difference.expected = write_text(piece.generation);
    if (piece.other) difference.expected += " or " + write_text(*piece.other) + " (cut off)";
    std::vector<std::byte> right(std::min(kShown, data.size() - at));
    content.fill(right, stamp(piece.generation), offset + at);
    difference.expected += ": " + hex(right);
    difference.got = describe_got(content, offset, data, at);
    // The same WRITE is right just before: a part of it is missing.
    if (at > 0 && piece.generation != 0) {
        const auto before = std::prev(pieces_.upper_bound(offset + at - 1));
        if (before->second.generation == piece.generation)
            difference.got += "; torn: what this WRITE wrote before is there";
    }
    return difference;
}

std::string FileModel::describe_got(const Content& content, std::uint64_t offset,
                                    std::span<const std::byte> data, std::size_t at) const {
    // Single bytes may be equal by chance: the word's beginning tells more.
    const std::size_t back = std::min<std::size_t>(at, (offset + at) % kWordBytes);
    const auto got = data.subspan(at);
    const std::string shown = ": " + hex(got);
    const auto near = got.first(std::min<std::size_t>(got.size(), 2 * kWordBytes));
    if (all_are(near, std::byte{0})) return "zeros (lost, or not yet written)" + shown;
    if (all_are(near, kFiller)) return "nothing: the buffer was never written" + shown;
    std::optional<Stamp> stamp;
    std::uint64_t belongs = offset + at;
    for (const std::size_t start : {at - back, at}) {
        // Bytes further on may belong elsewhere: what is near decides.
        const auto piece = data.subspan(start);
        stamp = content.recognize(piece.first(std::min<std::size_t>(piece.size(), 3 * kWordBytes)));
        belongs = offset + start;
        if (stamp) break;
    }
    if (!stamp) return "bytes that this run never wrote" + shown;
    const std::string write = "WRITE number " + std::to_string(stamp->generation);
    if (stamp->worker != worker_ || stamp->serial != serial_ % kSerials) {
        return "another file's: " + file_text(stamp->worker, stamp->serial) + ", " + write +
               ", offset " + std::to_string(stamp->offset) + shown;
    }
    if (stamp->offset != belongs) {
        return "misplaced: " + write + " of this file, what belongs at offset " +
               std::to_string(stamp->offset) + ", here at " + std::to_string(belongs) + shown;
    }
    return "stale: " + write + " of this file" + shown;
}

}  // namespace nfsrdma::stress
