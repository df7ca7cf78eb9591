#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "sunrpc/xdr_stream.hpp"
#include "tests/sunrpc/blob_program.hpp"

namespace nfsrdma::sunrpc {
namespace {

namespace blob = testing::blob;
const DdpItem kItem{offsetof(blob::WriteArgs, data.data_val)};
const DdpItem kString{offsetof(blob::NameArgs, name), blob::kNameMax};

// WriteArgs as it comes: id, length, then the data by chunk or inline, then `after`.
struct Message {
    Message(std::uint32_t size, bool by_chunk, bool pad_in_chunk = false) {
        const std::uint32_t padded = align_up(size, 4);
        head.resize(8 + (by_chunk ? 0 : padded));
        store_be32(head.data(), 0xAA);
        store_be32(head.data() + 4, size);
        std::vector<std::byte>& data = by_chunk ? payload : head;
        const std::size_t at = by_chunk ? 0 : 8;
        if (by_chunk) payload.resize(pad_in_chunk ? padded : size);
        for (std::uint32_t i = 0; i < size; ++i) {
            data[at + i] = static_cast<std::byte>(blob::pattern(i, size));
        }
        tail.resize(4);
        store_be32(tail.data(), 0xBB);
        if (!by_chunk) {
            head.insert(head.end(), tail.begin(), tail.end());
            tail.clear();
        }
        buf.head = head;
        buf.payload = payload;
        buf.tail = tail;
    }
    std::vector<std::byte> head, payload, tail;
    XdrBuf buf;
};

void expect_data(const blob::WriteArgs& args, std::uint32_t size) {
    EXPECT_EQ(args.id, 0xAAu);
    ASSERT_EQ(args.data.data_len, size);
    EXPECT_EQ(args.after, 0xBBu);
    for (std::uint32_t i = 0; i < size; ++i) {
        ASSERT_EQ(args.data.data_val[i], blob::pattern(i, size)) << i;
    }
}

TEST(XdrDecode, PayloadIsHandedOverWithoutACopy) {
    for (const std::uint32_t position : {8u, XdrDecodeStream::kByBinding}) {
        Message message(4097, true);
        blob::WriteArgs args{};
        XdrDecodeStream stream(message.buf, position);
        stream.set_item(kItem, &args, {});
        ASSERT_TRUE(blob::xdr_write_args(stream.xdr(), &args));
        EXPECT_FALSE(stream.failed());
        EXPECT_EQ(as_bytes(args.data.data_val), message.payload.data());
        EXPECT_EQ(stream.payload_copied(), 0u);
        EXPECT_TRUE(stream.payload_taken());
        EXPECT_EQ(stream.remaining(), 0u);
        EXPECT_EQ(XDR_GETPOS(stream.xdr()), 8u + 4100 + 4);
        expect_data(args, 4097);
        stream.clear_item();
        EXPECT_EQ(args.data.data_val, nullptr);
    }
}

// RFC 8166 s3.4.5: an item's pad may or may not be in its chunk, and is never data.
TEST(B18, PadInTheChunkOrNot) {
    for (const std::uint32_t size : {1u, 2u, 3u, 5u, 6u, 7u, 8u, 65537u}) {
        for (const bool pad_in_chunk : {false, true}) {
            Message message(size, true, pad_in_chunk);
            blob::WriteArgs args{};
            XdrDecodeStream stream(message.buf, 8);
            stream.set_item(kItem, &args, {});
            ASSERT_TRUE(blob::xdr_write_args(stream.xdr(), &args));
            EXPECT_FALSE(stream.failed());
            expect_data(args, size);
        }
    }
}

// Inline data is at the place where XDR says, whatever its length; what follows is not part of it.
TEST(B04, InlineDataOfEveryLengthIsExact) {
    std::vector<std::uint32_t> sizes;
    for (std::uint32_t n = 0; n <= 9; ++n)
        sizes.push_back(n);
    for (const std::uint32_t n : {1023u, 1024u, 1025u, 4095u, 4096u, 4097u, 8191u, 8193u})
        sizes.push_back(n);
    for (const std::uint32_t size : sizes) {
        Message message(size, false);
        blob::WriteArgs args{};
        XdrDecodeStream stream(message.buf, 0);
        stream.set_item(kItem, &args, {});
        ASSERT_TRUE(blob::xdr_write_args(stream.xdr(), &args));
        EXPECT_FALSE(stream.failed());
        EXPECT_EQ(stream.in_place(), size != 0);
        EXPECT_EQ(stream.payload_copied(), 0u);
        if (size != 0) {
            EXPECT_EQ(as_bytes(args.data.data_val), message.head.data() + 8);
        }
        expect_data(args, size);
    }
}

TEST(XdrDecode, InlineItemIsCopiedToTheRoomAndCounted) {
    Message message(100, false);
    std::vector<std::byte> room(100);
    blob::WriteArgs args{};
    XdrDecodeStream stream(message.buf, XdrDecodeStream::kByBinding);
    stream.set_item(kItem, &args, room);
    ASSERT_TRUE(blob::xdr_write_args(stream.xdr(), &args));
    EXPECT_FALSE(stream.failed());
    EXPECT_EQ(as_bytes(args.data.data_val), room.data());
    EXPECT_EQ(stream.payload_copied(), 100u);
    expect_data(args, 100);
}

TEST(XdrDecode, InlineItemLargerThanTheRoomFails) {
    Message message(101, false);
    std::vector<std::byte> room(100);
    blob::WriteArgs args{};
    XdrDecodeStream stream(message.buf, XdrDecodeStream::kByBinding);
    stream.set_item(kItem, &args, room);
    EXPECT_FALSE(blob::xdr_write_args(stream.xdr(), &args));
    EXPECT_TRUE(stream.failed());
}

TEST(XdrDecode, LengthAndPayloadThatDisagreeFail) {
    for (const std::uint32_t said : {0u, 1u, 96u, 101u, 104u, 105u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
        Message message(100, true);
        store_be32(message.head.data() + 4, said);
        blob::WriteArgs args{};
        XdrDecodeStream stream(message.buf, 8);
        stream.set_item(kItem, &args, {});
        const bool decoded = blob::xdr_write_args(stream.xdr(), &args) != FALSE;
        EXPECT_TRUE(!decoded || stream.failed()) << said;
    }
}

TEST(XdrDecode, PayloadAtAnotherPositionFails) {
    for (const std::uint32_t position : {0u, 1u, 4u, 7u, 9u, 12u, 1000u}) {
        Message message(100, true);
        blob::WriteArgs args{};
        XdrDecodeStream stream(message.buf, position);
        stream.set_item(kItem, &args, {});
        const bool decoded = blob::xdr_write_args(stream.xdr(), &args) != FALSE;
        EXPECT_TRUE(!decoded || stream.failed()) << position;
    }
}

TEST(XdrDecode, PayloadWithoutAnItemFails) {
    Message message(100, true);
    blob::WriteArgs args{};
    XdrDecodeStream stream(message.buf, 8);
    const bool decoded = blob::xdr_write_args(stream.xdr(), &args) != FALSE;
    EXPECT_TRUE(!decoded || stream.failed());
    xdr_free(blob::thunk<blob::WriteArgs, blob::xdr_write_args>, &args);
}

TEST(XdrDecode, ItemAcrossHeadAndTail) {
    Message message(100, false);
    std::vector<std::byte> whole = message.head;
    for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
        // Each part in memory of its own.
        std::vector<std::byte> head(whole.begin(),
                                    whole.begin() + static_cast<std::ptrdiff_t>(cut));
        std::vector<std::byte> tail(whole.begin() + static_cast<std::ptrdiff_t>(cut), whole.end());
        XdrBuf buf;
        buf.head = head;
        buf.tail = tail;
        std::vector<std::byte> room(100);
        blob::WriteArgs args{};
        XdrDecodeStream stream(buf, XdrDecodeStream::kByBinding);
        stream.set_item(kItem, &args, room);
        ASSERT_TRUE(blob::xdr_write_args(stream.xdr(), &args)) << cut;
        EXPECT_FALSE(stream.failed());
        expect_data(args, 100);
    }
}

// xdr_string writes its terminating zero with the peer's length before it asks for the bytes.
TEST(XdrDecode, StringIsNeverDecodedInPlaceOrIntoASmallRoom) {
    std::vector<std::byte> head(4 + 8 + 4);
    store_be32(head.data(), 5);
    std::memcpy(head.data() + 4, "hello", 5);
    store_be32(head.data() + 12, 0xBB);
    XdrBuf buf;
    buf.head = head;
    std::vector<std::byte> small(16), large(blob::kNameMax + 1);
    for (const std::span<std::byte> room : {std::span<std::byte>{}, std::span<std::byte>(small)}) {
        blob::NameArgs args{};
        XdrDecodeStream stream(buf, XdrDecodeStream::kByBinding);
        stream.set_item(kString, &args, room);
        ASSERT_TRUE(blob::xdr_name_args(stream.xdr(), &args));
        EXPECT_STREQ(args.name, "hello");
        EXPECT_NE(as_bytes(args.name), small.data());
        EXPECT_EQ(args.after, 0xBBu);
        EXPECT_FALSE(stream.in_place());
        stream.clear_item();
        EXPECT_NE(args.name, nullptr);  // libtirpc's
        xdr_free(blob::thunk<blob::NameArgs, blob::xdr_name_args>, &args);
    }
    blob::NameArgs args{};
    XdrDecodeStream stream(buf, XdrDecodeStream::kByBinding);
    stream.set_item(kString, &args, large);
    ASSERT_TRUE(blob::xdr_name_args(stream.xdr(), &args));
    EXPECT_EQ(as_bytes(args.name), large.data());
    EXPECT_STREQ(args.name, "hello");
}

TEST(XdrDecode, StringThatCameByChunkIsCopiedToThePresetBuffer) {
    std::vector<std::byte> head(4), tail(4), payload(7);
    store_be32(head.data(), 7);
    store_be32(tail.data(), 0xBB);
    std::memcpy(payload.data(), "symlink", 7);
    XdrBuf buf{head, payload, tail};
    std::vector<char> preset(blob::kNameMax + 1, 'x');
    blob::NameArgs args{preset.data(), 0};
    XdrDecodeStream stream(buf, 4);
    stream.set_item(kString, &args, {});
    ASSERT_TRUE(blob::xdr_name_args(stream.xdr(), &args));
    EXPECT_FALSE(stream.failed());
    EXPECT_STREQ(args.name, "symlink");
    EXPECT_EQ(args.name, preset.data());
    EXPECT_EQ(stream.payload_copied(), 7u);
    EXPECT_EQ(args.after, 0xBBu);
    stream.clear_item();
    EXPECT_EQ(args.name, preset.data());  // the caller's, not ours to null
}

TEST(XdrDecode, InlineWordsStopAtThePayload) {
    Message message(100, true);
    blob::WriteArgs args{};
    XdrDecodeStream stream(message.buf, 8);
    stream.set_item(kItem, &args, {});
    EXPECT_EQ(XDR_INLINE(stream.xdr(), 12), nullptr);
    EXPECT_NE(XDR_INLINE(stream.xdr(), 8), nullptr);
    EXPECT_EQ(XDR_INLINE(stream.xdr(), 4), nullptr);
    u_int word = 0;
    EXPECT_FALSE(xdr_u_int(stream.xdr(), &word));
}

TEST(XdrDecode, TruncatedAtEveryByteFailsAndReadsNothingBehind) {
    Message message(10, false);
    for (std::size_t size = 0; size < message.head.size(); ++size) {
        std::vector<std::byte> cut(message.head.begin(),
                                   message.head.begin() + static_cast<std::ptrdiff_t>(size));
        XdrBuf buf;
        buf.head = cut;
        blob::WriteArgs args{};
        XdrDecodeStream stream(buf, 0);
        stream.set_item(kItem, &args, {});
        EXPECT_FALSE(blob::xdr_write_args(stream.xdr(), &args)) << size;
    }
}

TEST(XdrDecode, RandomMessagesAreDecodedOrRefused) {
    Prng prng(11);
    for (int round = 0; round < 20'000; ++round) {
        Message message(static_cast<std::uint32_t>(prng.below(64)), prng.chance_ppm(500'000),
                        prng.chance_ppm(500'000));
        if (prng.chance_ppm(700'000)) {
            message.head[prng.below(message.head.size())] = static_cast<std::byte>(prng.next());
        }
        blob::WriteArgs args{};
        XdrDecodeStream stream(message.buf, static_cast<std::uint32_t>(prng.below(16)));
        stream.set_item(kItem, &args, {});
        if (blob::xdr_write_args(stream.xdr(), &args) && !stream.failed() &&
            args.data.data_len != 0) {
            // Readable, wherever it lies.
            (void)blob::sum_of(args.data.data_val, args.data.data_len);
        }
        stream.clear_item();
    }
}

// libtirpc gives one buffer of the whole process for pad bytes: loops on several threads may not
// write there.
TEST(XdrDecode, PadBytesArePassedOverAndNotWritten) {
    std::array<std::byte, 12> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(i + 1);
    XdrBuf buf;
    buf.head = bytes;
    XdrDecodeStream stream(buf, XdrDecodeStream::kByBinding);
    std::array<char, 4> data{}, pad = {'#', '#', '#', '#'};
    XDR* const xdr = stream.xdr();
    for (const u_int size : {3u, 1u, 2u}) {
        ASSERT_TRUE(XDR_GETBYTES(xdr, data.data(), size));
        EXPECT_EQ(data[0], static_cast<char>(1 + XDR_GETPOS(xdr) - size));
        ASSERT_TRUE(XDR_GETBYTES(xdr, pad.data(), 4 - size));
        EXPECT_EQ(pad[0], '#');
        EXPECT_EQ(XDR_GETPOS(xdr) % 4, 0u);
    }
    EXPECT_FALSE(stream.failed());
}

// libtirpc allocates, and the payload is copied there: memory that xdr_free may free.
TEST(XdrDecode, CopiedIsTheCallersToFree) {
    for (const bool by_chunk : {true, false}) {
        Message message(4097, by_chunk);
        blob::WriteArgs args{};
        XdrDecodeStream stream(message.buf, XdrDecodeStream::kByBinding);
        stream.set_item_copied(kItem, &args);
        EXPECT_EQ(args.data.data_val, nullptr);
        ASSERT_TRUE(blob::xdr_write_args(stream.xdr(), &args));
        EXPECT_FALSE(stream.failed());
        EXPECT_EQ(stream.payload_copied(), by_chunk ? 4097u : 0u);
        EXPECT_FALSE(stream.in_place());
        expect_data(args, 4097);
        stream.clear_item();
        EXPECT_NE(args.data.data_val, nullptr);
        XDR release{};
        release.x_op = XDR_FREE;
        blob::xdr_write_args(&release, &args);
    }
}

TEST(XdrDecode, CopiedIntoAPresetBufferOfItsSize) {
    for (const bool by_chunk : {true, false}) {
        for (const std::uint32_t size : {0u, 1u, 99u, 100u, 101u, 102u, 65536u}) {
            Message message(size, by_chunk && size != 0);
            std::vector<char> mine(104, '#');
            blob::WriteArgs args{};
            args.data.data_val = mine.data();
            XdrDecodeStream stream(message.buf, XdrDecodeStream::kByBinding);
            stream.set_item_copied(kItem, &args, 100);
            const bool good = blob::xdr_write_args(stream.xdr(), &args) != FALSE;
            EXPECT_EQ(good && !stream.failed(), size <= 100) << size;
            EXPECT_EQ(args.data.data_val, mine.data());
            if (size <= 100) expect_data(args, size);
            EXPECT_EQ(mine[100], '#');
        }
    }
}

// The same buffer under another item's name: an arm of a union whose pointer lies at the same
// place.
TEST(XdrDecode, PresetBufferIsBoundedWhicheverItemIsThere) {
    Message message(400, false);
    std::vector<char> mine(100, '#');
    blob::WriteArgs args{};
    args.data.data_val = mine.data();
    DdpItem other;
    other.pointer_offset = offsetof(blob::WriteArgs, data.data_val);
    XdrDecodeStream stream(message.buf, 4096);  // and no item is expected here
    stream.set_item_copied(other, &args, 64);
    EXPECT_FALSE(blob::xdr_write_args(stream.xdr(), &args));
    EXPECT_TRUE(stream.failed());
    EXPECT_EQ(mine[64], '#');
}

bool_t is_only(const void* object, const char* at, std::uint32_t bytes) {
    const auto* const args = static_cast<const blob::WriteArgs*>(object);
    return args->data.data_val == at && args->data.data_len == bytes;
}
TEST(XdrDecode, ItemOfAPredicateIsCopied) {
    for (const std::uint32_t position : {8u, XdrDecodeStream::kByBinding}) {
        for (const bool by_chunk : {true, false}) {
            Message message(333, by_chunk);
            blob::WriteArgs args{};
            DdpItem item;
            item.match = is_only;
            XdrDecodeStream stream(message.buf, by_chunk ? position : 0);
            stream.set_item(item, &args, {});
            ASSERT_TRUE(blob::xdr_write_args(stream.xdr(), &args));
            EXPECT_FALSE(stream.failed());
            expect_data(args, 333);
            stream.clear_item();
            XDR release{};
            release.x_op = XDR_FREE;
            blob::xdr_write_args(&release, &args);
        }
    }
}

// A length from the peer is compared with its bound before anything is allocated for it.
TEST(B60, HugeLengthsAllocateNothing) {
    std::vector<std::byte> head(100);
    store_be32(head.data(), 0x7FFFFFFF);
    XdrBuf buf;
    buf.head = head;
    char* name = nullptr;
    XdrDecodeStream text(buf, 0);
    EXPECT_FALSE(xdr_string(text.xdr(), &name, 255));
    EXPECT_EQ(name, nullptr);
    u_int length = 0;
    XdrDecodeStream data(buf, 0);
    EXPECT_FALSE(xdr_bytes(data.xdr(), &name, &length, 1 << 20));
    EXPECT_EQ(name, nullptr);
}

}  // namespace
}  // namespace nfsrdma::sunrpc
