#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "base/prng.hpp"
#include "base/result.hpp"
#include "nfs/client/client.hpp"
#include "nfs/nfs3_types.hpp"
#include "sunrpc/clnt.hpp"
#include "verbs/device.hpp"
#include "xprtrdma/transport.hpp"

// Closed-loop NFS load over RPC-over-RDMA: a fixed number of calls in flight, each of its results
// started anew.
namespace nfsrdma::bench {

enum class NfsOp : std::uint8_t { null, read, write };

struct NfsLoadOptions {
    SockAddr server;
    std::string export_path;
    std::string file = "bench-data";  // within the export; large enough for the reads
    pools::Registration registration = pools::Registration::automatic;
    std::uint32_t credits = 32;
    std::string device;            // as --device; empty: softroce, at the server's own address
    std::uint16_t mount_port = 0;  // of MOUNT over TCP; 0: over RDMA
};

class NfsLoad {
  public:
    // Connects, mounts, looks the file up.
    static Result<std::unique_ptr<NfsLoad>> create(const NfsLoadOptions& options);
    ~NfsLoad();
    NfsLoad(const NfsLoad&) = delete;
    NfsLoad& operator=(const NfsLoad&) = delete;

    // Calls per second of `op` with `bytes` each and `depth` in flight, over about `seconds`;
    // negative after a failure. Offsets walk through `file_bytes`, or are drawn from them.
    double rate(NfsOp op, std::uint32_t bytes, std::uint32_t depth, double seconds);
    // Exactly `calls` calls; `at_call` runs as each of them completes. False on failure.
    bool run(NfsOp op, std::uint32_t bytes, std::uint32_t depth, std::uint64_t calls,
             void (*at_call)(void* arg, std::uint64_t done), void* arg);
    // Leaves the connection idle for `seconds`, serving the loop.
    void idle(double seconds);

    const xprtrdma::TransportCounters& transport_counters() const { return transport_->counters(); }
    const pools::IoCounters& io_counters() const { return transport_->io_counters(); }
    const sunrpc::ClntCounters& clnt_counters() const { return nfs_->counters(); }
    verbs::Device& device() { return *device_; }
    sunrpc::Xprt& xprt() { return *transport_; }
    void set_file_bytes(std::uint64_t bytes) { file_bytes_ = bytes; }
    // Offsets from now on: any multiple of the size, instead of one after the other.
    void set_random_offsets(bool random) { random_ = random; }

  private:
    struct Slot;
    NfsLoad() = default;
    Result<void> connect(const NfsLoadOptions& options);
    Result<void> open_device(const NfsLoadOptions& options);
    Result<void> mount(const NfsLoadOptions& options, nfs::client::FileHandle& root);
    Result<void> find_file(const NfsLoadOptions& options);
    Result<void> wait_for(sunrpc::Clnt& clnt, sunrpc::Call& call);
    bool start(Slot& slot);
    void finished(Slot& slot, Result<void> result);
    bool prepare_slots(std::uint32_t depth);

    std::unique_ptr<Loop> loop_;
    std::unique_ptr<verbs::Device> device_;
    std::unique_ptr<xprtrdma::Transport> transport_;
    std::unique_ptr<sunrpc::Clnt> nfs_;
    std::vector<std::unique_ptr<Slot>> slots_;
    std::string handle_;  // of the file

    NfsOp op_ = NfsOp::null;
    std::uint32_t bytes_ = 0;
    std::uint64_t file_bytes_ = 64u << 20, next_offset_ = 0;
    std::uint64_t to_start_ = 0, done_ = 0, deadline_ns_ = 0;
    std::uint32_t running_ = 0;
    bool failed_ = false, random_ = false;
    Prng prng_{1};
    void (*at_call_)(void*, std::uint64_t) = nullptr;
    void* at_call_arg_ = nullptr;
};

}  // namespace nfsrdma::bench
