#include "verbs/softroce/cm_mad.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.hpp"
#include "base/bytes.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

constexpr std::uint8_t kBaseVersion = 1, kClassCm = 0x07, kClassVersion = 2, kMethodSend = 3;

// Offsets in the whole MAD: 24 bytes of header, then the attribute.
constexpr std::size_t kBody = kMadHeaderBytes;
constexpr std::size_t kReqPrivate = kBody + 140, kRepPrivate = kBody + 36, kRejPrivate = kBody + 84;

void put_header(Mad& mad, CmAttr attr, std::uint64_t tid) noexcept {
    store_u8(mad.data(), kBaseVersion);
    store_u8(mad.data() + 1, kClassCm);
    store_u8(mad.data() + 2, kClassVersion);
    store_u8(mad.data() + 3, kMethodSend);
    store_be64(mad.data() + 8, tid);
    store_be16(mad.data() + 16, static_cast<std::uint16_t>(attr));
}

void put_ids(Mad& mad, const CmIds& ids) noexcept {
    store_be32(mad.data() + kBody, ids.local);
    store_be32(mad.data() + kBody + 4, ids.remote);
}

// A 24-bit number above eight bits of something else.
void put_24_8(std::byte* p, std::uint32_t high, std::uint32_t low) noexcept {
    store_be32(p, (high << 8) | (low & 0xFF));
}

std::array<std::byte, 16> ip_cm_address(const SockAddr& address) noexcept {
    auto bytes = address.gid();
    // The IP CM header holds an IPv4 address in its last four bytes behind zeros, not mapped.
    if (address.is_v4()) std::memset(bytes.data(), 0, 12);
    return bytes;
}

SockAddr from_ip_cm(const std::byte* p, bool v4, std::uint16_t port) noexcept {
    if (v4) return SockAddr::v4(load_be32(p + 12), port);
    in6_addr address{};
    std::memcpy(address.s6_addr, p, sizeof address.s6_addr);
    return SockAddr::v6(address, port);
}

void put_ip_cm(std::byte* p, const CmReq& req) noexcept {
    store_u8(p, 0);  // version 0.0
    store_u8(p + 1, req.source.is_v4() ? 0x40 : 0x60);
    store_be16(p + 2, req.source.port());
    const auto source = ip_cm_address(req.source), destination = ip_cm_address(req.destination);
    std::memcpy(p + 4, source.data(), source.size());
    std::memcpy(p + 20, destination.data(), destination.size());
}

template <std::size_t N>
void take_private(std::array<std::byte, N>& to, std::span<const std::byte> mad,
                  std::size_t at) noexcept {
    std::memcpy(to.data(), mad.data() + at, N);
}

}  // namespace

Mad encode(const CmReq& req, std::uint64_t tid) noexcept {
    Mad mad{};
    put_header(mad, CmAttr::req, tid);
    std::byte* b = mad.data() + kBody;
    store_be32(b, req.local_comm);
    store_be64(b + 8, req.service_id);
    store_be64(b + 16, req.ca_guid);
    put_24_8(b + 32, req.qpn, req.responder_resources);
    put_24_8(b + 36, 0, req.initiator_depth);
    put_24_8(b + 40, 0, (req.remote_cm_timeout & 31u) << 3 | (req.transport & 3u) << 1);
    put_24_8(b + 44, req.starting_psn, (req.local_cm_timeout & 31u) << 3 | (req.retry_count & 7u));
    store_be16(b + 48, 0xFFFF);  // the default partition
    store_u8(b + 50, static_cast<std::uint8_t>(req.pmtu_code << 4 | (req.rnr_retry_count & 7)));
    store_u8(b + 51, static_cast<std::uint8_t>(req.max_cm_retries << 4));
    store_be16(b + 52, 0xFFFF);  // permissive LIDs: RoCE has none
    store_be16(b + 54, 0xFFFF);
    std::memcpy(b + 56, req.local_gid.data(), req.local_gid.size());
    std::memcpy(b + 72, req.remote_gid.data(), req.remote_gid.size());
    store_be32(b + 88, 3);  // flow label 0; a packet rate that every device has
    store_u8(b + 92, req.traffic_class);
    store_u8(b + 93, req.hop_limit);
    store_u8(b + 95, static_cast<std::uint8_t>(req.ack_timeout_exp << 3));
    put_ip_cm(mad.data() + kReqPrivate, req);
    std::memcpy(mad.data() + kReqPrivate + kIpCmHeaderBytes, req.private_data.data(),
                kReqUserBytes);
    return mad;
}

Mad encode(const CmRep& rep, std::uint64_t tid) noexcept {
    Mad mad{};
    put_header(mad, CmAttr::rep, tid);
    put_ids(mad, rep.ids);
    std::byte* b = mad.data() + kBody;
    put_24_8(b + 12, rep.qpn, 0);
    put_24_8(b + 20, rep.starting_psn, 0);
    store_u8(b + 24, rep.responder_resources);
    store_u8(b + 25, rep.initiator_depth);
    store_u8(b + 26, static_cast<std::uint8_t>(rep.target_ack_delay << 3));
    store_u8(b + 27, static_cast<std::uint8_t>(rep.rnr_retry_count << 5 | (rep.srq ? 0x10 : 0)));
    store_be64(b + 28, rep.ca_guid);
    std::memcpy(mad.data() + kRepPrivate, rep.private_data.data(), kRepPrivateBytes);
    return mad;
}

Mad encode(const CmRej& rej, std::uint64_t tid) noexcept {
    Mad mad{};
    put_header(mad, CmAttr::rej, tid);
    put_ids(mad, rej.ids);
    std::byte* b = mad.data() + kBody;
    store_u8(b + 8, static_cast<std::uint8_t>(static_cast<unsigned>(rej.rejected) << 6));
    store_be16(b + 10, rej.reason);
    if (rej.pmtu_code != 0) {
        store_u8(b + 9, 1 << 1);  // bytes of additional information
        store_u8(b + 12, rej.pmtu_code);
    }
    std::memcpy(mad.data() + kRejPrivate, rej.private_data.data(), kRejPrivateBytes);
    return mad;
}

Mad encode(const CmMra& mra, std::uint64_t tid) noexcept {
    Mad mad{};
    put_header(mad, CmAttr::mra, tid);
    put_ids(mad, mra.ids);
    std::byte* b = mad.data() + kBody;
    store_u8(b + 8, static_cast<std::uint8_t>(static_cast<unsigned>(mra.answered) << 6));
    store_u8(b + 9, static_cast<std::uint8_t>(mra.service_timeout << 3));
    return mad;
}

Mad encode(const CmDreq& dreq, std::uint64_t tid) noexcept {
    Mad mad{};
    put_header(mad, CmAttr::dreq, tid);
    put_ids(mad, dreq.ids);
    put_24_8(mad.data() + kBody + 8, dreq.remote_qpn, 0);
    return mad;
}

Mad encode_rtu(const CmIds& ids, std::uint64_t tid) noexcept {
    Mad mad{};
    put_header(mad, CmAttr::rtu, tid);
    put_ids(mad, ids);
    return mad;
}

Mad encode_drep(const CmIds& ids, std::uint64_t tid) noexcept {
    Mad mad{};
    put_header(mad, CmAttr::drep, tid);
    put_ids(mad, ids);
    return mad;
}

Result<MadHeader> decode_header(std::span<const std::byte> mad) noexcept {
    if (mad.size() != kMadBytes) return Error{Errc::bad_message, 0, "MAD: not 256 bytes"};
    const std::byte* p = mad.data();
    if (load_u8(p) != kBaseVersion || load_u8(p + 1) != kClassCm ||
        load_u8(p + 2) != kClassVersion || load_u8(p + 3) != kMethodSend) {
        return Error{Errc::bad_message, 0, "MAD: not of connection management"};
    }
    const std::uint16_t attr = load_be16(p + 16);
    if (attr < static_cast<std::uint16_t>(CmAttr::req) ||
        attr > static_cast<std::uint16_t>(CmAttr::drep)) {
        return Error{Errc::bad_message, 0, "MAD: unknown attribute"};
    }
    return MadHeader{static_cast<CmAttr>(attr), load_be64(p + 8)};
}

Result<CmReq> decode_req(std::span<const std::byte> mad) noexcept {
    NR_ASSERT(mad.size() == kMadBytes);
    const std::byte* b = mad.data() + kBody;
    CmReq req;
    req.local_comm = load_be32(b);
    req.service_id = load_be64(b + 8);
    req.ca_guid = load_be64(b + 16);
    req.qpn = load_be24(b + 32);
    req.responder_resources = load_u8(b + 35);
    req.initiator_depth = load_u8(b + 39);
    req.remote_cm_timeout = load_u8(b + 43) >> 3;
    req.transport = (load_u8(b + 43) >> 1) & 3;
    req.starting_psn = load_be24(b + 44);
    req.local_cm_timeout = load_u8(b + 47) >> 3;
    req.retry_count = load_u8(b + 47) & 7;
    req.pmtu_code = load_u8(b + 50) >> 4;
    req.rnr_retry_count = load_u8(b + 50) & 7;
    req.max_cm_retries = load_u8(b + 51) >> 4;
    std::memcpy(req.local_gid.data(), b + 56, req.local_gid.size());
    std::memcpy(req.remote_gid.data(), b + 72, req.remote_gid.size());
    req.traffic_class = load_u8(b + 92);
    req.hop_limit = load_u8(b + 93);
    req.ack_timeout_exp = load_u8(b + 95) >> 3;
    const std::byte* ip = mad.data() + kReqPrivate;
    const unsigned ip_version = load_u8(ip + 1) >> 4;
    if (req.transport != 0) return Error{Errc::unsupported, 0, "REQ: not a reliable connection"};
    if (pmtu_bytes(req.pmtu_code) == 0) return Error{Errc::bad_message, 0, "REQ: path MTU"};
    if (req.qpn < 2) return Error{Errc::bad_message, 0, "REQ: queue pair number"};
    if (load_u8(ip) >> 4 != 0) return Error{Errc::bad_message, 0, "REQ: IP CM version"};
    if (ip_version != 4 && ip_version != 6) return Error{Errc::bad_message, 0, "REQ: IP version"};
    req.source = from_ip_cm(ip + 4, ip_version == 4, load_be16(ip + 2));
    req.destination = from_ip_cm(ip + 20, ip_version == 4, 0);
    take_private(req.private_data, mad, kReqPrivate + kIpCmHeaderBytes);
    return req;
}

Result<CmRep> decode_rep(std::span<const std::byte> mad) noexcept {
    NR_ASSERT(mad.size() == kMadBytes);
    const std::byte* b = mad.data() + kBody;
    CmRep rep;
    rep.ids = decode_ids(mad);
    rep.qpn = load_be24(b + 12);
    rep.starting_psn = load_be24(b + 20);
    rep.responder_resources = load_u8(b + 24);
    rep.initiator_depth = load_u8(b + 25);
    rep.target_ack_delay = load_u8(b + 26) >> 3;
    rep.rnr_retry_count = load_u8(b + 27) >> 5;
    rep.srq = (load_u8(b + 27) & 0x10) != 0;
    rep.ca_guid = load_be64(b + 28);
    if (rep.qpn < 2) return Error{Errc::bad_message, 0, "REP: queue pair number"};
    take_private(rep.private_data, mad, kRepPrivate);
    return rep;
}

Result<CmRej> decode_rej(std::span<const std::byte> mad) noexcept {
    NR_ASSERT(mad.size() == kMadBytes);
    const std::byte* b = mad.data() + kBody;
    CmRej rej;
    rej.ids = decode_ids(mad);
    rej.rejected = static_cast<CmMessage>(std::min(load_u8(b + 8) >> 6, 2));
    rej.reason = load_be16(b + 10);
    const bool names_pmtu = rej.reason == static_cast<std::uint16_t>(RejReason::invalid_path_mtu) &&
                            load_u8(b + 9) >> 1 >= 1 && pmtu_bytes(load_u8(b + 12)) != 0;
    rej.pmtu_code = names_pmtu ? load_u8(b + 12) : std::uint8_t{0};
    take_private(rej.private_data, mad, kRejPrivate);
    return rej;
}

Result<CmMra> decode_mra(std::span<const std::byte> mad) noexcept {
    NR_ASSERT(mad.size() == kMadBytes);
    const std::byte* b = mad.data() + kBody;
    CmMra mra;
    mra.ids = decode_ids(mad);
    mra.answered = static_cast<CmMessage>(std::min(load_u8(b + 8) >> 6, 2));
    mra.service_timeout = load_u8(b + 9) >> 3;
    return mra;
}

Result<CmDreq> decode_dreq(std::span<const std::byte> mad) noexcept {
    NR_ASSERT(mad.size() == kMadBytes);
    return CmDreq{decode_ids(mad), load_be24(mad.data() + kBody + 8)};
}

CmIds decode_ids(std::span<const std::byte> mad) noexcept {
    NR_ASSERT(mad.size() == kMadBytes);
    return {load_be32(mad.data() + kBody), load_be32(mad.data() + kBody + 4)};
}

std::uint8_t pmtu_code(std::uint32_t bytes) noexcept {
    const std::uint32_t clamped = std::clamp(bytes, 256u, 4096u);
    return static_cast<std::uint8_t>(std::bit_width(clamped) - 8);
}

std::uint32_t pmtu_bytes(std::uint8_t code) noexcept {
    return code >= 1 && code <= 5 ? 128u << code : 0;
}

}  // namespace nfsrdma::verbs::softroce
