#pragma once
#include <cstdint>
#include <string>
#include <vector>

// A program of libtirpc that has two procedures, NULL and the echo of an `opaque<>`, as rpcgen
// would make it: over libtirpc's TCP and over RDMA, by the same dispatch routine and the same
// calls. Its item is in a table, by which it is placed by RDMA; by rdma_whole it is in none, and
// long messages go whole: what a program has that changes no more than its create calls.
namespace nfsrdma::bench {

enum class EchoWay : std::uint8_t { tcp, rdma, rdma_whole, rdma_zero_copy };

// Roles of a child process (peer_process.hpp): print the port as the ready line and run svc_run
// until SIGTERM.
int serve_echo(EchoWay way, const std::string& address);

class EchoClient {
  public:
    // Connects by `way` from `local` to a server of serve_echo; see ok().
    EchoClient(EchoWay way, const std::string& address, int port, const std::string& local);
    ~EchoClient();
    EchoClient(const EchoClient&) = delete;
    EchoClient& operator=(const EchoClient&) = delete;
    bool ok() const noexcept { return client_ != nullptr; }
    // Calls per second, one at a time, for about `seconds`: NULL for 0 bytes, else echoes of so
    // many. Each result is compared at both ends, all of the first. Negative on failure.
    double rate(std::uint32_t bytes, double seconds);

  private:
    bool call(std::uint32_t bytes, bool all);

    void* client_ = nullptr;  // CLIENT*
    bool zero_copy_ = false;
    std::vector<char> data_;
};

}  // namespace nfsrdma::bench
