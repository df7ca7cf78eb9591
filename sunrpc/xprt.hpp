#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "base/loop.hpp"
#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "sunrpc/xdr_buf.hpp"

// What an RPC client and an RPC service see of a transport: messages, and memory in which payloads
// may lie. No chunk, key or device. Everything here runs on the loop of its connection.
namespace nfsrdma::sunrpc {

class Xprt;
class SvcXprt;

// A leased run of memory from which, and into which, a transport moves payloads without a copy.
// Moves, never copies.
class PayloadOwner {
  public:
    virtual void release_payload(void* cookie) noexcept = 0;

  protected:
    ~PayloadOwner() = default;
};
class Payload {
  public:
    Payload() = default;
    Payload(PayloadOwner& owner, void* cookie, std::span<std::byte> memory) noexcept
        : owner_(&owner), cookie_(cookie), memory_(memory) {}
    Payload(Payload&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)),
          cookie_(other.cookie_),
          memory_(std::exchange(other.memory_, {})) {}
    Payload& operator=(Payload&& other) noexcept {
        reset();
        owner_ = std::exchange(other.owner_, nullptr);
        cookie_ = other.cookie_;
        memory_ = std::exchange(other.memory_, {});
        return *this;
    }
    Payload(const Payload&) = delete;
    Payload& operator=(const Payload&) = delete;
    ~Payload() { reset(); }
    void reset() noexcept {
        if (owner_ != nullptr) std::exchange(owner_, nullptr)->release_payload(cookie_);
        memory_ = {};
    }
    std::span<std::byte> memory() const noexcept { return memory_; }  // page-aligned
    void* cookie() const noexcept { return cookie_; }
    explicit operator bool() const noexcept { return owner_ != nullptr; }

  private:
    PayloadOwner* owner_ = nullptr;
    void* cookie_ = nullptr;
    std::span<std::byte> memory_;
};

// One RPC of a client, preallocated by its transport (rpc_rqst). The caller fills in the call part,
// sends it, and reads the reply part in `complete`; then gives it back with Xprt::put_rqst.
struct Rqst : ListHook<Rqst> {
    std::uint32_t xid = 0;  // set by the caller

    // Call. `call.head` is encoded into `head_room` by the caller; the payload, if any, lies where
    // a result_room may (below), DDP-eligible when `ddp_allowed`; `call.tail` lies in `head_room`
    // behind the head.
    std::span<std::byte> head_room;  // the transport's, for the call message without its payload
    XdrBuf call;
    bool ddp_allowed = true;  // false under a security flavor that touches data
    // Worst case of the reply, without the DDP item's bytes: a Reply chunk is offered when that
    // does not fit inline.
    std::uint32_t reply_max = 0;
    // Where a DDP-eligible result may be placed; empty: the result has none. Memory of a Payload
    // of this transport, or of the caller that was registered with it.
    std::span<std::byte> result_room;

    // How often the transport sent this call again, with the same XID, after a connection had
    // ended: a server without a memory of the first time may have executed it twice. Set by the
    // transport, read in `complete` and whenever the caller gives up.
    std::uint32_t resends = 0;

    std::uint32_t connection = 0;  // XprtGroup's: which of its members this is of

    // Reply, valid from `complete` until put_rqst. `head` is the message without the placed item;
    // `payload` is the part of result_room that the peer placed (nothing when it answered inline).
    // One contiguous head: decode it from there.
    XdrBuf reply;

    // Runs once, on the loop. Errc::reconnect: the connection went before the reply came, and the
    // transport does not recover, or gave up recovering.
    // Errc::bad_message: the peer's answer breaks the protocol, or it sent RDMA_ERROR.
    // Errc::closed: the transport was closed by us.
    void (*complete)(Rqst& rqst, Result<void> result) noexcept = nullptr;
    void* user = nullptr;
};

struct XprtLimits {
    std::uint32_t max_payload = 0;  // bytes of one DDP-eligible item
    std::uint32_t max_message = 0;  // bytes of a message without such an item
    std::uint32_t slots = 0;        // RPCs in flight
};

// Somebody who was told `again` by an Xprt and wants to be told when to try once more. One-shot: it
// is no longer waiting when `wake` runs, and waits again by Xprt::wait_for_slot.
struct SlotWaiter : ListHook<SlotWaiter> {
    void (*wake)(SlotWaiter& waiter) noexcept = nullptr;
};

// A client transport: one connection, or one after another. A transport that recovers keeps what
// was sent and sends it again on the next connection, once, with its XID, in the order of the first
// time, before what had not been sent; its callers see a delay and Rqst::resends. Meanwhile
// get_rqst says `again`, and on_slot tells when there is a connection.
class Xprt : public PayloadOwner {
  public:
    Xprt() = default;
    virtual ~Xprt() = default;
    Xprt(const Xprt&) = delete;
    Xprt& operator=(const Xprt&) = delete;
    // Any number of waiters, woken in order. Takes `on_slot` for itself: who uses this one does not
    // call that one.
    void wait_for_slot(SlotWaiter& waiter) noexcept;
    void stop_waiting(SlotWaiter& waiter) noexcept;  // no effect when it does not wait
    virtual Loop& loop() noexcept = 0;
    virtual const XprtLimits& limits() const noexcept = 0;
    // A free slot whose head_room holds at least `call_max` bytes. Errc::again: all are in use
    // (on_slot tells when one is not), or the connection is being recovered; Errc::too_big,
    // Errc::reconnect: not connected, and it will not be again; Errc::closed.
    virtual Result<Rqst*> get_rqst(std::uint32_t call_max) noexcept = 0;
    // The same, for a call whose payload is at `payload` and whose room for a result at `room`:
    // with several connections the slot is one of that to which this memory belongs. nullptr: it
    // has none.
    virtual Result<Rqst*> get_rqst_with(std::uint32_t call_max, const std::byte* payload,
                                        const std::byte* room) noexcept {
        static_cast<void>(payload);
        static_cast<void>(room);
        return get_rqst(call_max);
    }
    // With more than one, `again` told for one call says nothing of the next.
    virtual std::uint32_t connections() const noexcept { return 1; }
    // At once when it was not sent or is complete. A call still in flight is abandoned: its caller
    // is answered no more, its slot and memory come back with the reply or the end of the
    // connection.
    virtual void put_rqst(Rqst& rqst) noexcept = 0;
    // Memory for a call's payload or a result. Errc::again when dry (on_slot tells), Errc::too_big.
    virtual Result<Payload> get_payload(std::uint32_t bytes) noexcept = 0;
    // Memory of the caller's own, of any size and alignment, in which payloads and rooms for
    // results of calls may lie from now on as in a Payload: nothing is copied. Each lies in one
    // such run. It stays the caller's, writable, mapped and in its place until deregister_memory
    // succeeded or the transport is gone; a transport that recovers keeps it over its connections.
    // A call that was given up (put_rqst while in flight, as at a timeout) may have its bytes read
    // and written until its reply comes or its connection ends: what is put there meanwhile may be
    // overwritten, or sent by that call, and a new call that names any of these bytes is refused
    // (Errc::invalid_argument). Of a Payload: what a call given up had as its result's room, or
    // what is to be one and is a given up call's payload.
    // Registering is slow, and allocates: for memory that is used often. With several connections
    // each registers it: so often is it pinned, and counted against RLIMIT_MEMLOCK. Any time, on
    // the loop.
    // Errc::invalid_argument: empty, or registered already in part; Errc::too_big: too many runs;
    // Errc::system: the device's, as for want of lockable memory; Errc::unsupported.
    virtual Result<void> register_memory(std::span<std::byte> memory);
    // Asks for it back: exactly what was registered. From then on no new call may name it. On
    // success neither device nor peer reaches it, and it is the caller's to free. Errc::again: a
    // call in flight names it, and goes on; one that was given up ends with its reply or with its
    // connection. on_slot tells when to ask once more, until it succeeds: who cannot wait closes
    // the transport. Errc::invalid_argument: it is not registered. Any time, also after close().
    virtual Result<void> deregister_memory(std::span<std::byte> memory) noexcept;
    // Never blocks; queued when there is no credit, key or room. `complete` follows exactly once,
    // never from inside. Errors that are the caller's (too_big) come back here and `complete` does
    // not run.
    virtual Result<void> send(Rqst& rqst) noexcept = 0;
    // Errc::invalid_argument: a call of this transport that was given up, and has no reply yet, may
    // still read or write bytes that `rqst` names. send() asks by itself.
    virtual Result<void> check_given_up(const Rqst& rqst) noexcept {
        static_cast<void>(rqst);
        return {};
    }
    // `wake` runs on the loop after a slot or payload came back while somebody had been told
    // `again`.
    virtual void on_slot(void (*wake)(void*) noexcept, void* arg) noexcept = 0;
    virtual bool connected() const noexcept = 0;
    // Lost its connection, and will connect again: not connected() now, but not at its end.
    virtual bool recovering() const noexcept { return false; }
    // Fails everything that is pending with Errc::closed and disconnects; also while recovering.
    virtual void close() noexcept = 0;

  private:
    static void wake_waiters(void* self) noexcept;
    List<SlotWaiter, SlotWaiter> slot_waiters_;
};

// One RPC at the server, from receive to release. Preallocated by its transport.
struct SvcRqst : ListHook<SvcRqst> {
    SvcXprt* xprt = nullptr;
    std::uint32_t xid = 0;
    // The Call: head and tail inline (or pulled), payload = the DDP item that came by Read chunk,
    // pulled into arena memory. `payload_position`: its offset in the unreduced message.
    XdrBuf arg;
    std::uint32_t payload_position = 0;
    // The Reply. The service encodes the message without its payload into `res_room` (contiguous;
    // at least max_message bytes), sets `res`, and marks the payload with result_payload.
    // `result_room`: bytes that a DDP-eligible result may have (from the client's Write chunk; 0:
    // none was offered).
    std::span<std::byte> res_room;
    XdrBuf res;
    std::uint32_t result_room = 0;
    bool result_is_ddp =
        false;  // res.payload is DDP-eligible: goes into the Write chunk if there is one
    // The service's own per-request state: Service::scratch_bytes() bytes, 64-byte aligned, zeroed
    // when the connection was made and left alone by the transport since.
    std::span<std::byte> scratch;
};

class Service;

// A server transport: one connection.
class SvcXprt : public PayloadOwner {
  public:
    virtual ~SvcXprt() = default;
    virtual Loop& loop() noexcept = 0;
    virtual const SockAddr& peer() const noexcept = 0;
    virtual const char* netid() const noexcept = 0;
    virtual std::uint32_t max_payload() const noexcept = 0;
    // Arena memory for a result's payload, from which it goes to the wire without a copy. Held by
    // the request until its reply has been sent. Errc::again when dry: `wake` of the request's
    // service is called when to try again.
    virtual Result<std::span<std::byte>> get_result_payload(SvcRqst& rqst,
                                                            std::uint32_t bytes) noexcept = 0;
    // Sends `res` and releases the request; any time after Service::dispatch was called, on the
    // loop. A connection that is gone meanwhile just releases.
    virtual void reply(SvcRqst& rqst) noexcept = 0;
    // Releases without an answer.
    virtual void drop(SvcRqst& rqst) noexcept = 0;
    // For calls to the peer by the same connection (RFC 8167): inline only, and not of a transport
    // that recovers. nullptr: none. Valid until Service::on_end of this connection has returned.
    virtual Xprt* backward() noexcept { return nullptr; }
    // The peer sent what is no call: the transport counts it against the peer.
    virtual void note_garbage() noexcept {}
    // The connection is gone: nothing that is answered now reaches the peer.
    virtual bool closing() const noexcept { return false; }
    // Ends the connection; Service::on_end follows when all its requests are answered or dropped.
    // No effect where connections are not the service's to end.
    virtual void close() noexcept {}
    // Requests that were received and are not over yet: an answer is under way until the peer has
    // taken it.
    virtual std::uint32_t calls_in_progress() const noexcept { return 0; }
};

class Service {
  public:
    virtual ~Service() = default;
    virtual std::uint32_t scratch_bytes() const noexcept = 0;
    // Called on the loop of the connection. Must call reply or drop exactly once, now or later.
    virtual void dispatch(SvcRqst& rqst) noexcept = 0;
    // Memory came back after get_result_payload said `again` for `rqst`.
    virtual void wake(SvcRqst& rqst) noexcept = 0;
    // A connection has been made. One that ends while it is being made has an on_end only.
    virtual void on_begin(SvcXprt& xprt) noexcept { static_cast<void>(xprt); }
    // The connection is over: each of its requests was answered or dropped, each of its backward
    // calls is complete, and nothing of it may be used after this has returned. For whoever keeps
    // its backward().
    virtual void on_end(SvcXprt& xprt) noexcept { static_cast<void>(xprt); }
};

}  // namespace nfsrdma::sunrpc
