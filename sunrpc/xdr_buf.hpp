#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace nfsrdma::sunrpc {

// A view of one RPC message in up to three parts, in message order: head, payload (one DDP-eligible
// item's bytes, without its XDR pad, in one run of arena memory), tail. Owns nothing. When
// `payload` is not empty and its size is not a multiple of 4, the message has pad bytes after it
// that lie nowhere: the transport supplies or skips them.
struct XdrBuf {
    std::span<std::byte> head;
    std::span<std::byte> payload;
    std::span<std::byte> tail;
    std::uint32_t pad() const noexcept { return static_cast<std::uint32_t>(-payload.size() & 3u); }
    // Bytes of the whole, unreduced message.
    std::uint32_t length() const noexcept {
        return static_cast<std::uint32_t>(head.size() + payload.size() + pad() + tail.size());
    }
};

}  // namespace nfsrdma::sunrpc
