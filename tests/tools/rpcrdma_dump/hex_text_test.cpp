#include "tools/rpcrdma_dump/hex_text.hpp"

#include <string>

#include <gtest/gtest.h>

namespace nfsrdma::rpcrdma_dump {
namespace {

std::string parsed(std::string_view text) {
    std::size_t line = 0;
    auto bytes = parse_hex(text, line);
    if (!bytes) return "line " + std::to_string(line) + ": " + bytes.error().what;
    std::string out;
    for (const std::byte b : *bytes)
        out += std::to_string(std::to_integer<int>(b)) + " ";
    return out;
}

TEST(HexText, SpacesNewlinesPrefixesAndComments) {
    EXPECT_EQ(parsed(""), "");
    EXPECT_EQ(parsed("0102"), "1 2 ");
    EXPECT_EQ(parsed(" 01 0x02,0XfF\n# 03\n04# 05"), "1 2 255 4 ");
    EXPECT_EQ(parsed("0x010203 aB:cD\r\n"), "1 2 3 171 205 ");
    EXPECT_EQ(parsed("00"), "0 ");
}

TEST(HexText, SaysTheLineOfWhatItCannotRead) {
    EXPECT_EQ(parsed("01\n0g"), "line 2: an odd number of digits");
    EXPECT_EQ(parsed("01\n\nxy"), "line 3: not a hexadecimal digit");
    EXPECT_EQ(parsed("012"), "line 1: an odd number of digits");
    EXPECT_EQ(parsed("0x"), "line 1: 0x without digits");
    EXPECT_EQ(parsed("0xg0"), "line 1: 0x without digits");
    EXPECT_EQ(parsed("# only\n# comments\n\xC3\xA9"), "line 3: not a hexadecimal digit");
}

}  // namespace
}  // namespace nfsrdma::rpcrdma_dump
