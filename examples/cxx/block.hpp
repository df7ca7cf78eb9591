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
inline constexpr std::uint64_t kDiskBlocks = 4096;
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
    bool fits() const noexcept {
        return blocks > 0 && blocks <= kBlocksMax && first < kDiskBlocks &&
               blocks <= kDiskBlocks - first && buffer.length == blocks * kBlock;
    }
};

inline constexpr std::uint32_t kReplyBytes = 8;  // tag, errno

}  // namespace block
