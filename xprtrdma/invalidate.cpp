#include "base/assert.hpp"
#include "xprtrdma/req.hpp"

// fence: makes every key of a call dead before its data is shown.
//
// Operation. A reply that came by SEND_WITH_INV has freed one key; accept_remote_invalidation()
// checks it off. What is left is LOCAL_INV'd, never before the reply (a SEND_WITH_INV for a key
// that is free already would be an error of ours that the peer sees).
//
// Ownership. (1) req.exposures is empty exactly when req.fenced is set (NR_ASSERT below). (2)
// Fenced is made here only.
//
// Errors. A connection that dies first makes the keys stale: nobody can reach them any more, which
// is as good.
namespace nfsrdma::xprtrdma {

struct FenceLeaf {
    static void one_done(Req& req) noexcept {
        NR_ASSERT(req.fences_pending > 0);
        if (--req.fences_pending > 0) return;
        for (std::uint32_t i = 0; i < req.exposure_count; ++i) {
            NR_ASSERT(req.exposures[i]->dead());
            req.exposures[i].reset();
        }
        req.exposure_count = 0;
        req.fenced.emplace(Fenced{});
        req.fence_then(req);
    }
    static void on_fenced(pools::Exposure& exposure, bool) noexcept {
        one_done(*static_cast<Req*>(exposure.user));
    }
};

bool accept_remote_invalidation(const Req* req, verbs::Rkey key, pools::Io& io) noexcept {
    const pools::Exposure* exposure = io.on_remote_invalidate(key);
    return exposure != nullptr && req != nullptr && exposure->user == req;
}

void fence(Req& req, pools::Io& io, void (*then)(Req& req) noexcept) noexcept {
    NR_ASSERT(!req.fenced && req.fences_pending == 0);
    req.fence_then = then;
    req.fences_pending =
        1;  // our own, so that a fence that ends from inside does not end the whole
    for (std::uint32_t i = 0; i < req.exposure_count; ++i) {
        pools::Exposure& exposure = *req.exposures[i];
        if (exposure.dead()) continue;
        ++req.fences_pending;
        io.fence(exposure, &FenceLeaf::on_fenced);
    }
    FenceLeaf::one_done(req);
}

}  // namespace nfsrdma::xprtrdma
