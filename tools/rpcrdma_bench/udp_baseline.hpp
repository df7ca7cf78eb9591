#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// The limit of what UDP can carry on this machine with what RoCEv2 demands: segmentation offload
// both ways, CRC-32 over every payload on both sides, and the copy to the target. No protocol.
namespace nfsrdma::bench {

// Receives until SIGTERM; prints its port as the ready line.
int serve_udp_stream(const std::string& address);

class UdpStreamClient {
  public:
    UdpStreamClient(const std::string& address, int port);
    ~UdpStreamClient();
    UdpStreamClient(const UdpStreamClient&) = delete;
    UdpStreamClient& operator=(const UdpStreamClient&) = delete;
    // Bytes of payload per second that the receiver has put in their place, over about `seconds`;
    // negative on failure.
    double rate(double seconds);

  private:
    bool send_batch();
    bool take_acks(bool wait);
    bool wait_for_room();

    int fd_ = -1;
    std::vector<std::byte> payload_, headers_;
    std::size_t next_ = 0;  // in payload_
    std::uint64_t sent_ = 0, acknowledged_ = 0;
};

}  // namespace nfsrdma::bench
