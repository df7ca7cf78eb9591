#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/sock_addr.hpp"

// rpcbind (RFC 1833) for the transports that libtirpc does not know: its rpcb_set and rpcb_getaddr
// refuse "rdma" and "rdma6" (RFC 5665 s4.2.2).
namespace nfsrdma::sunrpc {

// RFC 5665 s5.2.3.3: 127.0.0.1 and port 20049 are "127.0.0.1.78.81".
std::string universal_address(const SockAddr& address);
// Errc::bad_message: it is none.
Result<SockAddr> parse_universal_address(std::string_view text);

inline constexpr const char* kRpcbindSocket = "/run/rpcbind.sock";
inline constexpr std::uint16_t kRpcbindPort = 111;

struct RpcbindEntry {
    std::uint32_t prog = 0, vers = 0;
    std::string netid;
    std::string address;  // universal; RPCBPROC_UNSET ignores it
};
enum class RpcbindChange : std::uint8_t { set, unset };

// Tells the rpcbind of this machine, which listens at the path `socket`: by that it knows who we
// are. False: it refuses, since there is another address already, or nothing to take back, or this
// user may not. Blocks, at most 5 s. Errc::system: it does not run, or does not answer.
Result<bool> change_rpcbind(const std::string& socket, RpcbindChange change, RpcbindEntry entry);

// The address of a program with `netid`, by the rpcbind at `rpcbind` over TCP; where it was
// registered for all addresses, that one of `rpcbind`. Asks for the whole list, for
// RPCBPROC_GETADDR answers for the transport that it was asked by, whatever the netid. Blocks, at
// most 5 s and 5 s. Errc::refused: there is none; Errc::system: as above.
Result<SockAddr> ask_rpcbind(const SockAddr& rpcbind, std::uint32_t prog, std::uint32_t vers,
                             const char* netid);

}  // namespace nfsrdma::sunrpc
