#pragma once
#include <cstdint>

#include "rpcrdma/pcl.hpp"
#include "tests/support/raw_peer.hpp"

// What a server in its right mind might say to a call, whatever that is.
namespace nfsrdma::fuzz {

// An RPC reply without results and with this accept_stat, inline; nothing was put into any chunk.
inline test::Bytes answer_to(const rpcrdma::ParsedHeader& call, std::uint32_t accept_stat) {
    constexpr std::uint32_t kCredits = 8;
    test::Words out;
    out.u32(call.xid).u32(1).u32(kCredits).u32(0).u32(0);
    const auto chunk_of = [&](const rpcrdma::Chunk& chunk) {
        out.u32(1).u32(narrow<std::uint32_t>(call.segments_of(chunk).size()));
        for (const rpcrdma::Segment& segment : call.segments_of(chunk))
            out.segment({segment.handle, 0, segment.offset});
    };
    for (const rpcrdma::Chunk& chunk : call.chunks_of(call.write))
        chunk_of(chunk);
    out.u32(0);
    bool has_reply_chunk = false;
    for (const rpcrdma::Chunk& chunk : call.chunks_of(call.reply)) {
        chunk_of(chunk);
        has_reply_chunk = true;
    }
    if (!has_reply_chunk) out.u32(0);
    // REPLY, accepted, no verifier.
    return out.u32(call.xid).u32(1).u32(0).u32(0).u32(0).u32(accept_stat).take();
}

}  // namespace nfsrdma::fuzz
