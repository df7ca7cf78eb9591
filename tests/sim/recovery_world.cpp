#include "tests/sim/recovery_world.hpp"

#include <array>
#include <functional>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/prng.hpp"

namespace nfsrdma::test {
namespace {

namespace soft = verbs::softroce;
const SockAddr kClient = SockAddr::v4(0x7F000101, soft::kRoceV2Port);
const SockAddr kServer = SockAddr::v4(0x7F000102, soft::kRoceV2Port);
constexpr std::uint16_t kPort = 20049;
constexpr std::uint64_t kSettleNs = 60 * kNsPerSec;

nfs::HandleKey key_of(std::uint64_t seed) {
    Prng prng(seed);
    std::array<std::byte, nfs::HandleKey::kFileBytes> secret{};
    for (std::size_t i = 0; i < secret.size(); i += 8)
        store_be64(&secret[i], prng.next());
    return nfs::HandleKey(secret);
}

template <class T>
T must(Result<T> result) {
    NR_ASSERT(static_cast<bool>(result));
    return *std::move(result);
}

}  // namespace

bool RecoveryWorld::Silence::on_frame(soft::LoopFrame& frame) noexcept {
    return !frame.from.same_address(kServer);
}

RecoveryWorld::RecoveryWorld(const Options& options)
    : options_(options), vfs_(std::make_shared<UnstableVfs>()), key_(key_of(options.seed)) {
    loop_ = must(Loop::create({.backend = LoopBackend::simulated, .clock = &clock_}));
    net_ = std::make_unique<soft::LoopNet>(*loop_, options.seed, soft::LinkFaults{},
                                           soft::LoopNetOptions{.frames = 1024});
    soft::SoftOptions how;
    how.seed = options.seed * 2 + 1;
    how.faults = options.client_faults;
    how.fault_seed = options.seed * 5 + 3;
    client_device_ = must(soft::create_device(*loop_, net_->add_host(kClient), how));
    start_server();
}

RecoveryWorld::~RecoveryWorld() {
    if (life_ != nullptr) kill_server();
    close();
    flow_.reset();
    client_.reset();
    transport_.reset();
}

bool RecoveryWorld::run_until(const std::function<bool()>& done, std::uint64_t limit_ns) {
    const auto ask = [](void* arg) { return (*static_cast<const std::function<bool()>*>(arg))(); };
    std::function<bool()> copy = done;
    return loop_->run_until(ask, &copy, limit_ns);
}

void RecoveryWorld::run_for(std::uint64_t ns) {
    run_until([] { return false; }, ns);
}

void RecoveryWorld::start_server() {
    ++lives;
    life_ = std::make_unique<Life>();
    soft::SoftOptions how;
    how.seed = options_.seed * 1000 + lives;
    how.faults = options_.server_faults;
    how.fault_seed = options_.seed * 7 + lives;
    life_->device = must(soft::create_device(*loop_, net_->add_host(kServer), how));
    life_->server.set_handle_key(key_);
    NR_ASSERT(static_cast<bool>(life_->server.add_export("/export", vfs_)));
    life_->server.add_to(life_->dispatcher);
    life_->dispatcher.set_reply_cache(&life_->cache);
    svcrdma::ServerOptions listen = options_.server;
    listen.trace = options_.trace;
    life_->listener = must(svcrdma::Listener::create(*life_->device, kServer.with_port(kPort),
                                                     life_->dispatcher, listen));
    net_->set_tap(nullptr);
}

void RecoveryWorld::kill_server() {
    net_->set_tap(&silence_);
    life_->listener->shut_down(0);
    EXPECT_TRUE(run_until([this] { return life_->listener->idle(); }, kSettleNs));
    replayed_before_ += life_->cache.counters().replayed;
    life_->listener.reset();
    life_.reset();
    vfs_->crash();
}

std::uint64_t RecoveryWorld::replayed() const {
    return replayed_before_ + (life_ == nullptr ? 0 : life_->cache.counters().replayed);
}

bool RecoveryWorld::connect() {
    xprtrdma::TransportOptions how = options_.transport;
    how.trace = options_.trace;
    int outcome = 0;
    auto made = xprtrdma::Transport::create(
        *client_device_, kServer.with_port(kPort), how,
        [](void* arg, Result<void> result) noexcept { *static_cast<int*>(arg) = result ? 1 : -1; },
        &outcome);
    if (!made) return false;
    transport_ = *std::move(made);
    EXPECT_TRUE(run_until([&] { return outcome != 0; }, kSettleNs));
    client_ = std::make_unique<nfs::client::Client>(*transport_, nullptr);
    client_->timeout_ns = 3600 * kNsPerSec;  // hard
    bool mounted = false;
    flow_ = std::make_unique<nfs::client::MountFlow>(*client_);
    flow_->start(
        "/export", [](nfs::client::MountFlow& f) noexcept { *static_cast<bool*>(f.user) = true; },
        &mounted);
    return outcome == 1 && run_until([&] { return mounted; }, kSettleNs) && flow_->outcome.ok();
}

void RecoveryWorld::close() {
    if (transport_ == nullptr) return;
    transport_->close();
    client_->hurry();
    EXPECT_TRUE(run_until([this] { return transport_->idle(); }, kSettleNs));
}

}  // namespace nfsrdma::test
