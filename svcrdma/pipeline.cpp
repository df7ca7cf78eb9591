#include "svcrdma/transport.hpp"
#include "svcrdma/walk.hpp"

namespace nfsrdma::svcrdma {

namespace {

// The connection ends: what is not lent is released, what is lent comes back by itself.
Stage give_up(RecvCtxt& call) noexcept {
    switch (call.stage) {
        case Stage::pulling:
            return call.chunk.in_flight ? Stage::pulling : Stage::done;
        case Stage::sending:
            return call.send.pending ? Stage::sending : Stage::done;
        case Stage::executing:
            return Stage::executing;  // until the service answers
        case Stage::received:
        case Stage::ready:
        case Stage::placing:
        case Stage::done:
            return Stage::done;
        case Stage::free:
            break;
    }
    return Stage::free;
}

Stage execute(SvcTransport& transport, RecvCtxt& call) noexcept {
    assemble_call(call);
    call.stage = Stage::executing;  // the service may answer from inside
    transport.server().service.dispatch(call);
    return call.stage;
}

Stage wake(SvcTransport& transport, RecvCtxt& call) noexcept {
    if (call.wake_service) {
        call.wake_service = false;
        transport.server().service.wake(call);
    }
    return call.stage;
}

}  // namespace

Stage advance(SvcTransport& transport, RecvCtxt& call) noexcept {
    if (transport.closing() && call.stage != Stage::done && call.stage != Stage::executing)
        return give_up(call);
    switch (call.stage) {
        case Stage::free:
            break;
        case Stage::received:
            return receive_call(transport, call);
        case Stage::pulling:
            return pull_arguments(transport, call);
        case Stage::ready:
            return execute(transport, call);
        case Stage::executing:
            return wake(transport, call);
        case Stage::placing:
            return send_reply(transport, call);
        case Stage::sending:
            return call.send.finished ? Stage::done : Stage::sending;
        case Stage::done:
            transport.release(call);
            return Stage::free;
    }
    return call.stage;
}

void advance_while_it_goes(SvcTransport& transport, RecvCtxt& call) noexcept {
    call.stepping = true;
    for (;;) {
        const Stage before = call.stage;
        call.stage = advance(transport, call);
        if (call.stage == before || call.stage == Stage::free) break;
        transport.trace(call);
    }
    call.stepping = false;
}

const char* to_string(Stage stage) noexcept {
    switch (stage) {
        case Stage::free:
            return "free";
        case Stage::received:
            return "received";
        case Stage::pulling:
            return "pulling";
        case Stage::ready:
            return "ready";
        case Stage::executing:
            return "executing";
        case Stage::placing:
            return "placing";
        case Stage::sending:
            return "sending";
        case Stage::done:
            return "done";
    }
    return "?";
}

}  // namespace nfsrdma::svcrdma
