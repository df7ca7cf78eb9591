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

TEST(ServiceOptions, NonsenseIsRefused) {
    for (const char* line : {"--memory much", "--memory -1", "--mountd-port 65536",
                             "--metrics nowhere:x", "--reply-cache 0", "--reply-cache x"}) {
        ServiceOptions options;
        EXPECT_FALSE(parse(line, options)) << line;
    }
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
