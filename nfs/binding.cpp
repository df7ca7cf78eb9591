#include "nfs/binding.hpp"

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstddef>
#include <cstring>

#include "base/bytes.hpp"
#include "nfs/nfs3_types.hpp"

namespace nfsrdma::nfs {
namespace {

// libtirpc calls an xdrproc_t with variable arguments: routines of rpcgen have a typed pointer
// there. This is the call through the right type, where a cast of the function's type would be
// undefined.
template <class T, bool_t (*Routine)(XDR*, T*)>
bool_t xdr_thunk(XDR* xdr, ...) noexcept {
    va_list list;
    va_start(list, xdr);
    T* const object = va_arg(list, T*);
    va_end(list);
    return Routine(xdr, object);
}

bool_t xdr_nothing(XDR* /*xdr*/, ...) noexcept {
    return TRUE;
}

std::uint32_t text_bytes(const char* text, std::uint32_t most) noexcept {
    const std::size_t length = text == nullptr ? 0 : strnlen(text, most);
    return 4 + align_up(static_cast<std::uint32_t>(length), 4);
}
std::uint32_t name_bytes(const char* name) noexcept {
    return text_bytes(name, NFS3_NAME_MAX);
}

std::uint32_t zero(const void* /*args*/) noexcept {
    return 0;
}
template <std::uint32_t N>
std::uint32_t fixed(const void* /*args*/) noexcept {
    return N;
}
// Arguments that begin with, or are, a diropargs3, and have N more bytes.
template <class Args, diropargs3 Args::*Where, std::uint32_t N>
std::uint32_t dirop(const void* args) noexcept {
    return kFh3Bytes + name_bytes((static_cast<const Args*>(args)->*Where).name) + N;
}
std::uint32_t rename_args(const void* args) noexcept {
    const auto& rename = *static_cast<const RENAME3args*>(args);
    return 2 * kFh3Bytes + name_bytes(rename.from.name) + name_bytes(rename.to.name);
}
std::uint32_t read_item(const void* args) noexcept {
    return static_cast<const READ3args*>(args)->count;
}
std::uint32_t readlink_item(const void* /*args*/) noexcept {
    return NFS3_PATH_MAX;
}
// RFC 1813 counts all of the resok structure; Linux's server only the entries, so that what is
// around them comes on top. Without that room it answers with ERR_CHUNK.
std::uint32_t dir_reply(std::uint32_t count) noexcept {
    return 4 + kDirListBytes + std::min(count, std::uint32_t{NFS3_DATA_MAX});
}
std::uint32_t readdir_reply(const void* args) noexcept {
    return dir_reply(static_cast<const READDIR3args*>(args)->count);
}
std::uint32_t readdirplus_reply(const void* args) noexcept {
    return dir_reply(static_cast<const READDIRPLUS3args*>(args)->maxcount);
}
std::uint32_t mount_path(const void* args) noexcept {
    return text_bytes(static_cast<const mountargs3*>(args)->dirpath, MNT3_PATH_MAX);
}

constexpr std::uint32_t kNewObjectReply = 4 + kPostOpFhBytes + kPostOpAttrBytes + kWccDataBytes;

sunrpc::ProcInfo nothing(const char* name) noexcept {
    sunrpc::ProcInfo info;
    info.name = name;
    info.xdr_args = xdr_nothing;
    info.xdr_res = xdr_nothing;
    info.args_max = info.reply_max = info.result_item_max = zero;
    return info;
}

template <class Args, bool_t (*XdrArgs)(XDR*, Args*), class Res, bool_t (*XdrRes)(XDR*, Res*)>
sunrpc::ProcInfo proc(const char* name, std::uint32_t (*args_max)(const void*),
                      std::uint32_t (*reply_max)(const void*), bool idempotent) noexcept {
    sunrpc::ProcInfo info = nothing(name);
    info.xdr_args = xdr_thunk<Args, XdrArgs>;
    info.xdr_res = xdr_thunk<Res, XdrRes>;
    info.args_size = sizeof(Args);
    info.res_size = sizeof(Res);
    info.args_max = args_max;
    info.reply_max = reply_max;
    info.idempotent = idempotent;
    return info;
}

#define NR_PROC(NAME, args_max, reply_max, idempotent)                                             \
    proc<NAME##3args, xdr_##NAME##3args, NAME##3res, xdr_##NAME##3res>(#NAME, args_max, reply_max, \
                                                                       idempotent)

constexpr bool kIdempotent = true;
constexpr bool kOnce = false;

std::array<sunrpc::ProcInfo, 22> make_nfs3_procs() noexcept {
    constexpr auto kFh = fixed<kFh3Bytes>;
    std::array<sunrpc::ProcInfo, 22> procs = {
        nothing("NULL"),
        NR_PROC(GETATTR, kFh, fixed<4 + kFattr3Bytes>, kIdempotent),
        NR_PROC(SETATTR, (fixed<kFh3Bytes + kSattr3Bytes + 12>), fixed<4 + kWccDataBytes>, kOnce),
        NR_PROC(LOOKUP, (dirop<LOOKUP3args, &LOOKUP3args::what, 0>),
                (fixed<4 + kFh3Bytes + 2 * kPostOpAttrBytes>), kIdempotent),
        NR_PROC(ACCESS, (fixed<kFh3Bytes + 4>), (fixed<4 + kPostOpAttrBytes + 4>), kIdempotent),
        NR_PROC(READLINK, kFh, (fixed<4 + kPostOpAttrBytes + 4>), kIdempotent),
        NR_PROC(READ, (fixed<kFh3Bytes + 12>), (fixed<4 + kPostOpAttrBytes + 12>), kIdempotent),
        NR_PROC(WRITE, (fixed<kFh3Bytes + 8 + 12>), (fixed<4 + kWccDataBytes + 16>), kIdempotent),
        NR_PROC(CREATE, (dirop<CREATE3args, &CREATE3args::where, 4 + kSattr3Bytes>),
                fixed<kNewObjectReply>, kOnce),
        NR_PROC(MKDIR, (dirop<MKDIR3args, &MKDIR3args::where, kSattr3Bytes>),
                fixed<kNewObjectReply>, kOnce),
        NR_PROC(SYMLINK, (dirop<SYMLINK3args, &SYMLINK3args::where, kSattr3Bytes + 4>),
                fixed<kNewObjectReply>, kOnce),
        NR_PROC(MKNOD, (dirop<MKNOD3args, &MKNOD3args::where, 4 + kSattr3Bytes + 8>),
                fixed<kNewObjectReply>, kOnce),
        NR_PROC(REMOVE, (dirop<REMOVE3args, &REMOVE3args::object, 0>), fixed<4 + kWccDataBytes>,
                kOnce),
        NR_PROC(RMDIR, (dirop<RMDIR3args, &RMDIR3args::object, 0>), fixed<4 + kWccDataBytes>,
                kOnce),
        NR_PROC(RENAME, rename_args, (fixed<4 + 2 * kWccDataBytes>), kOnce),
        NR_PROC(LINK, (dirop<LINK3args, &LINK3args::link, kFh3Bytes>),
                (fixed<4 + kPostOpAttrBytes + kWccDataBytes>), kOnce),
        NR_PROC(READDIR, (fixed<kFh3Bytes + 8 + 8 + 4>), readdir_reply, kIdempotent),
        NR_PROC(READDIRPLUS, (fixed<kFh3Bytes + 8 + 8 + 8>), readdirplus_reply, kIdempotent),
        NR_PROC(FSSTAT, kFh, (fixed<4 + kPostOpAttrBytes + 6 * 8 + 4>), kIdempotent),
        NR_PROC(FSINFO, kFh, (fixed<4 + kPostOpAttrBytes + 7 * 4 + 8 + 8 + 4>), kIdempotent),
        NR_PROC(PATHCONF, kFh, (fixed<4 + kPostOpAttrBytes + 6 * 4>), kIdempotent),
        NR_PROC(COMMIT, (fixed<kFh3Bytes + 12>), (fixed<4 + kWccDataBytes + 8>), kIdempotent),
    };
    procs[NFSPROC3_READ].res_item.pointer_offset =
        offsetof(READ3res, READ3res_u.resok.data.data_val);
    procs[NFSPROC3_READ].result_item_max = read_item;
    procs[NFSPROC3_READLINK].res_item.pointer_offset =
        offsetof(READLINK3res, READLINK3res_u.resok.data);
    procs[NFSPROC3_READLINK].res_item.string_bound = NFS3_PATH_MAX;
    procs[NFSPROC3_READLINK].res_item.string_bound = NFS3_PATH_MAX;
    procs[NFSPROC3_READLINK].result_item_max = readlink_item;
    procs[NFSPROC3_WRITE].arg_item.pointer_offset = offsetof(WRITE3args, data.data_val);
    procs[NFSPROC3_SYMLINK].arg_item.pointer_offset = offsetof(SYMLINK3args, symlink.symlink_data);
    procs[NFSPROC3_SYMLINK].arg_item.string_bound = NFS3_PATH_MAX;
    procs[NFSPROC3_SYMLINK].arg_item.string_bound = NFS3_PATH_MAX;
    return procs;
}

std::array<sunrpc::ProcInfo, 6> make_mount3_procs() noexcept {
    constexpr std::uint32_t kMntReply = 4 + 4 + MNT3_FHSIZE + 4 + 4 * MNT3_FLAVORS_MAX;
    std::array<sunrpc::ProcInfo, 6> procs = {
        nothing("NULL"),
        proc<mountargs3, xdr_mountargs3, mountres3, xdr_mountres3>("MNT", mount_path,
                                                                   fixed<kMntReply>, kIdempotent),
        nothing("DUMP"),
        nothing("UMNT"),
        nothing("UMNTALL"),
        nothing("EXPORT"),
    };
    procs[MOUNTPROC3_DUMP].xdr_res = xdr_thunk<mountlist3, xdr_mountlist3>;
    procs[MOUNTPROC3_DUMP].res_size = sizeof(mountlist3);
    procs[MOUNTPROC3_DUMP].reply_max = fixed<kMountListBytes>;
    procs[MOUNTPROC3_UMNT].xdr_args = xdr_thunk<mountargs3, xdr_mountargs3>;
    procs[MOUNTPROC3_UMNT].args_size = sizeof(mountargs3);
    procs[MOUNTPROC3_UMNT].args_max = mount_path;
    procs[MOUNTPROC3_EXPORT].xdr_res = xdr_thunk<mountexports3, xdr_mountexports3>;
    procs[MOUNTPROC3_EXPORT].res_size = sizeof(mountexports3);
    procs[MOUNTPROC3_EXPORT].reply_max = fixed<kMountListBytes>;
    return procs;
}
#undef NR_PROC

}  // namespace

std::span<const sunrpc::ProcInfo> nfs3_procs() noexcept {
    static const std::array<sunrpc::ProcInfo, 22> procs = make_nfs3_procs();
    return procs;
}

std::span<const sunrpc::ProcInfo> mount3_procs() noexcept {
    static const std::array<sunrpc::ProcInfo, 6> procs = make_mount3_procs();
    return procs;
}

}  // namespace nfsrdma::nfs
