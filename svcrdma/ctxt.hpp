#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "base/list.hpp"
#include "pools/io.hpp"
#include "pools/lease.hpp"
#include "pools/page_list.hpp"
#include "rpcrdma/pcl.hpp"
#include "sunrpc/xprt.hpp"
#include "svcrdma/pull_plan.hpp"
#include "verbs/wr.hpp"

// The contexts of one Call at the server, all preallocated when the connection is made.
namespace nfsrdma::svcrdma {

class SvcTransport;
struct RecvCtxt;

// Where a Call is between its Receive and its release. advance() (pipeline.cpp) is the one switch.
enum class Stage : std::uint8_t {
    free,
    received,   // its frame is here; waits for a message run, then is parsed
    pulling,    // its Read chunks are being fetched; waits for payload memory or a transfer
    ready,      // the argument is whole
    executing,  // the service has it
    placing,    // answered: WRITEs and the SEND are being formed; waits for transfers
    sending,    // posted, or waiting for send-queue room
    done,       // everything that was lent is home
};
const char* to_string(Stage stage) noexcept;

// The queue that a Call stands in, if any. Each has a counter.
enum class Wait : std::uint8_t {
    none,
    ready,        // SvcTransport::ready_: its next step is due
    message_run,  // PayloadRuns: memory to encode a reply in
    args_run,     // PayloadRuns: memory for what is pulled
    result_run,   // PayloadRuns: memory for a result
    transfer,     // SvcTransport::transfer_waiters_
};

enum class Answer : std::uint8_t { reply, err_vers, err_chunk };

// One Receive: an inline buffer that is posted, holds a frame whose Call was not answered yet, or
// is about to be posted again. Apart from RecvCtxt, because it goes back to the device before the
// answer is posted: the peer may use the credit as soon as it has the answer (RFC 8166 s3.3.1).
struct RecvBuf : ListHook<RecvBuf>, verbs::Cqe {
    SvcTransport* xprt = nullptr;
    std::span<std::byte> memory;
    std::uint32_t length = 0;  // bytes of the frame
    verbs::Sge sge;
    verbs::RecvWr wr;
    std::span<std::byte> frame() const noexcept { return memory.first(length); }
};

// The RDMA READs of one Call: at most one Transfer at a time, as many as its segments need.
struct ChunkCtxt {
    PullPlan plan;
    PullCursor cursor;
    pools::Lease<pools::Transfer> transfer;
    bool in_flight = false;
    bool failed = false;
};

// One reply: the WRITEs and the SEND behind them.
struct SendCtxt : verbs::Cqe, pools::Posting {
    // One Transfer a run of local memory and sixteen segments: head, payload, pad and tail of a
    // long reply, over every segment that a header can name.
    static constexpr std::uint32_t kPushesMax =
        4 + rpcrdma::kMaxSegments / pools::Exposure::kRunsMax;
    RecvCtxt* call = nullptr;
    verbs::SendWr wr;
    std::array<verbs::Sge, 4> sges;  // header and head, payload, pad, tail
    std::uint32_t sge_count = 0;
    std::array<pools::Lease<pools::Transfer>, kPushesMax> pushes;
    std::uint32_t push_count = 0;
    std::uint32_t pushed_bytes = 0;  // by all pushes
    bool pending = false;            // given to pools::Io and not yet completed or refused
    bool finished = false;           // completed, flushed or refused
    bool posted_ok = false;          // has left the queue for send-queue room
};

// One Call from Receive to release (svc_rdma_recv_ctxt). The service sees its SvcRqst part.
struct RecvCtxt : ListHook<RecvCtxt>, sunrpc::SvcRqst {
    SvcTransport* transport = nullptr;
    Stage stage = Stage::free;
    Wait wait = Wait::none;
    Answer answer = Answer::reply;
    bool stepping = false;      // advance() is at it: whoever changes the stage need not call it
    bool wake_service = false;  // memory for its result came: tell the service
    RecvBuf* buf = nullptr;     // until the answer is formed
    rpcrdma::ParsedHeader header;
    ChunkCtxt chunk;
    SendCtxt send;
    std::uint32_t run_bytes = 0;            // what it waits for in PayloadRuns
    pools::Lease<pools::PageList> message;  // transport header room, then res_room
    pools::Lease<pools::PageList> args;     // what was pulled
    pools::Lease<pools::PageList> result;   // get_result_payload
};

// The Calls of one connection that wait for one kind of run.
struct RunWaiters : ListHook<RunWaiters> {
    List<RecvCtxt, RecvCtxt> calls;
};

}  // namespace nfsrdma::svcrdma
