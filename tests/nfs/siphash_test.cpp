#include "nfs/siphash.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"

namespace nfsrdma::nfs {
namespace {

// Key 00 01 .. 0f over the message 00 01 ..: the values of OpenSSL's SIPHASH MAC.
std::string tag_of(std::size_t message_bytes) {
    SipKey key{};
    for (std::size_t i = 0; i < key.size(); ++i)
        key[i] = static_cast<std::byte>(i);
    std::vector<std::byte> message(message_bytes);
    for (std::size_t i = 0; i < message.size(); ++i)
        message[i] = static_cast<std::byte>(i);
    std::string out;
    for (const std::byte b : siphash128(key, message)) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        out += kDigits[load_u8(&b) >> 4];
        out += kDigits[load_u8(&b) & 15u];
    }
    return out;
}

TEST(Siphash, KnownAnswers) {
    EXPECT_EQ(tag_of(0), "a3817f04ba25a8e66df67214c7550293");
    EXPECT_EQ(tag_of(1), "da87c1d86b99af44347659119b22fc45");
    EXPECT_EQ(tag_of(48), "f7e5aef549f782cf379055a608269b16");
}

TEST(Siphash, EveryByteOfKeyAndMessageCounts) {
    std::array<std::byte, 31> message{};
    SipKey key{};
    const SipTag tag = siphash128(key, message);
    for (std::byte& b : message) {
        b = std::byte{1};
        EXPECT_FALSE(equal_tags(siphash128(key, message), tag));
        b = std::byte{0};
    }
    for (std::byte& b : key) {
        b = std::byte{1};
        EXPECT_FALSE(equal_tags(siphash128(key, message), tag));
        b = std::byte{0};
    }
    EXPECT_FALSE(equal_tags(siphash128(key, std::span(message).first(30)), tag));
    EXPECT_TRUE(equal_tags(siphash128(key, message), tag));
}

TEST(Siphash, TagsOfOtherLengthsAreNotEqual) {
    const SipTag tag{};
    EXPECT_FALSE(equal_tags(tag, std::span(tag).first(15)));
    EXPECT_TRUE(equal_tags({}, {}));
}

}  // namespace
}  // namespace nfsrdma::nfs
