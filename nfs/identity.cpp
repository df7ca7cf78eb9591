#include "nfs/identity.hpp"

#include <algorithm>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unordered_map>

#include "base/assert.hpp"
#include "base/loop.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::uint32_t kNoId = ~0u;

// The capabilities that go when the file system uid is no more 0.
constexpr std::array kFileCapabilities = {
    CAP_CHOWN,  CAP_DAC_OVERRIDE,    CAP_DAC_READ_SEARCH, CAP_FOWNER,
    CAP_FSETID, CAP_LINUX_IMMUTABLE, CAP_MKNOD,           CAP_MAC_OVERRIDE,
};

using Mask = std::array<std::uint32_t, 2>;
using CapabilityData = std::array<struct __user_cap_data_struct, 2>;

bool has(const Mask& mask, int capability) noexcept {
    const auto bit = static_cast<std::uint32_t>(capability);
    return ((mask[bit / 32] >> (bit % 32)) & 1u) != 0;
}
Mask without_file_capabilities(Mask mask) noexcept {
    for (const int capability : kFileCapabilities) {
        const auto bit = static_cast<std::uint32_t>(capability);
        mask[bit / 32] &= ~(1u << (bit % 32));
    }
    return mask;
}

// libc's functions of these names change all threads.
bool set_fsuid(std::uint32_t uid) noexcept {
    ::syscall(SYS_setfsuid, uid);
    // It does not say whether it worked; an id that cannot be changes nothing and tells the present
    // one.
    return static_cast<std::uint32_t>(::syscall(SYS_setfsuid, kNoId)) == uid;
}
bool set_fsgid(std::uint32_t gid) noexcept {
    ::syscall(SYS_setfsgid, gid);
    return static_cast<std::uint32_t>(::syscall(SYS_setfsgid, kNoId)) == gid;
}

}  // namespace

// Whom this thread acts as.
struct Identity::Thread {
    bool known = false;
    bool self = false;
    bool kept = false;  // stays itself
    std::uint32_t uid = 0, gid = 0;
    const Identity* managed_by = nullptr;  // whose group cache the groups are from
    std::uint64_t serial = 0;              // and which
    std::uint32_t group_count = 0;
    std::array<std::uint32_t, 16> groups{};
    std::vector<std::uint32_t> managed;
};

namespace {

// The personalities that one loop has for callers; its thread's. None is ever given back: an
// operation in flight may name it, and there are only so many callers.
struct Personalities {
    static constexpr std::size_t kCallersMax = 4096;
    struct Caller {
        const Identity* identity;
        Cred cred;
        bool operator==(const Caller& other) const noexcept {
            const auto groups = cred.groups.begin();
            return identity == other.identity && cred.known == other.cred.known &&
                   cred.uid == other.cred.uid && cred.gid == other.cred.gid &&
                   cred.group_count == other.cred.group_count &&
                   std::equal(groups, groups + cred.group_count, other.cred.groups.begin());
        }
    };
    struct Hash {
        std::size_t operator()(const Caller& caller) const noexcept {
            std::size_t sum = (std::size_t{caller.cred.uid} << 32) + caller.cred.gid;
            for (std::uint32_t i = 0; i < caller.cred.group_count; ++i)
                sum = sum * 31 + caller.cred.groups.at(i);
            return sum;
        }
    };
    std::uint64_t loop = 0;  // its serial
    std::uint16_t own = 0;   // this process's
    std::unordered_map<Caller, std::uint16_t, Hash> callers;
};

}  // namespace

std::uint16_t Identity::personality(Loop& loop, const Cred& cred) noexcept {
    if (!switches_) return 0;
    static thread_local Personalities known;
    if (known.loop != loop.serial()) {
        become_self();
        known.loop = loop.serial();
        known.own = loop.add_personality();
        known.callers.clear();
    }
    if (overrides(cred) || !is_quick(cred)) return known.own;
    const Personalities::Caller caller{this, cred};
    const auto at = known.callers.find(caller);
    if (at != known.callers.end()) return at->second;
    if (known.callers.size() >= Personalities::kCallersMax) return known.own;
    const std::uint16_t made = become(cred) == NFS3_OK ? loop.add_personality() : known.own;
    become_self();
    if (made != 0) known.callers.emplace(caller, made);
    return made != 0 ? made : known.own;
}

void Identity::obey_limits() noexcept {
    struct __user_cap_header_struct header {};
    header.version = _LINUX_CAPABILITY_VERSION_3;
    CapabilityData data{};
    if (::syscall(SYS_capget, &header, data.data()) != 0) return;
    constexpr auto kBit = static_cast<std::uint32_t>(CAP_SYS_RESOURCE);
    data[kBit / 32].effective &= ~(1u << (kBit % 32));
    // Less than what it has is always allowed.
    NR_ASSERT(::syscall(SYS_capset, &header, data.data()) == 0);
}

Identity::Thread& Identity::thread() noexcept {
    static thread_local Thread state;
    return state;
}

Identity::Identity(const IdentityOptions& options, const Clock& clock)
    : groups_(clock, options.groups), options_(options) {
    was_dumpable_ = ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
    own_uid_ = static_cast<std::uint32_t>(::syscall(SYS_setfsuid, kNoId));
    own_gid_ = static_cast<std::uint32_t>(::syscall(SYS_setfsgid, kNoId));
    const int count = ::getgroups(0, nullptr);
    own_groups_.resize(static_cast<std::size_t>(std::max(count, 0)));
    const int got = ::getgroups(count, own_groups_.data());
    own_groups_.resize(static_cast<std::size_t>(std::max(got, 0)));
    struct __user_cap_header_struct header {};
    header.version = _LINUX_CAPABILITY_VERSION_3;
    CapabilityData data{};
    if (::syscall(SYS_capget, &header, data.data()) != 0) return;
    for (std::size_t i = 0; i < data.size(); ++i) {
        effective_[i] = data[i].effective;
        permitted_[i] = data[i].permitted;
        inheritable_[i] = data[i].inheritable;
    }
    const bool allowed = has(effective_, CAP_SETUID) && has(effective_, CAP_SETGID);
    owns_all_files_ =
        own_uid_ == 0 && has(effective_, CAP_DAC_OVERRIDE) && has(effective_, CAP_DAC_READ_SEARCH);
    const int secure = ::prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
    const bool fixed = secure >= 0 && (static_cast<unsigned>(secure) & SECBIT_NO_SETUID_FIXUP) != 0;
    drops_by_hand_ = own_uid_ != 0 || fixed;
    if (options.keep_own) return;
    why_not_ = allowed ? " (its user namespace has no others)" : " (no CAP_SETUID and CAP_SETGID)";
    if (!allowed) return;
    // The capabilities are good for the ids that the user namespace has.
    switches_ = set_ids(options.anon_uid, options.anon_gid, nullptr, 0);
    static_cast<void>(set_ids(own_uid_, own_gid_, own_groups_.data(), own_groups_.size()));
    if (drops_by_hand_) set_capabilities(true);
}

Identity::~Identity() {
    if (!switches_) return;
    become_self();
    // A process that changed its ids is none to be looked into; this one has not any more.
    if (was_dumpable_) static_cast<void>(::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}

std::string Identity::describe() const {
    if (switches_) {
        return options_.manage_gids ? "each caller acts as itself, with its groups of this machine"
                                    : "each caller acts as itself";
    }
    return "all callers act as uid " + std::to_string(own_uid_) + why_not_;
}

std::uint32_t Identity::uid_of(const Cred& cred) const noexcept {
    if (!switches_) return own_uid_;
    return cred.known ? cred.uid : options_.anon_uid;
}

bool Identity::overrides(const Cred& cred) const noexcept {
    return owns_all_files_ && uid_of(cred) == 0;
}

bool Identity::is_self(const Cred& cred) const noexcept {
    const std::uint32_t gid = cred.known ? cred.gid : options_.anon_gid;
    return overrides(cred) && gid == own_gid_ && !drops_by_hand_;
}

void Identity::keep_thread() noexcept {
    Thread& now = thread();
    now.known = now.self = now.kept = true;
    now.managed_by = nullptr;
}

bool Identity::is_quick(const Cred& cred) const noexcept {
    if (switches_ && thread().kept) return is_self(cred);
    return !switches_ || !options_.manage_gids || !cred.known || groups_.has(cred.uid);
}

void Identity::set_capabilities(bool own) const noexcept {
    const Mask effective = own ? effective_ : without_file_capabilities(effective_);
    struct __user_cap_header_struct header {};
    header.version = _LINUX_CAPABILITY_VERSION_3;
    CapabilityData data{};
    for (std::size_t i = 0; i < data.size(); ++i) {
        data[i].effective = effective[i];
        data[i].permitted = permitted_[i];
        data[i].inheritable = inheritable_[i];
    }
    const long done = ::syscall(SYS_capset, &header, data.data());
    NR_ASSERT(done == 0);  // less than what is permitted is always allowed
}

bool Identity::set_ids(std::uint32_t uid, std::uint32_t gid, const std::uint32_t* groups,
                       std::size_t count) noexcept {
    if (uid == kNoId || gid == kNoId) return false;
    const bool done = ::syscall(SYS_setgroups, count, groups) == 0 && set_fsgid(gid);
    return done && set_fsuid(uid);
}

bool Identity::is_same(const Thread& thread, const Cred& cred, std::uint32_t uid,
                       std::uint32_t gid) const noexcept {
    if (!thread.known || thread.self || thread.uid != uid || thread.gid != gid) return false;
    if (thread.managed_by != nullptr) return false;  // its groups are not the call's
    const std::uint32_t count = cred.known ? cred.group_count : 0;
    return thread.group_count == count &&
           std::equal(thread.groups.begin(), thread.groups.begin() + count, cred.groups.begin());
}

nfsstat3 Identity::become(const Cred& cred) noexcept {
    if (!switches_) return NFS3_OK;
    Thread& now = thread();
    if (now.kept) {
        NR_ASSERT(is_self(cred));  // is_quick() said so
        return NFS3_OK;
    }
    const std::uint32_t uid = uid_of(cred);
    const std::uint32_t gid = cred.known ? cred.gid : options_.anon_gid;
    const bool managed = options_.manage_gids && cred.known;
    std::uint64_t serial = 0;
    if (managed) {
        const bool same_user = now.known && !now.self && now.managed_by == this && now.uid == uid;
        serial = groups_.get(uid, same_user ? now.serial : 0, now.managed);
        if (same_user && now.gid == gid && now.serial == serial) return NFS3_OK;
    } else if (is_same(now, cred, uid, gid)) {
        return NFS3_OK;
    }
    now.self = false;
    now.uid = uid;
    now.gid = gid;
    now.managed_by = managed ? this : nullptr;
    now.serial = serial;
    now.group_count = managed || !cred.known ? 0 : cred.group_count;
    now.groups = cred.groups;
    const std::uint32_t* const groups = managed ? now.managed.data() : now.groups.data();
    now.known = set_ids(uid, gid, groups, managed ? now.managed.size() : now.group_count);
    if (!now.known) {
        become_self();
        return NFS3ERR_ACCES;
    }
    if (drops_by_hand_) set_capabilities(false);
    return NFS3_OK;
}

void Identity::become_self() noexcept {
    if (!switches_) return;
    Thread& now = thread();
    if (now.known && now.self) return;
    // Its own identity is one that this process had: nothing but a broken system refuses it, and
    // going on as somebody else would be the one thing that may not happen.
    NR_ASSERT(set_ids(own_uid_, own_gid_, own_groups_.data(), own_groups_.size()));
    if (drops_by_hand_) set_capabilities(true);
    now.known = now.self = true;
    now.managed_by = nullptr;
}

}  // namespace nfsrdma::nfs
