#include "tests/support/loop_world.hpp"

namespace nfsrdma::test {
namespace {

template <class T>
T must(Result<T> result) {
    NR_ASSERT(static_cast<bool>(result));
    return *std::move(result);
}

}  // namespace

LoopWorld::LoopWorld(const Options& options) {
    LoopOptions loop_options;
    loop_options.backend = LoopBackend::simulated;
    loop_options.clock = &clock;
    loop = must(Loop::create(loop_options));
    net = std::make_unique<verbs::softroce::LoopNet>(*loop, options.seed, options.faults,
                                                     options.net);
    verbs::softroce::SoftOptions soft;
    soft.seed = options.seed * 2 + 1;
    client = must(verbs::softroce::create_device(
        *loop, net->add_host(client_address().with_port(verbs::softroce::kRoceV2Port)), soft));
    soft.seed = options.seed * 2 + 2;
    server = must(verbs::softroce::create_device(
        *loop, net->add_host(server_address(verbs::softroce::kRoceV2Port)), soft));
}

bool LoopWorld::run_until(const std::function<bool()>& done, std::uint64_t limit_ns) {
    const auto ask = [](void* arg) { return (*static_cast<const std::function<bool()>*>(arg))(); };
    std::function<bool()> copy = done;
    return loop->run_until(ask, &copy, limit_ns);
}

void LoopWorld::run_for(std::uint64_t ns) {
    run_until([] { return false; }, ns);
}

}  // namespace nfsrdma::test
