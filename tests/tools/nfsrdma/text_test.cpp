#include "tools/nfsrdma/text.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::tool {
namespace {

TEST(Text, ControlCharactersDoNotReachTheTerminal) {
    EXPECT_EQ(printable("a\033[31mb\nc\x7f"), "a?[31mb?c?");
    EXPECT_EQ(printable("\xc3\xbc \xff"), "\xc3\xbc \xff");
}

TEST(Text, Bytes) {
    EXPECT_EQ(human_bytes(0), "0 B");
    EXPECT_EQ(human_bytes(1023), "1023 B");
    EXPECT_EQ(human_bytes(1536), "1.5 KiB");
    EXPECT_EQ(human_bytes(5.0 * (1ull << 40)), "5.0 TiB");
}

TEST(Text, Modes) {
    EXPECT_EQ(mode_text(NF3DIR, 0755), "drwxr-xr-x");
    EXPECT_EQ(mode_text(NF3REG, 0640), "-rw-r-----");
    EXPECT_EQ(mode_text(NF3LNK, 0777), "lrwxrwxrwx");
    EXPECT_EQ(mode_text(NF3REG, 06711), "-rws--s--x");
    EXPECT_EQ(mode_text(NF3DIR, 01777), "drwxrwxrwt");
    EXPECT_EQ(mode_text(NF3REG, 07000), "---S--S--T");
    EXPECT_EQ(mode_text(static_cast<ftype3>(0), 0), "?---------");
    EXPECT_STREQ(type_text(NF3FIFO), "fifo");
}

TEST(Text, AttributesForPrograms) {
    fattr3 attr{};
    attr.type = NF3REG;
    attr.mode = 0100644;
    attr.size = 5368709120;
    attr.mtime = {1234567890, 5};
    JsonObject object;
    add_attributes(object, attr);
    for (const char* member : {"\"type\":\"file\"", "\"mode\":\"0644\"", "\"size\":5368709120",
                               "\"mtime\":1234567890,\"mtime_ns\":5"}) {
        EXPECT_NE(object.text().find(member), std::string::npos) << member << object.text();
    }
    EXPECT_STREQ(type_word(static_cast<ftype3>(0)), "unknown");
}

}  // namespace
}  // namespace nfsrdma::tool
