#include "nfs/fh.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::nfs {
namespace {

const FhFields kFields{0x01020304, {0x1122334455667788, 0x99aabbccddeeff00}};

TEST(Fh, RoundTrip) {
    const FhBytes bytes = encode_fh(kFields);
    FhFields out;
    ASSERT_TRUE(decode_fh(bytes, out));
    EXPECT_EQ(out, kFields);
}

TEST(Fh, LayoutIsFixed) {
    const FhBytes bytes = encode_fh(kFields);
    EXPECT_EQ(bytes[0], std::byte{1});
    EXPECT_EQ(bytes[4], std::byte{0x01});
    EXPECT_EQ(bytes[8], std::byte{0x11});
    EXPECT_EQ(bytes[23], std::byte{0x00});
    EXPECT_LE(bytes.size(), std::size_t{NFS3_FHSIZE});
}

TEST(Fh, EveryOtherSizeIsRefused) {
    const FhBytes bytes = encode_fh(kFields);
    std::array<std::byte, 64> longer{};
    std::copy(bytes.begin(), bytes.end(), longer.begin());
    FhFields out;
    for (std::size_t size = 0; size <= longer.size(); ++size) {
        EXPECT_EQ(decode_fh(std::span(longer).first(size), out), size == bytes.size()) << size;
    }
}

TEST(Fh, ReservedBytesAndVersionAreChecked) {
    for (const std::size_t at : {0u, 1u, 2u, 3u, 24u, 39u}) {
        FhBytes bytes = encode_fh(kFields);
        bytes[at] ^= std::byte{0x40};
        FhFields out;
        EXPECT_FALSE(decode_fh(bytes, out)) << at;
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

}  // namespace
}  // namespace nfsrdma::nfs
