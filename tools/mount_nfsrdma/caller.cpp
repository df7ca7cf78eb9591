#include "tools/mount_nfsrdma/caller.hpp"

#include <algorithm>
#include <array>

#include "base/clock.hpp"

namespace nfsrdma::mount {
namespace {

constexpr int kGroupsRead = 256;  // of which AUTH_SYS takes 16

bool same_ids(const sunrpc::AuthSys& a, const sunrpc::AuthSys& b) noexcept {
    return a.uid == b.uid && a.gid == b.gid && a.group_count == b.group_count &&
           std::equal(a.groups.begin(), a.groups.begin() + a.group_count, b.groups.begin());
}

}  // namespace

Callers::Callers() {
    bool truncated = false;
    own_ = std::make_shared<const sunrpc::AuthSys>(sunrpc::AuthSys::of_process(truncated));
}

std::size_t Callers::KeyHash::operator()(const Key& key) const noexcept {
    std::uint64_t mixed = (std::uint64_t{key.pid} << 32 | key.uid) * 0x9E3779B97F4A7C15u;
    mixed ^= key.gid * 0xC2B2AE3D27D4EB4Fu;
    return mixed ^ (mixed >> 29);
}

Caller Callers::of(fuse_req_t req, std::uint64_t now_ns) {
    const fuse_ctx* const ctx = fuse_req_ctx(req);
    const Key key{static_cast<std::uint32_t>(ctx->pid), ctx->uid, ctx->gid};
    Entry& entry = known_[key];
    if (entry.caller != nullptr && now_ns < entry.until_ns) return entry.caller;
    sunrpc::AuthSys sys = *own_;
    sys.uid = ctx->uid;
    sys.gid = ctx->gid;
    sys.group_count = 0;
    std::array<gid_t, kGroupsRead> groups{};
    const int count = fuse_req_getgroups(req, kGroupsRead, groups.data());
    for (int i = 0; i < std::min(count, kGroupsRead); ++i) {
        if (groups[static_cast<std::size_t>(i)] == ctx->gid) continue;
        if (sys.group_count == sunrpc::kAuthSysGroupsMax) break;
        sys.groups[sys.group_count++] = groups[static_cast<std::size_t>(i)];
    }
    entry.until_ns = now_ns + kNsPerSec;
    Caller caller = entry.caller;
    if (caller == nullptr || !same_ids(*caller, sys)) {
        // The same ids are the same object, whatever thread has them.
        const auto other = std::find_if(known_.begin(), known_.end(), [&](const auto& known) {
            return known.second.caller != nullptr && known.first.uid == key.uid &&
                   same_ids(*known.second.caller, sys);
        });
        caller = other != known_.end() ? other->second.caller
                                       : std::make_shared<const sunrpc::AuthSys>(sys);
        entry.caller = caller;
    }
    if (known_.size() > kKnownMax) {
        std::erase_if(known_, [&](const auto& known) { return now_ns >= known.second.until_ns; });
        if (known_.size() > kKnownMax) known_.clear();
    }
    return caller;
}

}  // namespace nfsrdma::mount
