#include "devices/choice.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::devices {
namespace {

TEST(DeviceChoice, EveryForm) {
    EXPECT_EQ(parse_choice("softroce")->kind, Kind::softroce);
    EXPECT_EQ(parse_choice("auto")->kind, Kind::automatic);
    EXPECT_EQ(parse_choice("rdmacore")->kind, Kind::rdmacore);
    EXPECT_EQ(parse_choice("rdmacore")->name, "");
    EXPECT_EQ(parse_choice("rdmacore:rxe0")->name, "rxe0");
    EXPECT_EQ(parse_choice("rdmacore:fe80::1%eth0")->name, "fe80::1%eth0");
    for (const char* text : {"softroce", "auto", "rdmacore", "rdmacore:mlx5_0"})
        EXPECT_EQ(to_string(*parse_choice(text)), text);
}

TEST(DeviceChoice, EverythingElseIsRefused) {
    for (const char* text : {"", "softroce:x", "rdmacore:", "rdmacorex", "rxe0", "AUTO"}) {
        EXPECT_FALSE(parse_choice(text)) << text;
        EXPECT_NE(check_choice(text), "") << text;
    }
    EXPECT_EQ(check_choice("auto"), "");
}

TEST(DeviceChoice, TheAddressTowardsOneself) {
    for (const char* text : {"127.0.0.1", "127.3.2.1", "::1"}) {
        auto found = address_towards(*SockAddr::parse(text, 0));
        ASSERT_TRUE(static_cast<bool>(found)) << text;
        EXPECT_TRUE(found->is_loopback()) << found->to_string();
        EXPECT_EQ(found->port(), 0);
    }
}

}  // namespace
}  // namespace nfsrdma::devices
