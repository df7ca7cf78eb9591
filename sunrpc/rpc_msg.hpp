#pragma once
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "sunrpc/auth.hpp"

// RFC 5531 call and reply headers: bounded, allocating nothing.
namespace nfsrdma::sunrpc {

inline constexpr std::uint32_t kRpcVersion = 2;
enum class AcceptStat : std::uint32_t {
    success,
    prog_unavail,
    prog_mismatch,
    proc_unavail,
    garbage_args,
    system_err
};
enum class RejectStat : std::uint32_t { rpc_mismatch, auth_error };
enum class AuthStat : std::uint32_t {
    ok,
    bad_cred,
    rejected_cred,
    bad_verf,
    rejected_verf,
    too_weak
};

struct CallHeader {
    std::uint32_t xid = 0, rpc_vers = kRpcVersion, prog = 0, vers = 0, proc = 0;
    AuthFlavor flavor = AuthFlavor::none;
    AuthSys sys;
    std::uint32_t size = 0;  // bytes of the header: where the arguments begin
};

// What is wrong with a call header, and so how it is answered.
// rejected_cred: an AUTH_SHORT credential, which we never gave out, is answered by
// AUTH_REJECTEDCRED (RFC 5531 s8.2: begin anew).
enum class CallFault : std::uint8_t {
    none,
    drop,
    rpc_mismatch,
    bad_cred,
    rejected_cred,
    bad_verf,
    too_weak,
    garbage
};
// xid is set whenever four bytes are there. `out.size` only without a fault.
CallFault decode_call(std::span<const std::byte> message, CallHeader& out) noexcept;
// sys == nullptr: AUTH_NONE. Errc::too_big.
Result<std::uint32_t> encode_call(std::span<std::byte> out, const CallHeader& header,
                                  const AuthSys* sys) noexcept;
std::uint32_t call_header_size(const AuthSys* sys) noexcept;

struct ReplyHeader {
    std::uint32_t xid = 0;
    bool accepted = true;
    AcceptStat accept = AcceptStat::success;
    RejectStat reject = RejectStat::rpc_mismatch;
    AuthStat auth = AuthStat::ok;
    std::uint32_t low = 0, high = 0;  // prog_mismatch, rpc_mismatch
    std::uint32_t size = 0;           // where the results begin
};
// Errc::bad_message.
Result<void> decode_reply(std::span<const std::byte> message, ReplyHeader& out) noexcept;
Result<std::uint32_t> encode_reply(std::span<std::byte> out, const ReplyHeader& header) noexcept;
inline constexpr std::uint32_t kReplyHeaderMax = 24 + kAuthBodyMax + 8;

}  // namespace nfsrdma::sunrpc
