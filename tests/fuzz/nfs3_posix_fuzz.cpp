// Arguments over a scratch directory. What lies beside it stays as it is.
//
// links: nr_test_direct nr_nfs
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <unistd.h>
#include <utility>

#include "nfs/vfs_posix.hpp"
#include "tests/fuzz/keep.hpp"
#include "tests/fuzz/nfs3_world.hpp"

namespace nfsrdma::fuzz {
namespace {

namespace fs = std::filesystem;

// A directory with the export in it, and nothing else but what must not be touched.
class Scratch {
  public:
    Scratch() {
        std::string name = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string();
        name += "/nfs3-fuzz.XXXXXX";
        NR_ASSERT(::mkdtemp(name.data()) != nullptr);
        path_ = name;
        fs::create_directory(inside());
    }
    ~Scratch() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    fs::path inside() const { return path_ / "export"; }
    bool untouched() const {
        const auto entries = fs::directory_iterator(path_);
        return std::distance(begin(entries), end(entries)) == 1 && fs::exists(inside());
    }

  private:
    fs::path path_;
};

struct World {
    World() : nfs(open(scratch)) {}
    static std::shared_ptr<nfs::Vfs> open(const Scratch& scratch) {
        auto vfs = nfs::VfsPosix::create(scratch.inside(), {});
        NR_ASSERT(static_cast<bool>(vfs));
        return *std::move(vfs);
    }
    Scratch scratch;
    NfsWorld nfs;
};

void run(std::span<const std::byte> input) {
    static Keep<World, 1, 64> worlds;
    World& world = worlds.get(0);
    world.nfs.run(input);
    NR_ASSERT(world.scratch.untouched());
}

}  // namespace
}  // namespace nfsrdma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    nfsrdma::fuzz::run(std::as_bytes(std::span(data, size)));
    return 0;
}
