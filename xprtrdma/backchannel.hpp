#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "base/list.hpp"
#include "pools/io.hpp"
#include "rpcrdma/proto.hpp"
#include "sunrpc/xprt.hpp"

namespace nfsrdma::xprtrdma {

struct BackchannelCounters {
    std::uint64_t calls = 0, replies = 0;
    std::uint64_t overruns = 0;       // calls beyond the credits: dropped
    std::uint64_t stale_replies = 0;  // to calls of a connection that is gone: not sent
    std::uint64_t too_large = 0;      // replies that do not fit inline: answered with ERR_CHUNK
};

// Calls of the server to a Service of the client, by the connection that the client made (RFC
// 8167). Inline only: a result has no place but its message.
//
// Operation. take_frame() copies a call from its Receive, which goes back at once, into a slot and
// gives it to the service. The reply is encoded where it is sent from. Every reply grants as many
// credits as there are slots.
//
// Ownership. A Slot is in `free_`, or with the service, or lent to the device by its SEND.
//
// Errors. A call that the service answers after its connection has gone is forgotten.
class Backchannel final : public sunrpc::SvcXprt {
  public:
    struct Parts {
        Loop& loop;
        pools::Io& io;
        sunrpc::Service& service;
        const SockAddr& server;
    };
    // `sends`: arena memory of `slots` times `inline_size` bytes.
    Backchannel(const Parts& parts, std::uint32_t slots, std::span<std::byte> sends,
                std::uint32_t inline_size);
    ~Backchannel() override;  // idle
    Backchannel(const Backchannel&) = delete;
    Backchannel& operator=(const Backchannel&) = delete;

    // What both ends may send on the present connection.
    void set_limits(const rpcrdma::InlineLimits& limits) noexcept;
    // After pools::Io::on_disconnect: no SEND is out any more.
    void on_disconnect() noexcept;
    // True: `frame` was a call, and was dealt with.
    bool take_frame(std::span<const std::byte> frame) noexcept;
    bool idle() const noexcept { return free_.size() == slot_count_; }
    const BackchannelCounters& counters() const noexcept { return counters_; }

    Loop& loop() noexcept override { return parts_.loop; }
    const SockAddr& peer() const noexcept override { return parts_.server; }
    const char* netid() const noexcept override { return peer().is_v6() ? "rdma6" : "rdma"; }
    std::uint32_t max_payload() const noexcept override { return 0; }
    Result<std::span<std::byte>> get_result_payload(sunrpc::SvcRqst& rqst,
                                                    std::uint32_t bytes) noexcept override;
    void reply(sunrpc::SvcRqst& rqst) noexcept override;
    void drop(sunrpc::SvcRqst& rqst) noexcept override;
    void release_payload(void*) noexcept override {}

  private:
    struct alignas(64) CacheLine {
        std::byte bytes[64];
    };
    struct Slot : sunrpc::SvcRqst, verbs::Cqe, pools::Posting {
        Backchannel* home = nullptr;
        std::uint32_t generation = 0;  // of the connection that its call came by
        std::span<std::byte> memory;   // header, then the reply
        std::unique_ptr<std::byte[]> call;
        verbs::Sge sge;
        verbs::SendWr wr;
    };
    static void on_posted(pools::Posting& posting, Result<void> result) noexcept;
    static void on_sent(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    std::uint32_t encode(Slot& slot) noexcept;  // bytes to be sent
    void release(Slot& slot) noexcept;

    Parts parts_;
    const std::uint32_t slot_count_, inline_size_;
    std::unique_ptr<CacheLine[]> scratch_;
    std::unique_ptr<Slot[]> slots_;
    List<sunrpc::SvcRqst, sunrpc::SvcRqst> free_;
    std::uint32_t send_limit_ = 0;  // bytes of a message with its header; 0: not connected
    std::uint32_t generation_ = 0;
    BackchannelCounters counters_;
};

}  // namespace nfsrdma::xprtrdma
