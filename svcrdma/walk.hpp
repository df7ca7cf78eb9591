#pragma once
#include "svcrdma/ctxt.hpp"
#include "svcrdma/reply_plan.hpp"

// The walk of one Call through the server, each step in its own room: advance() is the one switch,
// in pipeline.cpp. A leaf that cannot go on yet has put the Call into the queue that it waits in,
// and returns the Call's present stage.
namespace nfsrdma::svcrdma {

// One step; the stage that the Call is in afterwards.
Stage advance(SvcTransport& transport, RecvCtxt& call) noexcept;
// Steps until the Call waits, is lent, or is free again.
void advance_while_it_goes(SvcTransport& transport, RecvCtxt& call) noexcept;

Stage receive_call(SvcTransport& transport, RecvCtxt& call) noexcept;    // recvfrom.cpp
Stage pull_arguments(SvcTransport& transport, RecvCtxt& call) noexcept;  // read_chunks.cpp
void assemble_call(RecvCtxt& call) noexcept;                             // read_chunks.cpp
// RDMA WRITEs for the Write chunk and the Reply chunk, leased into call.send. Errc::again: none is
// leased, wait.
Result<void> place_results(SvcTransport& transport, RecvCtxt& call,
                           const ReplyPlan& plan) noexcept;          // write_chunks.cpp
Stage send_reply(SvcTransport& transport, RecvCtxt& call) noexcept;  // sendto.cpp
// Writes an RDMA_ERROR in front of res_room and makes it the whole of the SEND.
void form_error(SvcTransport& transport, RecvCtxt& call) noexcept;  // error_reply.cpp
// Gives the chain in call.send to the device.
void post_reply(SvcTransport& transport, RecvCtxt& call) noexcept;  // sendto.cpp

}  // namespace nfsrdma::svcrdma
