#include "base/assert.hpp"
#include "xprtrdma/req.hpp"

// complete: the three facts hold, the caller is told.
namespace nfsrdma::xprtrdma {

const char* to_string(ReqState state) noexcept {
    switch (state) {
        case ReqState::free:
            return "free";
        case ReqState::taken:
            return "taken";
        case ReqState::waiting:
            return "waiting";
        case ReqState::posting:
            return "posting";
        case ReqState::sent:
            return "sent";
        case ReqState::completed:
            return "completed";
    }
    return "unknown";
}

void complete(Req& req, const Fenced&) noexcept {
    NR_ASSERT(req.outcome.has_value() && req.send_done && req.exposure_count == 0);
    NR_ASSERT(req.state == ReqState::waiting || req.state == ReqState::posting ||
              req.state == ReqState::sent);
    req.state = ReqState::completed;
    const Result<void> outcome = *req.outcome;
    if (!outcome) req.reply = {};
    // The caller may put the request, or send another, from inside.
    if (!req.abandoned && req.complete != nullptr) req.complete(req, outcome);
}

}  // namespace nfsrdma::xprtrdma
