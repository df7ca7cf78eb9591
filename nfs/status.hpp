#pragma once
#include "nfs/nfs3_types.hpp"

namespace nfsrdma::nfs {

// The NFSv3 status for an errno (RFC 1813 s2.6); what has none is NFS3ERR_IO. 0 is NFS3_OK.
nfsstat3 status_of(int error) noexcept;

// "NFS3ERR_NOENT"; never a null pointer.
const char* to_string(nfsstat3 status) noexcept;

}  // namespace nfsrdma::nfs
