#include "rpcrdma/private_data.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "tests/rpcrdma/hex_vector.hpp"

namespace nfsrdma::rpcrdma {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
    std::vector<std::byte> out;
    for (const int value : values)
        out.push_back(static_cast<std::byte>(value));
    return out;
}

TEST(PrivateData, EncodesAsRfc8797Section4) {
    const auto out =
        encode_private_data({.remote_invalidation = true, .send_size = 4096, .recv_size = 65536});
    EXPECT_TRUE(std::ranges::equal(out, bytes({0xF6, 0xAB, 0x0E, 0x18, 1, 1, 3, 63})));
}

TEST(PrivateData, RoundTripsEverySize) {
    for (std::uint32_t kib = 1; kib <= 256; ++kib) {
        const PrivateData in{.remote_invalidation = kib % 2 == 0,
                             .send_size = kib * 1024,
                             .recv_size = (257 - kib) * 1024};
        const PrivateData out = decode_private_data(encode_private_data(in));
        EXPECT_EQ(out.remote_invalidation, in.remote_invalidation);
        EXPECT_EQ(out.send_size, in.send_size);
        EXPECT_EQ(out.recv_size, in.recv_size);
    }
}

TEST(PrivateData, SizesAreRoundedDownAndClamped) {
    const auto out = encode_private_data({.send_size = 5000, .recv_size = 1 << 20});
    const PrivateData back = decode_private_data(out);
    EXPECT_EQ(back.send_size, 4096u);
    EXPECT_EQ(back.recv_size, 256u * 1024);
    EXPECT_EQ(decode_private_data(encode_private_data({.send_size = 0, .recv_size = 1})).send_size,
              1024u);
}

TEST(PrivateData, PaddingBehindTheEightBytesIsIgnored) {
    auto padded = bytes({0xF6, 0xAB, 0x0E, 0x18, 1, 1, 3, 3});
    padded.resize(56);
    EXPECT_TRUE(decode_private_data(padded).remote_invalidation);
    EXPECT_EQ(decode_private_data(padded).send_size, 4096u);
}

TEST(PrivateData, ReservedFlagsAreIgnored) {
    EXPECT_FALSE(
        decode_private_data(bytes({0xF6, 0xAB, 0x0E, 0x18, 1, 0xFE, 3, 3})).remote_invalidation);
    EXPECT_TRUE(
        decode_private_data(bytes({0xF6, 0xAB, 0x0E, 0x18, 1, 0xFF, 3, 3})).remote_invalidation);
}

TEST(PrivateData, WhatIsNotOursGivesTheDefaults) {
    const std::vector<std::vector<std::byte>> foreign{
        {},
        bytes({0xF6, 0xAB, 0x0E, 0x18, 1, 1, 3}),     // seven bytes
        bytes({0xF6, 0xAB, 0x0E, 0x19, 1, 1, 3, 3}),  // another magic
        bytes({0x18, 0x0E, 0xAB, 0xF6, 1, 1, 3, 3}),  // little-endian
        bytes({0xF6, 0xAB, 0x0E, 0x18, 2, 1, 3, 3}),  // another version
        std::vector<std::byte>(196),
    };
    for (const auto& data : foreign) {
        const PrivateData out = decode_private_data(data);
        EXPECT_FALSE(out.remote_invalidation);
        EXPECT_EQ(out.send_size, kDefaultInline);
        EXPECT_EQ(out.recv_size, kDefaultInline);
    }
}

TEST(PrivateData, LinuxClientOfTheCapture) {
    // A Linux 6.1 client's REQ: IPv4, UDP, BTH, DETH, then the MAD, whose last 92 bytes are private
    // data, of which RDMA IP CM has 36. 4 KiB each way, remote invalidation.
    const HexVector frame = load_hex_vector(std::filesystem::path("tests/vectors/roce/cm_req.hex"));
    constexpr std::size_t kMad = 20 + 8 + 12 + 8, kConsumers = kMad + 256 - 92 + 36;
    ASSERT_EQ(frame.bytes.size(), kMad + 256 + 4);
    const auto consumers = std::span(frame.bytes).subspan(kConsumers, 92 - 36);
    const PrivateData out = decode_private_data(consumers);
    EXPECT_TRUE(out.remote_invalidation);
    EXPECT_EQ(out.send_size, kOurInline);
    EXPECT_EQ(out.recv_size, kOurInline);
    // What we would send in its place begins with the same bytes.
    const auto ours = encode_private_data(out);
    EXPECT_TRUE(std::ranges::equal(ours, consumers.first(ours.size())));
}

TEST(AgreeInline, EachWayTheSmallerOfSenderAndReceiver) {
    const PrivateData ours{.send_size = 4096, .recv_size = 8192};
    const PrivateData peers{.send_size = 2048, .recv_size = 65536};
    const InlineLimits limits = agree_inline(ours, peers);
    EXPECT_EQ(limits.send, 4096u);
    EXPECT_EQ(limits.recv, 2048u);
    const InlineLimits silent = agree_inline(ours, decode_private_data({}));
    EXPECT_EQ(silent.send, kDefaultInline);
    EXPECT_EQ(silent.recv, kDefaultInline);
}

}  // namespace
}  // namespace nfsrdma::rpcrdma
