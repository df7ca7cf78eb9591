#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.hpp"
#include "pools/link.hpp"

// A block protocol: the initiator exposes its buffer and sends a Request that says where it lies;
// the target pulls or pushes the blocks by RDMA, and answers. 40 bytes and 8, big-endian.
namespace block {

inline constexpr std::uint32_t kBlock = 4096;    // bytes
inline constexpr std::uint32_t kBlocksMax = 64;  // of a request
inline constexpr std::uint32_t kDepth = 8;       // requests at a time, by their tags
inline constexpr std::uint32_t kBytesMax = kBlocksMax * kBlock;
inline constexpr std::uint64_t kDiskBlocks = 4096, kDiskBytes = kDiskBlocks * kBlock;
inline constexpr std::uint64_t kWrites =
    kDiskBlocks / kBlocksMax;  // of the disk; and as many READs
enum class Op : std::uint32_t { read = 1, write = 2 };

struct Request {
    static constexpr std::uint32_t kBytes = 40;
    std::uint32_t tag = 0;
    Op op = Op::read;
    std::uint64_t first = 0;  // block
    std::uint32_t blocks = 0;
    std::uint32_t may_invalidate = 0;  // the answer may free the key
    nfsrdma::pools::RemoteRun buffer{};

    void encode(std::span<std::byte> to) const noexcept {
        nfsrdma::store_be32(to.data(), tag);
        nfsrdma::store_be32(to.data() + 4, static_cast<std::uint32_t>(op));
        nfsrdma::store_be64(to.data() + 8, first);
        nfsrdma::store_be32(to.data() + 16, blocks);
        nfsrdma::store_be32(to.data() + 20, may_invalidate);
        nfsrdma::store_be64(to.data() + 24, buffer.offset);
        nfsrdma::store_be32(to.data() + 32, buffer.handle);
        nfsrdma::store_be32(to.data() + 36, buffer.length);
    }
    // What a stranger says is looked at before it is believed: no value is no request.
    static std::optional<Request> decode(std::span<const std::byte> from) noexcept {
        if (from.size() != kBytes) return {};
        Request r;
        r.tag = nfsrdma::load_be32(from.data());
        r.op = nfsrdma::load_be32(from.data() + 4) == 1 ? Op::read : Op::write;
        r.first = nfsrdma::load_be64(from.data() + 8);
        r.blocks = nfsrdma::load_be32(from.data() + 16);
        r.may_invalidate = nfsrdma::load_be32(from.data() + 20);
        r.buffer.offset = nfsrdma::load_be64(from.data() + 24);
        r.buffer.handle = nfsrdma::load_be32(from.data() + 32);
        r.buffer.length = nfsrdma::load_be32(from.data() + 36);
        if (r.tag >= kDepth) return {};
        return r;
    }
    // The n-th of those that write the whole disk and then read it.
    static Request nth(std::uint64_t n, std::uint32_t tag, bool may_invalidate,
                       const nfsrdma::pools::RemoteRun& buffer) noexcept {
        return {tag,        n < kWrites ? Op::write : Op::read, n % kWrites * kBlocksMax,
                kBlocksMax, may_invalidate ? 1u : 0u,           buffer};
    }
    bool fits() const noexcept {
        return blocks > 0 && blocks <= kBlocksMax && first < kDiskBlocks &&
               blocks <= kDiskBlocks - first && buffer.length == blocks * kBlock;
    }
};

struct Reply {
    static constexpr std::uint32_t kBytes = 8;
    std::uint32_t tag = 0, error = 0;  // errno

    void encode(std::span<std::byte> to) const noexcept {
        nfsrdma::store_be32(to.data(), tag);
        nfsrdma::store_be32(to.data() + 4, error);
    }
    static std::optional<Reply> decode(std::span<const std::byte> from) noexcept {
        if (from.size() != kBytes) return {};
        const Reply r{nfsrdma::load_be32(from.data()), nfsrdma::load_be32(from.data() + 4)};
        if (r.tag >= kDepth) return {};
        return r;
    }
};

// What an end needs of its connection: keys to expose, transfers to pull and push, memory to carve.
inline nfsrdma::pools::LinkOptions link_options(std::uint32_t keys, std::uint32_t transfers,
                                                std::size_t memory_bytes) {
    nfsrdma::pools::LinkOptions options;
    options.message_bytes = Request::kBytes;
    options.messages = 2 * kDepth;
    options.memory_bytes = memory_bytes;
    options.io.keys = keys;
    options.io.pages_per_key = kBytesMax / nfsrdma::pools::kPageSize + 1;
    options.io.transfers = transfers;
    return options;
}

// The pattern of a whole disk.
inline void fill(std::span<std::byte> disk) noexcept {
    for (std::size_t i = 0; i < disk.size(); ++i)
        disk[i] = static_cast<std::byte>(i * 31 + (i >> 12) * 7);
}

}  // namespace block
