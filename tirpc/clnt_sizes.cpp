#include "tirpc/clnt_sizes.hpp"

#include <cstring>

namespace nfsrdma::tirpc {
namespace {

struct Sizing {
    XdrSizes sizes;
    const sunrpc::DdpItem* item = nullptr;
    const void* object = nullptr;

    bool is_item(const char* address, std::uint32_t bytes) const noexcept {
        if (!item->exists() || object == nullptr || sizes.item != 0) return false;
        if (bytes < item->min) return false;
        if (item->match != nullptr) return item->match(object, address, bytes) != FALSE;
        const char* slot = nullptr;
        std::memcpy(&slot, static_cast<const char*>(object) + item->pointer_offset, sizeof slot);
        return slot == address;
    }
};

Sizing& self(XDR* xdr) noexcept {
    return *static_cast<Sizing*>(xdr->x_private);
}

// The operations that libtirpc calls. Pad bytes of the item are counted with the rest: a few too
// many do no harm.
struct SizeOps {
    static bool_t getlong(XDR* /*xdr*/, long* /*value*/) noexcept { return FALSE; }
    static bool_t putlong(XDR* xdr, const long* /*value*/) noexcept {
        self(xdr).sizes.bytes += BYTES_PER_XDR_UNIT;
        return TRUE;
    }
    static bool_t getbytes(XDR* /*xdr*/, char* /*address*/, u_int /*size*/) noexcept {
        return FALSE;
    }
    static bool_t putbytes(XDR* xdr, const char* address, u_int size) noexcept {
        Sizing& sizing = self(xdr);
        std::uint64_t& to = sizing.is_item(address, size) ? sizing.sizes.item : sizing.sizes.bytes;
        to += size;
        return TRUE;
    }
    static u_int getpostn(XDR* xdr) noexcept {
        const XdrSizes& sizes = self(xdr).sizes;
        return static_cast<u_int>(sizes.bytes + sizes.item);
    }
    static bool_t setpostn(XDR* /*xdr*/, u_int /*position*/) noexcept { return FALSE; }
    // XDR routines fall back to single items when they get nothing.
    static int32_t* inline_words(XDR* /*xdr*/, u_int /*size*/) noexcept { return nullptr; }
    static void destroy(XDR* /*xdr*/) noexcept {}
    static bool_t control(XDR* /*xdr*/, int /*request*/, void* /*info*/) noexcept { return FALSE; }

    static constexpr XDR::xdr_ops kOps{getlong,  putlong,      getbytes, putbytes, getpostn,
                                       setpostn, inline_words, destroy,  control};
};

}  // namespace

XdrSizes measure(xdrproc_t routine, void* object, const sunrpc::DdpItem& item) noexcept {
    Sizing sizing;
    sizing.item = &item;
    sizing.object = object;
    XDR xdr{};
    xdr.x_op = XDR_ENCODE;
    xdr.x_ops = &SizeOps::kOps;
    xdr.x_private = &sizing;
    sizing.sizes.encodes = routine(&xdr, object) != FALSE;
    return sizing.sizes;
}

}  // namespace nfsrdma::tirpc
