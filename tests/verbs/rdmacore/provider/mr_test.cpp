#include "verbs/rdmacore/mr.hpp"

#include <cerrno>
#include <sys/mman.h>

#include "tests/verbs/rdmacore/provider/provider_world.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

// Keys of a device without windows: every map() registers.
class EachMrOfAnyDevice : public ProviderTest {
  protected:
    void SetUp() override {
        ProviderTest::SetUp();
        ASSERT_EQ(device->strategy(), Strategy::register_each);
        make_ends();
        key = std::move(*pd->alloc_fast_mr(4));
        page_ = memory_.data();
    }
    Result<void> map() {
        return key->map({&page_, 1}, 4096, 0, 100, address_of(page_), Access::remote_read);
    }
    Result<void> bind() {
        SendWr& wr = wrs.emplace_back();
        wr.op = SendOp::reg_mr;
        wr.mr = key.get();
        wr.cqe = &sends.emplace_back();
        WrChain chain;
        chain.push_back(wr);
        return qp->post_send(chain);
    }
    alignas(4096) std::array<std::byte, 4096> memory_{};
    std::byte* page_ = nullptr;
};

TEST_F(EachMrOfAnyDevice, MappedAndNeverPostedIsTakenBack) {
    ASSERT_TRUE(map());
    EXPECT_EQ(provider.regions, 1u);
    key->unmap();
    EXPECT_EQ(provider.regions, 0u) << "the peer could reach it";
    EXPECT_EQ(bind().error().code, Errc::invalid_argument);
    key->unmap();
    ASSERT_TRUE(map());
    EXPECT_TRUE(bind());
}

TEST_F(EachMrOfAnyDevice, BoundIsNotTakenBack) {
    ASSERT_TRUE(map());
    ASSERT_TRUE(bind());
    key->unmap();
    EXPECT_EQ(provider.regions, 1u);
}

// The failed map() has given up what the one before it had made.
TEST_F(EachMrOfAnyDevice, FailedMapLeavesNothingToBind) {
    ASSERT_TRUE(map());
    provider.reg_error = EIO;
    EXPECT_FALSE(map());
    EXPECT_EQ(provider.regions, 0u);
    const auto bound = bind();
    ASSERT_FALSE(bound);
    EXPECT_EQ(bound.error().code, Errc::invalid_argument);
}

TEST_F(EachMrOfAnyDevice, PagesThatNoKeyCoversLeaveNothingToBind) {
    ASSERT_TRUE(map());
    const std::array<std::byte*, 2> apart = {page_, page_};
    const auto mapped = key->map(apart, 4096, 0, 8192, address_of(page_), Access::remote_read);
    ASSERT_FALSE(mapped);
    EXPECT_EQ(mapped.error().code, Errc::unsupported);
    EXPECT_EQ(provider.regions, 0u) << "the peer could reach what was mapped before";
    EXPECT_EQ(bind().error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
