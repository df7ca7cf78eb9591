#include "nfs/binding.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "nfs/nfs3_types.hpp"
#include "sunrpc/xdr_stream.hpp"

namespace nfsrdma::nfs {
namespace {

// Encodes into plain memory; the size, or 0 when it does not fit or encode.
std::uint32_t encoded(xdrproc_t routine, void* object, std::size_t room = 6 << 20) {
    std::vector<std::byte> memory(room);
    sunrpc::XdrEncodeStream stream(memory, 0);
    if (routine(stream.xdr(), object) == FALSE || stream.failed()) return 0;
    return stream.message().length();
}

std::array<char, NFS3_FHSIZE> fh_room;
nfs_fh3 full_fh() {
    nfs_fh3 fh{};
    fh.data.data_len = NFS3_FHSIZE;
    fh.data.data_val = fh_room.data();
    return fh;
}
std::string long_name(NFS3_NAME_MAX, 'n');
std::string long_path(NFS3_PATH_MAX, 'p');
diropargs3 full_name() {
    return {full_fh(), long_name.data()};
}
sattr3 full_sattr() {
    sattr3 set{};
    set.mode.set_it = set.uid.set_it = set.gid.set_it = set.size.set_it = TRUE;
    set.atime.set_it = set.mtime.set_it = SET_TO_CLIENT_TIME;
    return set;
}
post_op_attr full_attr() {
    post_op_attr attr{};
    attr.attributes_follow = TRUE;
    attr.post_op_attr_u.attributes.type = NF3REG;
    return attr;
}
wcc_data full_wcc() {
    wcc_data wcc{};
    wcc.before.attributes_follow = TRUE;
    wcc.after = full_attr();
    return wcc;
}
post_op_fh3 full_post_fh() {
    post_op_fh3 fh{};
    fh.handle_follows = TRUE;
    fh.post_op_fh3_u.handle = full_fh();
    return fh;
}

// The largest arguments, and the largest results without the DDP item, encode to exactly what the
// table says.
template <class Args>
void expect_args(std::uint32_t number, Args args, std::uint32_t item = 0) {
    const sunrpc::ProcInfo& proc = nfs3_procs()[number];
    EXPECT_EQ(proc.args_size, sizeof(Args)) << proc.name;
    EXPECT_EQ(encoded(proc.xdr_args, &args), proc.args_max(&args) + item) << proc.name;
}
template <class Res, class Args>
void expect_res(std::uint32_t number, Res res, Args args) {
    const sunrpc::ProcInfo& proc = nfs3_procs()[number];
    EXPECT_EQ(proc.res_size, sizeof(Res)) << proc.name;
    EXPECT_EQ(encoded(proc.xdr_res, &res), proc.reply_max(&args)) << proc.name;
}

TEST(Binding, ArgumentsMaxIsReachedAndTrue) {
    expect_args(NFSPROC3_GETATTR, GETATTR3args{full_fh()});
    SETATTR3args setattr{full_fh(), full_sattr(), {}};
    setattr.guard.check = TRUE;
    expect_args(NFSPROC3_SETATTR, setattr);
    expect_args(NFSPROC3_LOOKUP, LOOKUP3args{full_name()});
    expect_args(NFSPROC3_ACCESS, ACCESS3args{full_fh(), 0});
    expect_args(NFSPROC3_READLINK, READLINK3args{full_fh()});
    expect_args(NFSPROC3_READ, READ3args{full_fh(), 0, 0});
    WRITE3args write{};
    write.file = full_fh();
    std::vector<char> data(1001);
    write.data.data_len = 1001;
    write.data.data_val = data.data();
    expect_args(NFSPROC3_WRITE, write, 1004);
    CREATE3args create{};
    create.where = full_name();
    create.how.mode = GUARDED;
    create.how.createhow3_u.obj_attributes = full_sattr();
    expect_args(NFSPROC3_CREATE, create);
    expect_args(NFSPROC3_MKDIR, MKDIR3args{full_name(), full_sattr()});
    SYMLINK3args symlink{};
    symlink.where = full_name();
    symlink.symlink = {full_sattr(), long_path.data()};
    expect_args(NFSPROC3_SYMLINK, symlink, NFS3_PATH_MAX);
    MKNOD3args mknod{};
    mknod.where = full_name();
    mknod.what.type = NF3CHR;
    mknod.what.mknoddata3_u.device.dev_attributes = full_sattr();
    expect_args(NFSPROC3_MKNOD, mknod);
    expect_args(NFSPROC3_REMOVE, REMOVE3args{full_name()});
    expect_args(NFSPROC3_RMDIR, RMDIR3args{full_name()});
    expect_args(NFSPROC3_RENAME, RENAME3args{full_name(), full_name()});
    expect_args(NFSPROC3_LINK, LINK3args{full_fh(), full_name()});
    READDIR3args readdir{};
    readdir.dir = full_fh();
    expect_args(NFSPROC3_READDIR, readdir);
    READDIRPLUS3args readdirplus{};
    readdirplus.dir = full_fh();
    expect_args(NFSPROC3_READDIRPLUS, readdirplus);
    expect_args(NFSPROC3_FSSTAT, FSSTAT3args{full_fh()});
    expect_args(NFSPROC3_FSINFO, FSINFO3args{full_fh()});
    expect_args(NFSPROC3_PATHCONF, PATHCONF3args{full_fh()});
    expect_args(NFSPROC3_COMMIT, COMMIT3args{full_fh(), 0, 0});
}

TEST(Binding, ShortNamesTakeLess) {
    std::string name = "abcde";
    LOOKUP3args args{{full_fh(), name.data()}};
    EXPECT_EQ(nfs3_procs()[NFSPROC3_LOOKUP].args_max(&args), kFh3Bytes + 4 + 8);
    expect_args(NFSPROC3_LOOKUP, args);
}

TEST(Binding, RepliesMaxIsReachedAndTrue) {
    expect_res(NFSPROC3_GETATTR, GETATTR3res{}, GETATTR3args{});
    SETATTR3res setattr{};
    setattr.SETATTR3res_u.resok.obj_wcc = full_wcc();
    expect_res(NFSPROC3_SETATTR, setattr, SETATTR3args{});
    LOOKUP3res lookup{};
    lookup.LOOKUP3res_u.resok = {full_fh(), full_attr(), full_attr()};
    expect_res(NFSPROC3_LOOKUP, lookup, LOOKUP3args{});
    ACCESS3res access{};
    access.ACCESS3res_u.resok.obj_attributes = full_attr();
    expect_res(NFSPROC3_ACCESS, access, ACCESS3args{});
    READLINK3res readlink{};
    std::string empty;
    readlink.READLINK3res_u.resok = {full_attr(), empty.data()};
    expect_res(NFSPROC3_READLINK, readlink, READLINK3args{});
    READ3res read{};
    read.READ3res_u.resok.file_attributes = full_attr();
    expect_res(NFSPROC3_READ, read, READ3args{});
    WRITE3res write{};
    write.WRITE3res_u.resok.file_wcc = full_wcc();
    expect_res(NFSPROC3_WRITE, write, WRITE3args{});
    CREATE3res create{};
    create.CREATE3res_u.resok = {full_post_fh(), full_attr(), full_wcc()};
    expect_res(NFSPROC3_CREATE, create, CREATE3args{});
    MKNOD3res mknod{};
    mknod.MKNOD3res_u.resok = {full_post_fh(), full_attr(), full_wcc()};
    expect_res(NFSPROC3_MKNOD, mknod, MKNOD3args{});
    RENAME3res rename{};
    rename.RENAME3res_u.resok = {full_wcc(), full_wcc()};
    expect_res(NFSPROC3_RENAME, rename, RENAME3args{});
    LINK3res link{};
    link.LINK3res_u.resok = {full_attr(), full_wcc()};
    expect_res(NFSPROC3_LINK, link, LINK3args{});
    FSSTAT3res fsstat{};
    fsstat.FSSTAT3res_u.resok.obj_attributes = full_attr();
    expect_res(NFSPROC3_FSSTAT, fsstat, FSSTAT3args{});
    FSINFO3res fsinfo{};
    fsinfo.FSINFO3res_u.resok.obj_attributes = full_attr();
    expect_res(NFSPROC3_FSINFO, fsinfo, FSINFO3args{});
    PATHCONF3res pathconf{};
    pathconf.PATHCONF3res_u.resok.obj_attributes = full_attr();
    expect_res(NFSPROC3_PATHCONF, pathconf, PATHCONF3args{});
    COMMIT3res commit{};
    commit.COMMIT3res_u.resok.file_wcc = full_wcc();
    expect_res(NFSPROC3_COMMIT, commit, COMMIT3args{});
}

TEST(Binding, DirectoryRepliesFollowTheirCounts) {
    READDIR3args readdir{};
    for (const std::uint32_t count : {0u, 1u, 8192u, 65536u}) {
        readdir.count = count;
        EXPECT_EQ(nfs3_procs()[NFSPROC3_READDIR].reply_max(&readdir), 4 + kDirListBytes + count)
            << "Linux's server counts nothing but the entries";
    }
    READDIRPLUS3args plus{};
    plus.maxcount = 0xffffffff;  // bounded: it must not wrap
    EXPECT_EQ(nfs3_procs()[NFSPROC3_READDIRPLUS].reply_max(&plus),
              4u + kDirListBytes + NFS3_DATA_MAX);
    READDIR3res empty{};
    empty.READDIR3res_u.resok.dir_attributes = full_attr();
    EXPECT_EQ(encoded(nfs3_procs()[NFSPROC3_READDIR].xdr_res, &empty), 4 + kDirListBytes);
    READDIR3res one = empty;
    std::string name = "abcd";
    entry3 entry{1, name.data(), 2, nullptr};
    one.READDIR3res_u.resok.reply.entries = &entry;
    EXPECT_EQ(encoded(nfs3_procs()[NFSPROC3_READDIR].xdr_res, &one),
              4 + kDirListBytes + kEntry3Bytes + 4);
    READDIRPLUS3res plus_res{};
    plus_res.READDIRPLUS3res_u.resok.dir_attributes = full_attr();
    entryplus3 plus_entry{1, name.data(), 2, full_attr(), full_post_fh(), nullptr};
    plus_res.READDIRPLUS3res_u.resok.reply.entries = &plus_entry;
    EXPECT_EQ(encoded(nfs3_procs()[NFSPROC3_READDIRPLUS].xdr_res, &plus_res),
              4 + kDirListBytes + kEntryPlus3Bytes + 4);
}

TEST(Binding, FourItemsAreEligibleAndNoOthers) {
    for (std::uint32_t i = 0; i < nfs3_procs().size(); ++i) {
        const sunrpc::ProcInfo& proc = nfs3_procs()[i];
        EXPECT_EQ(proc.arg_item.exists(), i == NFSPROC3_WRITE || i == NFSPROC3_SYMLINK) << i;
        EXPECT_EQ(proc.res_item.exists(), i == NFSPROC3_READ || i == NFSPROC3_READLINK) << i;
    }
    for (const sunrpc::ProcInfo& proc : mount3_procs()) {
        EXPECT_FALSE(proc.arg_item.exists() || proc.res_item.exists());
    }
    READ3args read{};
    read.count = 12345;
    EXPECT_EQ(nfs3_procs()[NFSPROC3_READ].result_item_max(&read), 12345u);
}

TEST(Binding, WriteDataIsLeftWhereItLies) {
    std::vector<char> data(4097, 'x');
    WRITE3args args{};
    args.file = full_fh();
    args.data.data_len = 4097;
    args.data.data_val = data.data();
    const sunrpc::ProcInfo& proc = nfs3_procs()[NFSPROC3_WRITE];
    std::vector<std::byte> room(1024);
    sunrpc::XdrEncodeStream stream(room, 0);
    stream.set_item(proc.arg_item, &args);
    ASSERT_NE(proc.xdr_args(stream.xdr(), &args), FALSE);
    EXPECT_EQ(stream.message().payload.data(), as_bytes(data.data()));
    EXPECT_EQ(stream.message().head.size() + stream.message().tail.size(), proc.args_max(&args));
}

TEST(Binding, MountRepliesAreBounded) {
    mountres3 res{};
    std::array<unsigned int, MNT3_FLAVORS_MAX> flavors{};
    res.mountres3_u.mountinfo.fhandle = {MNT3_FHSIZE, fh_room.data()};
    res.mountres3_u.mountinfo.auth_flavors = {MNT3_FLAVORS_MAX, flavors.data()};
    const sunrpc::ProcInfo& mnt = mount3_procs()[MOUNTPROC3_MNT];
    mountargs3 args{long_path.data()};
    EXPECT_EQ(encoded(mnt.xdr_res, &res), mnt.reply_max(&args));
    EXPECT_EQ(encoded(mnt.xdr_args, &args), mnt.args_max(&args));
}

TEST(Binding, BoundsOfTheTypesAreKept) {
    std::string name(NFS3_NAME_MAX + 1, 'n');
    LOOKUP3args args{{full_fh(), name.data()}};
    EXPECT_EQ(encoded(nfs3_procs()[NFSPROC3_LOOKUP].xdr_args, &args), 0u);
    READ3res res{};
    std::vector<char> data(NFS3_DATA_MAX + 1);
    res.READ3res_u.resok.data = {NFS3_DATA_MAX + 1, data.data()};
    EXPECT_EQ(encoded(nfs3_procs()[NFSPROC3_READ].xdr_res, &res), 0u);
}

}  // namespace
}  // namespace nfsrdma::nfs
