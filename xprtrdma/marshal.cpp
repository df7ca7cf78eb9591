#include "base/assert.hpp"
#include "rpcrdma/header.hpp"
#include "xprtrdma/call.hpp"

// marshal: plan and chunks -> header bytes. Pure; it leases, binds and posts nothing.
namespace nfsrdma::xprtrdma {

Result<std::span<std::byte>> marshal_call(std::span<std::byte> room, std::uint32_t xid,
                                          std::uint32_t credits, const TransferPlan& plan,
                                          const BoundChunks& chunks) noexcept {
    const rpcrdma::FixedPart fixed{
        .xid = xid,
        .credits = credits,
        .proc = is_long(plan.args) ? rpcrdma::Proc::nomsg : rpcrdma::Proc::msg};
    const rpcrdma::CallChunks lists{.read = chunks.read.list(),
                                    .read_position = chunks.read_position,
                                    .call = chunks.call.list(),
                                    .write = chunks.write.list(),
                                    .reply = chunks.reply.list()};
    const std::uint32_t size = rpcrdma::call_header_size(lists);
    if (size > room.size()) return Error{Errc::too_big, 0, "transport header"};
    const std::span<std::byte> header = room.last(size);
    NR_TRY_ASSIGN(const std::uint32_t written, rpcrdma::encode_call(header, fixed, lists));
    NR_ASSERT(written == size);
    return header;
}

}  // namespace nfsrdma::xprtrdma
