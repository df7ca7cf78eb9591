#pragma once
#include <cstdint>
#include <span>

#include <rpc/rpc.h>

#include "sunrpc/binding.hpp"
#include "sunrpc/xdr_buf.hpp"

// libtirpc XDR streams over XdrBuf. The bytes of one DDP-eligible item are left where they lie;
// everything else is encoded into, or decoded from, contiguous memory. No allocation of their own;
// items of variable length whose slot is preset are decoded into that buffer (the caller bounds it
// by the .x file's limit).
namespace nfsrdma::sunrpc {

// Encodes a message into `room`. Start it with whatever precedes the procedure's own part (RPC
// header), then set the item. Without one, the position can be set anywhere in the room, forward
// too, and XDR_INLINE gives the bytes that are there: as RPCSEC_GSS wants it.
class XdrEncodeStream {
  public:
    // The first `used` bytes of `room` are encoded already.
    explicit XdrEncodeStream(std::span<std::byte> room, std::uint32_t used = 0) noexcept;
    ~XdrEncodeStream() = default;
    XdrEncodeStream(const XdrEncodeStream&) = delete;
    XdrEncodeStream& operator=(const XdrEncodeStream&) = delete;
    XDR* xdr() noexcept { return &xdr_; }
    // The item of `object` (what xdr_args/xdr_res is called with) whose bytes are not to be copied;
    // at most one a message.
    void set_item(const DdpItem& item, const void* object) noexcept;
    // The room was too small, or an XDR routine broke the rules of its pad bytes.
    bool failed() const noexcept { return failed_ || pad_owed_ != 0; }
    // head | payload | tail; `tail` lies behind `head` in the room. payload is empty when the item
    // was absent or empty.
    XdrBuf message() const noexcept;

  private:
    friend struct XdrEncodeOps;
    XDR xdr_{};
    std::span<std::byte> room_;
    std::uint32_t used_ = 0;
    std::uint32_t written_ = 0;  // how far it ever came, up to the last change of the position
    std::uint32_t split_ = 0;    // bytes of head; used_ - split_ are tail
    std::span<std::byte> payload_;
    std::uint32_t pad_owed_ = 0;
    DdpItem item_;
    const void* object_ = nullptr;
    bool failed_ = false;
};

// Decodes a message: the bytes of head and tail, with those of `buf.payload` where the item stands.
// The item's slot decides what happens to its bytes:
//   - preset by the caller: they are copied there (and counted), whether they came as payload or
//     inline; the caller's buffer has the .x file's bound (for a string one byte more);
//   - null, with a payload: it points at the payload, no copy;
//   - null, with `inline_room`: inline bytes are copied there (and counted), its size is checked;
//   - null otherwise: it points into the message, no copy (`in_place`); a string is allocated by
//     libtirpc.
class XdrDecodeStream {
  public:
    // `payload_position`: offset of the payload in the unreduced message, or kByBinding for a
    // reply.
    static constexpr std::uint32_t kByBinding = ~0u;
    XdrDecodeStream(const XdrBuf& buf, std::uint32_t payload_position) noexcept;
    ~XdrDecodeStream() = default;
    XdrDecodeStream(const XdrDecodeStream&) = delete;
    XdrDecodeStream& operator=(const XdrDecodeStream&) = delete;
    XDR* xdr() noexcept { return &xdr_; }
    // Leaves out the first `bytes` of the message, which are in its head: the RPC header. Before
    // anything is decoded.
    void skip(std::uint32_t bytes) noexcept;
    // Before decoding `object`, whose slot is set as said above. For a string an `inline_room`
    // smaller than its bound + 1 bytes is not used.
    void set_item(const DdpItem& item, void* object, std::span<std::byte> inline_room) noexcept;
    // The same, but the item is always copied (and counted): to where its slot points, which has
    // room for `preset_bytes`, or to what libtirpc allocates when the slot is null. An item that is
    // longer than that fails the message. For a string a slot that is not null needs its bound + 1
    // bytes, and the .x file's bound. For an item that is found by `match` this is the only way.
    void set_item_copied(const DdpItem& item, void* object,
                         std::uint32_t preset_bytes = ~0u) noexcept;
    // After decoding: nulls the slot if it points at the payload, the room or the message, which
    // xdr_free must not see.
    void clear_item() noexcept;
    // A message that ended early or broke the rules. A payload that nothing took (its position is
    // no item's, or the item is empty or of another length) fails the message as well: ask after
    // decoding.
    bool failed() const noexcept {
        return failed_ || pad_owed_ != 0 || (!payload_taken_ && !buf_.payload.empty());
    }
    std::uint32_t remaining() const noexcept;  // inline bytes not yet decoded
    std::uint64_t payload_copied() const noexcept { return payload_copied_; }
    bool payload_taken() const noexcept { return payload_taken_; }
    bool in_place() const noexcept { return in_place_; }

  private:
    friend struct XdrDecodeOps;
    XDR xdr_{};
    XdrBuf buf_;
    std::uint32_t inline_used_ = 0;  // of head and tail together
    std::uint32_t position_ = 0;     // in the unreduced message
    std::uint32_t payload_position_ = 0;
    std::uint32_t pad_owed_ = 0;
    std::uint32_t pad_inline_ = 0;  // bytes of pad that the last inline item has
    DdpItem item_;
    void* object_ = nullptr;
    std::span<std::byte> inline_room_;
    char* preset_ = nullptr;   // what set_item put into the slot
    char* bounded_ = nullptr;  // what set_item_copied found there, with room for this many:
    std::uint32_t bounded_bytes_ = 0;
    bool slot_was_preset_ = false;  // by the caller
    bool payload_taken_ = false;
    bool in_place_ = false;
    bool failed_ = false;
    std::uint64_t payload_copied_ = 0;
};

}  // namespace nfsrdma::sunrpc
