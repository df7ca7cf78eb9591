#pragma once
#include <cstdint>
#include <cstring>
#include <optional>

#include "nfs/vfs.hpp"

// Between the backend's values and RFC 1813's structures. Pure.
namespace nfsrdma::nfs {

// An enumerator as a peer sent it: it may be any number, and so may not be read as its C++ type
// before that is known.
template <class Enum>
std::int32_t wire_value(const Enum& value) noexcept {
    static_assert(sizeof(Enum) == sizeof(std::int32_t));
    std::int32_t out = 0;
    std::memcpy(&out, &value, sizeof out);
    return out;
}

fattr3 to_fattr3(const Attr& attr) noexcept;
nfstime3 to_nfstime3(const Time& time) noexcept;
post_op_attr to_post_op(const std::optional<Attr>& attr) noexcept;
wcc_data to_wcc(const Wcc& wcc) noexcept;
// NFS3ERR_INVAL: a time that is none.
nfsstat3 to_set_attr(const sattr3& from, SetAttr& to) noexcept;
Time to_time(const nfstime3& time) noexcept;
std::uint64_t to_verifier(const createverf3& verf) noexcept;

}  // namespace nfsrdma::nfs
