#include "verbs/rdmacore/group.hpp"

#include <atomic>
#include <thread>

#include "tests/verbs/rdmacore/hw_world.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

TEST(DeviceGroup, NeedsALoop) {
    const auto made = DeviceGroup::create({}, {});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Errc::invalid_argument);
}

class GroupHw : public HwTest {};

// Rejects whatever comes, and counts it.
class Counter final : public ListenHandler {
  public:
    void on_connect_request(std::unique_ptr<CmId> id, const ConnectRequest&) noexcept override {
        ++requests;
        if (std::this_thread::get_id() != thread) wrong_thread = true;
        EXPECT_TRUE(id->reject({}));
    }
    std::thread::id thread;
    std::atomic<std::uint32_t> requests{0};
    std::atomic<bool> wrong_thread{false};
};

TEST_F(GroupHw, RequestsGoRoundTheLoops) {
    constexpr std::size_t kLoops = 3;
    constexpr std::uint32_t kConnects = 9;
    std::vector<std::unique_ptr<Loop>> loops;
    std::vector<Loop*> pointers;
    for (std::size_t i = 0; i < kLoops; ++i) {
        loops.push_back(std::move(*Loop::create({})));
        pointers.push_back(loops.back().get());
    }
    auto group = DeviceGroup::create(pointers, {});
    ASSERT_TRUE(group) << to_string(group.error());
    ASSERT_EQ((*group)->size(), kLoops);
    std::array<Counter, kLoops> counters;
    std::vector<std::unique_ptr<Listener>> listeners;
    SockAddr at = address;
    for (std::uint32_t i = 0; i < kLoops; ++i) {
        auto made = (*group)->device(i).listen(at, counters[i]);
        ASSERT_TRUE(made) << to_string(made.error());
        listeners.push_back(std::move(*made));
        at = listeners.front()->local();
        EXPECT_TRUE(listeners.back()->local() == at);
    }
    EXPECT_FALSE((*group)->device(1).listen(at, counters[1])) << "twice on one loop";
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kLoops; ++i) {
        threads.emplace_back([&, i] {
            counters[i].thread = std::this_thread::get_id();
            loops[i]->run();
        });
    }
    for (std::uint32_t i = 0; i < kConnects; ++i) {
        client = std::make_unique<End>(*client_device);
        ASSERT_TRUE(client->connect(at));
        EXPECT_TRUE(run_until(*loop, [&] { return client->over(); }));
        EXPECT_EQ(client->events.back(), CmEventType::rejected);
        client.reset();
    }
    for (auto& each : loops)
        each->stop();
    for (std::thread& thread : threads)
        thread.join();
    for (const Counter& counter : counters) {
        EXPECT_EQ(counter.requests, kConnects / kLoops);
        EXPECT_FALSE(counter.wrong_thread);
    }
    listeners.clear();
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
