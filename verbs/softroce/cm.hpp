#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "base/sock_addr.hpp"
#include "verbs/cm.hpp"
#include "verbs/softroce/cm_mad.hpp"
#include "verbs/softroce/wire.hpp"

// Connection management of one soft device: the MADs of queue pair 1 (InfiniBand volume 1 chapter
// 12, RDMA IP CM annex A11).
//
// Operation: an id takes a slot; its local communication id names the slot, the loop and a random
// generation. Requests, replies and disconnects are retried by timers until answered, and a
// repeated message is answered as its first copy was.
//
// Ownership:
//  1. An id belongs to its user. The Cm knows it by a plain pointer that the id takes back in its
//  destructor.
//  2. A request that has not yet been shown to its listener belongs to the Cm.
//  3. What must outlive an id (a DREQ without its answer, a refusal that may be asked for again) is
//  a Linger of the Cm.
//
// Events are told from a timer, never from inside a call of the user or from the receive path, and
// the Cm touches no id after it has told it something: a handler may destroy its id.
//
// Errors: malformed or implausible MADs are counted and dropped. Half-open connections and the rate
// of requests are bounded; a request beyond that is dropped, and its sender tries again.
namespace nfsrdma::verbs::softroce {

class CmGroup;
struct HalfOpen;
class SoftCmId;
class SoftDevice;
class SoftListener;

inline constexpr std::uint32_t kCmLoopBits = 6, kCmSlotBits = 14;  // of a local communication id
inline constexpr std::uint32_t kCmIdsMax = 1u << kCmSlotBits;      // of one device
inline constexpr std::uint32_t kCmHalfOpenMax = 512;  // requests without an established connection
inline constexpr std::uint32_t kCmRequestsPerSec = 8192;  // token bucket
inline constexpr std::uint32_t kCmRequestBurst = 2048;
inline constexpr std::uint32_t kCmLingersMax = 256;

struct CmCounters {
    std::uint64_t requests = 0, requests_dropped = 0;  // dropped: rate, half-open or id limit
    std::uint64_t malformed = 0, stray = 0;            // stray: well formed, but for no id of ours
    std::uint64_t retries = 0, duplicates = 0;
    std::uint64_t established = 0, rejects_sent = 0, rejects_received = 0, timeouts = 0;
    std::uint64_t disconnects = 0, forwarded = 0, forwards_dropped = 0;
};

// A MAD that is repeated, or repeated on demand, after its id is gone.
struct Linger : ListHook<> {
    enum class Kind : std::uint8_t {
        disconnect,  // a DREQ: sent until its DREP comes
        reject,      // a REJ: sent again when its REQ comes again
    };
    Kind kind = Kind::disconnect;
    std::uint8_t sends_left = 0;
    CmIds ids;
    std::uint64_t next_ns = 0, interval_ns = 0;
    Path path;
    Mad mad{};
};

class Cm {
  public:
    explicit Cm(SoftDevice& device);
    ~Cm();
    Cm(const Cm&) = delete;
    Cm& operator=(const Cm&) = delete;

    // Errc::again: every id slot is taken.
    Result<std::unique_ptr<verbs::CmId>> create_id(CmHandler& handler);
    // Errc::system with EADDRINUSE: another listener has the address and port. Port 0 takes a free
    // one.
    Result<std::unique_ptr<verbs::Listener>> listen(const SockAddr& local, ListenHandler& handler);
    // A packet for queue pair 1 with the right Q_Key; `mad` is what follows the DETH. Any bytes.
    void on_mad(const RxPacket& packet, std::span<const std::byte> mad) noexcept;
    const CmCounters& counters() const noexcept { return counters_; }
    std::uint32_t ids() const noexcept { return ids_used_; }
    std::uint32_t half_open() const noexcept { return half_open_.size(); }

    // Several loops behind one port; see group.hpp. Before the loop runs.
    void join(CmGroup& group) noexcept { group_ = &group; }
    // As on_mad, for what another loop received and forwarded.
    void on_forwarded_mad(const RxPacket& packet, std::span<const std::byte> mad) noexcept;

    // The rest is for ids and listeners only.
    SoftDevice& device() noexcept { return device_; }
    Loop& loop() noexcept;
    CmCounters& mutable_counters() noexcept { return counters_; }
    std::uint64_t ca_guid() const noexcept { return ca_guid_; }
    void forget(SoftCmId& id) noexcept;
    void forget(SoftListener& listener) noexcept;
    void index_remote(SoftCmId& id) noexcept;  // once its peer and the peer's QPN are known
    void tell_later(SoftCmId& id) noexcept;    // runs id.tell() from the event timer
    void half_open_changed(SoftCmId& id, bool more) noexcept;
    // Hands a request to its listener; the listener's handler owns the id from then on.
    void show(SoftCmId& id) noexcept;
    void send(const Path& path, const Mad& mad) noexcept;
    // Sends `mad` now and again until its answer comes or its tries are used up.
    void linger(Linger::Kind kind, const Path& path, const CmIds& ids, const Mad& mad) noexcept;
    std::uint64_t new_tid() noexcept;

  private:
    // A timer of the Cm itself.
    class CmTimer : public Timer {
      public:
        CmTimer(Cm& owner, Fire f) noexcept : Timer(f), cm(owner) {}
        Cm& cm;
    };

    void handle(const RxPacket& packet, const MadHeader& header,
                std::span<const std::byte> mad) noexcept;
    void on_req(const RxPacket& packet, const MadHeader& header, const CmReq& req) noexcept;
    bool answered_before(const Path& path, const MadHeader& header, const CmReq& req) noexcept;
    void take_request(const Path& path, const MadHeader& header, const CmReq& req,
                      SoftListener& listener) noexcept;
    void refuse(const Path& path, const MadHeader& header, std::uint32_t remote_comm,
                RejReason reason) noexcept;
    void on_rep(const RxPacket& packet, const MadHeader& header, const CmRep& rep) noexcept;
    void on_dreq(const RxPacket& packet, const MadHeader& header, const CmDreq& dreq) noexcept;
    void on_drep(const RxPacket& packet, const CmIds& ids) noexcept;
    void on_rej(const RxPacket& packet, const MadHeader& header, const CmRej& rej) noexcept;
    bool take_token() noexcept;
    bool take_slot(SoftCmId& id) noexcept;
    // The id that a message's remote communication id names, if the message comes from its peer.
    SoftCmId* find_local(std::uint32_t comm, const SockAddr& from) noexcept;
    SoftCmId* find_half_open(std::uint32_t remote_comm, const SockAddr& from) noexcept;
    SoftCmId* find_remote(const SockAddr& peer, std::uint32_t qpn) noexcept;
    SoftListener* find_listener(const SockAddr& to, std::uint64_t service_id) noexcept;
    SoftCmId*& bucket_of(std::uint32_t qpn) noexcept;
    void tell_all() noexcept;
    void repeat_lingers() noexcept;
    void arm_lingers() noexcept;
    void end_linger(Linger& linger) noexcept;

    SoftDevice& device_;
    CmGroup* group_ = nullptr;
    CmCounters counters_;
    std::uint64_t ca_guid_;
    std::vector<SoftListener*> listeners_;
    std::vector<SoftCmId*> slots_;  // by slot
    std::uint32_t next_slot_ = 0;   // goes round, so that a slot rests as long as possible
    std::vector<SoftCmId*> remote_buckets_;
    std::vector<std::unique_ptr<SoftCmId>> unseen_;  // requests that no listener has seen yet
    List<SoftCmId> to_tell_;
    std::uint32_t ids_used_ = 0;
    List<SoftCmId, HalfOpen> half_open_;
    std::uint64_t tokens_used_to_ns_ = 0;
    std::vector<Linger> linger_pool_;
    List<Linger> lingers_, free_lingers_;
    CmTimer event_timer_, linger_timer_;
};

// Where the answer to `packet` goes: a source port below 0xC000 is a return address, one at or
// above is flow entropy.
Path path_back(const RxPacket& packet) noexcept;

}  // namespace nfsrdma::verbs::softroce
