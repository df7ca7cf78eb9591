#pragma once
#include <string>

// What RPC over TCP costs with the library that everybody has: NULL calls by libtirpc's clnt_call.
namespace nfsrdma::bench {

int serve_tirpc_tcp(
    const std::string& address);  // prints its port as the ready line; until SIGTERM

class TirpcTcpClient {
  public:
    TirpcTcpClient(const std::string& address, int port);
    ~TirpcTcpClient();
    TirpcTcpClient(const TirpcTcpClient&) = delete;
    TirpcTcpClient& operator=(const TirpcTcpClient&) = delete;
    double round_trip(double seconds) const;  // seconds per NULL call; negative on failure

  private:
    void* client_ = nullptr;  // CLIENT*
};

}  // namespace nfsrdma::bench
