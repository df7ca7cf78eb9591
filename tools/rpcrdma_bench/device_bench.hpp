#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "verbs/softroce/softroce.hpp"

// The soft device alone: RDMA WRITEs and READs of 1 MiB with 8 in flight between two processes. No
// RPC, no pools.
namespace nfsrdma::bench {

// Exposes 8 MiB to whoever connects, until SIGTERM; prints its port as the ready line. `address` is
// its device's own.
int serve_device(const std::string& address);

class DeviceClient {
  public:
    // `address` of the server's device, `port` of its ready line, `local` for our own device.
    static Result<std::unique_ptr<DeviceClient>> create(const std::string& address, int port,
                                                        const std::string& local);
    ~DeviceClient();
    DeviceClient(const DeviceClient&) = delete;
    DeviceClient& operator=(const DeviceClient&) = delete;

    // Bytes per second over about `seconds`; negative once the connection failed.
    double write_rate(double seconds);
    double read_rate(double seconds);
    // The READ that follows a WRITE of the same slot brings back what was written.
    bool verify();
    const verbs::softroce::SoftCounters& counters() const;
    const verbs::softroce::WireCounters& wire_counters() const;

  private:
    struct State;
    explicit DeviceClient(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace nfsrdma::bench
