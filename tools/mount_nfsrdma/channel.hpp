#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/loop.hpp"
#include "base/unique_fd.hpp"
#include "sunrpc/xprt.hpp"
#include "tools/mount_nfsrdma/fuse3.hpp"

namespace nfsrdma::mount {

class Worker;

// Reads what the kernel asks from one descriptor of /dev/fuse.
//
// Operation. A request is read into two places: its first 80 bytes, which are all of a WRITE but
// the data, beside payload memory of the connection. So the data of a WRITE lies where RDMA takes
// it from, page-aligned; the rest of any other request is put behind its first bytes.
//
// Without memory. Nothing is read for a moment, since memory comes back all the time; what lasts is
// a server that does not answer, and whoever waits for that must be able to give up. So requests
// are read into memory of the process then: all are served but WRITEs, of which a few are parked
// until the connection has memory again. When the parking is full as well, nothing is read, and the
// threads that wait are looked at instead: of which the kernel has killed is answered.
//
// Ownership. The payload is the channel's until a WRITE takes it (take_payload).
class Channel {
  public:
    explicit Channel(Worker& worker) noexcept;
    ~Channel();
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    // On the thread of the worker's loop. `fd` outlives the channel's serving.
    Result<void> start(int fd, fuse_session* session);
    void stop() noexcept;
    bool running() const noexcept { return fd_ >= 0; }
    // During the callback of a WRITE: its data, in memory of this worker's connection.
    sunrpc::Payload take_payload() noexcept { return std::move(payload_); }
    // During any callback.
    std::uint32_t opcode() const noexcept { return opcode_; }

    Worker& worker() noexcept { return worker_; }
    struct Counters {
        std::uint64_t requests = 0, empty_reads = 0, waited_for_payload = 0, copied_bytes = 0;
        std::uint64_t parked = 0;
    };
    const Counters& counters() const noexcept { return counters_; }

  private:
    static void on_ready(FdWatch& watch, std::uint32_t events) noexcept;
    static void on_wake(sunrpc::SlotWaiter& waiter) noexcept;
    static void on_dry(Timer& timer) noexcept;
    bool read_one() noexcept;  // false: there is none, or the end
    std::uint32_t read_some() noexcept;
    bool have_payload() noexcept;
    void take(std::size_t size) noexcept;
    void park(std::size_t size) noexcept;
    void take_parked() noexcept;
    void drop_dying() noexcept;
    void process(std::byte* request, std::size_t size) noexcept;
    bool full() const noexcept { return parked_.size() == kParkedMax; }
    void listen(bool to_requests) noexcept;
    void ended() noexcept;

    struct ReadWatch final : FdWatch {
        ReadWatch(Ready go, Channel& owner) noexcept : FdWatch(go), channel(owner) {}
        Channel& channel;
    };
    struct DryTimer final : Timer {
        DryTimer(Fire go, Channel& owner) noexcept : Timer(go), channel(owner) {}
        Channel& channel;
    };
    struct Waiter final : sunrpc::SlotWaiter {
        Channel* channel = nullptr;
    };
    // While the loop is awake the descriptor is asked without being waited for.
    struct Poll final : Pollable {
        explicit Poll(Channel& owner) noexcept : channel(owner) {}
        std::uint32_t poll() noexcept override;
        Channel& channel;
    };
    // A WRITE that waits for memory.
    struct Parked {
        std::unique_ptr<std::byte[]> request;
        std::size_t size = 0;
    };
    static constexpr std::size_t kParkedMax = 4;
    Worker& worker_;
    fuse_session* session_ = nullptr;
    int fd_ = -1;
    ReadWatch watch_;
    Waiter waiter_;
    Poll poll_;
    DryTimer dry_timer_;
    sunrpc::Payload payload_;
    std::unique_ptr<std::byte[]> request_;  // a whole one, where it is not in two places
    std::vector<Parked> parked_;            // as they were read
    std::vector<std::unique_ptr<std::byte[]>> spare_;
    bool waiting_ = false;    // for memory
    bool reads_dry_ = false;  // it has lasted
    std::uint32_t opcode_ = 0;
    Counters counters_;
};

}  // namespace nfsrdma::mount
