#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nfs/fh.hpp"

namespace nfsrdma::nfs {

// One thing that became known, or that is no longer so.
struct PlaceRecord {
    enum class Kind : std::uint8_t {
        learn = 1,    // the object was seen as `name` in `parent`
        unplace = 2,  // it has that name no more
        forget = 3,   // it is gone
    };
    Kind kind = Kind::learn;
    std::uint64_t fileid = 0, generation = 0, parent = 0;
    std::string_view name;
};

// Is told of every change, in the order of the changes of one object, by any thread and under a
// lock: it only notes them.
class PlaceLog {
  public:
    virtual void note(const PlaceRecord& record) noexcept = 0;
    // What was noted is to outlive this process.
    virtual void flush() noexcept = 0;

  protected:
    ~PlaceLog() = default;
};

// The handle database of one export: under which names an object was seen last, so that a handle
// can be opened without privilege. Lookups and listings fill it, renames and removals keep it true.
// In memory, about 70 bytes an object of an average name; bounded: beyond that the object that was
// asked for the longest ago (about) is forgotten. Any thread.
class PosixHandles {
  public:
    struct Place {
        std::uint64_t parent = 0;  // fileid of the directory
        std::string name;
        bool operator==(const Place&) const = default;
    };
    static constexpr std::size_t kCapacity = std::size_t{4} << 20;  // some 300 MB
    static constexpr std::size_t kNameMax = 255;

    // `capacity`: names that are remembered.
    explicit PosixHandles(std::size_t capacity = kCapacity);

    // Who is told of changes, or nullptr. Before other threads come; outlives this.
    void set_log(PlaceLog* log) noexcept { log_ = log; }

    // Does nothing when this is no news. `more`: of many; flush() ends them.
    void learn(NodeId node, std::uint64_t parent, std::string_view name, bool more = false);
    void flush() noexcept;
    // The name is gone there.
    void forget_place(std::uint64_t fileid, std::uint64_t parent, std::string_view name);
    // The object is gone.
    void forget(std::uint64_t fileid);
    // As if it were happening again; the log is not told.
    void replay(const PlaceRecord& record);

    // Where `fileid` may be found, newest first; empty when it is not known. `generation`: the
    // known one.
    std::vector<Place> places(std::uint64_t fileid, std::uint64_t& generation) const;
    bool generation_of(std::uint64_t fileid, std::uint64_t& generation) const;

    std::size_t size() const;          // names
    std::size_t memory_bytes() const;  // allocated
    static constexpr std::size_t kShards = 16;
    // The records that make one shard what it is, oldest first; the shard is locked meanwhile.
    template <class Take>
    void each_of_shard(std::size_t index, Take&& take) const {
        const Shard& shard = shards_[index];
        const std::lock_guard lock(shard.mutex);
        for (const std::uint32_t head : shard.index) {
            if (head == kNone) continue;
            std::array<std::uint32_t, kPlacesMax> chain{};
            std::size_t count = 0;
            for (std::uint32_t at = head; at != kNone; at = shard.entries[at].next)
                chain[count++] = at;
            while (count > 0)
                take(record_of(shard, shard.entries[chain[--count]]));
        }
    }

  private:
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};
    static constexpr std::size_t kPlacesMax = 8;  // of one object; older ones are dropped

    // One name of one object.
    struct Entry {
        std::uint64_t fileid = 0, generation = 0, parent = 0;
        std::uint32_t name_at = 0;   // in Shard::names
        std::uint32_t next = kNone;  // the object's next older name; or of the free entries
        std::uint8_t name_size = 0;  // 0: free
        bool used = false;           // since the hand came by
    };
    struct alignas(64) Shard {
        mutable std::mutex mutex;
        // To an object's newest entry, by fileid: open addressing, linear probing.
        std::vector<std::uint32_t> index;
        std::vector<Entry> entries;
        std::vector<char> names;
        std::size_t objects = 0, live = 0, live_names = 0;  // live_names: bytes
        std::uint32_t free = kNone;
        std::uint32_t hand = 0;  // for who is to go
    };

    static PlaceRecord record_of(const Shard& shard, const Entry& entry) noexcept;
    static std::string_view name_of(const Shard& shard, const Entry& entry) noexcept {
        return {shard.names.data() + entry.name_at, entry.name_size};
    }
    Shard& shard_of(std::uint64_t fileid) noexcept { return shards_[fileid % kShards]; }
    const Shard& shard_of(std::uint64_t fileid) const noexcept { return shards_[fileid % kShards]; }

    static std::size_t slot_of(const Shard& shard, std::uint64_t fileid) noexcept;
    static std::uint32_t head_of(const Shard& shard, std::uint64_t fileid) noexcept;
    static void set_head(Shard& shard, std::uint64_t fileid, std::uint32_t head);
    static void clear_slot(Shard& shard, std::size_t slot) noexcept;
    static void grow_index(Shard& shard);
    static std::uint32_t take_entry(Shard& shard);
    static void free_entry(Shard& shard, std::uint32_t at) noexcept;
    static void add_name(Shard& shard, Entry& entry, std::string_view name);
    static void pack_names(Shard& shard);
    static void forget_locked(Shard& shard, std::uint64_t fileid) noexcept;
    static bool unplace_locked(Shard& shard, std::uint64_t fileid, std::uint64_t parent,
                               std::string_view name) noexcept;
    bool learn_locked(Shard& shard, NodeId node, std::uint64_t parent, std::string_view name);
    static void make_room(Shard& shard) noexcept;
    static void drop_oldest(Shard& shard, std::uint32_t head) noexcept;

    const std::size_t shard_capacity_;
    PlaceLog* log_ = nullptr;
    mutable std::array<Shard, kShards> shards_;
};

}  // namespace nfsrdma::nfs
