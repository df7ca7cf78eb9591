#pragma once
#include <cstring>
#include <string_view>

#include "nfs/vfs_posix.hpp"

namespace nfsrdma::nfs {

// A directory in which a change is made, with the name as the kernel wants it.
struct VfsPosix::Dir {
    static constexpr std::size_t kNameRoom =
        256;  // NAME_MAX of every Linux file system, and the zero
    PosixPin pin;
    NodeId id;
    char name[kNameRoom] = {};
    // NFS3ERR_NAMETOOLONG; NFS3ERR_INVAL for what is not one name: nothing else may reach the
    // kernel.
    nfsstat3 set_name(std::string_view text) noexcept {
        if (text.size() >= kNameRoom) return NFS3ERR_NAMETOOLONG;
        if (text.empty() || text.find('/') != text.npos || text.find('\0') != text.npos) {
            return NFS3ERR_INVAL;
        }
        std::memcpy(name, text.data(), text.size());
        name[text.size()] = '\0';
        return NFS3_OK;
    }
};

}  // namespace nfsrdma::nfs
