#include "tools/device/options.hpp"

#include <CLI/CLI.hpp>
#include <vector>

#include <gtest/gtest.h>

namespace nfsrdma::devices {
namespace {

// What the words say; `fails`: that the parser takes them for wrong.
ClientOptions parsed(std::vector<std::string> words, bool fails = false) {
    ClientOptions options;
    CLI::App app;
    add_client_options(app, options, 0.5, "seconds");
    std::reverse(words.begin(), words.end());  // as CLI11 wants it
    bool failed = false;
    try {
        app.parse(words);
    } catch (const CLI::ParseError&) {
        failed = true;
    }
    EXPECT_EQ(failed, fails);
    return options;
}

TEST(ClientOptions, DefaultsNeedNoWords) {
    const ClientOptions options = parsed({});
    EXPECT_EQ(options.device, "softroce");
    EXPECT_EQ(options.mount_proto, "auto");
    EXPECT_EQ(options.mount_port, 0);
    EXPECT_EQ(loop_options(options).backend, LoopOptions{}.backend);
    EXPECT_EQ(registration_of(options), pools::Registration::automatic);
    EXPECT_EQ(check_client_options(options), "");
}

TEST(ClientOptions, EveryWordArrives) {
    const ClientOptions options =
        parsed({"--device", "rdmacore:rxe0", "--bind", "127.0.0.3:5000", "--registration", "static",
                "--loop", "epoll", "--timeout", "7.5", "--mountproto", "udp", "--mountport", "9"});
    EXPECT_EQ(options.device, "rdmacore:rxe0");
    EXPECT_EQ(options.bind, "127.0.0.3:5000");
    EXPECT_EQ(registration_of(options), pools::Registration::fixed);
    EXPECT_EQ(loop_options(options).backend, LoopBackend::epoll);
    EXPECT_EQ(options.timeout_s, 7.5);
    EXPECT_EQ(options.mount_proto, "udp");
    EXPECT_EQ(options.mount_port, 9);
    EXPECT_EQ(check_client_options(options), "");
    EXPECT_EQ(registration_of(parsed({"--registration", "bind"})), pools::Registration::bind);
    EXPECT_EQ(loop_options(parsed({"--loop", "io_uring"})).backend, LoopBackend::io_uring);
}

TEST(ClientOptions, RequestLeadsToTheServer) {
    const SockAddr server = *SockAddr::parse("127.0.0.9:20049", 0);
    auto plain = request_of(parsed({}), server);
    ASSERT_TRUE(static_cast<bool>(plain));
    EXPECT_EQ(plain->choice.kind, Kind::softroce);
    EXPECT_TRUE(plain->address == server);
    EXPECT_FALSE(plain->passive);
    EXPECT_FALSE(plain->bind.has_value());
    EXPECT_EQ(plain->strategy, verbs::rdmacore::Strategy::automatic);
    auto bound = request_of(parsed({"--bind", "127.0.0.3:5000"}), server);
    ASSERT_TRUE(static_cast<bool>(bound));
    EXPECT_EQ(bound->bind->port(), 5000);
    EXPECT_FALSE(static_cast<bool>(request_of(parsed({"--bind", "nowhere"}), server)));
}

// What no card of ours has run is taken by nobody who does not ask for it.
TEST(ClientOptions, UmrIsAskedForByName) {
    const SockAddr server = *SockAddr::parse("127.0.0.9:20049", 0);
    const ClientOptions umr = parsed({"--registration", "umr", "--device", "rdmacore:mlx5_0"});
    EXPECT_EQ(registration_of(umr), pools::Registration::bind);
    EXPECT_EQ(request_of(umr, server)->strategy, verbs::rdmacore::Strategy::umr);
    EXPECT_EQ(check_client_options(umr), "");
    for (const char* device : {"softroce", "auto"})
        EXPECT_NE(check_client_options(parsed({"--registration", "umr", "--device", device})), "");
}

TEST(ClientOptions, WhatNobodyKnowsIsRefused) {
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, std::string>>{{"--device", "rxe0"},
                                                          {"--registration", "none"},
                                                          {"--loop", "poll"},
                                                          {"--timeout", "0.4"},
                                                          {"--mountproto", "tls"},
                                                          {"--mountport", "0"},
                                                          {"--mountport", "65536"}})
        (void)parsed({name, value}, true);
}

TEST(ClientOptions, APortOfMountdContradictsMountOverRdma) {
    const std::string why =
        check_client_options(parsed({"--mountproto", "rdma", "--mountport", "9"}));
    EXPECT_NE(why.find("--mountport"), std::string::npos);
    EXPECT_NE(why.find("--mountproto rdma"), std::string::npos);
    EXPECT_EQ(check_client_options(parsed({"--mountproto", "rdma"})), "");
    EXPECT_EQ(check_client_options(parsed({"--mountport", "9"})), "");
}

}  // namespace
}  // namespace nfsrdma::devices
