// The decoding side of sunrpc/xdr_stream.hpp.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/bytes.hpp"
#include "sunrpc/xdr_stream.hpp"

namespace nfsrdma::sunrpc {
namespace {

void load_slot(const void* object, const DdpItem& item, char*& out) noexcept {
    std::memcpy(&out, static_cast<const char*>(object) + item.pointer_offset, sizeof out);
}
void store_slot(void* object, const DdpItem& item, char* value) noexcept {
    std::memcpy(static_cast<char*>(object) + item.pointer_offset, &value, sizeof value);
}

}  // namespace

// The operations that libtirpc calls. In DECODE xdr_bytes reads the length, allocates when the slot
// is null, and then calls getbytes with what the slot holds: a slot that is preset makes it
// allocate nothing, and tells us the item.
struct XdrDecodeOps {
    static XdrDecodeStream& self(XDR* xdr) noexcept {
        return *static_cast<XdrDecodeStream*>(xdr->x_private);
    }
    static bool_t fail(XdrDecodeStream& s) noexcept {
        s.failed_ = true;
        return FALSE;
    }
    static std::size_t inline_size(const XdrDecodeStream& s) noexcept {
        return s.buf_.head.size() + s.buf_.tail.size();
    }
    static bool payload_waits(const XdrDecodeStream& s) noexcept {
        return !s.payload_taken_ && !s.buf_.payload.empty();
    }
    // How many bytes lie in one piece from here on, up to the end of the part and the place of the
    // payload.
    static std::size_t contiguous(const XdrDecodeStream& s) noexcept {
        const std::size_t head = s.buf_.head.size();
        std::size_t size = (s.inline_used_ < head ? head : inline_size(s)) - s.inline_used_;
        if (payload_waits(s) && s.payload_position_ != XdrDecodeStream::kByBinding) {
            size = std::min<std::size_t>(
                size, s.payload_position_ - std::min(s.payload_position_, s.position_));
        }
        return size;
    }
    static std::byte* here(const XdrDecodeStream& s) noexcept {
        const std::size_t head = s.buf_.head.size();
        return s.inline_used_ < head ? s.buf_.head.data() + s.inline_used_
                                     : s.buf_.tail.data() + (s.inline_used_ - head);
    }
    static void advance(XdrDecodeStream& s, std::uint32_t size) noexcept {
        s.inline_used_ += size;
        s.position_ += size;
    }
    // Copies `size` inline bytes, which may lie on both sides of the end of the head.
    static bool copy_out(XdrDecodeStream& s, std::byte* to, std::uint32_t size) noexcept {
        while (size != 0) {
            const auto part =
                static_cast<std::uint32_t>(std::min<std::size_t>(size, contiguous(s)));
            if (part == 0) return false;
            std::memcpy(to, here(s), part);
            advance(s, part);
            to += part;
            size -= part;
        }
        return true;
    }

    static bool is_item(const XdrDecodeStream& s, const char* address,
                        std::uint32_t size) noexcept {
        if (!s.item_.exists() || s.object_ == nullptr) return false;
        if (s.item_.match != nullptr)
            return payload_waits(s) && s.item_.match(s.object_, address, size) != FALSE;
        char* slot = nullptr;
        load_slot(s.object_, s.item_, slot);
        return slot == address;
    }
    // RFC 8166 s3.4.5: the chunk may or may not have the pad bytes of its item.
    static bool_t take_payload(XdrDecodeStream& s, char* address, std::uint32_t size) noexcept {
        const std::size_t have = s.buf_.payload.size();
        if (s.payload_taken_ || (have != size && have != align_up(size, 4))) return fail(s);
        if (as_bytes(address) != s.buf_.payload.data()) {
            std::memcpy(address, s.buf_.payload.data(), size);
            s.payload_copied_ += size;
        }
        s.payload_taken_ = true;
        s.position_ += size;
        s.pad_owed_ = -size & 3u;
        return TRUE;
    }
    // The item's bytes are inline.
    static bool_t take_inline_item(XdrDecodeStream& s, char* address, std::uint32_t size) noexcept {
        if (!s.slot_was_preset_ && s.inline_room_.empty()) {
            if (contiguous(s) < size) return fail(s);
            store_slot(s.object_, s.item_, as_chars(here(s)));
            s.preset_ = as_chars(here(s));
            s.in_place_ = true;
            advance(s, size);
            return TRUE;
        }
        if (!s.slot_was_preset_ && size > s.inline_room_.size()) return fail(s);
        if (!copy_out(s, as_bytes(address), size)) return fail(s);
        s.payload_copied_ += size;
        return TRUE;
    }

    // xdr_opaque asks for an item's pad bytes right behind it, into memory that all threads share:
    // they are passed over, and not written there.
    static bool_t skip_pad(XdrDecodeStream& s, std::uint32_t size) noexcept {
        std::array<std::byte, 4> ignored{};
        return copy_out(s, ignored.data(), size) ? TRUE : fail(s);
    }

    static bool_t getlong(XDR* xdr, long* value) noexcept {
        XdrDecodeStream& s = self(xdr);
        std::array<std::byte, 4> word{};
        if (s.pad_owed_ != 0) return fail(s);
        s.pad_inline_ = 0;
        if (contiguous(s) >= 4) {
            *value = static_cast<long>(load_be32(here(s)));
            advance(s, 4);
            return TRUE;
        }
        if (!copy_out(s, word.data(), 4)) return fail(s);
        *value = static_cast<long>(load_be32(word.data()));
        return TRUE;
    }
    static bool_t putlong(XDR* xdr, const long* /*value*/) noexcept { return fail(self(xdr)); }
    static bool_t getbytes(XDR* xdr, char* address, u_int size) noexcept {
        XdrDecodeStream& s = self(xdr);
        if (s.pad_owed_ != 0) {
            if (size != s.pad_owed_) return fail(s);
            s.position_ += size;
            s.pad_owed_ = s.pad_inline_ = 0;
            return TRUE;
        }
        if (size == 0) return TRUE;
        if (size == std::exchange(s.pad_inline_, 0)) return skip_pad(s, size);
        s.pad_inline_ = -size & 3u;
        // Whichever item this is: another arm of a union may have its pointer at the same place.
        if (s.bounded_ != nullptr && address == s.bounded_ && size > s.bounded_bytes_)
            return fail(s);
        if (is_item(s, address, size)) {
            const bool here_by_position = s.payload_position_ == XdrDecodeStream::kByBinding ||
                                          s.payload_position_ == s.position_;
            if (payload_waits(s) && here_by_position) return take_payload(s, address, size);
            if (s.preset_ == address || s.slot_was_preset_)
                return take_inline_item(s, address, size);
        }
        return copy_out(s, as_bytes(address), size) ? TRUE : fail(s);
    }
    static bool_t putbytes(XDR* xdr, const char* /*address*/, u_int /*size*/) noexcept {
        return fail(self(xdr));
    }
    static u_int getpostn(XDR* xdr) noexcept { return self(xdr).position_; }
    static bool_t setpostn(XDR* xdr, u_int position) noexcept {
        XdrDecodeStream& s = self(xdr);
        if (s.payload_taken_ || s.pad_owed_ != 0 || position > inline_size(s)) return FALSE;
        s.inline_used_ = s.position_ = position;
        return TRUE;
    }
    static int32_t* inline_words(XDR* xdr, u_int size) noexcept {
        XdrDecodeStream& s = self(xdr);
        if ((size & 3u) != 0 || s.pad_owed_ != 0 || contiguous(s) < size) return nullptr;
        void* const at = here(s);
        // The pieces of a message are aligned by those who make them, but for what a hostile peer
        // split.
        if ((address_of(at) & 3u) != 0) return nullptr;
        advance(s, size);
        return static_cast<int32_t*>(at);
    }
    static void destroy(XDR* /*xdr*/) noexcept {}
    static bool_t control(XDR* /*xdr*/, int /*request*/, void* /*info*/) noexcept { return FALSE; }

    static constexpr XDR::xdr_ops kOps{getlong,  putlong,      getbytes, putbytes, getpostn,
                                       setpostn, inline_words, destroy,  control};
};

XdrDecodeStream::XdrDecodeStream(const XdrBuf& buf, std::uint32_t payload_position) noexcept
    : buf_(buf), payload_position_(payload_position) {
    xdr_.x_op = XDR_DECODE;
    xdr_.x_ops = &XdrDecodeOps::kOps;
    xdr_.x_private = this;
}

void XdrDecodeStream::skip(std::uint32_t bytes) noexcept {
    NR_ASSERT(bytes <= buf_.head.size());
    XdrDecodeOps::advance(*this, bytes);
}

void XdrDecodeStream::set_item(const DdpItem& item, void* object,
                               std::span<std::byte> inline_room) noexcept {
    item_ = item;
    object_ = object;
    inline_room_ = {};
    preset_ = bounded_ = nullptr;
    slot_was_preset_ = false;
    if (!item.exists() || item.match != nullptr || object == nullptr) return;
    char* slot = nullptr;
    load_slot(object, item, slot);
    if (slot != nullptr) {
        slot_was_preset_ = true;
        return;
    }
    const bool is_string = item.string_bound != 0;
    if (is_string && inline_room.size() < std::size_t{item.string_bound} + 1) return;
    inline_room_ = inline_room;
    if (!buf_.payload.empty() && !is_string) {
        preset_ = as_chars(buf_.payload.data());
    } else if (!inline_room.empty()) {
        preset_ = as_chars(inline_room.data());
    } else {
        // Any address will do that is no other item's: getbytes replaces it by that of the bytes.
        preset_ = as_chars(buf_.head.data());
    }
    store_slot(object, item, preset_);
}

void XdrDecodeStream::set_item_copied(const DdpItem& item, void* object,
                                      std::uint32_t preset_bytes) noexcept {
    item_ = item;
    object_ = object;
    inline_room_ = {};
    preset_ = bounded_ = nullptr;
    slot_was_preset_ = false;
    if (!item.exists() || item.match != nullptr || object == nullptr) return;
    load_slot(object, item, bounded_);
    bounded_bytes_ = preset_bytes;
    slot_was_preset_ = bounded_ != nullptr;
}

void XdrDecodeStream::clear_item() noexcept {
    if (preset_ == nullptr || !XdrDecodeOps::is_item(*this, preset_, 0)) return;
    store_slot(object_, item_, nullptr);
}

std::uint32_t XdrDecodeStream::remaining() const noexcept {
    return static_cast<std::uint32_t>(XdrDecodeOps::inline_size(*this) - inline_used_);
}

}  // namespace nfsrdma::sunrpc
