#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "sunrpc/rpc_msg.hpp"
#include "sunrpc/xprt.hpp"

// At most once: what became of calls that must not be executed twice (the duplicate request cache).
namespace nfsrdma::sunrpc {

// What a repeated call has in common with its first copy: all of its content, and nothing of the
// connection or the framing that it came by. Of the credentials the machine name and the stamp are
// left out: a client may write a new stamp into its second copy.
struct CallKey {
    std::uint32_t xid = 0, prog = 0, vers = 0, proc = 0;
    std::uint32_t args_bytes = 0;        // of the unreduced message
    std::array<std::byte, 16> caller{};  // its address, without the port
    std::uint64_t cred = 0;              // digest of flavor, uid, gid and groups
    std::uint64_t args = 0;              // digest of the arguments' first bytes
    bool operator==(const CallKey&) const = default;
    // The same whether an item came inline or by a chunk.
    static CallKey of(const SvcRqst& rqst, const CallHeader& header) noexcept;
    static constexpr std::uint32_t kDigestedBytes = 256;
};

struct ReplyCacheOptions {
    std::uint32_t entries = 4096;
    // A reply older than that is no retry's any more: an xid comes round, or its client began anew.
    std::uint64_t age_max_ns = 120 * kNsPerSec;
    std::uint32_t shards = 16;  // at most; each has a lock
};

struct ReplyCacheCounters {
    std::uint64_t executed = 0;     // calls that were new
    std::uint64_t replayed = 0;     // answered from here
    std::uint64_t in_progress = 0;  // copies that came while the first was executed
    std::uint64_t uncached = 0;     // executed without an entry: all were in progress
    std::uint64_t evicted = 0;      // replies that had to go before their time
};

// Shared by the dispatchers of all loops and transports; any thread. All memory is taken when it is
// made: about 700 bytes an entry.
//
// Operation. begin() says what to do with a call. `fresh`: execute it, then finish() with its reply
// or forget(). `uncached`: execute it. `in_progress`: ask again later. `done`: the first copy's
// reply is in `room`.
//
// Ownership. An entry is free, of one call in progress, or done. Only done ones are evicted, the
// one that was used longest ago first.
class ReplyCache {
  public:
    // The largest reply that is kept, RPC header included. NFSv3's non-idempotent procedures
    // answer with less than 400 bytes.
    static constexpr std::uint32_t kReplyMax = 512;
    struct Entry;
    enum class Verdict : std::uint8_t { fresh, uncached, in_progress, done };
    struct Found {
        Verdict verdict = Verdict::uncached;
        Entry* entry = nullptr;         // fresh
        std::uint32_t reply_bytes = 0;  // done
    };

    explicit ReplyCache(const ReplyCacheOptions& options);
    ~ReplyCache();
    ReplyCache(const ReplyCache&) = delete;
    ReplyCache& operator=(const ReplyCache&) = delete;

    // `again`: it was `in_progress` before, and counted.
    Found begin(const CallKey& key, std::uint64_t now_ns, std::span<std::byte> room,
                bool again = false) noexcept;
    // A reply larger than kReplyMax is forgotten.
    void finish(Entry& entry, std::span<const std::byte> reply, std::uint64_t now_ns) noexcept;
    void forget(Entry& entry) noexcept;
    ReplyCacheCounters counters() const noexcept;
    std::uint32_t entries() const noexcept { return entries_; }

  private:
    struct Shard;
    std::uint32_t entries_ = 0, shard_count_ = 0;
    std::uint64_t age_max_ns_ = 0;
    std::unique_ptr<Entry[]> all_;
    std::unique_ptr<Shard[]> shards_;
};

}  // namespace nfsrdma::sunrpc
