#pragma once
#include <rpc/rpc.h>

#include <cstdint>
#include <span>

#include "sunrpc/binding.hpp"
#include "sunrpc/xdr_buf.hpp"

// libtirpc XDR streams over XdrBuf. The bytes of one DDP-eligible item are left where they lie; everything else is encoded
// into, or decoded from, contiguous memory. No allocation of their own; items of variable length whose slot is preset are
// decoded into that buffer (the caller bounds it by the .x file's limit).
namespace nfsrdma::sunrpc {

// Encodes a message into `room`. Start it with whatever precedes the procedure's own part (RPC header), then set the item.
class XdrEncodeStream {
  public:
    explicit XdrEncodeStream(std::span<std::byte> room) noexcept;
    XdrEncodeStream(const XdrEncodeStream&) = delete;
    XdrEncodeStream& operator=(const XdrEncodeStream&) = delete;
    XDR* xdr() noexcept { return &xdr_; }
    // The item of `object` (what xdr_args/xdr_res is called with) whose bytes are not to be copied; at most one a message.
    void set_item(const DdpItem& item, const void* object) noexcept;
    bool failed() const noexcept { return failed_; }
    // head | payload | tail; `tail` lies behind `head` in the room. payload is empty when the item was absent or empty.
    XdrBuf message() const noexcept;
    std::uint64_t payload_copied() const noexcept { return payload_copied_; }

  private:
    friend struct XdrEncodeOps;
    XDR xdr_{};
    std::span<std::byte> room_;
    std::uint32_t used_ = 0;
    std::uint32_t split_ = 0;       // bytes of head; used_ - split_ are tail
    std::span<std::byte> payload_;
    std::uint32_t pad_owed_ = 0;
    DdpItem item_;
    const void* object_ = nullptr;
    bool failed_ = false;
    std::uint64_t payload_copied_ = 0;
};

// Decodes a message. `buf.payload` is handed to the item without a copy: preset the item's pointer with
// payload_pointer() before decoding (or leave it null where the message has no payload). When the item's bytes are inline
// they are copied into `inline_room`, if set, and counted.
class XdrDecodeStream {
  public:
    // `payload_position`: offset of the payload in the unreduced message, or kByBinding for a reply.
    static constexpr std::uint32_t kByBinding = ~0u;
    XdrDecodeStream(const XdrBuf& buf, std::uint32_t payload_position) noexcept;
    XdrDecodeStream(const XdrDecodeStream&) = delete;
    XdrDecodeStream& operator=(const XdrDecodeStream&) = delete;
    XDR* xdr() noexcept { return &xdr_; }
    // `inline_room`: where an inline item goes (its pointer is preset with it), capacity checked; empty: xdr_bytes
    // decodes in place: the item points into the message.
    void set_item(const DdpItem& item, void* object, std::span<std::byte> inline_room) noexcept;
    bool failed() const noexcept { return failed_; }
    std::uint32_t remaining() const noexcept;
    std::uint64_t payload_copied() const noexcept { return payload_copied_; }

  private:
    friend struct XdrDecodeOps;
    XDR xdr_{};
    XdrBuf buf_;
    std::uint32_t position_ = 0;     // in the unreduced message
    std::uint32_t payload_position_ = 0;
    std::uint32_t pad_owed_ = 0;
    DdpItem item_;
    void* object_ = nullptr;
    std::span<std::byte> inline_room_;
    bool payload_taken_ = false;
    bool failed_ = false;
    std::uint64_t payload_copied_ = 0;
};

}  // namespace nfsrdma::sunrpc
