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

}  // namespace
}  // namespace nfsrdma::sunrpc
