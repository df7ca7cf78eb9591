#include "tests/sim/recovery_world.hpp"

#include <algorithm>
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
    group_.reset();
    transports_.clear();
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

sunrpc::Xprt& RecoveryWorld::xprt() noexcept {
    if (group_ != nullptr) return *group_;
    return *transports_.front();
}

xprtrdma::TransportCounters RecoveryWorld::counters() const {
    xprtrdma::TransportCounters sum;
    for (const auto& transport : transports_) {
        sum.reconnects += transport->counters().reconnects;
        sum.resends += transport->counters().resends;
    }
    return sum;
}

bool RecoveryWorld::connect() {
    xprtrdma::TransportOptions how = options_.transport;
    how.trace = options_.trace;
    std::vector<int> outcomes(options_.connections, 0);
    std::vector<sunrpc::Xprt*> xprts;
    for (int& outcome : outcomes) {
        auto made = xprtrdma::Transport::create(
            *client_device_, kServer.with_port(kPort), how,
            [](void* arg, Result<void> result) noexcept {
                *static_cast<int*>(arg) = result ? 1 : -1;
            },
            &outcome);
        if (!made) return false;
        transports_.push_back(*std::move(made));
        xprts.push_back(transports_.back().get());
        ++how.recovery.seed;
        ++how.trace_connection;
    }
    if (xprts.size() > 1) group_ = std::make_unique<sunrpc::XprtGroup>(xprts);
    const auto all_are = [&](int wanted) {
        return std::all_of(outcomes.begin(), outcomes.end(),
                           [=](int outcome) { return outcome == wanted; });
    };
    EXPECT_TRUE(
        run_until([&] { return std::find(outcomes.begin(), outcomes.end(), 0) == outcomes.end(); },
                  kSettleNs));
    client_ = std::make_unique<nfs::client::Client>(xprt(), nullptr);
    client_->timeout_ns = 3600 * kNsPerSec;  // hard
    bool mounted = false;
    flow_ = std::make_unique<nfs::client::MountFlow>(*client_);
    flow_->start(
        "/export", [](nfs::client::MountFlow& f) noexcept { *static_cast<bool*>(f.user) = true; },
        &mounted);
    return all_are(1) && run_until([&] { return mounted; }, kSettleNs) && flow_->outcome.ok();
}

void RecoveryWorld::close() {
    if (transports_.empty()) return;
    xprt().close();
    if (client_ != nullptr) client_->hurry();
    EXPECT_TRUE(run_until(
        [this] {
            return std::all_of(transports_.begin(), transports_.end(),
                               [](const auto& transport) { return transport->idle(); });
        },
        kSettleNs));
}

}  // namespace nfsrdma::test
