#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nfs/fh.hpp"

namespace nfsrdma::nfs {

// The handle database of one export: under which names an object was seen last, so that a handle
// can be opened without privilege. In memory; lookups and listings fill it, renames and removals
// keep it true. Any thread.
class PosixHandles {
  public:
    struct Place {
        std::uint64_t parent = 0;  // fileid of the directory
        std::string name;
        bool operator==(const Place&) const = default;
    };

    // Allocates only when this is news.
    void learn(NodeId node, std::uint64_t parent, std::string_view name);
    // The name is gone there.
    void forget_place(std::uint64_t fileid, std::uint64_t parent, std::string_view name);
    // The object is gone.
    void forget(std::uint64_t fileid);
    // Where `fileid` may be found, newest first; empty when it is not known. `generation`: the
    // known one.
    std::vector<Place> places(std::uint64_t fileid, std::uint64_t& generation) const;
    bool generation_of(std::uint64_t fileid, std::uint64_t& generation) const;
    // The directory of its newest place; false when not known.
    bool parent_of(NodeId node, NodeId& parent) const;
    std::size_t size() const;

  private:
    struct Known {
        std::uint64_t generation = 0;
        std::vector<Place> places;  // newest last
    };
    struct alignas(64) Shard {
        mutable std::mutex mutex;
        std::unordered_map<std::uint64_t, Known> known;
    };
    static constexpr std::size_t kShards = 16;
    static constexpr std::size_t kPlacesMax = 8;  // of one object; older ones are dropped

    Shard& shard_of(std::uint64_t fileid) noexcept { return shards_[fileid % kShards]; }
    const Shard& shard_of(std::uint64_t fileid) const noexcept { return shards_[fileid % kShards]; }

    std::array<Shard, kShards> shards_;
};

}  // namespace nfsrdma::nfs
