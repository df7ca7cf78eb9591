#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include "pools/mr_pool.hpp"
#include "pools/page_list.hpp"
#include "tests/pools/io_world.hpp"

namespace nfsrdma::pools {
namespace {

// A run of pages leased and given back, as each READ of a server does.
void lease_page_list(benchmark::State& state) {
    test::World world;
    const PageListPool::ClassSpec classes[] = {{4096, 64}};
    auto pool = *PageListPool::create(*world.a.arena, classes);
    for (auto _ : state) {
        auto lease = pool->get(4096);
        benchmark::DoNotOptimize(lease);
    }
}
BENCHMARK(lease_page_list);

// A key leased, bound to a page and checked off as the peer's SEND_WITH_INV does: what one RPC pays
// for a key of its own, without the work requests.
void bind_key(benchmark::State& state) {
    test::World world;
    auto pool = *MrPool::create(*world.a.pd, 8, 4);
    const auto memory = *world.a.arena->carve(kPageSize);
    const std::array<std::byte*, 1> pages{memory.data()};
    for (auto _ : state) {
        auto mr = pool->get();
        if (!mr ||
            !(*mr)->bind({pages, 0, 100, address_of(memory.data()), verbs::Access::remote_read})) {
            state.SkipWithError("no key");
            break;
        }
        (*mr)->on_invalidated();
    }
}
BENCHMARK(bind_key);

}  // namespace
}  // namespace nfsrdma::pools
