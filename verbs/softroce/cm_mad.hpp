#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.hpp"
#include "base/sock_addr.hpp"

// The MADs of connection management (InfiniBand volume 1, 12.6 to 12.11) and the private data
// header of the RDMA IP CM service (annex A11.4). Pure bytes; every decoder takes any 256 bytes.
namespace nfsrdma::verbs::softroce {

inline constexpr std::size_t kMadBytes = 256;
inline constexpr std::size_t kMadHeaderBytes = 24;
inline constexpr std::size_t kReqPrivateBytes = 92, kIpCmHeaderBytes = 36, kReqUserBytes = 56;
inline constexpr std::size_t kRepPrivateBytes = 196, kRejPrivateBytes = 148;
inline constexpr std::uint64_t kServiceIdTcp =
    0x0000000001060000u;  // RDMA_PS_TCP; the low 16 bits are the port

using Mad = std::array<std::byte, kMadBytes>;

enum class CmAttr : std::uint16_t {
    req = 0x10,
    mra = 0x11,
    rej = 0x12,
    rep = 0x13,
    rtu = 0x14,
    dreq = 0x15,
    drep = 0x16,
};

// Table 12.6.7.2; those that we send.
enum class RejReason : std::uint16_t {
    no_resources = 3,
    timeout = 4,
    unsupported = 5,
    invalid_comm_id = 6,
    invalid_service_id = 8,
    stale_connection = 10,
    invalid_path_mtu = 26,  // the additional information is the code of what would do
    consumer = 28,
};

// What a REJ or an MRA answers.
enum class CmMessage : std::uint8_t { req = 0, rep = 1, other = 2 };

struct MadHeader {
    CmAttr attr = CmAttr::req;
    std::uint64_t tid = 0;
};

struct CmIds {
    std::uint32_t local = 0, remote = 0;  // as the sender of the message sees them
};

struct CmReq {
    std::uint32_t local_comm = 0;
    std::uint64_t service_id = 0;
    std::uint64_t ca_guid = 0;
    std::uint32_t qpn = 0, starting_psn = 0;  // 24 bits
    std::uint8_t responder_resources = 0, initiator_depth = 0;
    std::uint8_t remote_cm_timeout = 20, local_cm_timeout = 20, max_cm_retries = 15;
    std::uint8_t transport = 0;                         // 0: RC
    std::uint8_t retry_count = 7, rnr_retry_count = 7;  // 3 bits
    std::uint8_t pmtu_code = 5;                         // 1..5: 256..4096
    std::uint8_t ack_timeout_exp = 14;
    std::uint8_t hop_limit = 64, traffic_class = 0;
    std::array<std::byte, 16> local_gid{}, remote_gid{};
    // RDMA IP CM header.
    SockAddr source;       // with the port
    SockAddr destination;  // the port is in the service id
    std::array<std::byte, kReqUserBytes> private_data{};
};

struct CmRep {
    CmIds ids;
    std::uint64_t ca_guid = 0;
    std::uint32_t qpn = 0, starting_psn = 0;
    std::uint8_t responder_resources = 0, initiator_depth = 0;
    std::uint8_t target_ack_delay = 0, rnr_retry_count = 7;
    bool srq = false;
    std::array<std::byte, kRepPrivateBytes> private_data{};
};

struct CmRej {
    CmIds ids;
    CmMessage rejected = CmMessage::req;
    std::uint16_t reason = 0;
    std::uint8_t pmtu_code = 0;  // invalid_path_mtu only; 0: none was named
    std::array<std::byte, kRejPrivateBytes> private_data{};
};

struct CmMra {
    CmIds ids;
    CmMessage answered = CmMessage::req;
    std::uint8_t service_timeout = 0;  // 4.096 us x 2^n
};

struct CmDreq {
    CmIds ids;
    std::uint32_t remote_qpn = 0;
};

Mad encode(const CmReq& req, std::uint64_t tid) noexcept;
Mad encode(const CmRep& rep, std::uint64_t tid) noexcept;
Mad encode(const CmRej& rej, std::uint64_t tid) noexcept;
Mad encode(const CmMra& mra, std::uint64_t tid) noexcept;
Mad encode(const CmDreq& dreq, std::uint64_t tid) noexcept;
Mad encode_rtu(const CmIds& ids, std::uint64_t tid) noexcept;
Mad encode_drep(const CmIds& ids, std::uint64_t tid) noexcept;

// Errc::bad_message: not 256 bytes, not a CM MAD of class version 2, or an attribute that we do not
// know.
Result<MadHeader> decode_header(std::span<const std::byte> mad) noexcept;
// The decoders take a MAD whose header was decoded. Errc::bad_message: a field is out of its range
// (path MTU, IP CM version, IP version); Errc::unsupported: not a reliable connection.
Result<CmReq> decode_req(std::span<const std::byte> mad) noexcept;
Result<CmRep> decode_rep(std::span<const std::byte> mad) noexcept;
Result<CmRej> decode_rej(std::span<const std::byte> mad) noexcept;
Result<CmMra> decode_mra(std::span<const std::byte> mad) noexcept;
Result<CmDreq> decode_dreq(std::span<const std::byte> mad) noexcept;
CmIds decode_ids(
    std::span<const std::byte> mad) noexcept;  // RTU, DREP, and the first fields of all but REQ

// 1..5 for 256..4096, rounded down.
std::uint8_t pmtu_code(std::uint32_t bytes) noexcept;
std::uint32_t pmtu_bytes(std::uint8_t code) noexcept;  // 0 for a code out of range

}  // namespace nfsrdma::verbs::softroce
