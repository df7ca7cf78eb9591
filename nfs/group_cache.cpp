#include "nfs/group_cache.hpp"

#include <algorithm>
#include <cerrno>
#include <grp.h>
#include <pwd.h>

namespace nfsrdma::nfs {
namespace {

constexpr std::size_t kRecordMax = std::size_t{64} << 10;  // of passwd

bool ask_system(std::uint32_t uid, std::vector<std::uint32_t>& out) {
    std::vector<char> room(1024);
    struct passwd record {};
    struct passwd* found = nullptr;
    for (;;) {
        const int error = ::getpwuid_r(uid, &record, room.data(), room.size(), &found);
        if (error == EINTR) continue;
        if (error != ERANGE || room.size() >= kRecordMax) break;
        room.resize(2 * room.size());
    }
    if (found == nullptr) return false;
    static_assert(sizeof(gid_t) == sizeof(std::uint32_t));
    int count = 64;
    for (;;) {
        out.resize(static_cast<std::size_t>(count));
        const int had = count;
        if (::getgrouplist(record.pw_name, record.pw_gid, out.data(), &count) >= 0) break;
        // It says how many there are; were it not more than before, this would never end.
        if (count <= had) count = 2 * had;
        if (static_cast<std::size_t>(count) > 4 * GroupCache::kGroupsMax) break;
    }
    out.resize(std::min(static_cast<std::size_t>(count), out.size()));
    return true;
}

}  // namespace

GroupCache::GroupCache(const Clock& clock, const Options& options)
    : clock_(clock), options_(options) {}

bool GroupCache::has(std::uint32_t uid) const noexcept {
    const Shard& shard = shard_of(uid);
    const std::lock_guard lock(shard.mutex);
    const auto user = shard.users.find(uid);
    return user != shard.users.end() && clock_.now_ns() < user->second.until_ns;
}

void GroupCache::make_room(Shard& shard) const {
    const std::size_t each = std::max<std::size_t>(options_.users_max / kShards, 1);
    if (shard.users.size() < each) return;
    std::uint32_t oldest = 0;
    std::uint64_t until_ns = ~std::uint64_t{0};
    for (const auto& [uid, user] : shard.users) {
        if (user.until_ns >= until_ns) continue;
        until_ns = user.until_ns;
        oldest = uid;
    }
    shard.users.erase(oldest);
}

std::uint64_t GroupCache::get(std::uint32_t uid, std::uint64_t known,
                              std::vector<std::uint32_t>& out) {
    Shard& shard = shard_of(uid);
    {
        const std::lock_guard lock(shard.mutex);
        const auto user = shard.users.find(uid);
        if (user != shard.users.end() && clock_.now_ns() < user->second.until_ns) {
            if (user->second.serial != known) out = user->second.groups;
            return user->second.serial;
        }
    }
    // Without the lock: others' users do not wait for this one.
    std::vector<std::uint32_t> groups;
    const bool exists =
        options_.lookup != nullptr ? options_.lookup(uid, groups) : ask_system(uid, groups);
    if (!exists) groups.clear();
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    if (groups.size() > kGroupsMax) groups.resize(kGroupsMax);
    const std::lock_guard lock(shard.mutex);
    if (shard.users.find(uid) == shard.users.end()) make_room(shard);
    User& user = shard.users[uid];
    if (user.serial == 0 || user.groups != groups) user.serial = shard.next_serial++;
    user.groups = std::move(groups);
    user.until_ns = clock_.now_ns() + (exists ? options_.known_ns : options_.unknown_ns);
    out = user.groups;
    return user.serial;
}

}  // namespace nfsrdma::nfs
