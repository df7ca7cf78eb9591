#include "tools/nfsrdmad/service_options.hpp"

#include <CLI/CLI.hpp>

#include <gtest/gtest.h>

namespace nfsrdma::nfsrdmad {
namespace {

bool parse(const std::string& line, ServiceOptions& out) {
    CLI::App app;
    declare_services(app, out);
    try {
        app.parse(line);
        return true;
    } catch (const CLI::ParseError&) {
        return false;
    }
}

TEST(ServiceOptions, NothingIsOnByItself) {
    ServiceOptions options;
    ASSERT_TRUE(parse("", options));
    EXPECT_EQ(options.mountd_port, -1);
    EXPECT_FALSE(options.rpcbind);
    EXPECT_TRUE(options.metrics.empty());
    EXPECT_EQ(options.memory_bytes, 0u);
    EXPECT_EQ(options.reply_cache, 4096u);
}

TEST(ServiceOptions, SizesHaveUnits) {
    ServiceOptions options;
    ASSERT_TRUE(parse("--memory 512M", options));
    EXPECT_EQ(options.memory_bytes, 512u << 20);
    ASSERT_TRUE(parse("--memory 2G --mountd-port 0 --rpcbind --metrics [::1]:80", options));
    EXPECT_EQ(options.memory_bytes, 2ull << 30);
    EXPECT_EQ(options.mountd_port, 0);
    EXPECT_TRUE(options.rpcbind);
}

TEST(ServiceOptions, PeersHaveLimitsByDefaultAndZeroIsNone) {
    ServiceOptions options;
    ASSERT_TRUE(parse("", options));
    EXPECT_EQ(options.peers.connections, 512u);
    EXPECT_EQ(options.peers.keepalive_seconds, 10u);
    EXPECT_EQ(
        to_string(options.peers),
        "of each address at most 512 connections, 1024 calls in progress, any number of bytes "
        "of memory, 1000 connects a second; quarantine for 60 s after 32 faults; keepalive "
        "after 10 s");
    ASSERT_TRUE(
        parse("--max-connections-per-peer 3 --max-requests-per-peer 4 "
              "--max-memory-per-peer 2M --max-connects-per-second 5 --quarantine-after 6 "
              "--quarantine-seconds 7 --keepalive 8 --idle-timeout 9",
              options));
    EXPECT_EQ(
        to_string(options.peers),
        "of each address at most 3 connections, 4 calls in progress, 2097152 bytes of memory, "
        "5 connects a second; quarantine for 7 s after 6 faults; keepalive after 8 s; idle "
        "connections are closed after 9 s");
    ASSERT_TRUE(parse("--max-connections-per-peer 0 --quarantine-after 0 --keepalive 0", options));
    EXPECT_NE(to_string(options.peers).find("any number of connections"), std::string::npos);
    EXPECT_NE(to_string(options.peers).find("no quarantine; no keepalive"), std::string::npos);
}

TEST(ServiceOptions, NonsenseIsRefused) {
    for (const char* line :
         {"--memory much", "--memory -1", "--mountd-port 65536", "--metrics nowhere:x",
          "--reply-cache 0", "--reply-cache x", "--max-connections-per-peer -1",
          "--max-memory-per-peer -1", "--keepalive soon", "--quarantine-seconds 100000"}) {
        ServiceOptions options;
        EXPECT_FALSE(parse(line, options)) << line;
    }
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
