#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "xprtrdma/req.hpp"

// post: header and what goes inline -> one SEND behind the binding work requests, one doorbell.
namespace nfsrdma::xprtrdma {
namespace {

// Adds `memory` to the SGEs; to the last one where it continues that.
void append(Req& req, std::uint32_t& count, std::span<const std::byte> memory,
            const pools::Io& io) noexcept {
    if (memory.empty()) return;
    const verbs::Sge next = io.sge(memory);
    if (count > 0) {
        verbs::Sge& last = req.sges[count - 1];
        if (last.addr + last.length == next.addr) {
            last.length += next.length;
            return;
        }
    }
    req.sges[count++] = next;
}

}  // namespace

void post_call(Req& req, std::span<std::byte> header, std::span<const std::byte> zeros,
               pools::Io& io) noexcept {
    std::uint32_t count = 0;
    append(req, count, header, io);
    if (!is_long(req.plan.args)) {
        append(req, count, req.call.head, io);
        if (req.plan.args == ArgsType::in_line) {
            append(req, count, req.call.payload, io);
            append(req, count, zeros.first(req.call.pad()), io);
        }
        append(req, count, req.call.tail, io);
    }
    NR_ASSERT(req.chain.last() == &req.send_wr);
    req.send_wr.op = verbs::SendOp::send;
    req.send_wr.signaled = true;
    req.send_wr.sgl = {req.sges.data(), count};
    req.reads = 0;
    req.state = ReqState::posting;
    io.post(req);
}

}  // namespace nfsrdma::xprtrdma
