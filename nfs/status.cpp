#include "nfs/status.hpp"

#include <array>
#include <cerrno>

namespace nfsrdma::nfs {
namespace {

struct Row {
    int error;
    nfsstat3 status;
};
constexpr std::array kRows = {
    Row{0, NFS3_OK},
    Row{EPERM, NFS3ERR_PERM},
    Row{ENOENT, NFS3ERR_NOENT},
    Row{EIO, NFS3ERR_IO},
    Row{ENXIO, NFS3ERR_NXIO},
    Row{EACCES, NFS3ERR_ACCES},
    Row{EEXIST, NFS3ERR_EXIST},
    Row{EXDEV, NFS3ERR_XDEV},
    Row{ENODEV, NFS3ERR_NODEV},
    Row{ENOTDIR, NFS3ERR_NOTDIR},
    Row{EISDIR, NFS3ERR_ISDIR},
    Row{EINVAL, NFS3ERR_INVAL},
    Row{ELOOP, NFS3ERR_INVAL},  // a link where none may be followed
    Row{EFBIG, NFS3ERR_FBIG},
    Row{EOVERFLOW, NFS3ERR_FBIG},
    Row{ENOSPC, NFS3ERR_NOSPC},
    Row{EROFS, NFS3ERR_ROFS},
    Row{EMLINK, NFS3ERR_MLINK},
    Row{ENAMETOOLONG, NFS3ERR_NAMETOOLONG},
    Row{ENOTEMPTY, NFS3ERR_NOTEMPTY},
    Row{EDQUOT, NFS3ERR_DQUOT},
    Row{ESTALE, NFS3ERR_STALE},
    Row{EOPNOTSUPP, NFS3ERR_NOTSUPP},
    Row{ENOSYS, NFS3ERR_NOTSUPP},
    Row{EBUSY, NFS3ERR_ACCES},
    Row{ETXTBSY, NFS3ERR_ACCES},
    Row{EAGAIN, NFS3ERR_JUKEBOX},
    Row{EINTR, NFS3ERR_JUKEBOX},
    Row{EMFILE, NFS3ERR_JUKEBOX},
    Row{ENFILE, NFS3ERR_JUKEBOX},
    Row{ENOMEM, NFS3ERR_JUKEBOX},
    Row{ENOBUFS, NFS3ERR_JUKEBOX},
};

}  // namespace

nfsstat3 status_of(int error) noexcept {
    for (const Row& row : kRows) {
        if (row.error == error) return row.status;
    }
    return NFS3ERR_IO;
}

const char* to_string(nfsstat3 status) noexcept {
    switch (status) {
        case NFS3_OK:
            return "NFS3_OK";
        case NFS3ERR_PERM:
            return "NFS3ERR_PERM";
        case NFS3ERR_NOENT:
            return "NFS3ERR_NOENT";
        case NFS3ERR_IO:
            return "NFS3ERR_IO";
        case NFS3ERR_NXIO:
            return "NFS3ERR_NXIO";
        case NFS3ERR_ACCES:
            return "NFS3ERR_ACCES";
        case NFS3ERR_EXIST:
            return "NFS3ERR_EXIST";
        case NFS3ERR_XDEV:
            return "NFS3ERR_XDEV";
        case NFS3ERR_NODEV:
            return "NFS3ERR_NODEV";
        case NFS3ERR_NOTDIR:
            return "NFS3ERR_NOTDIR";
        case NFS3ERR_ISDIR:
            return "NFS3ERR_ISDIR";
        case NFS3ERR_INVAL:
            return "NFS3ERR_INVAL";
        case NFS3ERR_FBIG:
            return "NFS3ERR_FBIG";
        case NFS3ERR_NOSPC:
            return "NFS3ERR_NOSPC";
        case NFS3ERR_ROFS:
            return "NFS3ERR_ROFS";
        case NFS3ERR_MLINK:
            return "NFS3ERR_MLINK";
        case NFS3ERR_NAMETOOLONG:
            return "NFS3ERR_NAMETOOLONG";
        case NFS3ERR_NOTEMPTY:
            return "NFS3ERR_NOTEMPTY";
        case NFS3ERR_DQUOT:
            return "NFS3ERR_DQUOT";
        case NFS3ERR_STALE:
            return "NFS3ERR_STALE";
        case NFS3ERR_REMOTE:
            return "NFS3ERR_REMOTE";
        case NFS3ERR_BADHANDLE:
            return "NFS3ERR_BADHANDLE";
        case NFS3ERR_NOT_SYNC:
            return "NFS3ERR_NOT_SYNC";
        case NFS3ERR_BAD_COOKIE:
            return "NFS3ERR_BAD_COOKIE";
        case NFS3ERR_NOTSUPP:
            return "NFS3ERR_NOTSUPP";
        case NFS3ERR_TOOSMALL:
            return "NFS3ERR_TOOSMALL";
        case NFS3ERR_SERVERFAULT:
            return "NFS3ERR_SERVERFAULT";
        case NFS3ERR_BADTYPE:
            return "NFS3ERR_BADTYPE";
        case NFS3ERR_JUKEBOX:
            return "NFS3ERR_JUKEBOX";
    }
    return "NFS3ERR unknown";  // a peer's number
}

}  // namespace nfsrdma::nfs
