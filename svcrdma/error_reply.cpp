#include "rpcrdma/header.hpp"
#include "svcrdma/transport.hpp"
#include "svcrdma/walk.hpp"

namespace nfsrdma::svcrdma {

// RFC 8166 s4.5: the same XID, and the credits as in any answer. Never SEND_WITH_INV: a header that
// we could not make sense of names no key that we may touch.
void form_error(SvcTransport& transport, RecvCtxt& call) noexcept {
    ServerCounters& counters = transport.server().counters;
    const std::span<std::byte> room = call.message->bytes();
    const std::uint32_t credits = transport.grant(call.header.credits);
    const bool vers = call.answer == Answer::err_vers;
    ++(vers ? counters.err_vers : counters.err_chunk);
    const auto size = vers ? rpcrdma::encode_err_vers(room, call.header.xid, credits)
                           : rpcrdma::encode_err_chunk(room, call.header.xid, credits);
    NR_ASSERT(static_cast<bool>(size));
    SendCtxt& send = call.send;
    send.sges[0] =
        transport.io().sge(room.first(vers ? rpcrdma::kErrVersSize : rpcrdma::kErrChunkSize));
    send.sge_count = 1;
    send.wr.op = verbs::SendOp::send;
    send.wr.rkey = {};
}

}  // namespace nfsrdma::svcrdma
