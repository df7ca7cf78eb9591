#include "tools/nfsrdma/change_text.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::tool {
namespace {

TEST(ChangeText, Modes) {
    EXPECT_EQ(changed_mode("644", 0, false), 0644u);
    EXPECT_EQ(changed_mode("07777", 0, false), 07777u);
    EXPECT_EQ(changed_mode("u+x", 0644, false), 0744u);
    EXPECT_EQ(changed_mode("go-r,u=rw", 0755, false), 0611u);
    EXPECT_EQ(changed_mode("a=", 0755, false), 0u);
    EXPECT_EQ(changed_mode("+X", 0644, false), 0644u);
    EXPECT_EQ(changed_mode("+X", 0644, true), 0755u);
    EXPECT_EQ(changed_mode("+X", 0744, false), 0755u);
    EXPECT_EQ(changed_mode("u+s,g+s,+t", 0755, false), 07755u);
    EXPECT_EQ(changed_mode("u+r-w", 0200, false), 0400u);
    for (const char* text : {"", "8", "77777", "u", "u+q", "z+r", "u+r,", ",u+r", "rw"}) {
        const auto mode = changed_mode(text, 0644, false);
        EXPECT_EQ(mode.has_value(), std::string_view(text) == "u+r,") << text;
    }
}

TEST(ChangeText, Owners) {
    const auto both = parse_owner("10:20");
    ASSERT_TRUE(both);
    EXPECT_EQ(both->uid, 10u);
    EXPECT_EQ(both->gid, 20u);
    EXPECT_FALSE(parse_owner("10")->gid);
    EXPECT_FALSE(parse_owner(":7")->uid);
    EXPECT_EQ(parse_owner("root")->uid, 0u);
    EXPECT_FALSE(parse_owner(""));
    EXPECT_FALSE(parse_owner(":"));
    EXPECT_FALSE(parse_owner("no-such-user-here"));
    EXPECT_FALSE(parse_owner("99999999999"));
}

TEST(ChangeText, Sizes) {
    EXPECT_EQ(parse_size("0"), 0u);
    EXPECT_EQ(parse_size("64K"), 65536u);
    EXPECT_EQ(parse_size("5G"), 5368709120u);
    EXPECT_EQ(parse_size("9223372036854775807"), std::uint64_t{INT64_MAX});
    for (const char* text : {"", "K", "x", "-1", "9223372036854775808", "9000000000000P", "1 M"})
        EXPECT_FALSE(parse_size(text)) << text;
}

TEST(ChangeText, Times) {
    EXPECT_EQ(parse_time("@1234567890")->seconds, 1234567890u);
    EXPECT_EQ(parse_time("@1.5")->nseconds, 500'000'000u);
    EXPECT_TRUE(parse_time("2020-02-03"));
    EXPECT_TRUE(parse_time("2020-02-03 04:05"));
    EXPECT_TRUE(parse_time("2020-02-03T04:05:06"));
    for (const char* text : {"", "@", "@x", "@1.", "@1.1234567890", "@-5", "yesterday",
                             "1960-01-01", "2020-02-03 x", "@4294967296"})
        EXPECT_FALSE(parse_time(text)) << text;
}

}  // namespace
}  // namespace nfsrdma::tool
