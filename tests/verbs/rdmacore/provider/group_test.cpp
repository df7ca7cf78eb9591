#include "verbs/rdmacore/group.hpp"

#include "tests/verbs/rdmacore/provider/provider_world.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

struct Nobody final : ListenHandler {
    void on_connect_request(std::unique_ptr<CmId>, const ConnectRequest&) noexcept override {}
};

constexpr std::size_t kLoops = 3;

class GroupOfAnyDevice : public ::testing::Test {
  protected:
    void SetUp() override {
        provider.reset();
        std::vector<Loop*> pointers;
        for (auto& each : loops) {
            each = std::move(*Loop::create({}));
            pointers.push_back(each.get());
        }
        auto made = DeviceGroup::create(pointers, {});
        ASSERT_TRUE(made) << to_string(made.error());
        group = std::move(*made);
    }
    Result<std::unique_ptr<Listener>> listen(std::uint32_t loop) {
        return group->device(loop).listen(at, handler);
    }
    void listen_all() {
        for (std::uint32_t i = 0; i < kLoops; ++i) {
            auto made = listen(i);
            ASSERT_TRUE(made) << to_string(made.error());
            listeners[i] = std::move(*made);
        }
    }

    Provider& provider = Provider::get();
    std::array<std::unique_ptr<Loop>, kLoops> loops;
    std::unique_ptr<DeviceGroup> group;
    Nobody handler;
    std::array<std::unique_ptr<Listener>, kLoops> listeners;
    SockAddr at = SockAddr::v4(0x0A090001, 20049);
};

TEST_F(GroupOfAnyDevice, OneListensForAll) {
    listen_all();
    EXPECT_EQ(provider.listening, 1u);
    for (const auto& listener : listeners)
        EXPECT_TRUE(listener->local() == at);
    listeners[2].reset();
    listeners[1].reset();
    EXPECT_EQ(provider.listening, 1u);
}

// The kernel rejects what waits there: whoever asks hears so at once, and not from a queue that was
// moved to a loop that may be about to end itself.
TEST_F(GroupOfAnyDevice, NobodyListensWhenTheFirstGoesUntilOneAsksAgain) {
    listen_all();
    listeners[0].reset();
    EXPECT_EQ(provider.listening, 0u);
    auto again = listen(0);
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(provider.listening, 1u);
    listeners[0] = std::move(*again);
    // Those who shared what the one before heard end in any order.
    listeners[1].reset();
    EXPECT_EQ(provider.listening, 1u);
    auto shared = listen(1);
    ASSERT_TRUE(shared) << to_string(shared.error());
    EXPECT_EQ(provider.listening, 1u);
    (*shared).reset();
    listeners[0].reset();
    listeners[2].reset();
    EXPECT_EQ(provider.listening, 0u);
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
