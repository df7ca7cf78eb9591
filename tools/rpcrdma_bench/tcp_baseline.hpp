#pragma once
#include <cstddef>
#include <string>
#include <vector>

// A loopback TCP stream of 1 MiB sends: what moving bytes costs with the protocol that everybody
// has.
namespace nfsrdma::bench {

// Receives until SIGTERM; prints its port as the ready line.
int serve_tcp_stream(const std::string& address);

class TcpStreamClient {
  public:
    TcpStreamClient(const std::string& address, int port);
    // Bytes per second that the receiver has read, over about `seconds`; negative on failure.
    double rate(double seconds);

  private:
    std::string address_;
    int port_;
    std::vector<std::byte> payload_;
};

}  // namespace nfsrdma::bench
