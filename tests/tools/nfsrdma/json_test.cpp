#include "tools/nfsrdma/json.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::tool {
namespace {

TEST(Json, StringsAreEscaped) {
    EXPECT_EQ(json_string("plain"), "\"plain\"");
    EXPECT_EQ(json_string("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\u000a\\u0001\"");
    EXPECT_EQ(json_string("\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"),
              "\"\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

// As Python's surrogateescape: json.loads and os.fsencode give the bytes back.
TEST(Json, BytesThatAreNoUtf8) {
    EXPECT_EQ(json_string("\xff"), "\"\\udcff\"");
    EXPECT_EQ(json_string("\xc3"), "\"\\udcc3\"");                          // cut off
    EXPECT_EQ(json_string("\xc0\x80"), "\"\\udcc0\\udc80\"");               // overlong
    EXPECT_EQ(json_string("\xed\xa0\x80x"), "\"\\udced\\udca0\\udc80x\"");  // a surrogate
    EXPECT_EQ(json_string("\xf4\x90\x80\x80"), "\"\\udcf4\\udc90\\udc80\\udc80\"");
    EXPECT_EQ(json_string("\xe0\x9f\xbf"), "\"\\udce0\\udc9f\\udcbf\"");
}

TEST(Json, Objects) {
    JsonObject object;
    EXPECT_EQ(object.text(), "{}");
    object.add("n", 5u).add("t", "x").add("b", true).add("d", 0.5).add_raw("a", "[]");
    EXPECT_EQ(object.line(), "{\"n\":5,\"t\":\"x\",\"b\":true,\"d\":0.500000,\"a\":[]}\n");
}

}  // namespace
}  // namespace nfsrdma::tool
