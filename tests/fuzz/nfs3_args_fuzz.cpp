// Arguments over a tree in memory.
//
// links: nr_test_direct nr_nfs
#include "nfs/vfs_mem.hpp"
#include "tests/fuzz/keep.hpp"
#include "tests/fuzz/nfs3_world.hpp"

namespace nfsrdma::fuzz {
namespace {

struct World {
    World() : nfs(std::make_shared<nfs::VfsMem>(small())) {}
    static nfs::VfsMemOptions small() {
        nfs::VfsMemOptions options;
        options.capacity_bytes = options.max_file_bytes = 1 << 20;
        options.max_nodes = 1000;
        return options;
    }
    NfsWorld nfs;
};

void run(std::span<const std::byte> input) {
    static Keep<World, 1, 64> worlds;
    worlds.get(0).nfs.run(input);
}

}  // namespace
}  // namespace nfsrdma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    nfsrdma::fuzz::run(std::as_bytes(std::span(data, size)));
    return 0;
}
