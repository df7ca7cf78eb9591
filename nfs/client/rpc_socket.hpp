#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "base/unique_fd.hpp"
#include "sunrpc/clnt.hpp"

// RPC calls over TCP and UDP that wait for their answer: for what a client asks once, beside its
// RDMA connection (rpcbind, MOUNT). Not for the data path, and not for a loop that serves others.
namespace nfsrdma::nfs::client {

enum class RpcProto : std::uint8_t { tcp, udp };
const char* to_string(RpcProto proto) noexcept;  // "tcp", "udp"

// How long to wait, and for what else.
struct RpcPatience {
    std::uint64_t timeout_ns = 10 * kNsPerSec;  // for a connection; for the whole of an answer
    int interrupt_fd = -1;  // when this is readable, the wait ends with Errc::closed; -1: none
};

struct RpcRequest {
    std::uint32_t prog = 0, vers = 0, proc = 0;
    const sunrpc::AuthSys* sys = nullptr;  // nullptr: AUTH_NONE
    std::span<const std::byte> args;       // encoded
};

struct RpcAnswer {
    sunrpc::RpcStatus status = sunrpc::RpcStatus::success;
    std::span<std::byte> results;  // encoded; in the socket's memory, until its next call
};

// One connected socket. One thread. A server's answers are bounded: kAnswerMax bytes, and the time.
class RpcSocket {
  public:
    static constexpr std::uint32_t kAnswerMax = 1u << 20;
    static constexpr std::uint32_t kCallMax = 8192;

    // `reserved_port`: from a port below 1024 where this process may have one (servers that export
    // `secure` ask for it); else from any. Errc::refused: nobody listens; Errc::timed_out;
    // Errc::closed: interrupted; Errc::system: errno says why.
    static Result<RpcSocket> connect(const SockAddr& server, RpcProto proto, bool reserved_port,
                                     const RpcPatience& patience);
    // UDP: asks again, with growing pauses, until the time is over. Errc::refused, timed_out,
    // closed, system as above; Errc::reconnect: the server closed the connection;
    // Errc::bad_message: what came is no answer; Errc::too_big: the call, or the answer.
    Result<RpcAnswer> call(const RpcRequest& request, const RpcPatience& patience);

  private:
    RpcSocket(UniqueFd fd, RpcProto proto) noexcept : fd_(std::move(fd)), proto_(proto) {}
    Result<void> send(std::span<const std::byte> message, const struct Until& until);
    Result<void> receive_record(const struct Until& until);
    Result<void> receive_bytes(std::span<std::byte> room, const struct Until& until);
    Result<void> exchange_tcp(std::uint32_t xid, std::size_t size, const struct Until& until);
    Result<void> exchange_udp(std::uint32_t xid, std::size_t size, const struct Until& until);
    bool has_xid(std::uint32_t xid) const noexcept;

    UniqueFd fd_;
    RpcProto proto_;
    std::uint32_t next_xid_ = 0;
    std::vector<std::byte> call_, answer_;
};

}  // namespace nfsrdma::nfs::client
