#include "verbs/softroce/cm_mad.hpp"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "tests/verbs/softroce/roce_vector.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

using test::load_vector;

constexpr std::uint64_t kLinuxTid = 0x0000000491F2828B;
const SockAddr kClient = SockAddr::v4(0x0A090002, 0xBAE6), kServer = SockAddr::v4(0x0A090001, 0);

Mad mad_of(const std::string& name) {
    const auto vector = load_vector(name);
    Mad mad;
    EXPECT_EQ(vector.mad().size(), mad.size());
    std::memcpy(mad.data(), vector.mad().data(), mad.size());
    return mad;
}

void expect_header(const Mad& mad, CmAttr attr) {
    auto header = decode_header(mad);
    ASSERT_TRUE(header);
    EXPECT_EQ(header->attr, attr);
    EXPECT_EQ(header->tid, kLinuxTid);
}

// Rfc8797 private data of the Linux client begins with its magic.
template <std::size_t N>
std::uint32_t magic_of(const std::array<std::byte, N>& private_data) {
    return load_be32(private_data.data());
}

TEST(CmMad, LinuxReqIsDecodedFieldByField) {
    const Mad mad = mad_of("cm_req");
    expect_header(mad, CmAttr::req);
    auto req = decode_req(mad);
    ASSERT_TRUE(req) << req.error().what;
    EXPECT_EQ(req->local_comm, 0x8B82F291u);
    EXPECT_EQ(req->service_id, kServiceIdTcp + 20049);
    EXPECT_EQ(req->ca_guid, 0xC032D4FFFE1DEC29u);
    EXPECT_EQ(req->qpn, 0x11u);
    EXPECT_EQ(req->starting_psn, 0xF98DE0u);
    EXPECT_EQ(req->responder_resources, 128);
    EXPECT_EQ(req->initiator_depth, 0);
    EXPECT_EQ(req->remote_cm_timeout, 20);
    EXPECT_EQ(req->local_cm_timeout, 20);
    EXPECT_EQ(req->max_cm_retries, 15);
    EXPECT_EQ(req->retry_count, 6);
    EXPECT_EQ(req->rnr_retry_count, 0);
    EXPECT_EQ(req->pmtu_code, 5);
    EXPECT_EQ(req->ack_timeout_exp, 19);
    EXPECT_EQ(req->hop_limit, 64);
    EXPECT_EQ(req->traffic_class, 0);
    EXPECT_EQ(req->local_gid, kClient.gid());
    EXPECT_EQ(req->remote_gid, kServer.gid());
    EXPECT_EQ(req->source, kClient);
    EXPECT_EQ(req->destination, kServer);
    EXPECT_EQ(magic_of(req->private_data), 0xF6AB0E18u);
}

TEST(CmMad, LinuxReqIsEncodedAgainButForFlowLabelAndRate) {
    Mad linux_mad = mad_of("cm_req");
    auto req = decode_req(linux_mad);
    ASSERT_TRUE(req);
    Mad ours = encode(*req, kLinuxTid);
    // Flow label and packet rate are the sender's choice.
    std::memset(linux_mad.data() + 24 + 88, 0, 4);
    std::memset(ours.data() + 24 + 88, 0, 4);
    EXPECT_EQ(ours, linux_mad);
}

TEST(CmMad, LinuxRepRoundTrip) {
    const Mad mad = mad_of("cm_rep");
    expect_header(mad, CmAttr::rep);
    auto rep = decode_rep(mad);
    ASSERT_TRUE(rep);
    EXPECT_EQ(rep->ids.local, 0x8A82F291u);
    EXPECT_EQ(rep->ids.remote, 0x8B82F291u);
    EXPECT_EQ(rep->qpn, 0x11u);
    EXPECT_EQ(rep->starting_psn, 0x81A887u);
    EXPECT_EQ(rep->responder_resources, 0);
    EXPECT_EQ(rep->initiator_depth, 128);
    EXPECT_EQ(rep->target_ack_delay, 15);
    EXPECT_EQ(rep->rnr_retry_count, 0);
    EXPECT_FALSE(rep->srq);
    EXPECT_EQ(rep->ca_guid, 0xB0B063FFFED2F900u);
    EXPECT_EQ(magic_of(rep->private_data), 0xF6AB0E18u);
    EXPECT_EQ(encode(*rep, kLinuxTid), mad);
}

TEST(CmMad, LinuxRtuDreqDrepRoundTrip) {
    const Mad rtu = mad_of("cm_rtu");
    expect_header(rtu, CmAttr::rtu);
    EXPECT_EQ(decode_ids(rtu).local, 0x8B82F291u);
    EXPECT_EQ(decode_ids(rtu).remote, 0x8A82F291u);
    EXPECT_EQ(encode_rtu(decode_ids(rtu), kLinuxTid), rtu);

    const Mad dreq = mad_of("cm_dreq");
    expect_header(dreq, CmAttr::dreq);
    auto decoded = decode_dreq(dreq);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->remote_qpn, 0x11u);
    EXPECT_EQ(encode(*decoded, kLinuxTid), dreq);

    const Mad drep = mad_of("cm_drep");
    expect_header(drep, CmAttr::drep);
    EXPECT_EQ(encode_drep(decode_ids(drep), kLinuxTid), drep);
}

TEST(CmMad, RejAndMraRoundTrip) {
    CmRej rej{.ids = {1, 2}, .rejected = CmMessage::rep, .reason = 28};
    rej.private_data[147] = std::byte{9};
    auto rej_back = decode_rej(encode(rej, 5));
    ASSERT_TRUE(rej_back);
    EXPECT_EQ(rej_back->ids.remote, 2u);
    EXPECT_EQ(rej_back->rejected, CmMessage::rep);
    EXPECT_EQ(rej_back->reason, 28);
    EXPECT_EQ(rej_back->private_data, rej.private_data);

    CmRej mtu;
    mtu.reason = 26;
    mtu.pmtu_code = 3;
    EXPECT_EQ(decode_rej(encode(mtu, 5))->pmtu_code, 3);
    Mad bad = encode(mtu, 5);
    bad[24 + 12] = std::byte{6};
    EXPECT_EQ(decode_rej(bad)->pmtu_code, 0) << "out of range";

    auto mra_back = decode_mra(
        encode(CmMra{.ids = {3, 4}, .answered = CmMessage::rep, .service_timeout = 19}, 6));
    ASSERT_TRUE(mra_back);
    EXPECT_EQ(mra_back->ids.local, 3u);
    EXPECT_EQ(mra_back->answered, CmMessage::rep);
    EXPECT_EQ(mra_back->service_timeout, 19);
}

TEST(B56, ReqOverIpv6CarriesBothAddresses) {
    in6_addr a{};
    a.s6_addr[0] = 0xFE;
    a.s6_addr[1] = 0x80;
    a.s6_addr[15] = 1;
    CmReq req;
    req.local_comm = 7;
    req.qpn = 0xABCDEF;
    req.source = SockAddr::v6(a, 1234);
    a.s6_addr[15] = 2;
    req.destination = SockAddr::v6(a, 0);
    req.local_gid = req.source.gid();
    req.remote_gid = req.destination.gid();
    auto back = decode_req(encode(req, 1));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->source, req.source);
    EXPECT_EQ(back->destination, req.destination);
    EXPECT_EQ(back->local_gid, req.local_gid);
}

TEST(CmMad, FieldsOutOfRangeAreRefused) {
    const Mad good = mad_of("cm_req");
    const auto refused = [&](std::size_t at, std::uint8_t value) {
        Mad mad = good;
        mad[at] = std::byte{value};
        return !decode_req(mad);
    };
    EXPECT_FALSE(refused(24 + 8, 0)) << "the same value";
    EXPECT_TRUE(refused(24 + 50, 0x00)) << "path MTU 0";
    EXPECT_TRUE(refused(24 + 50, 0x60)) << "path MTU 6";
    EXPECT_TRUE(refused(24 + 43, 0x02)) << "unreliable connection";
    EXPECT_TRUE(refused(24 + 140, 0x10)) << "IP CM version 1";
    EXPECT_TRUE(refused(24 + 141, 0x50)) << "IP version 5";
    EXPECT_TRUE(refused(24 + 34, 0x01)) << "QPN 1";
}

TEST(CmMad, HeadersOfOtherClassesAreRefused) {
    const Mad good = mad_of("cm_req");
    for (std::size_t at = 0; at < 4; ++at) {
        Mad mad = good;
        mad[at] ^= std::byte{0x40};
        EXPECT_FALSE(decode_header(mad)) << at;
    }
    Mad mad = good;
    mad[17] = std::byte{0x17};
    EXPECT_FALSE(decode_header(mad));
    mad[17] = std::byte{0x0F};
    EXPECT_FALSE(decode_header(mad));
    EXPECT_FALSE(decode_header(std::span(good).first(255)));
    EXPECT_FALSE(decode_header({}));
}

TEST(CmMad, AnyBytesAreDecodedOrRefused) {
    Prng prng(3);
    for (int i = 0; i < 20'000; ++i) {
        Mad mad;
        for (std::byte& b : mad)
            b = static_cast<std::byte>(prng.next());
        auto req = decode_req(mad);
        if (req) {
            EXPECT_NE(pmtu_bytes(req->pmtu_code), 0u);
        }
        EXPECT_TRUE(decode_rej(mad));
        EXPECT_TRUE(decode_mra(mad));
        EXPECT_TRUE(decode_dreq(mad));
        auto rep = decode_rep(mad);
        if (rep) {
            EXPECT_GE(rep->qpn, 2u);
        }
    }
}

TEST(CmMad, PathMtuCodes) {
    EXPECT_EQ(pmtu_code(255), 1);
    EXPECT_EQ(pmtu_code(256), 1);
    EXPECT_EQ(pmtu_code(1023), 2);
    EXPECT_EQ(pmtu_code(1024), 3);
    EXPECT_EQ(pmtu_code(4096), 5);
    EXPECT_EQ(pmtu_code(65535), 5);
    EXPECT_EQ(pmtu_bytes(5), 4096u);
    EXPECT_EQ(pmtu_bytes(0), 0u);
    EXPECT_EQ(pmtu_bytes(6), 0u);
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
