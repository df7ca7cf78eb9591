#include "rpcrdma/pcl.hpp"
#include "svcrdma/transport.hpp"
#include "svcrdma/walk.hpp"

namespace nfsrdma::svcrdma {

namespace {

// Of what the peer offers; what we pull is bounded by the runs that there are (make_pull_plan), and
// what we push by what the service returns.
constexpr rpcrdma::PclLimits kLimits{1u << 30, 1u << 31};

// A header that breaks RFC 8166 is a fault of the peer's. One of a version that we do not speak, or
// of a Call that is larger than what we take, is none.
enum class Blame : bool { nobody, peer };

Stage refuse(RecvCtxt& call, rpcrdma::HeaderFault fault, Blame blame) noexcept {
    ServerCounters& counters = call.transport->server().counters;
    ++counters.bad_headers;
    if (blame == Blame::peer && fault != rpcrdma::HeaderFault::err_vers)
        call.transport->note_fault();
    switch (fault) {
        case rpcrdma::HeaderFault::err_vers:
            call.answer = Answer::err_vers;
            return Stage::placing;
        case rpcrdma::HeaderFault::err_chunk:
            call.answer = Answer::err_chunk;
            return Stage::placing;
        case rpcrdma::HeaderFault::none:
        case rpcrdma::HeaderFault::drop:
            break;
    }
    ++counters.dropped;
    return Stage::done;
}

void count(ServerCounters& counters, const PullPlan& plan) noexcept {
    ++counters.calls;
    switch (plan.layout) {
        case Layout::inline_only:
            ++counters.inline_calls;
            return;
        case Layout::item:
        case Layout::merged:
            ++counters.read_chunk_calls;
            return;
        case Layout::whole:
        case Layout::whole_item:
            ++counters.long_calls;
            return;
    }
}

}  // namespace

// The message run is taken first, so that every fault can be answered and nobody waits for one who
// waits (payload_runs).
Stage receive_call(SvcTransport& transport, RecvCtxt& call) noexcept {
    Server& server = transport.server();
    if (!server.runs->take_message(call, server.counters)) return Stage::received;
    if (server.draining) {
        ++server.counters.dropped;
        return Stage::done;
    }
    rpcrdma::ParsedHeader& header = call.header;
    const std::span<const std::byte> frame = call.buf->frame();
    if (const auto fault = rpcrdma::parse_header(frame, kLimits, header);
        fault != rpcrdma::HeaderFault::none)
        return refuse(call, fault, Blame::peer);
    switch (header.proc) {
        case rpcrdma::Proc::msg:
        case rpcrdma::Proc::nomsg:
            break;
        case rpcrdma::Proc::done:
        case rpcrdma::Proc::error:
            return refuse(call, rpcrdma::HeaderFault::drop, Blame::peer);
        case rpcrdma::Proc::msgp:
            return refuse(call, rpcrdma::HeaderFault::err_chunk, Blame::peer);
    }
    const auto inline_bytes = static_cast<std::uint32_t>(frame.size()) - header.size;
    if (const auto fault = rpcrdma::check_call(header, inline_bytes);
        fault != rpcrdma::HeaderFault::none)
        return refuse(call, fault, Blame::peer);
    auto plan = make_pull_plan(header, inline_bytes, server.runs->largest());
    if (!plan) return refuse(call, rpcrdma::HeaderFault::err_chunk, Blame::nobody);
    call.chunk.plan = *plan;
    call.chunk.cursor = {};
    count(server.counters, call.chunk.plan);
    return call.chunk.plan.run_bytes > 0 ? Stage::pulling : Stage::ready;
}

}  // namespace nfsrdma::svcrdma
