#pragma once
#include <string>

// The floor under any round trip on this machine: 128 bytes by UDP, both sides spinning.
namespace nfsrdma::bench {

// Echoes until SIGTERM; prints its port as the ready line. Spins while there is traffic, sleeps
// when there is none, so that it does not take the processor from the other side of a pair.
int serve_udp_spin(const std::string& address);

class UdpSpinClient {
  public:
    UdpSpinClient(const std::string& address, int port);
    ~UdpSpinClient();
    UdpSpinClient(const UdpSpinClient&) = delete;
    UdpSpinClient& operator=(const UdpSpinClient&) = delete;
    // Seconds per round trip, over about `seconds`; negative when nothing comes back.
    double round_trip(double seconds) const;

  private:
    int fd_ = -1;
};

}  // namespace nfsrdma::bench
