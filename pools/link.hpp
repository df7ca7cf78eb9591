#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "pools/io.hpp"
#include "pools/page_list.hpp"
#include "verbs/device.hpp"

// One connection for a protocol of its own, without RPC: small messages both ways, and bulk by
// pools::Io. It has what every such protocol needs besides Io: the queues, the Receives, the SENDs,
// and the order in which all of that ends.
//
// Operation. An active end is made by connect(), a passive one by accept() from inside a
// verbs::ListenHandler. Messages come by LinkHandler::on_message, in order. One is sent by taking
// it (message), filling it in, exposing memory in front of it (Io::expose_read, expose_write) or
// pushing in front of it (follow), and send(): one doorbell. Everything runs on the loop of the
// device.
//
// Ownership. (1) A LinkMessage is the user's from message() until send(), and the device's until
// its SEND completed. (2) Exposures and transfers are the user's: on_end is the last moment to give
// them home. (3) The Link dies in on_end or later: its destructor asserts it.
//
// Errors. Whatever ends the connection is told once, by on_end, when every completion has come and
// no key can be reached any more: Errc::refused, timed_out, reconnect (it was lost, or the peer
// closed), bad_message (the peer broke the rules), closed (close() was called).
namespace nfsrdma::pools {

struct LinkOptions {
    std::uint32_t message_bytes = 64;  // of the largest message, either way
    // Messages at a time: as many Receives are posted, and as many of ours may be under way. A peer
    // that sends more waits (RNR), so that a protocol should count: one answer for each request.
    std::uint32_t messages = 16;
    std::size_t memory_bytes = 0;  // of the arena, for the user: Link::arena().carve()
    // keys, pages_per_key, transfers: what the user needs of Io. Read depth and SGEs are set by
    // what the connection has.
    IoOptions io;
    std::uint64_t connect_timeout_ns = 10 * kNsPerSec;
};

class Link;
class LinkMessage;

// The user's side. All on the loop; from inside of each the Link may be used in any way, and from
// inside of on_end it may be destroyed.
class LinkHandler {
  public:
    virtual void on_connected(Link& link) noexcept { static_cast<void>(link); }
    // `message` is valid during the call. `freed`: the exposure whose key the peer invalidated with
    // this message, or nullptr. Other keys of ours are fenced with Io::fence.
    virtual void on_message(Link& link, std::span<const std::byte> message,
                            Exposure* freed) noexcept = 0;
    // A message is free again, after message() had said `again`.
    virtual void on_message_room(Link& link) noexcept { static_cast<void>(link); }
    // Once, never from inside a call to the Link. Every exposure and transfer goes home now.
    virtual void on_end(Link& link, const Error& why) noexcept = 0;

  protected:
    ~LinkHandler() = default;
};

// A message of ours: of a Link, one of LinkOptions::messages.
class LinkMessage : verbs::Cqe, Posting, ListHook<LinkMessage> {
  public:
    std::span<std::byte> bytes() const noexcept { return bytes_; }  // to be filled in
    // What Io::expose_read and expose_write put keys in front of; last, behind follow().
    verbs::WrChain& chain() noexcept { return Posting::chain; }
    // The message goes behind what `push` writes to the peer, and holds it until both are done.
    void follow(Lease<Transfer> push) noexcept;
    // The message frees this key of the peer's (SEND_WITH_INV): one that it advertised, once. Only
    // where the peer can take that (Io::remote_invalidate there): its protocol says so.
    void invalidate(std::uint32_t handle) noexcept;

  private:
    friend class Link;
    friend class List<LinkMessage, LinkMessage>;
    Link* link_ = nullptr;
    std::span<std::byte> room_, bytes_;
    verbs::SendWr wr_;
    verbs::Sge sge_;
    Lease<Transfer> push_;
};

struct LinkCounters {
    std::uint64_t sent = 0, received = 0, invalidating = 0;  // messages; sent by SEND_WITH_INV
};

class Link final : public verbs::CmHandler {
  public:
    // `device` and `handler` outlive the Link. The outcome is on_connected or on_end. Errors of
    // making it come back here: nothing is left then.
    static Result<std::unique_ptr<Link>> connect(verbs::Device& device, const SockAddr& peer,
                                                 const LinkOptions& options, LinkHandler& handler);
    static Result<std::unique_ptr<Link>> accept(verbs::Device& device,
                                                std::unique_ptr<verbs::CmId> id,
                                                const verbs::ConnectRequest& request,
                                                const LinkOptions& options, LinkHandler& handler);
    ~Link();
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    Io& io() noexcept { return *io_; }
    Arena& arena() noexcept { return *arena_; }
    Loop& loop() noexcept { return device_.loop(); }
    SockAddr peer() const noexcept { return id_->peer(); }
    // Errc::again: all are under way (on_message_room tells); Errc::too_big; Errc::reconnect: there
    // is no connection.
    Result<LinkMessage*> message(std::uint32_t bytes) noexcept;
    void send(LinkMessage& message) noexcept;
    void drop(LinkMessage& message) noexcept;  // taken, and not sent after all: without any key
    // Ends it; on_end follows, with Errc::closed or what ended it before. Idempotent.
    void close() noexcept;
    // Ends it for what the peer did: on_end is told `why`.
    void fail(const Error& why) noexcept;
    bool connected() const noexcept { return state_ == State::connected; }
    bool over() const noexcept { return state_ == State::over; }
    const LinkCounters& counters() const noexcept { return counters_; }

    void on_cm_event(verbs::CmId& id, const verbs::CmEvent& event) noexcept override;

  private:
    enum class State : std::uint8_t { made, connecting, connected, draining, over };
    struct Receive : verbs::Cqe {
        Link* link = nullptr;
        std::span<std::byte> room;
        verbs::RecvWr wr;
        verbs::Sge sge;
    };
    struct DrainTimer : Timer {
        using Timer::Timer;
        Link* link = nullptr;
    };
    Link(verbs::Device& device, const LinkOptions& options, LinkHandler& handler) noexcept;
    Result<void> set_up(std::unique_ptr<verbs::CmId> id);
    Result<void> make_messages();
    void note_connected() noexcept;
    void drain(const Error& why) noexcept;
    void abandon() noexcept;
    void take_home(LinkMessage& message) noexcept;
    static void on_received(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    static void on_sent(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    static void on_posted(Posting& posting, Result<void> result) noexcept;
    static void on_drain(Timer& timer) noexcept;

    verbs::Device& device_;
    LinkOptions options_;
    LinkHandler& handler_;
    State state_ = State::made;
    std::optional<Error> why_;
    bool room_wanted_ = false;
    std::unique_ptr<verbs::ProtectionDomain> pd_;
    std::unique_ptr<verbs::CompletionQueue> cq_;
    std::unique_ptr<Arena> arena_;
    std::unique_ptr<Io> io_;
    std::unique_ptr<verbs::CmId> id_;  // dies before what its queue pair uses
    std::unique_ptr<Receive[]> receives_;
    std::unique_ptr<LinkMessage[]> messages_;
    List<LinkMessage, LinkMessage> free_;
    DrainTimer timer_;
    LinkCounters counters_;
};

}  // namespace nfsrdma::pools
