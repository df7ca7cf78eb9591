#include <array>

#include <benchmark/benchmark.h>

#include "base/bytes.hpp"
#include "rpcrdma/pcl.hpp"
#include "tests/rpcrdma/hex_vector.hpp"
#include "xprtrdma/call.hpp"

namespace nfsrdma {
namespace {

// A header of the wire, parsed and checked as a server does.
void parse_vector(benchmark::State& state, const char* name) {
    const auto vector = rpcrdma::load_hex_vector(std::string(name));
    rpcrdma::ParsedHeader header;
    for (auto _ : state) {
        const auto fault = rpcrdma::parse_header(vector.bytes, {1u << 20, 1u << 21}, header);
        benchmark::DoNotOptimize(header.size);
        if (fault != rpcrdma::HeaderFault::none) state.SkipWithError("does not parse");
    }
}
BENCHMARK_CAPTURE(parse_vector, no_chunks, "linux_getattr_call");
BENCHMARK_CAPTURE(parse_vector, one_write_chunk, "linux_read_call");
BENCHMARK_CAPTURE(parse_vector, four_segments, "linux_read_four_segments_call");
BENCHMARK_CAPTURE(parse_vector, read_chunk_512k, "linux_write_512k_call");

void marshal_read(benchmark::State& state) {
    xprtrdma::BoundChunks chunks;
    chunks.write.segments[chunks.write.count++] = {
        .handle = 0x1001, .length = 1u << 20, .offset = 0x123456789000};
    const xprtrdma::TransferPlan plan{.results = xprtrdma::ResultType::write};
    std::array<std::byte, 512> room{};
    for (auto _ : state) {
        auto header = xprtrdma::marshal_call(room, 77, 32, plan, chunks);
        benchmark::DoNotOptimize(header);
        if (!header) state.SkipWithError("does not fit");
    }
}
BENCHMARK(marshal_read);

}  // namespace
}  // namespace nfsrdma
