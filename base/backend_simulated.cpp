#include "base/file_io.hpp"
#include "base/loop_backend.hpp"

namespace nfsrdma {

namespace {

// Time is the loop's ManualClock, which the loop moves itself: nothing to wait for here.
class SimulatedBackend final : public LoopBackendImpl {
  public:
    using LoopBackendImpl::LoopBackendImpl;
    Result<void> watch(FdWatch&) noexcept override {
        return Error{Errc::unsupported, 0, "a simulated loop watches no file descriptors"};
    }
    Result<void> rewatch(FdWatch& fd_watch) noexcept override { return watch(fd_watch); }
    void unwatch(FdWatch&) noexcept override {}
    std::uint32_t wait(std::uint64_t) noexcept override { return 0; }
    bool submit(FileOp& op) noexcept override {
        finish(op, run_file_op(op));
        return true;
    }
};

}  // namespace

std::unique_ptr<LoopBackendImpl> make_simulated_backend(Loop& loop) {
    return std::make_unique<SimulatedBackend>(loop);
}

}  // namespace nfsrdma
