#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "nfs/nfs3_types.hpp"
#include "tools/mount_nfsrdma/caller.hpp"

// What the server lets whom do with one object: its answers to ACCESS (RFC 1813 s3.3.4), for as
// long as the object's attributes are believed.
namespace nfsrdma::mount {

// Rights of `type` that access(2) knows: what a call asks for.
std::uint32_t access_rights(ftype3 type) noexcept;
// Whether `rights`, which were granted, are all that `mask` (R_OK, W_OK, X_OK) takes.
bool may_access(ftype3 type, std::uint32_t rights, int mask) noexcept;

// Under Mount::lock. Bounded: of more callers than it has places, the one told first goes.
class AccessCache {
  public:
    static constexpr std::uint32_t kPlaces = 4;
    // `ctime` is the object's as it is known now: another than at the answer, and its mode or owner
    // may have changed.
    std::optional<std::uint32_t> find(const Caller& who, const nfstime3& ctime,
                                      std::uint64_t now_ns) const noexcept;
    void note(const Caller& who, const nfstime3& ctime, std::uint32_t rights,
              std::uint64_t until_ns) noexcept;

  private:
    struct Entry {
        Caller who;  // one object for the same ids (Callers)
        nfstime3 ctime{};
        std::uint32_t rights = 0;
        std::uint64_t until_ns = 0;
    };
    std::array<Entry, kPlaces> entries_;
    std::uint32_t next_ = 0;
};

}  // namespace nfsrdma::mount
