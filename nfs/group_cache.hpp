#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"

namespace nfsrdma::nfs {

// The groups of users as this machine knows them (passwd, group, whatever NSS asks), remembered for
// a while: asking may take as long as a directory server takes. Any thread; sharded by uid.
class GroupCache {
  public:
    // Fills in the groups of `uid`; false when there is no such user.
    using Lookup = bool (*)(std::uint32_t uid, std::vector<std::uint32_t>& out);
    struct Options {
        std::uint64_t known_ns = 300 * kNsPerSec;
        std::uint64_t unknown_ns = 30 * kNsPerSec;  // users who do not exist
        std::uint32_t users_max = 4096;             // the one to expire first is forgotten
        Lookup lookup = nullptr;                    // nullptr: getgrouplist
    };
    GroupCache(const Clock& clock, const Options& options);

    // Whether get() will answer without asking anybody.
    bool has(std::uint32_t uid) const noexcept;
    // Puts the groups of `uid` into `out`, at most kGroupsMax of them, none for a user who does not
    // exist; returns a number that changes when they do. With that number as `known` the groups are
    // not copied again. May wait when has() says no.
    std::uint64_t get(std::uint32_t uid, std::uint64_t known, std::vector<std::uint32_t>& out);

    static constexpr std::size_t kGroupsMax = 4096;

  private:
    struct User {
        std::vector<std::uint32_t> groups;
        std::uint64_t serial = 0;
        std::uint64_t until_ns = 0;
    };
    struct alignas(64) Shard {
        mutable std::mutex mutex;
        std::unordered_map<std::uint32_t, User> users;
        std::uint64_t next_serial = 1;
    };
    static constexpr std::size_t kShards = 16;

    Shard& shard_of(std::uint32_t uid) noexcept { return shards_[uid % kShards]; }
    const Shard& shard_of(std::uint32_t uid) const noexcept { return shards_[uid % kShards]; }
    void make_room(Shard& shard) const;

    const Clock& clock_;
    const Options options_;
    std::array<Shard, kShards> shards_;
};

}  // namespace nfsrdma::nfs
