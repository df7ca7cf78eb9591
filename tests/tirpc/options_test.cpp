#include "tirpc/options.hpp"

#include <array>
#include <cstring>

#include <gtest/gtest.h>

namespace nfsrdma::tirpc {
namespace {

rpcrdma_opts opts() {
    rpcrdma_opts made{};
    made.size = sizeof made;
    return made;
}

TEST(Options, NullMeansTheDocumentedDefaults) {
    auto made = check_options(nullptr);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->credits, 16u);
    EXPECT_EQ(made->inline_size, 4096u);
    EXPECT_EQ(made->max_payload, 1u << 20);
    EXPECT_EQ(made->max_message, 1u << 20);
    EXPECT_EQ(made->reply_max, 1u << 20);
    EXPECT_EQ(made->port, 20049);
    EXPECT_EQ(made->peer_udp_port, 4791);
    EXPECT_EQ(made->connections_max, 1024u);
    EXPECT_EQ(made->connect_timeout_ns, 10 * kNsPerSec);
    EXPECT_EQ(made->device.kind, devices::Kind::softroce);
    EXPECT_FALSE(made->has(RPCRDMA_ZERO_COPY | RPCRDMA_RECONNECT | RPCRDMA_RPCBIND));
}

TEST(Options, ZeroesAreTheSameAsNull) {
    const rpcrdma_opts in = opts();
    auto made = check_options(&in);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->credits, 16u);
    EXPECT_EQ(made->reply_max, made->max_message);
}

TEST(Options, ReplyMaxFollowsMaxMessage) {
    rpcrdma_opts in = opts();
    in.max_message = 8192;
    EXPECT_EQ(check_options(&in)->reply_max, 8192u);
    in.reply_max = 8193;
    EXPECT_FALSE(check_options(&in));
}

TEST(Options, WhatMakesNoSenseIsRefused) {
    using Change = void (*)(rpcrdma_opts&);
    const Change changes[] = {
        [](rpcrdma_opts& o) { o.size = 0; },
        [](rpcrdma_opts& o) { o.size = 8; },
        [](rpcrdma_opts& o) { o.size = 1u << 20; },
        [](rpcrdma_opts& o) { o.flags = 0x80; },
        [](rpcrdma_opts& o) { o.device = "infiniband"; },
        [](rpcrdma_opts& o) { o.device = ""; },
        [](rpcrdma_opts& o) { o.bind = "localhost"; },
        [](rpcrdma_opts& o) { o.inline_size = 1023; },
        [](rpcrdma_opts& o) { o.inline_size = kInlineMax + 1; },
        [](rpcrdma_opts& o) { o.max_payload = kPayloadMax + 1; },
        [](rpcrdma_opts& o) { o.max_message = kMessageMax + 1; },
        [](rpcrdma_opts& o) { o.credits = kCreditsMax + 1; },
        [](rpcrdma_opts& o) { o.connections_max = kConnectionsMax + 1; },
    };
    for (const Change change : changes) {
        rpcrdma_opts in = opts();
        change(in);
        auto made = check_options(&in);
        ASSERT_FALSE(made) << (&change - changes);
        EXPECT_EQ(made.error().code, Errc::invalid_argument);
        EXPECT_STRNE(made.error().what, "");
    }
}

// A program that was compiled with a later header, which has more members.
TEST(Options, ALaterStructIsTakenWhenItsOwnMembersAreZero) {
    std::array<std::byte, sizeof(rpcrdma_opts) + 16> later{};
    rpcrdma_opts in = opts();
    in.size = later.size();
    in.credits = 3;
    std::memcpy(later.data(), &in, sizeof in);
    const auto* const as_opts =
        static_cast<const rpcrdma_opts*>(static_cast<const void*>(later.data()));
    auto made = check_options(as_opts);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->credits, 3u);
    later[sizeof(rpcrdma_opts) + 5] = std::byte{1};
    EXPECT_FALSE(check_options(as_opts));
}

TEST(Options, InlineSizesAreWhatPrivateDataCanSay) {
    rpcrdma_opts in = opts();
    in.inline_size = 5000;
    EXPECT_EQ(check_options(&in)->inline_size, 4096u);
}

// The plan of a call compares its size with its padding.
TEST(Options, SizesAreRoundedUpToWholeWords) {
    rpcrdma_opts in = opts();
    in.max_payload = 1'000'001;
    in.max_message = 99'999;
    in.reply_max = 100'000;
    auto made = check_options(&in);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->max_payload, 1'000'004u);
    EXPECT_EQ(made->max_message, 100'000u);
    EXPECT_EQ(made->reply_max, 100'000u);
    in.max_payload = kPayloadMax - 1;
    in.max_message = kMessageMax;
    in.reply_max = 1;
    made = check_options(&in);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->max_payload, kPayloadMax);
    EXPECT_EQ(made->max_message, kMessageMax);
    EXPECT_EQ(made->reply_max, 1u);
}

TEST(Options, BothEndsHaveRoomForAMessageBehindItsHeader) {
    rpcrdma_opts in = opts();
    in.max_message = 65536;
    auto made = check_options(&in);
    EXPECT_GE(transport_options(*made).demand.max_message, 65536u + 24 + 2 * 408);
    EXPECT_EQ(server_options(*made).demand.max_message,
              transport_options(*made).demand.max_message);
}

TEST(Options, AListenersSoftroceHasTheStandardPortUnlessToldOtherwise) {
    rpcrdma_opts in = opts();
    in.bind = "127.0.0.7";
    const SockAddr local = *SockAddr::parse("127.0.0.7:20049", 0);
    EXPECT_EQ(server_request(*check_options(&in), local).bind->port(), 4791);
    EXPECT_EQ(client_request(*check_options(&in), local).bind->port(), 0);
    in.bind = "[::1]:5000";
    EXPECT_EQ(server_request(*check_options(&in), local).bind->port(), 5000);
    EXPECT_FALSE(server_request(*check_options(nullptr), local).bind);
    EXPECT_TRUE(server_request(*check_options(nullptr), local).passive);
}

TEST(Options, RecoveryIsOffUnlessAskedFor) {
    rpcrdma_opts in = opts();
    EXPECT_FALSE(transport_options(*check_options(&in)).recovery.on);
    in.flags = RPCRDMA_RECONNECT;
    EXPECT_TRUE(transport_options(*check_options(&in)).recovery.on);
}

}  // namespace
}  // namespace nfsrdma::tirpc
