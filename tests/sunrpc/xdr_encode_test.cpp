#include <array>

#include <gtest/gtest.h>

#include "sunrpc/xdr_stream.hpp"
#include "tests/sunrpc/blob_program.hpp"

namespace nfsrdma::sunrpc {
namespace {

namespace blob = testing::blob;
const DdpItem kItem{offsetof(blob::WriteArgs, data.data_val)};

struct Encoded {
    std::vector<std::byte> room = std::vector<std::byte>(1 << 16);
    std::vector<char> data;
    blob::WriteArgs args{};
    XdrBuf buf;
    bool ok = false;
};

void encode(Encoded& e, std::uint32_t size, bool with_item) {
    e.data.resize(size);
    for (std::uint32_t i = 0; i < size; ++i)
        e.data[i] = blob::pattern(i, size);
    e.args = {1, {size, e.data.data()}, 2};
    XdrEncodeStream stream(e.room);
    if (with_item) stream.set_item(kItem, &e.args);
    e.ok = blob::xdr_write_args(stream.xdr(), &e.args) != FALSE && !stream.failed();
    e.buf = stream.message();
    EXPECT_EQ(XDR_GETPOS(stream.xdr()), e.buf.length());
}

std::vector<std::byte> flat(const XdrBuf& buf) {
    std::vector<std::byte> out(buf.head.begin(), buf.head.end());
    out.insert(out.end(), buf.payload.begin(), buf.payload.end());
    out.resize(out.size() + buf.pad());
    out.insert(out.end(), buf.tail.begin(), buf.tail.end());
    return out;
}

TEST(XdrEncode, ItemStaysWhereItLies) {
    for (const std::uint32_t size : {1u, 2u, 3u, 4u, 5u, 1023u, 4096u, 65537u}) {
        Encoded e;
        encode(e, size, true);
        ASSERT_TRUE(e.ok);
        EXPECT_EQ(as_chars(e.buf.payload.data()), e.data.data());
        EXPECT_EQ(e.buf.payload.size(), size);  // without its pad
        EXPECT_EQ(e.buf.head.size(), 8u);
        EXPECT_EQ(e.buf.tail.size(), 4u);
        EXPECT_EQ(e.buf.tail.data(), e.buf.head.data() + e.buf.head.size());
    }
}

TEST(XdrEncode, SameBytesAsXdrmem) {
    for (std::uint32_t size = 0; size < 40; ++size) {
        Encoded e;
        encode(e, size, true);
        ASSERT_TRUE(e.ok);
        std::vector<std::byte> want(1024);
        XDR xdr{};
        xdrmem_create(&xdr, as_chars(want.data()), 1024, XDR_ENCODE);
        ASSERT_TRUE(blob::xdr_write_args(&xdr, &e.args));
        want.resize(XDR_GETPOS(&xdr));
        EXPECT_EQ(flat(e.buf), want) << size;
    }
}

TEST(XdrEncode, EmptyItemIsNoPayload) {
    Encoded e;
    encode(e, 0, true);
    ASSERT_TRUE(e.ok);
    EXPECT_TRUE(e.buf.payload.empty());
    EXPECT_EQ(e.buf.head.size(), 12u);
    EXPECT_TRUE(e.buf.tail.empty());
}

TEST(XdrEncode, WithoutItemEverythingIsHead) {
    Encoded e;
    encode(e, 5, false);
    ASSERT_TRUE(e.ok);
    EXPECT_TRUE(e.buf.payload.empty());
    EXPECT_EQ(e.buf.head.size(), 20u);
}

TEST(XdrEncode, FullRoomFails) {
    std::vector<std::byte> room(16);
    std::vector<char> data(16);
    blob::WriteArgs args{1, {16, data.data()}, 2};
    XdrEncodeStream stream(room);
    EXPECT_FALSE(blob::xdr_write_args(stream.xdr(), &args));
    EXPECT_TRUE(stream.failed());
    // The item takes no room.
    XdrEncodeStream other(room);
    other.set_item(kItem, &args);
    EXPECT_TRUE(blob::xdr_write_args(other.xdr(), &args));
    EXPECT_FALSE(other.failed());
}

// An XDR routine that puts an opaque's bytes but not its pad would shift everything behind it.
TEST(XdrEncode, MissingPadFails) {
    std::vector<std::byte> room(64);
    std::vector<char> data(5);
    blob::WriteArgs args{1, {5, data.data()}, 2};
    XdrEncodeStream stream(room);
    stream.set_item(kItem, &args);
    ASSERT_TRUE(XDR_PUTBYTES(stream.xdr(), data.data(), 5));
    EXPECT_TRUE(stream.failed());
    u_int word = 1;
    EXPECT_FALSE(xdr_u_int(stream.xdr(), &word));
    EXPECT_TRUE(stream.failed());
}

TEST(XdrEncode, InlineWordsDoNotCrossTheItem) {
    std::vector<std::byte> room(64);
    std::vector<char> data(8);
    blob::WriteArgs args{1, {8, data.data()}, 2};
    XdrEncodeStream stream(room);
    stream.set_item(kItem, &args);
    EXPECT_NE(XDR_INLINE(stream.xdr(), 8), nullptr);
    EXPECT_EQ(XDR_INLINE(stream.xdr(), 6), nullptr);
    EXPECT_EQ(XDR_INLINE(stream.xdr(), 128), nullptr);
    EXPECT_FALSE(stream.failed());
    ASSERT_TRUE(XDR_PUTBYTES(stream.xdr(), data.data(), 8));
    EXPECT_FALSE(XDR_SETPOS(stream.xdr(), 0));
    EXPECT_NE(XDR_INLINE(stream.xdr(), 4), nullptr);
    EXPECT_EQ(stream.message().head.size(), 8u);
    EXPECT_EQ(stream.message().tail.size(), 4u);
}

TEST(XdrEncode, BeginsBehindWhatIsThere) {
    std::vector<std::byte> room(64);
    XdrEncodeStream stream(room, 40);
    u_int word = 7;
    ASSERT_TRUE(xdr_u_int(stream.xdr(), &word));
    EXPECT_EQ(stream.message().head.size(), 44u);
    EXPECT_EQ(load_be32(room.data() + 40), 7u);
}

TEST(XdrEncode, ShorterThanItsMinimumStaysInTheMessage) {
    DdpItem item = kItem;
    item.min = 8;
    for (const std::uint32_t size : {1u, 4u, 7u, 8u, 9u}) {
        std::vector<std::byte> room(64);
        std::vector<char> data(size, 'x');
        blob::WriteArgs args{1, {size, data.data()}, 2};
        XdrEncodeStream stream(room);
        stream.set_item(item, &args);
        ASSERT_TRUE(blob::xdr_write_args(stream.xdr(), &args));
        EXPECT_EQ(stream.message().payload.size(), size < 8 ? 0u : size);
        EXPECT_EQ(stream.message().length(), 12u + align_up(size, 4));
    }
}

// An item behind pointers, where no offset leads: here, the second of two.
bool_t is_second(const void* object, const char* at, std::uint32_t bytes) {
    const auto* const both = static_cast<const blob::WriteArgs*>(object);
    return both[1].data.data_val == at && both[1].data.data_len == bytes;
}
TEST(XdrEncode, ItemIsFoundByAPredicate) {
    std::vector<std::byte> room(64);
    std::vector<char> first(6, 'a');
    std::vector<char> second(6, 'b');
    std::array<blob::WriteArgs, 2> both{{{1, {6, first.data()}, 2}, {3, {6, second.data()}, 4}}};
    DdpItem item;
    item.match = is_second;
    XdrEncodeStream stream(room);
    stream.set_item(item, both.data());
    for (blob::WriteArgs& each : both)
        ASSERT_TRUE(blob::xdr_write_args(stream.xdr(), &each));
    const XdrBuf message = stream.message();
    EXPECT_EQ(as_chars(message.payload.data()), second.data());
    EXPECT_EQ(message.payload.size(), 6u);
    EXPECT_EQ(message.head.size(), 20u + 8);
    EXPECT_EQ(message.tail.size(), 4u);
}

// What libtirpc's authgss_prot.c does for integrity: room for a length is left, the body is
// written, and then the body's own bytes are asked for, their length put before, and a checksum
// behind.
TEST(XdrEncode, GssGoesBackToWhatItWrote) {
    std::vector<std::byte> room(128, std::byte{0xEE});
    XdrEncodeStream stream(room, 8);
    XDR* const xdr = stream.xdr();
    const u_int start = XDR_GETPOS(xdr);
    ASSERT_EQ(start, 8u);
    ASSERT_TRUE(XDR_SETPOS(xdr, start + 4));
    u_int sequence = 77;
    ASSERT_TRUE(xdr_u_int(xdr, &sequence));
    std::vector<char> data(5, 'q');
    blob::WriteArgs args{1, {5, data.data()}, 2};
    ASSERT_TRUE(blob::xdr_write_args(xdr, &args));
    const u_int end = XDR_GETPOS(xdr);
    u_int length = end - start - 4;
    ASSERT_EQ(length, 4u + 20);
    ASSERT_TRUE(XDR_SETPOS(xdr, start + 4));
    const void* const body = XDR_INLINE(xdr, length);
    ASSERT_EQ(body, room.data() + start + 4);
    EXPECT_EQ(load_be32(room.data() + start + 4), 77u);
    ASSERT_TRUE(XDR_SETPOS(xdr, start));
    ASSERT_TRUE(xdr_u_int(xdr, &length));
    ASSERT_TRUE(XDR_SETPOS(xdr, end));
    std::array<char, 7> checksum{'c', 'h', 'e', 'c', 'k', 's', 'm'};
    char* at = checksum.data();
    u_int size = checksum.size();
    ASSERT_TRUE(xdr_bytes(xdr, &at, &size, 400));
    EXPECT_FALSE(stream.failed());
    const XdrBuf message = stream.message();
    EXPECT_EQ(message.head.size(), end + 4 + 8);
    EXPECT_EQ(load_be32(room.data() + start), length);
    EXPECT_EQ(load_be32(room.data() + start + 8), 1u);  // the body is still there
    EXPECT_EQ(load_be32(room.data() + end), 7u);
}

// And for privacy: the whole body is replaced by something of another length.
TEST(XdrEncode, GssReplacesWhatItWrote) {
    std::vector<std::byte> room(128, std::byte{0xEE});
    XdrEncodeStream stream(room);
    XDR* const xdr = stream.xdr();
    ASSERT_TRUE(XDR_SETPOS(xdr, 4));
    std::vector<char> data(40, 'q');
    blob::WriteArgs args{1, {40, data.data()}, 2};
    ASSERT_TRUE(blob::xdr_write_args(xdr, &args));
    ASSERT_TRUE(XDR_SETPOS(xdr, 4));
    ASSERT_NE(XDR_INLINE(xdr, 52), nullptr);
    ASSERT_TRUE(XDR_SETPOS(xdr, 0));
    std::array<char, 10> sealed{};
    char* at = sealed.data();
    u_int size = sealed.size();
    ASSERT_TRUE(xdr_bytes(xdr, &at, &size, 400));
    EXPECT_EQ(stream.message().head.size(), 4u + 12);
}

// What the room held before is no business of the peer's.
TEST(XdrEncode, SkippedBytesAreZero) {
    std::vector<std::byte> room(64, std::byte{0xEE});
    XdrEncodeStream stream(room);
    u_int word = ~0u;
    ASSERT_TRUE(xdr_u_int(stream.xdr(), &word));
    ASSERT_TRUE(XDR_SETPOS(stream.xdr(), 32));
    ASSERT_TRUE(XDR_SETPOS(stream.xdr(), 0));
    ASSERT_TRUE(XDR_SETPOS(stream.xdr(), 40));
    EXPECT_EQ(load_be32(room.data()), ~0u);
    for (std::size_t i = 4; i < 40; ++i)
        EXPECT_EQ(room[i], std::byte{0}) << i;
    EXPECT_EQ(room[40], std::byte{0xEE});
    EXPECT_FALSE(XDR_SETPOS(stream.xdr(), 65));
    ASSERT_TRUE(XDR_SETPOS(stream.xdr(), 64));
    EXPECT_FALSE(xdr_u_int(stream.xdr(), &word));
}

}  // namespace
}  // namespace nfsrdma::sunrpc
