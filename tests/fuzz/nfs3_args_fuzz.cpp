// NFSv3 and MOUNT v3 arguments into a dispatcher over a tree in memory: whatever the bytes are,
// every call is answered once or dropped, its request comes home, and memory stays bounded.
//
// Input: up to 16 calls, each of: procedure (one byte: 0..21 NFS, 22..27 MOUNT), how its last bytes
// come (one byte: 0 inline, else by a chunk of that many times 16 bytes), length (two bytes), and
// that many bytes of arguments.
//
// links: nr_test_direct nr_nfs
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "nfs/server/server.hpp"
#include "nfs/vfs_mem.hpp"
#include "tests/support/direct_xprt.hpp"

namespace nfsrdma {
namespace {

constexpr std::size_t kCallsMax = 16, kChunkUnit = 16;
constexpr std::uint32_t kNfsProcedures = 22, kProcedures = 28;

struct Input {
    std::span<const std::byte> left;
    std::uint8_t byte() {
        if (left.empty()) return 0;
        const std::uint8_t value = load_u8(left.data());
        left = left.subspan(1);
        return value;
    }
    std::span<const std::byte> take(std::size_t bytes) {
        const auto out = left.first(std::min(bytes, left.size()));
        left = left.subspan(out.size());
        return out;
    }
};

std::vector<std::byte> call_header(std::uint32_t procedure) {
    const bool nfs = procedure < kNfsProcedures;
    const std::uint32_t words[] = {
        1, 0,
        2, nfs ? std::uint32_t{NFS3_PROGRAM} : std::uint32_t{MOUNT3_PROGRAM},
        3, nfs ? procedure : procedure - kNfsProcedures,
        0, 0,
        0, 0};
    std::vector<std::byte> out(sizeof words);
    std::size_t at = 0;
    for (const std::uint32_t word : words) {
        store_be32(out.data() + at, word);
        at += 4;
    }
    return out;
}

struct World {
    World() {
        nfs::VfsMemOptions small;
        small.capacity_bytes = small.max_file_bytes = 1 << 20;
        small.max_nodes = 1000;
        NR_ASSERT(
            static_cast<bool>(server.add_export("/export", std::make_unique<nfs::VfsMem>(small))));
        server.add_to(dispatcher);
        testing::DirectOptions options;
        options.slots = options.requests = 1;
        options.client_payload_runs = 1;
        options.max_payload = options.max_message = 64 << 10;
        xprt = std::make_unique<testing::DirectXprt>(*direct.loop, dispatcher, options);
    }
    testing::DirectWorld direct;
    nfs::Server server;
    sunrpc::SvcDispatcher dispatcher;
    std::unique_ptr<testing::DirectXprt> xprt;
};

void call_once(World& world, Input& input) {
    std::vector<std::byte> message = call_header(input.byte() % kProcedures);
    const std::size_t chunk = input.byte() * kChunkUnit;
    const std::size_t length = std::size_t{input.byte()} << 8 | input.byte();
    const std::span<const std::byte> args = input.take(length);
    const std::size_t payload = std::min(chunk, args.size());
    const auto head = args.first(args.size() - payload);
    message.insert(message.end(), head.begin(), head.end());
    const testing::RawReply reply = world.xprt->server().raw_call(
        message, args.last(payload), narrow<std::uint32_t>(message.size()), 1 << 10);
    NR_ASSERT(reply.answered != reply.dropped);
    NR_ASSERT(world.xprt->server().requests_in_use() == 0);
    NR_ASSERT(!reply.answered || (reply.message.size() >= 24 && reply.word(1) == 1));
}

}  // namespace
}  // namespace nfsrdma

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    nfsrdma::World world;
    nfsrdma::Input input{std::as_bytes(std::span(data, size))};
    for (std::size_t i = 0; i < nfsrdma::kCallsMax && !input.left.empty(); ++i) {
        nfsrdma::call_once(world, input);
    }
    return 0;
}
