#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nfs/client/client.hpp"
#include "nfs/client/mount_socket.hpp"

namespace nfsrdma::tool {

// How MOUNT is asked.
enum class MountProto : std::uint8_t { automatic, rdma, tcp, udp };
MountProto mount_proto_of(const std::string& text);  // "rdma", "tcp", "udp"; else automatic

struct MountOptions {
    MountProto proto = MountProto::automatic;
    std::uint16_t port = 0;  // of MOUNT over TCP and UDP; 0: rpcbind is asked
    std::uint16_t rpcbind_port = 111;
    std::uint64_t timeout_ns = 10 * kNsPerSec;
    int interrupt_fd = -1;  // readable: the user wants no more
};

// MOUNT's calls, by whatever way the server has them: over the RDMA connection of NFS, and where
// MOUNT is not served there (a Linux server), over TCP, then UDP.
class MountCalls {
  public:
    using Run = std::function<nfs::client::Outcome(nfs::client::Op&)>;
    // `run` makes a call over the RDMA connection and waits for its answer.
    explicit MountCalls(Run run) : run_(std::move(run)) {}
    // Without it MOUNT is asked over RDMA only. `sys` is copied.
    void use(const MountOptions& options, const SockAddr& server, const sunrpc::AuthSys& sys);

    // The handle alone: FSINFO is NFS's.
    nfs::client::Outcome mnt(const std::string& path, nfs::client::FileHandle& root);
    nfs::client::Outcome umnt(const std::string& path);
    nfs::client::Outcome exports(std::vector<nfs::client::ExportedDirectory>& out);
    nfs::client::Outcome dump(std::vector<nfs::client::MountedDirectory>& out);
    void set_timeout(std::uint64_t ns) noexcept;

    // What of the last call failed on its way over TCP and UDP, and what to do; empty when the last
    // call went by RDMA, or was answered.
    std::string trouble() const;
    bool by_socket() const noexcept { return by_socket_; }

  private:
    // Whether MOUNT is to be asked by socket from now on, after `outcome` over RDMA.
    bool turn_to_socket(const nfs::client::Outcome& outcome) noexcept;
    Run run_;
    std::unique_ptr<nfs::client::MountSocket> socket_;
    bool automatic_ = false, by_socket_ = false;
    bool turned_ = false;  // the server has told that there is none over RDMA
};

}  // namespace nfsrdma::tool
