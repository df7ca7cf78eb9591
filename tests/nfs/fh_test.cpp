#include "nfs/fh.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace nfsrdma::nfs {
namespace {

const FhFields kFields{0x01020304, {0x1122334455667788, 0x99aabbccddeeff00}};

HandleKey key_of(char c) {
    std::array<std::byte, HandleKey::kFileBytes> secret{};
    secret.fill(static_cast<std::byte>(c));
    return HandleKey(secret);
}

FhFields with_kernel(std::uint8_t size) {
    FhFields fields = kFields;
    fields.node.kernel.type = 0x81;
    fields.node.kernel.size = size;
    for (std::size_t i = 0; i < size; ++i)
        fields.node.kernel.bytes[i] = static_cast<std::byte>(0x30 + i);
    return fields;
}

TEST(Fh, RoundTripWithEveryKernelHandle) {
    const HandleKey key = key_of('a');
    for (std::uint8_t size = 0; size <= KernelHandle::kMax; ++size) {
        const FhFields fields = with_kernel(size);
        const FhBytes bytes = encode_fh(key, fields);
        EXPECT_EQ(bytes.size, 40u + size);
        EXPECT_LE(bytes.size, std::uint32_t{NFS3_FHSIZE});
        FhFields out;
        ASSERT_TRUE(decode_fh(key, bytes.span(), out)) << int{size};
        EXPECT_EQ(out, fields);
        EXPECT_EQ(out.node.kernel.size, size);
        EXPECT_EQ(out.node.kernel.type, fields.node.kernel.type);
        EXPECT_EQ(out.node.kernel.bytes, fields.node.kernel.bytes);
    }
}

TEST(Fh, LayoutIsFixed) {
    const FhBytes handle = encode_fh(key_of('a'), with_kernel(8));
    EXPECT_EQ(handle.bytes[0], std::byte{2});
    EXPECT_EQ(handle.bytes[1], std::byte{8});
    EXPECT_EQ(handle.bytes[3], std::byte{0x81});
    EXPECT_EQ(handle.bytes[4], std::byte{0x01});
    EXPECT_EQ(handle.bytes[8], std::byte{0x11});
    EXPECT_EQ(handle.bytes[23], std::byte{0x00});
    EXPECT_EQ(handle.bytes[24], std::byte{0x30});
}

TEST(Fh, EveryOtherSizeIsRefused) {
    const HandleKey key = key_of('a');
    const FhBytes handle = encode_fh(key, with_kernel(8));
    std::array<std::byte, 128> longer{};
    std::copy(handle.bytes.begin(), handle.bytes.end(), longer.begin());
    FhFields out;
    for (std::size_t size = 0; size <= longer.size(); ++size) {
        EXPECT_EQ(decode_fh(key, std::span(longer).first(size), out), size == handle.size) << size;
    }
}

TEST(Fh, EveryBitIsSigned) {
    const HandleKey key = key_of('a');
    const FhBytes good = encode_fh(key, with_kernel(12));
    for (std::uint32_t at = 0; at < good.size; ++at) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            FhBytes bad = good;
            bad.bytes[at] ^= static_cast<std::byte>(1u << bit);
            FhFields out;
            EXPECT_FALSE(decode_fh(key, bad.span(), out)) << at;
        }
    }
}

TEST(Fh, AnotherKeysHandleIsRefused) {
    FhFields out;
    EXPECT_FALSE(decode_fh(key_of('b'), encode_fh(key_of('a'), kFields).span(), out));
}

// What the key's owner signed but this version does not make.
TEST(Fh, AnotherVersionOrLengthIsRefusedThoughSigned) {
    const HandleKey key = key_of('a');
    for (const std::size_t at : {0u, 1u}) {
        FhBytes handle = encode_fh(key, with_kernel(8));
        handle.bytes[at] = std::byte{7};
        const std::size_t signed_bytes = handle.size - sizeof(SipTag);
        const SipTag tag = key.tag(std::span(handle.bytes).first(signed_bytes));
        std::copy(tag.begin(), tag.end(), handle.bytes.begin() + 32);
        FhFields out;
        EXPECT_FALSE(decode_fh(key, handle.span(), out)) << at;
    }
}

TEST(Fh, NullPointerIsEmpty) {
    nfs_fh3 fh{};
    fh.data.data_len = 40;
    EXPECT_TRUE(bytes_of(fh).empty());
}

TEST(Fh, ExportIdDependsOnTheNameAlone) {
    EXPECT_EQ(export_id_of("/a"), export_id_of("/a"));
    EXPECT_NE(export_id_of("/a"), export_id_of("/b"));
    EXPECT_NE(export_id_of(""), export_id_of("/"));
}

TEST(Fh, FsidIsANumberOrAUuid) {
    const auto id = [](std::string_view text) { return export_id_of_fsid(text); };
    constexpr std::string_view kUuid = "4f1C2a00-1111-2222-3333-ABCDEF012345";
    EXPECT_EQ(*id("0"), *id("root"));
    EXPECT_EQ(*id("7"), *id("007"));
    EXPECT_NE(*id("7"), *id("8"));
    EXPECT_TRUE(static_cast<bool>(id("18446744073709551615")));
    EXPECT_EQ(*id(kUuid), *id("4f1c2a00111122223333abcdef012345"));
    for (const std::string_view bad :
         {"", "x", "-1", "7x", "18446744073709551616", "4f1c2a00-1111-2222-3333-abcdef01234",
          "4f1c2a00-1111-2222-3333-abcdef0123456", "4f1c2a00 1111 2222 3333 abcdef012345"}) {
        ASSERT_FALSE(static_cast<bool>(id(bad))) << bad;
        EXPECT_EQ(id(bad).error().code, Errc::invalid_argument);
    }
}

}  // namespace
}  // namespace nfsrdma::nfs
