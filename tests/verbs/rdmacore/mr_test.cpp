#include "verbs/rdmacore/mr.hpp"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/verbs/rdmacore/hw_world.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

class RdmaMrHw : public HwTest {
  protected:
    void SetUp() override {
        HwTest::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        make_ends();
    }
    Errc map_error(FastMr& key, std::vector<std::byte*> pages, std::uint32_t offset,
                   std::uint32_t length, std::uint64_t iova, Access access = Access::remote_read) {
        const auto mapped = key.map(pages, kPage, offset, length, iova, access);
        return mapped ? Errc::closed : mapped.error().code;  // closed: it went well
    }
};

TEST_F(RdmaMrHw, MapTakesOneRunOfRegisteredMemoryOnly) {
    auto key = std::move(*client->pd->alloc_fast_mr(16));
    auto pages = client->memory.list(0, 3 * kPage);
    const std::uint64_t first = address_of(pages[0]);
    EXPECT_EQ(map_error(*key, pages, 5, 100, first + 5), Errc::closed);
    EXPECT_EQ(map_error(*key, pages, 0, 0, first), Errc::invalid_argument);
    EXPECT_EQ(map_error(*key, {}, 0, 1, first), Errc::invalid_argument);
    EXPECT_EQ(map_error(*key, pages, kPage, 1, first), Errc::invalid_argument);
    EXPECT_EQ(map_error(*key, pages, 1, 3 * kPage, first + 1), Errc::too_big);
    EXPECT_EQ(map_error(*key, pages, 0, 10, first + 1), Errc::unsupported) << "another iova";
    EXPECT_EQ(map_error(*key, {pages[0] + 1}, 0, 10, first + 1), Errc::invalid_argument);
    std::swap(pages[1], pages[2]);
    EXPECT_EQ(map_error(*key, pages, 0, 3 * kPage, first), Errc::unsupported) << "scattered";
    const Pages other(kPage);
    EXPECT_EQ(map_error(*key, other.list(0, 1), 0, 10, address_of(other.at(0))),
              Errc::invalid_argument)
        << "not registered";
}

TEST_F(RdmaMrHw, RemoteWriteNeedsWritableMemory) {
    const Pages memory(kPage);
    auto region = client->pd->register_memory(memory.span(), Access::none);
    ASSERT_TRUE(region) << to_string(region.error());
    auto key = std::move(*client->pd->alloc_fast_mr(1));
    EXPECT_EQ(
        map_error(*key, memory.list(0, 1), 0, 10, address_of(memory.at(0)), Access::remote_write),
        Errc::invalid_argument);
    EXPECT_EQ(map_error(*key, memory.list(0, 1), 0, 10, address_of(memory.at(0))), Errc::closed);
}

TEST_F(RdmaMrHw, KeyStepsItsLowByteAtEachUse) {
    auto key = std::move(*client->pd->alloc_fast_mr(16));
    const Rkey first = key->rkey();
    const auto pages = client->memory.list(0, 1);
    ASSERT_EQ(map_error(*key, pages, 0, 10, address_of(pages[0])), Errc::closed);
    const Rkey second = key->rkey();
    EXPECT_NE(first, second);
    EXPECT_EQ(static_cast<std::uint32_t>(first) >> 8, static_cast<std::uint32_t>(second) >> 8);
    // Never bound: the key was not used up.
    ASSERT_EQ(map_error(*key, pages, 0, 10, address_of(pages[0])), Errc::closed);
    EXPECT_EQ(key->rkey(), second);
    EXPECT_EQ(key->iova(), address_of(pages[0]));
}

TEST_F(RdmaMrHw, StaticKeysOnlyWhereAskedFor) {
    const Pages memory(kPage);
    auto local = client->pd->register_memory(memory.span(), Access::local_write);
    auto remote =
        client->pd->register_memory(memory.span(), Access::local_write | Access::remote_read);
    ASSERT_TRUE(local && remote);
    EXPECT_EQ((*local)->rkey(), Rkey{0});
    EXPECT_NE((*remote)->rkey(), Rkey{0});
    EXPECT_FALSE(client->pd->register_memory({}, Access::local_write));
}

TEST_F(RdmaMrHw, WindowsAreCounted) {
    EXPECT_EQ(client->pd->alloc_fast_mr(0).error().code, Errc::invalid_argument);
    std::vector<std::unique_ptr<FastMr>> keys;
    for (int i = 0; i < 300; ++i) {
        auto key = client->pd->alloc_fast_mr(256);
        ASSERT_TRUE(key) << to_string(key.error());
        keys.push_back(std::move(*key));
    }
}

// A key that is bound when its connection ends is worth nothing afterwards, and keeps nobody from
// giving back the memory.
TEST_F(RdmaMrHw, KeyOfADeadConnectionIsDead) {
    listen();
    auto key = std::move(*client->pd->alloc_fast_mr(16));
    ASSERT_TRUE(client->connect(listener->local()));
    ASSERT_TRUE(run_until(*loop, [&] { return client->established() && server->established(); }));
    const auto pages = client->memory.list(0, 1);
    ASSERT_EQ(map_error(*key, pages, 0, 10, address_of(pages[0])), Errc::closed);
    Done& bound = fresh();
    SendWr bind;
    bind.op = SendOp::reg_mr;
    bind.mr = key.get();
    bind.signaled = true;
    bind.cqe = &bound;
    WrChain chain;
    chain.push_back(bind);
    ASSERT_TRUE(client->qp->post_send(chain));
    ASSERT_TRUE(run_until(*loop, [&] { return bound.count == 1; }));
    EXPECT_TRUE(bound.good());
    EXPECT_EQ(map_error(*key, pages, 0, 10, address_of(pages[0])), Errc::invalid_argument)
        << "it is bound";
    client->close();
    EXPECT_EQ(map_error(*key, pages, 0, 10, address_of(pages[0])), Errc::reconnect);
    client->mr.reset();  // no window holds it
}

// Without the privilege to lock memory and with a low limit of it.
class LowMemlock {
  public:
    LowMemlock() {
        EXPECT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit_), 0);
        const rlimit low{64 * 1024, limit_.rlim_max};
        EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &low), 0);
        EXPECT_EQ(::syscall(SYS_capget, &header_, caps_.data()), 0);
        auto less = caps_;
        less[0].effective &= ~(1u << CAP_IPC_LOCK);
        EXPECT_EQ(::syscall(SYS_capset, &header_, less.data()), 0);
    }
    ~LowMemlock() {
        EXPECT_EQ(::syscall(SYS_capset, &header_, caps_.data()), 0);
        EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &limit_), 0);
    }
    LowMemlock(const LowMemlock&) = delete;
    LowMemlock& operator=(const LowMemlock&) = delete;

  private:
    rlimit limit_{};
    __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> caps_{};
};

TEST_F(RdmaMrHw, WantOfLockableMemoryIsExplained) {
    const Pages memory(std::size_t{1} << 20);
    ::testing::internal::CaptureStderr();
    Errc code = Errc::closed;
    {
        const LowMemlock low;
        EXPECT_FALSE(memlock_limit().exempt);
        EXPECT_EQ(memlock_limit().soft, 64u * 1024);
        const auto region = client->pd->register_memory(memory.span(), Access::local_write);
        if (!region) code = region.error().code;
    }
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(code, Errc::system);
    EXPECT_NE(said.find("RLIMIT_MEMLOCK is 64 KiB"), std::string::npos) << said;
    EXPECT_NE(said.find("ulimit -l"), std::string::npos) << said;
    EXPECT_NE(said.find("LimitMEMLOCK"), std::string::npos) << said;
}

TEST(KeyState, Names) {
    EXPECT_STREQ(to_string(KeyState::free), "free");
    EXPECT_STREQ(to_string(KeyState::bound), "bound");
    EXPECT_STREQ(to_string(KeyState::invalidating), "invalidating");
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
