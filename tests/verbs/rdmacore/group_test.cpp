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

constexpr std::size_t kLoops = 3;

class GroupHw : public HwTest {
  protected:
    // A device and a listener, which counts, on each of several loops.
    void make_group() {
        std::vector<Loop*> pointers;
        for (std::size_t i = 0; i < kLoops; ++i) {
            loops.push_back(std::move(*Loop::create({})));
            pointers.push_back(loops.back().get());
        }
        auto made = DeviceGroup::create(pointers, options());
        ASSERT_TRUE(made) << to_string(made.error());
        group = std::move(*made);
        ASSERT_EQ(group->size(), kLoops);
        at = address;
        for (std::uint32_t i = 0; i < kLoops; ++i) {
            auto one = group->device(i).listen(at, counters[i]);
            ASSERT_TRUE(one) << to_string(one.error());
            listeners.push_back(std::move(*one));
            at = listeners.front()->local();
            EXPECT_TRUE(listeners.back()->local() == at);
        }
    }
    // Each is rejected by one of the listeners.
    void connect_times(std::uint32_t count) {
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < kLoops; ++i) {
            threads.emplace_back([&, i] {
                counters[i].thread = std::this_thread::get_id();
                loops[i]->run();
            });
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            client = std::make_unique<End>(*client_device);
            EXPECT_TRUE(client->connect(at));
            EXPECT_TRUE(run_until(*loop, [&] { return client->over(); }));
            EXPECT_TRUE(client->over() && client->events.back() == CmEventType::rejected);
            client.reset();
        }
        for (auto& each : loops)
            each->stop();
        for (std::thread& thread : threads)
            thread.join();
    }

    std::vector<std::unique_ptr<Loop>> loops;
    std::unique_ptr<DeviceGroup> group;
    std::array<Counter, kLoops> counters;
    std::vector<std::unique_ptr<Listener>> listeners;
    SockAddr at;
};

TEST_F(GroupHw, RequestsGoRoundTheLoops) {
    make_group();
    if (HasFatalFailure()) return;
    EXPECT_FALSE(group->device(1).listen(at, counters[1])) << "twice on one loop";
    connect_times(3 * kLoops);
    for (const Counter& counter : counters) {
        EXPECT_EQ(counter.requests, 3u);
        EXPECT_FALSE(counter.wrong_thread);
    }
}

TEST_F(GroupHw, TheAddressIsFreeWhenTheFirstListenerGoes) {
    make_group();
    if (HasFatalFailure()) return;
    listeners[0].reset();
    connect_times(2);  // the kernel rejects
    for (const Counter& counter : counters)
        EXPECT_EQ(counter.requests, 0u);
    auto again = group->device(0).listen(at, counters[0]);
    ASSERT_TRUE(again) << to_string(again.error());
    listeners[0] = std::move(*again);
    connect_times(2);
    EXPECT_EQ(counters[0].requests, 2u);
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
