#include "tools/mount_nfsrdma/access_cache.hpp"

#include <unistd.h>

#include "tools/mount_nfsrdma/attributes.hpp"

namespace nfsrdma::mount {
namespace {

constexpr std::uint32_t kChange = ACCESS3_MODIFY | ACCESS3_EXTEND;

bool has(std::uint32_t rights, std::uint32_t wanted) noexcept {
    return (rights & wanted) == wanted;
}

}  // namespace

std::uint32_t access_rights(ftype3 type) noexcept {
    if (type == NF3DIR) return ACCESS3_READ | kChange | ACCESS3_DELETE | ACCESS3_LOOKUP;
    return ACCESS3_READ | kChange | ACCESS3_EXECUTE;
}

bool may_access(ftype3 type, std::uint32_t rights, int mask) noexcept {
    const bool dir = type == NF3DIR;
    // A device or a pipe is written without being changed, and has no end to extend.
    const std::uint32_t write = dir              ? kChange | ACCESS3_DELETE
                                : type == NF3REG ? kChange
                                                 : std::uint32_t{ACCESS3_MODIFY};
    if ((mask & R_OK) != 0 && !has(rights, ACCESS3_READ)) return false;
    if ((mask & W_OK) != 0 && !has(rights, write)) return false;
    return (mask & X_OK) == 0 || has(rights, dir ? ACCESS3_LOOKUP : ACCESS3_EXECUTE);
}

std::optional<std::uint32_t> AccessCache::find(const Caller& who, const nfstime3& ctime,
                                               std::uint64_t now_ns) const noexcept {
    for (const Entry& entry : entries_) {
        if (entry.who == who && now_ns < entry.until_ns && is_same(entry.ctime, ctime))
            return entry.rights;
    }
    return std::nullopt;
}

void AccessCache::note(const Caller& who, const nfstime3& ctime, std::uint32_t rights,
                       std::uint64_t until_ns) noexcept {
    Entry* place = nullptr;
    for (Entry& entry : entries_)
        if (entry.who == who) place = &entry;
    if (place == nullptr) {
        place = &entries_[next_];
        next_ = (next_ + 1) % kPlaces;
    }
    *place = Entry{who, ctime, rights, until_ns};
}

}  // namespace nfsrdma::mount
