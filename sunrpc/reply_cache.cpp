#include "sunrpc/reply_cache.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/assert.hpp"

namespace nfsrdma::sunrpc {
namespace {

constexpr std::uint64_t kFnvBasis = 0xCBF29CE484222325u, kFnvPrime = 0x100000001B3u;

// FNV-1a. A caller that makes two calls of its own collide only harms itself: who it is stands in
// the key whole.
class Digest {
  public:
    void add(std::span<const std::byte> bytes) noexcept {
        for (const std::byte b : bytes)
            value_ = (value_ ^ static_cast<std::uint8_t>(b)) * kFnvPrime;
    }
    void add(std::uint32_t word) noexcept { value_ = (value_ ^ word) * kFnvPrime; }
    std::uint64_t value() const noexcept { return value_; }

  private:
    std::uint64_t value_ = kFnvBasis;
};

std::uint64_t digest_cred(const CallHeader& header) noexcept {
    Digest digest;
    digest.add(static_cast<std::uint32_t>(header.flavor));
    if (header.flavor != AuthFlavor::sys) return digest.value();
    digest.add(header.sys.uid);
    digest.add(header.sys.gid);
    digest.add(header.sys.group_count);
    for (std::uint32_t i = 0; i < std::min(header.sys.group_count, kAuthSysGroupsMax); ++i)
        digest.add(header.sys.groups[i]);
    return digest.value();
}

// The pieces of the unreduced message, in order; what comes before `skip` is left out, and what
// comes after `left` more bytes.
class Window {
  public:
    Window(std::uint32_t skip, std::uint32_t left) noexcept : skip_(skip), left_(left) {}
    void pass(std::span<const std::byte> piece) noexcept {
        const std::size_t skipped = std::min<std::size_t>(skip_, piece.size());
        skip_ -= static_cast<std::uint32_t>(skipped);
        piece = piece.subspan(skipped);
        piece = piece.first(std::min<std::size_t>(left_, piece.size()));
        left_ -= static_cast<std::uint32_t>(piece.size());
        digest_.add(piece);
    }
    std::uint64_t value() const noexcept { return digest_.value(); }

  private:
    std::uint32_t skip_, left_;
    Digest digest_;
};

std::uint64_t digest_args(const SvcRqst& rqst, std::uint32_t begin) noexcept {
    const XdrBuf& arg = rqst.arg;
    Window window(begin, CallKey::kDigestedBytes);
    if (arg.payload.empty()) {
        window.pass(arg.head);
        window.pass(arg.tail);
        return window.value();
    }
    constexpr std::array<std::byte, 3> kZeros{};
    const std::size_t in_head = std::min<std::size_t>(rqst.payload_position, arg.head.size());
    const std::size_t in_tail =
        std::min<std::size_t>(rqst.payload_position - in_head, arg.tail.size());
    window.pass(arg.head.first(in_head));
    window.pass(arg.tail.first(in_tail));
    window.pass(arg.payload);
    window.pass(std::span(kZeros).first(arg.pad()));
    window.pass(arg.head.subspan(in_head));
    window.pass(arg.tail.subspan(in_tail));
    return window.value();
}

std::uint64_t mix(const CallKey& key) noexcept {
    Digest digest;
    digest.add(key.caller);
    for (const std::uint32_t word : {key.xid, key.prog, key.vers, key.proc, key.args_bytes})
        digest.add(word);
    std::uint64_t h = digest.value() ^ key.cred ^ (key.args << 1);
    h ^= h >> 31;
    h *= 0x9E3779B97F4A7C15u;
    return h ^ (h >> 29);
}

constexpr std::uint32_t kEntriesPerShardMin = 64;

}  // namespace

CallKey CallKey::of(const SvcRqst& rqst, const CallHeader& header) noexcept {
    CallKey key;
    key.xid = header.xid;
    key.prog = header.prog;
    key.vers = header.vers;
    key.proc = header.proc;
    key.args_bytes = rqst.arg.length() - header.size;
    key.caller = rqst.xprt->peer().gid();
    key.cred = digest_cred(header);
    key.args = digest_args(rqst, header.size);
    return key;
}

struct ReplyCache::Entry : ListHook<ReplyCache::Entry> {
    CallKey key;
    Shard* shard = nullptr;
    Entry* next_in_bucket = nullptr;
    std::uint64_t finished_ns = 0;
    std::uint32_t bucket = 0;
    std::uint32_t reply_bytes = 0;
    bool done = false;
    std::array<std::byte, kReplyMax> reply;  // the first reply_bytes of it
};

struct ReplyCache::Shard {
    mutable std::mutex mutex;
    List<Entry, Entry> free;
    List<Entry, Entry> done;  // used longest ago first
    std::unique_ptr<Entry*[]> buckets;
    std::uint32_t bucket_mask = 0;
    ReplyCacheCounters counters;

    Entry* find(const CallKey& key, std::uint32_t bucket) noexcept {
        Entry* at = buckets[bucket];
        while (at != nullptr && at->key != key)
            at = at->next_in_bucket;
        return at;
    }
    void enter(Entry& entry, std::uint32_t bucket) noexcept {
        entry.bucket = bucket;
        entry.next_in_bucket = std::exchange(buckets[bucket], &entry);
    }
    void leave(Entry& entry) noexcept {
        Entry** at = &buckets[entry.bucket];
        while (*at != &entry)
            at = &(*at)->next_in_bucket;
        *at = entry.next_in_bucket;
        entry.next_in_bucket = nullptr;
    }
    // A free one, or that which is done for the longest time. nullptr: all are in progress.
    Entry* take(std::uint64_t now_ns, std::uint64_t age_max_ns) noexcept {
        if (!free.empty()) return &free.pop_front();
        if (done.empty()) return nullptr;
        Entry& oldest = done.pop_front();
        if (now_ns < oldest.finished_ns + age_max_ns) ++counters.evicted;
        leave(oldest);
        return &oldest;
    }
};

ReplyCache::ReplyCache(const ReplyCacheOptions& options)
    : entries_(std::max(options.entries, 1u)),
      shard_count_(std::clamp(entries_ / kEntriesPerShardMin, 1u, std::max(options.shards, 1u))),
      age_max_ns_(options.age_max_ns),
      all_(std::make_unique_for_overwrite<Entry[]>(entries_)),
      shards_(std::make_unique<Shard[]>(shard_count_)) {
    for (std::uint32_t i = 0; i < entries_; ++i) {
        Shard& shard = shards_[i % shard_count_];
        all_[i].shard = &shard;
        shard.free.push_back(all_[i]);
    }
    for (std::uint32_t i = 0; i < shard_count_; ++i) {
        std::uint32_t buckets = 1;
        while (buckets < entries_ / shard_count_ + 1)
            buckets *= 2;
        shards_[i].buckets = std::make_unique<Entry*[]>(buckets);
        shards_[i].bucket_mask = buckets - 1;
    }
}

ReplyCache::~ReplyCache() {
    for (std::uint32_t i = 0; i < shard_count_; ++i) {
        shards_[i].free.clear();
        shards_[i].done.clear();
    }
}

ReplyCache::Found ReplyCache::begin(const CallKey& key, std::uint64_t now_ns,
                                    std::span<std::byte> room, bool again) noexcept {
    const std::uint64_t hash = mix(key);
    Shard& shard = shards_[(hash >> 40) % shard_count_];
    const auto bucket = static_cast<std::uint32_t>(hash) & shard.bucket_mask;
    const std::lock_guard lock(shard.mutex);
    Entry* entry = shard.find(key, bucket);
    if (entry != nullptr && !entry->done) {
        if (!again) ++shard.counters.in_progress;
        return {Verdict::in_progress, nullptr, 0};
    }
    if (entry != nullptr) {
        shard.done.erase(*entry);
        // Another loop may have finished it after this one had looked at the clock.
        if (now_ns < entry->finished_ns + age_max_ns_ && entry->reply_bytes <= room.size()) {
            shard.done.push_back(*entry);
            std::memcpy(room.data(), entry->reply.data(), entry->reply_bytes);
            ++shard.counters.replayed;
            return {Verdict::done, nullptr, entry->reply_bytes};
        }
        shard.leave(*entry);
    } else {
        entry = shard.take(now_ns, age_max_ns_);
    }
    if (entry == nullptr) {
        ++shard.counters.uncached;
        return {};
    }
    entry->key = key;
    entry->done = false;
    shard.enter(*entry, bucket);
    ++shard.counters.executed;
    return {Verdict::fresh, entry, 0};
}

void ReplyCache::finish(Entry& entry, std::span<const std::byte> reply,
                        std::uint64_t now_ns) noexcept {
    if (reply.size() > kReplyMax) return forget(entry);
    const std::lock_guard lock(entry.shard->mutex);
    NR_ASSERT(!entry.done);
    std::memcpy(entry.reply.data(), reply.data(), reply.size());
    entry.reply_bytes = static_cast<std::uint32_t>(reply.size());
    entry.finished_ns = now_ns;
    entry.done = true;
    entry.shard->done.push_back(entry);
}

void ReplyCache::forget(Entry& entry) noexcept {
    const std::lock_guard lock(entry.shard->mutex);
    NR_ASSERT(!entry.done);
    entry.shard->leave(entry);
    entry.shard->free.push_front(entry);
}

ReplyCacheCounters ReplyCache::counters() const noexcept {
    ReplyCacheCounters sum;
    for (std::uint32_t i = 0; i < shard_count_; ++i) {
        const std::lock_guard lock(shards_[i].mutex);
        const ReplyCacheCounters& one = shards_[i].counters;
        sum.executed += one.executed;
        sum.replayed += one.replayed;
        sum.in_progress += one.in_progress;
        sum.uncached += one.uncached;
        sum.evicted += one.evicted;
    }
    return sum;
}

}  // namespace nfsrdma::sunrpc
