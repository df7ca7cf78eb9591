#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/sock_addr.hpp"
#include "nfs/client/client.hpp"
#include "nfs/client/rpc_socket.hpp"

// MOUNT v3 over TCP and UDP, for servers that have none over RDMA, such as Linux: what mount.nfs(8)
// does. The port is what rpcbind says; calls come from a reserved port where this process may have
// one.
//
// Operation: each call has a socket of its own, so that none is held while files are copied; the
// first that was answered decides the protocol and the port of those that follow. Everything
// blocks, within a bounded time.
namespace nfsrdma::nfs::client {

// One line of what a server exports, and of what it remembers of its clients.
struct ExportedDirectory {
    std::string path;
    std::vector<std::string> clients;  // empty: everybody
};
struct MountedDirectory {
    std::string client, path;
};

struct MountSocketOptions {
    SockAddr server;              // its port is not looked at
    bool tcp = true, udp = true;  // which to ask, in this order
    std::uint16_t port = 0;       // of MOUNT; 0: rpcbind is asked
    std::uint16_t rpcbind_port = 111;
    RpcPatience patience;
};

// Why MOUNT could not be asked over one protocol.
struct MountTrouble {
    enum class Step : std::uint8_t {
        ask_rpcbind,     // `error`
        not_registered,  // rpcbind knows no MOUNT v3
        call,            // connection to MOUNT's port, or call there: `error`
        refused,         // MOUNT's port answered: `status`
        kerberos,        // mounted, but for calls that are signed by Kerberos only
    };
    Step step = Step::call;
    RpcProto proto = RpcProto::tcp;
    SockAddr at;  // who was asked
    Error error{};
    sunrpc::RpcStatus status = sunrpc::RpcStatus::success;
};
// For people: what is wrong, and what to do; what is the same over TCP and UDP is said once.
std::string to_string(std::span<const MountTrouble> troubles);

class MountSocket {
  public:
    // sys == nullptr: AUTH_NONE; copied.
    MountSocket(const MountSocketOptions& options, const sunrpc::AuthSys* sys);

    // `outcome.rpc` fails when there was no answer; troubles() then says why. Errc::closed:
    // interrupted.
    Outcome mnt(const std::string& path, FileHandle& root);
    Outcome umnt(const std::string& path);
    Outcome exports(std::vector<ExportedDirectory>& out);
    Outcome dump(std::vector<MountedDirectory>& out);
    // Of the last call: one for each protocol that was tried.
    const std::vector<MountTrouble>& troubles() const noexcept { return troubles_; }
    void set_timeout(std::uint64_t ns) noexcept { options_.patience.timeout_ns = ns; }

  private:
    struct Place {
        RpcProto proto;
        std::uint16_t port;
    };
    Outcome call(std::uint32_t proc, const std::string* path);
    // Whether the server answered; `outcome` then says how, else why not.
    bool call_at(RpcProto proto, std::uint32_t proc, std::span<const std::byte> args,
                 Outcome& outcome);
    Result<std::uint16_t> find_port(RpcProto proto, MountTrouble& trouble);

    MountSocketOptions options_;
    std::optional<sunrpc::AuthSys> sys_;
    std::optional<Place> place_;
    std::vector<MountTrouble> troubles_;
    std::vector<std::byte> results_;
};

// The port of `prog` and `vers` by asking rpcbind, which `at` is of: version 2 of it (the port
// mapper) over IPv4, version 3 over IPv6. 0: not registered. Errors are RpcSocket's;
// Errc::bad_message when the answer makes no sense.
Result<std::uint16_t> rpcbind_port_of(const SockAddr& at, RpcProto proto, std::uint32_t prog,
                                      std::uint32_t vers, const RpcPatience& patience);

// MOUNT's lists, decoded without recursion: a server decides how long they are. Errc::bad_message.
Result<void> decode_exports(std::span<std::byte> results, std::vector<ExportedDirectory>& out);
Result<void> decode_mounts(std::span<std::byte> results, std::vector<MountedDirectory>& out);

}  // namespace nfsrdma::nfs::client
