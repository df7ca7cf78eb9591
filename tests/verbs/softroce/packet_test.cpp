#include "verbs/softroce/packet.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::verbs::softroce {
namespace {

TEST(Psn, ExtendsToTheNearestCount) {
    const std::uint64_t start = first_psn(0xFFFFFE);
    EXPECT_EQ(wire_psn(start), 0xFFFFFEu);
    EXPECT_EQ(extend_psn(start, 0xFFFFFE), start);
    EXPECT_EQ(extend_psn(start, 0), start + 2);
    EXPECT_EQ(extend_psn(start, 0xFFFFF0), start - 14);
    EXPECT_EQ(extend_psn(start + 2, 0xFFFFFF), start + 1);
    EXPECT_EQ(extend_psn(start, (0xFFFFFE + 0x7FFFFF) & kPsnMask), start + 0x7FFFFF);
    EXPECT_EQ(extend_psn(start, (0xFFFFFE + 0x800000) & kPsnMask), start - 0x800000);
    EXPECT_EQ(extend_psn(first_psn(0), 0xFFFFFF), first_psn(0) - 1);
}

TEST(Bth, IsAsTheSpecificationLaysItOut) {
    Bth bth;
    bth.opcode = 0x0A;
    bth.pad = 3;
    bth.ack_request = true;
    bth.dest_qpn = 0x123456;
    bth.psn = 0xABCDEF;
    std::array<std::byte, kBthSize> bytes{};
    store_bth(bytes.data(), bth);
    const std::array<std::uint8_t, kBthSize> expected = {0x0A, 0x30, 0xFF, 0xFF, 0x00, 0x12,
                                                         0x34, 0x56, 0x80, 0xAB, 0xCD, 0xEF};
    for (std::size_t i = 0; i < kBthSize; ++i)
        EXPECT_EQ(load_u8(&bytes[i]), expected[i]) << i;
    const Bth read = load_bth(bytes.data());
    EXPECT_EQ(read.opcode, bth.opcode);
    EXPECT_EQ(read.pad, 3);
    EXPECT_EQ(read.version, 0);
    EXPECT_EQ(read.pkey, kDefaultPkey);
    EXPECT_TRUE(read.ack_request);
    EXPECT_EQ(read.dest_qpn, bth.dest_qpn);
    EXPECT_EQ(read.psn, bth.psn);
}

TEST(Aeth, SyndromesTellTheirKind) {
    EXPECT_EQ(ack_syndrome(), 0x1F);
    EXPECT_EQ(kind_of(ack_syndrome()), AethKind::ack);
    EXPECT_EQ(kind_of(rnr_syndrome(12)), AethKind::rnr_nak);
    EXPECT_EQ(kind_of(nak_syndrome(NakCode::remote_access)), AethKind::nak);
    EXPECT_EQ(kind_of(0x40), AethKind::reserved);
}

TEST(RnrTimer, CodesAreTheShortestThatIsLongEnough) {
    EXPECT_EQ(rnr_timer_code(1), 1);
    EXPECT_EQ(rnr_timer_code(10), 1);
    EXPECT_EQ(rnr_timer_code(640), 12);
    EXPECT_EQ(rnr_timer_code(641), 13);
    EXPECT_EQ(rnr_timer_code(491'520), 31);
    EXPECT_EQ(rnr_timer_code(491'521), 0);
    EXPECT_EQ(kRnrTimerUs[0], 655'360u);
}

TEST(Opcodes, TableAgreesWithTheBuilders) {
    for (const bool first : {false, true}) {
        for (const bool last : {false, true}) {
            for (const bool invalidate : {false, true}) {
                const auto& info =
                    info_of(static_cast<std::uint8_t>(send_opcode(first, last, invalidate)));
                EXPECT_EQ(info.kind, OpKind::send);
                EXPECT_EQ(info.first, first);
                EXPECT_EQ(info.last, last);
                EXPECT_EQ(info.invalidate, invalidate && last);
                EXPECT_EQ(info.header_size, kBthSize + (info.invalidate ? kIethSize : 0));
            }
            const auto& write = info_of(static_cast<std::uint8_t>(write_opcode(first, last)));
            EXPECT_EQ(write.kind, OpKind::write);
            EXPECT_EQ(write.first, first);
            EXPECT_EQ(write.last, last);
            EXPECT_EQ(write.header_size, kBthSize + (first ? kRethSize : 0));
            const auto& response =
                info_of(static_cast<std::uint8_t>(read_response_opcode(first, last)));
            EXPECT_EQ(response.kind, OpKind::read_response);
            EXPECT_EQ(response.header_size, kBthSize + (first || last ? kAethSize : 0));
        }
    }
    for (unsigned op = 0; op < 256; ++op) {
        const OpcodeInfo& info = info_of(static_cast<std::uint8_t>(op));
        EXPECT_EQ(info.kind == OpKind::unknown, info.header_size == 0) << op;
    }
}

TEST(Packets, CountsAndPads) {
    EXPECT_EQ(packets_of(0, 1024), 1u);
    EXPECT_EQ(packets_of(1, 1024), 1u);
    EXPECT_EQ(packets_of(1024, 1024), 1u);
    EXPECT_EQ(packets_of(1025, 1024), 2u);
    EXPECT_EQ(packets_of(kMessageMax, 256), 0x800000u);
    EXPECT_EQ(pad_of(0), 0);
    EXPECT_EQ(pad_of(1), 3);
    EXPECT_EQ(pad_of(4), 0);
    EXPECT_EQ(pad_of(7), 1);
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
