// The encoding side of sunrpc/xdr_stream.hpp.
#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "sunrpc/xdr_stream.hpp"

namespace nfsrdma::sunrpc {

// The operations that libtirpc calls. xdr_opaque, xdr_bytes and xdr_string hand the caller's own
// pointer to putbytes and then, in a second putbytes, the pad: what makes a match by pointer
// possible, and `pad_owed_` exact.
struct XdrEncodeOps {
    static XdrEncodeStream& self(XDR* xdr) noexcept {
        return *static_cast<XdrEncodeStream*>(xdr->x_private);
    }
    static bool_t fail(XdrEncodeStream& s) noexcept {
        s.failed_ = true;
        return FALSE;
    }
    // `size` bytes at the end of the room; nullptr when they are not to be had.
    static std::byte* take(XdrEncodeStream& s, std::uint32_t size) noexcept {
        if (s.pad_owed_ != 0 || s.room_.size() - s.used_ < size) {
            s.failed_ = true;
            return nullptr;
        }
        std::byte* const at = s.room_.data() + s.used_;
        s.used_ += size;
        return at;
    }
    static bool is_item(const XdrEncodeStream& s, const char* address,
                        std::uint32_t size) noexcept {
        if (!s.item_.exists() || s.object_ == nullptr || !s.payload_.empty()) return false;
        if (size < s.item_.min) return false;
        if (s.item_.match != nullptr) return s.item_.match(s.object_, address, size) != FALSE;
        const char* slot = nullptr;
        std::memcpy(&slot, static_cast<const char*>(s.object_) + s.item_.pointer_offset,
                    sizeof slot);
        return slot == address;
    }

    static bool_t getlong(XDR* xdr, long* /*value*/) noexcept { return fail(self(xdr)); }
    static bool_t putlong(XDR* xdr, const long* value) noexcept {
        std::byte* const at = take(self(xdr), 4);
        if (at == nullptr) return FALSE;
        store_be32(at, static_cast<std::uint32_t>(*value));
        return TRUE;
    }
    static bool_t getbytes(XDR* xdr, char* /*address*/, u_int /*size*/) noexcept {
        return fail(self(xdr));
    }
    static bool_t putbytes(XDR* xdr, const char* address, u_int size) noexcept {
        XdrEncodeStream& s = self(xdr);
        if (s.pad_owed_ != 0) {
            if (size != s.pad_owed_) return fail(s);
            s.pad_owed_ = 0;  // lies nowhere: see XdrBuf
            return TRUE;
        }
        if (size == 0) return TRUE;
        if (is_item(s, address, size)) {
            // XdrBuf is a view that is read here, though its type could write.
            s.payload_ = {bytes_at(address_of(address)), size};
            s.split_ = s.used_;
            s.pad_owed_ = -size & 3u;
            return TRUE;
        }
        std::byte* const at = take(s, size);
        if (at == nullptr) return FALSE;
        std::memcpy(at, address, size);
        return TRUE;
    }
    static u_int getpostn(XDR* xdr) noexcept {
        const XdrEncodeStream& s = self(xdr);
        return s.used_ + static_cast<u_int>(align_up(s.payload_.size(), 4)) - s.pad_owed_;
    }
    // Not across an item that was left where it lies. RPCSEC_GSS leaves room for what it computes
    // of the bytes behind it, and comes back: what is skipped and never written must not be what
    // the room held before, which the peer has no right to see.
    static bool_t setpostn(XDR* xdr, u_int position) noexcept {
        XdrEncodeStream& s = self(xdr);
        if (!s.payload_.empty() || position > s.room_.size()) return FALSE;
        s.written_ = std::max(s.written_, s.used_);
        if (position > s.written_) {
            std::memset(s.room_.data() + s.written_, 0, position - s.written_);
            s.written_ = position;
        }
        s.used_ = position;
        return TRUE;
    }
    static int32_t* inline_words(XDR* xdr, u_int size) noexcept {
        XdrEncodeStream& s = self(xdr);
        // XDR routines fall back to single items when they get nothing: no failure.
        if (((size | s.used_) & 3u) != 0 || s.pad_owed_ != 0 || s.room_.size() - s.used_ < size)
            return nullptr;
        return static_cast<int32_t*>(static_cast<void*>(take(s, size)));
    }
    static void destroy(XDR* /*xdr*/) noexcept {}
    static bool_t control(XDR* /*xdr*/, int /*request*/, void* /*info*/) noexcept { return FALSE; }

    static constexpr XDR::xdr_ops kOps{getlong,  putlong,      getbytes, putbytes, getpostn,
                                       setpostn, inline_words, destroy,  control};
};

XdrEncodeStream::XdrEncodeStream(std::span<std::byte> room, std::uint32_t used) noexcept
    : room_(room), used_(used) {
    NR_ASSERT(used <= room.size() && (used & 3u) == 0);
    NR_ASSERT((address_of(room.data()) & 3u) == 0);
    xdr_.x_op = XDR_ENCODE;
    xdr_.x_ops = &XdrEncodeOps::kOps;
    xdr_.x_private = this;
}

void XdrEncodeStream::set_item(const DdpItem& item, const void* object) noexcept {
    item_ = item;
    object_ = object;
}

XdrBuf XdrEncodeStream::message() const noexcept {
    XdrBuf buf;
    const std::uint32_t split = payload_.empty() ? used_ : split_;
    buf.head = room_.first(split);
    buf.payload = payload_;
    buf.tail = room_.subspan(split, used_ - split);
    return buf;
}

}  // namespace nfsrdma::sunrpc
