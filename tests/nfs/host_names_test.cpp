#include "nfs/host_names.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace nfsrdma::nfs {
namespace {

std::atomic<int> lookups{0};
std::atomic<bool> held{false};

HostNames::Names test_lookup(const SockAddr& peer) {
    ++lookups;
    while (held)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (peer.is_v6()) return {};
    return {"h-" + peer.address_to_string()};
}

class HostNamesTest : public ::testing::Test {
  protected:
    void SetUp() override {
        lookups = 0;
        held = false;
    }
    void TearDown() override { held = false; }
    const SockAddr a = *SockAddr::parse("10.0.0.1", 0), b = *SockAddr::parse("10.0.0.2", 7);
    const SockAddr nameless = *SockAddr::parse("fd00::1", 0);
};

HostNames::Options quick(std::uint64_t known_ns) {
    HostNames::Options out;
    out.lookup = test_lookup;
    out.known_ns = out.unknown_ns = known_ns;
    return out;
}

TEST_F(HostNamesTest, AreUnknownUntilLookedUpAndThenRemembered) {
    HostNames names(quick(1000 * kNsPerSec));
    held = true;
    EXPECT_EQ(names.find(a), nullptr);
    EXPECT_EQ(names.find(a), nullptr);
    EXPECT_EQ(names.wait(a, 5 * kNsPerMs), nullptr);
    held = false;
    const auto got = names.wait(a, 50 * kNsPerSec);
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(*got, HostNames::Names{"h-10.0.0.1"});
    EXPECT_NE(names.find(a.with_port(99)), nullptr);  // a port makes no other host
    EXPECT_EQ(lookups, 1);
    ASSERT_NE(names.wait(b, 50 * kNsPerSec), nullptr);
    EXPECT_EQ(lookups, 2);
}

TEST_F(HostNamesTest, NoNameIsAnAnswer) {
    HostNames names(quick(1000 * kNsPerSec));
    const auto got = names.wait(nameless, 50 * kNsPerSec);
    ASSERT_NE(got, nullptr);
    EXPECT_TRUE(got->empty());
    EXPECT_NE(names.find(nameless), nullptr);
    EXPECT_EQ(lookups, 1);
}

TEST_F(HostNamesTest, OldAnswersHoldWhileTheyAreRefreshed) {
    HostNames names(quick(1000 * kNsPerSec));
    ASSERT_NE(names.wait(a, 50 * kNsPerSec), nullptr);
    names.forget_all();
    held = true;
    EXPECT_NE(names.find(a), nullptr);
    EXPECT_NE(names.find(a), nullptr);
    held = false;
    for (int i = 0; i < 50000 && lookups < 2; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(lookups, 2);
}

TEST_F(HostNamesTest, EndDoesNotWaitForALookup) {
    held = true;
    const auto start = std::chrono::steady_clock::now();
    {
        HostNames names(quick(kNsPerSec));
        EXPECT_EQ(names.find(a), nullptr);
        while (lookups == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
    held = false;
}

TEST_F(HostNamesTest, QueueIsBounded) {
    HostNames names(quick(1000 * kNsPerSec));
    held = true;
    for (std::uint32_t i = 0; i < 4 * HostNames::kWaitingMax; ++i)
        EXPECT_EQ(names.find(SockAddr::v4(0x0a000000 + i, 0)), nullptr);
    held = false;
    ASSERT_NE(names.wait(SockAddr::v4(0x0a000000, 0), 50 * kNsPerSec), nullptr);
    EXPECT_LE(lookups, static_cast<int>(HostNames::kWaitingMax) + 2);
}

TEST(HostNames, ResolverOfTheSystemEnds) {
    HostNames names;
    const auto got = names.wait(*SockAddr::parse("127.0.0.1", 0), 20 * kNsPerSec);
    if (got == nullptr)
        return;  // a resolver that does not answer: that it was not waited for is all
    for (const std::string& name : *got)
        EXPECT_FALSE(name.empty());
}

}  // namespace
}  // namespace nfsrdma::nfs
