// Arguments over a tree in memory.
//
// links: nr_test_direct nr_nfs
#include "nfs/vfs_mem.hpp"
#include "tests/fuzz/nfs3_world.hpp"

namespace nfsrdma::fuzz {
namespace {

void run(std::span<const std::byte> input) {
    nfs::VfsMemOptions small;
    small.capacity_bytes = small.max_file_bytes = 1 << 20;
    small.max_nodes = 1000;
    NfsWorld(std::make_shared<nfs::VfsMem>(small)).run(input);
}

}  // namespace
}  // namespace nfsrdma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    nfsrdma::fuzz::run(std::as_bytes(std::span(data, size)));
    return 0;
}
