#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "verbs/device.hpp"
#include "verbs/softroce/mr.hpp"
#include "verbs/softroce/packet.hpp"
#include "verbs/softroce/qp_attr.hpp"

namespace nfsrdma::verbs::softroce {

class SoftCq;
class SoftDevice;
struct WorkList;      // has something to send
struct ReadWaitList;  // waits for the device's READ window
struct EventList;     // has something to tell its owner

inline constexpr std::uint32_t kReadDepthMax = 32;  // RDMA READs in flight, either way
inline constexpr std::uint32_t kSendSgesMax = kPayloadPieces;
inline constexpr std::uint32_t kRecvSgesMax = 8;

// What a packet costs of its receiver's buffer beyond its payload.
inline constexpr std::uint32_t kPacketCost = 512;

enum class WqeState : std::uint8_t {
    posted,   // waits for its turn
    started,  // has its PSNs; packets may be under way
    done,     // a local operation that was executed
    failed,   // `status` says; completes when all before it has
};

// One posted send work request. Its SGEs stand in the queue pair's own array.
struct SendWqe {
    Cqe* cqe = nullptr;
    SoftFastMr* mr = nullptr;
    std::uint64_t remote_addr = 0;
    std::uint64_t first_psn = 0;
    std::uint64_t cost_base = 0;  // window cost of all that was started before it
    std::uint32_t psn_count = 0;
    std::uint32_t length = 0;
    Rkey rkey{};
    SendOp op = SendOp::send;
    WqeState state = WqeState::posted;
    WcStatus status = WcStatus::success;
    bool signaled = false, ledger_signal = false, fenced = false;
    bool fast_sges = false;  // an SGE names a fast-registered key: checked when used
    std::uint8_t sge_count = 0;
    std::uint64_t end_psn() const noexcept { return first_psn + psn_count; }
};

struct RecvWqe {
    Cqe* cqe = nullptr;
    std::uint32_t capacity = 0;
    std::uint8_t sge_count = 0;
    bool bad = false;  // an SGE may not be written
};

// A ring of work requests with `sges` SGEs each; indices count on and are masked.
template <class Wqe>
class WorkQueue {
  public:
    WorkQueue(std::uint32_t wqes, std::uint32_t sges);
    Wqe& at(std::uint32_t index) noexcept { return wqes_[index & mask_]; }
    Sge* sges(std::uint32_t index) noexcept {
        return &sges_[std::size_t{index & mask_} * sges_max_];
    }
    std::uint32_t sges_max() const noexcept { return sges_max_; }
    bool empty() const noexcept { return head == tail; }
    std::uint32_t size() const noexcept { return tail - head; }
    std::uint32_t head = 0, tail = 0;

  private:
    std::vector<Wqe> wqes_;
    std::vector<Sge> sges_;
    std::uint32_t mask_, sges_max_;
};

// A place in a list of SGEs.
struct SgeCursor {
    std::uint32_t index = 0;
    std::uint32_t offset = 0;
};

// What the requester knows: what was sent, what was acknowledged, how much may be under way.
struct Requester {
    std::uint64_t unacked_psn = 0;           // the oldest that was not acknowledged
    std::uint64_t cursor_psn = 0;            // the next to be sent, again or for the first time
    std::uint64_t sent_psn = 0;              // one behind the highest that was ever sent
    std::uint64_t next_psn = 0;              // the next that a new work request gets
    std::uint32_t cursor_wqe = 0;            // of cursor_psn
    std::uint32_t cursor_offset_packet = 0;  // packet of cursor_wqe at which `sge` stands
    SgeCursor sge;
    // The window, in bytes with a fixed charge a packet.
    std::uint64_t next_cost = 0, cursor_cost = 0, acked_cost = 0, ack_asked_cost = 0;
    std::uint64_t window = 0, window_max = 0;
    std::uint32_t reads_incomplete = 0;  // work requests
    std::uint32_t fast_incomplete = 0;   // work requests with fast SGEs, started and not complete
    // READ requests under way, oldest first.
    struct Read {
        std::uint64_t end_psn = 0;
        std::uint32_t bytes_left = 0;
    };
    std::array<Read, kReadDepthMax> reads;
    std::uint32_t reads_head = 0, reads_tail = 0;
    std::uint64_t read_retry_psn = 0;  // of the last implied NAK: once for each
    // Timers.
    std::uint64_t retry_deadline_ns = 0, progress_ns = 0, rnr_until_ns = 0;
    std::uint32_t timeouts = 0, rnr_naks = 0;  // since the last progress
    std::uint32_t backed_off = 0;  // timeouts since the last round trip that was measured
    // Round trips, of packets that were sent once and whose answer was asked for.
    std::uint64_t timed_psn = 0, timed_ns = 0;  // the one under way; psn 0: none
    std::uint64_t rtt_ns = 0, rtt_deviation_ns = 0;
    std::uint32_t retired_run = 0;  // completed send work requests not yet given back to the ledger
};

enum class Answer : std::uint8_t { none, ack, sequence_nak, rnr_nak, fatal_nak };

// What the responder knows: what it expects next, and what it owes the peer.
struct Responder {
    std::uint64_t expected_psn = 0;
    std::uint64_t ooo_psn = 0;  // the highest that came too early
    std::uint32_t msn = 0;
    OpKind message = OpKind::unknown;  // of the message that has begun, else unknown
    bool nak_sent = false;             // silent until the expected packet comes
    bool closing = false;              // a fatal NAK waits to be sent; nothing more is taken
    Answer answer = Answer::none;
    NakCode fatal_code = NakCode::invalid_request;
    WcStatus recv_status = WcStatus::flushed;  // of the Receive that the fatal request hit
    std::uint32_t recv_offset = 0;             // bytes placed in the current Receive
    SgeCursor recv_sge;
    // The WRITE that has begun.
    std::uint64_t write_addr = 0;
    std::uint32_t write_left = 0, write_key = 0;
    // READs that are being answered, in PSN order.
    struct Read {
        std::uint64_t first_psn = 0, next_psn = 0, end_psn = 0;
        std::uint64_t addr = 0;
        std::uint32_t key = 0, length = 0, msn = 0;
        bool again = false;  // a duplicate request: silent when it cannot be answered
    };
    std::array<Read, kReadDepthMax + 1> reads;
    std::uint32_t read_count = 0;
};

// One reliable connection's queue pair of the soft device. States: init (receives may be posted),
// ready (after connect), error. Belongs to its device's loop.
//
// Three rooms: the requester (req.cpp) turns work requests into packets, the responder (resp.cpp)
// answers the peer's, the completer (comp.cpp) turns answers into completions.
class SoftQp final : public QueuePair,
                     public ListHook<WorkList>,
                     public ListHook<ReadWaitList>,
                     public ListHook<EventList> {
  public:
    // Drops what is still posted; completions that were not polled are lost with it.
    ~SoftQp() override;
    SoftQp(const SoftQp&) = delete;
    SoftQp& operator=(const SoftQp&) = delete;

    std::uint32_t qpn() const noexcept { return qpn_; }
    // Drawn at random when the queue pair was made; of a connection that CM makes it is the PSN at
    // which the peer begins: QpAttr::rq_psn.
    std::uint32_t initial_psn() const noexcept { return initial_psn_; }
    // From init to ready to send and receive. Errc::invalid_argument: an attribute out of range, or
    // not in the init state.
    Result<void> connect(const QpAttr& attr) noexcept;
    bool connected() const noexcept { return state_ == State::ready; }
    const QpAttr& attr() const noexcept { return attr_; }
    // Told of the first packet and of the fatal error, never from inside a call of this class;
    // nullptr: nobody.
    void set_owner(QpOwner* owner) noexcept { owner_ = owner; }

    void set_error() noexcept override;
    bool in_error() const noexcept override { return state_ == State::error; }
    std::uint32_t outstanding() const noexcept override { return outstanding_; }

    // For the device and its completion queues.
    void on_packet(const RxPacket& packet, const Bth& bth) noexcept;
    struct Budget {
        std::uint32_t bytes = 0;
        bool exhausted() const noexcept { return bytes == 0; }
        void take(std::uint32_t n) noexcept { bytes -= n < bytes ? n : bytes; }
    };
    // Sends what may be sent, within the budgets of requester and responder.
    enum class Left : std::uint8_t {
        nothing,
        more,  // it stopped for lack of budget
        ack,   // which waits for one more turn (SoftOptions::acks_wait)
    };
    Left transmit(Budget requests, Budget answers) noexcept;
    void deliver_event() noexcept;                 // may destroy the queue pair
    void retire(std::uint32_t send_wrs) noexcept;  // a completion is delivered; 0: a Receive
    SoftQp* hash_next = nullptr;

  protected:
    Result<void> do_post_send(SendWr& first) noexcept override;
    Result<void> do_post_recv(RecvWr& first) noexcept override;

  private:
    friend class SoftDevice;
    enum class State : std::uint8_t { init, ready, error };
    struct QpTimer : Timer {
        QpTimer(Fire f, SoftQp& q) noexcept : Timer(f), qp(q) {}
        SoftQp& qp;
    };
    struct Incoming {
        const Bth& bth;
        const OpcodeInfo& info;
        const std::byte* extended;
        std::span<const std::byte> payload;
    };

    SoftQp(SoftDevice& device, SoftPd& pd, SoftCq& cq, std::uint32_t qpn, const QpOptions& options);

    // qp.cpp
    void fill_send(std::uint32_t index, const SendWr& wr) noexcept;
    void check_sges(std::uint32_t index, SendWqe& wqe) noexcept;
    bool from_peer(const RxPacket& packet) const noexcept;
    void fail(WcStatus first_send, WcStatus first_recv) noexcept;
    void flush_sends(WcStatus first) noexcept;
    void flush_recvs(WcStatus first) noexcept;
    void push_send(SendWqe& wqe, const Wc& wc) noexcept;
    void push_recv(const RecvWqe& wqe, const Wc& wc) noexcept;
    void schedule() noexcept;
    static bool advance(const Sge* sges, std::uint32_t count, SgeCursor& at,
                        std::uint32_t bytes) noexcept;

    // req.cpp
    bool transmit_requests(Budget& budget) noexcept;
    SendWqe* wqe_to_send() noexcept;
    bool start(SendWqe& wqe) noexcept;
    void run_local(SendWqe& wqe) noexcept;
    bool send_read_request(SendWqe& wqe, Budget& budget) noexcept;
    bool send_data(SendWqe& wqe, Budget& budget) noexcept;
    std::uint32_t data_header(const SendWqe& wqe, std::uint32_t packet, std::uint32_t size,
                              std::byte* header) noexcept;
    std::uint32_t gather(SendWqe& wqe, std::uint32_t packet, std::uint32_t size,
                         PayloadPiece* pieces) noexcept;
    void note_sent() noexcept;
    void end_rnr_wait(std::uint64_t now) noexcept;
    void go_back(std::uint64_t psn) noexcept;
    void drop_reads_from(std::uint64_t psn) noexcept;
    std::uint64_t cost_at(std::uint32_t index, std::uint64_t psn) noexcept;

    // resp.cpp
    void on_request(const Incoming& in) noexcept;
    void on_duplicate(const Incoming& in, std::uint64_t psn) noexcept;
    void take_send(const Incoming& in) noexcept;
    void take_write(const Incoming& in) noexcept;
    void take_read(const Incoming& in) noexcept;
    bool in_sequence(const Incoming& in) const noexcept;
    void place_recv(std::span<const std::byte> payload) noexcept;
    void finish_recv(const Wc& wc) noexcept;
    void queue_read(const Responder::Read& read) noexcept;
    bool transmit_answers(Budget& budget) noexcept;
    bool send_read_response(Responder::Read& read, Budget& budget) noexcept;
    void send_answer() noexcept;
    void owe(Answer answer) noexcept;
    void refuse(NakCode code, WcStatus recv_status = WcStatus::flushed) noexcept;
    AccessFault check_key(std::uint32_t key, Access right, std::uint64_t addr,
                          std::uint64_t length) noexcept;

    // comp.cpp
    void on_ack(const Incoming& in) noexcept;
    void on_nak(std::uint64_t psn, std::uint8_t syndrome) noexcept;
    void on_read_response(const Incoming& in) noexcept;
    bool place_response(SendWqe& wqe, std::uint32_t packet,
                        std::span<const std::byte> payload) noexcept;
    bool acknowledge_to(std::uint64_t end_psn) noexcept;
    void reap() noexcept;
    void note_progress() noexcept;
    void complete(SendWqe& wqe) noexcept;
    void retry_read(std::uint64_t psn) noexcept;
    void shrink_window() noexcept;
    void on_timer() noexcept;
    void arm_timer() noexcept;
    void release_read_bytes(std::uint32_t bytes) noexcept;
    std::uint64_t ack_timeout_ns() const noexcept;
    std::uint64_t retry_after_ns() const noexcept;
    std::uint64_t backed_off_ns() const noexcept;
    void watch_progress() noexcept;
    void time_from_now(std::uint64_t psn) noexcept;
    void take_round_trip() noexcept;

    SoftDevice& device_;
    SoftPd& pd_;
    SoftCq& cq_;
    std::uint32_t qpn_;
    std::uint32_t initial_psn_;
    std::uint32_t wrs_max_;
    QpAttr attr_;
    QpOwner* owner_ = nullptr;
    State state_ = State::init;
    bool first_packet_seen_ = false;
    bool tell_first_packet_ = false, tell_fatal_ = false;
    std::uint32_t outstanding_ = 0;
    WorkQueue<SendWqe> sq_;
    WorkQueue<RecvWqe> rq_;
    Requester req_;
    Responder resp_;
    std::uint8_t ack_turns_ = 0;  // of kAckTurnsMax: that the owed acknowledgement has waited
    QpTimer timer_;
};

}  // namespace nfsrdma::verbs::softroce
