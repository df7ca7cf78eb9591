// links: nr_rpcrdma
//
// Any bytes as CM private data: sizes within RFC 8797's, and what was decoded survives being
// encoded.
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "rpcrdma/private_data.hpp"

namespace nfsrdma::rpcrdma {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const PrivateData peers = decode_private_data(std::as_bytes(std::span(data, size)));
    NR_ASSERT(peers.send_size >= 1024 && peers.send_size <= 256 * 1024 &&
              peers.send_size % 1024 == 0);
    NR_ASSERT(peers.recv_size >= 1024 && peers.recv_size <= 256 * 1024 &&
              peers.recv_size % 1024 == 0);
    const PrivateData again = decode_private_data(encode_private_data(peers));
    NR_ASSERT(again.remote_invalidation == peers.remote_invalidation);
    NR_ASSERT(again.send_size == peers.send_size && again.recv_size == peers.recv_size);
    const PrivateData ours{.send_size = kOurInline, .recv_size = kOurInline};
    const InlineLimits limits = agree_inline(ours, peers);
    NR_ASSERT(limits.send <= kOurInline && limits.recv <= kOurInline);
    return 0;
}

}  // namespace nfsrdma::rpcrdma
