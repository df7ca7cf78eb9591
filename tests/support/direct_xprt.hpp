#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/loop.hpp"
#include "sunrpc/xprt.hpp"

// A client and a server transport inside one process and one loop, without RDMA: messages are
// handed over by copying, payloads are "placed" by copying as well. It keeps the contracts of
// sunrpc/xprt.hpp, counts what it did, and fails on demand. Used by the tests of what is above the
// transports.
namespace nfsrdma::testing {

struct DirectOptions {
    std::uint32_t slots = 8;
    std::uint32_t requests = 8;  // at the server
    std::uint32_t max_payload = 1 << 20;
    std::uint32_t max_message = 128 << 10;
    std::uint32_t client_payload_runs = 16;
    std::uint32_t server_payload_runs = 16;
    // Payloads smaller than these many bytes go inline; UINT32_MAX: all of them.
    std::uint32_t arg_chunk_min = 0;
    std::uint32_t result_chunk_min = 0;
    bool pad_in_chunk = false;     // argument chunks carry their XDR pad, as they may
    std::uint64_t latency_ns = 0;  // of each direction
    // Who waits for a slot is told in the next turn, behind who has just been answered.
    bool wakes_later = false;
};

// What becomes of a message on its way.
struct Fate {
    bool lost = false;
    std::uint64_t delay_ns = 0;
};

struct DirectCounters {
    std::uint64_t calls = 0, replies = 0, abandoned = 0, placed_results = 0, chunked_args = 0;
    std::uint64_t over_reply_max = 0;  // replies that were larger than the caller had announced
    std::uint32_t in_flight_max = 0;
};

// The answer to a call made of raw bytes.
struct RawReply {
    bool answered = false, dropped = false;
    std::vector<std::byte> message;  // unreduced
    std::uint32_t word(std::size_t index) const;
};

class DirectSvcXprt;

class DirectXprt final : public sunrpc::Xprt {
  public:
    DirectXprt(Loop& loop, sunrpc::Service& service, const DirectOptions& options);
    ~DirectXprt() override;

    Loop& loop() noexcept override { return loop_; }
    const sunrpc::XprtLimits& limits() const noexcept override { return limits_; }
    Result<sunrpc::Rqst*> get_rqst(std::uint32_t call_max) noexcept override;
    void put_rqst(sunrpc::Rqst& rqst) noexcept override;
    Result<sunrpc::Payload> get_payload(std::uint32_t bytes) noexcept override;
    Result<void> send(sunrpc::Rqst& rqst) noexcept override;
    void on_slot(void (*wake)(void*) noexcept, void* arg) noexcept override;
    bool connected() const noexcept override { return connected_ && !interrupted_; }
    bool recovering() const noexcept override { return connected_ && interrupted_; }
    void close() noexcept override;
    void release_payload(void* cookie) noexcept override;
    Result<void> register_memory(std::span<std::byte> memory) override;
    Result<void> deregister_memory(std::span<std::byte> memory) noexcept override;
    // Memory of the caller's own; whether it is refused, or said to be in use.
    std::vector<std::span<std::byte>> registered;
    bool refuse_memory = false, memory_in_use = false;
    Result<void> check_given_up(const sunrpc::Rqst& rqst) noexcept override;
    std::span<const std::byte> given_up;  // named by a call that was given up

    // Ends the connection: what is in flight gets Errc::reconnect.
    void disconnect() noexcept { fail_all(Error{Errc::reconnect, 0, "direct transport"}); }
    void reconnect() noexcept { connected_ = true; }
    // The connection of a transport that recovers: it breaks, and what the server still says to
    // what was sent goes nowhere; it is made again, and what was in flight is sent once more.
    void interrupt() noexcept;
    void recover() noexcept;
    DirectOptions& options() noexcept { return options_; }  // may be changed between calls
    const DirectCounters& counters() const noexcept { return counters_; }
    std::uint32_t slots_in_use() const noexcept;
    std::uint32_t payloads_in_use() const noexcept;
    bool owns(std::span<const std::byte> payload) const noexcept;  // its memory is this transport's
    DirectSvcXprt& server() noexcept { return *server_; }

    // Asked for every call and every reply; not set: all arrive at once.
    std::function<Fate(std::uint32_t xid)> call_fate, reply_fate;
    // May change the reply's inline part, and how many bytes the client believes were placed.
    std::function<void(std::vector<std::byte>& head, std::uint32_t& placed)> tamper;
    std::uint32_t replying_proc() const noexcept { return replying_proc_; }  // inside `tamper`

  private:
    friend class DirectSvcXprt;
    struct Slot;
    Slot& slot_of(sunrpc::Rqst& rqst) noexcept;
    void deliver_call(Slot& slot) noexcept;
    void deliver_reply(Slot& slot) noexcept;
    // The server's answer to the call of `slot`.
    void take_reply(Slot& slot, sunrpc::SvcRqst& rqst) noexcept;
    void lose(Slot& slot) noexcept;
    void free_slot(Slot& slot) noexcept;
    void notify() noexcept;
    void fail_all(const Error& error) noexcept;

    Loop& loop_;
    DirectOptions options_;
    sunrpc::XprtLimits limits_;
    DirectCounters counters_;
    std::vector<std::unique_ptr<Slot>> slots_;
    std::vector<std::byte> arena_;
    std::span<std::byte> runs_;
    std::vector<char> run_used_;
    bool connected_ = true, closed_ = false, somebody_waits_ = false;
    bool interrupted_ = false;
    std::uint32_t replying_proc_ = 0;
    void (*wake_)(void*) noexcept = nullptr;
    void* wake_arg_ = nullptr;
    struct WakeTask final : Task {
        explicit WakeTask(const DirectXprt& its) noexcept
            : Task([](Task& task) noexcept {
                  const DirectXprt& owner = static_cast<WakeTask&>(task).xprt;
                  if (owner.wake_ != nullptr) owner.wake_(owner.wake_arg_);
              }),
              xprt(its) {}
        const DirectXprt& xprt;
    };
    WakeTask wake_task_{*this};
    std::unique_ptr<DirectSvcXprt> server_;
};

class DirectSvcXprt final : public sunrpc::SvcXprt {
  public:
    DirectSvcXprt(DirectXprt& client, sunrpc::Service& service);
    ~DirectSvcXprt() override;

    Loop& loop() noexcept override { return client_.loop(); }
    const SockAddr& peer() const noexcept override { return peer_; }
    const char* netid() const noexcept override { return netid_; }
    // As if the connection were another's from now on.
    void set_peer(const SockAddr& peer, const char* netid = "rdma") noexcept {
        peer_ = peer;
        netid_ = netid;
    }
    std::uint32_t max_payload() const noexcept override { return client_.options_.max_payload; }
    Result<std::span<std::byte>> get_result_payload(sunrpc::SvcRqst& rqst,
                                                    std::uint32_t bytes) noexcept override;
    void reply(sunrpc::SvcRqst& rqst) noexcept override;
    void drop(sunrpc::SvcRqst& rqst) noexcept override;
    void release_payload(void* /*cookie*/) noexcept override {}

    // Dispatches a message of raw bytes. `payload`, if not empty, stands at `position` of the
    // unreduced message and came by chunk. The reply must come within some turns of the loop, or
    // the request stays at the service (neither answered nor dropped).
    RawReply raw_call(std::span<const std::byte> message, std::span<const std::byte> payload = {},
                      std::uint32_t position = 0, std::uint32_t result_room = 0);
    std::uint32_t requests_in_use() const noexcept;
    bool closing() const noexcept override { return closing_; }
    void set_closing() noexcept { closing_ = true; }  // as if its connection were gone
    void set_dry(bool dry) noexcept;                  // no payload memory until told otherwise

  private:
    friend class DirectXprt;
    struct Request;
    Request* get_request() noexcept;
    Request& request_of(sunrpc::SvcRqst& rqst) noexcept;
    void release(Request& request) noexcept;

    DirectXprt& client_;
    sunrpc::Service& service_;
    SockAddr peer_;
    const char* netid_ = "rdma";
    std::vector<std::unique_ptr<Request>> requests_;
    bool dry_ = false;
    bool closing_ = false;
};

// A simulated loop with its clock.
struct DirectWorld {
    DirectWorld();
    ManualClock clock;
    std::unique_ptr<Loop> loop;
    // Runs until `finished` says so; false after `limit_ns` of virtual time.
    bool run_until(const std::function<bool()>& finished, std::uint64_t limit_ns = 600 * kNsPerSec);
    void run_idle();  // until nothing is left to do
};

}  // namespace nfsrdma::testing
