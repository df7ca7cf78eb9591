#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnMknod : public NfsTest {
  protected:
    Reply<MKNOD3res> mknod(const std::string& name, ftype3 type) {
        MKNOD3args args{};
        args.where = at(w.root, name);
        args.what.type = type;
        if (type == NF3CHR || type == NF3BLK) {
            devicedata3& device = args.what.mknoddata3_u.device;
            device.dev_attributes.mode.set_it = TRUE;
            device.dev_attributes.mode.set_mode3_u.mode = 0600;
            device.spec = {1, 3};
        } else {
            args.what.mknoddata3_u.pipe_attributes.mode.set_it = TRUE;
            args.what.mknoddata3_u.pipe_attributes.mode.set_mode3_u.mode = 0620;
        }
        return w.call<MKNOD3args, MKNOD3res>(NFSPROC3_MKNOD, args);
    }
};
NR_ON_BACKENDS(OnMknod);

TEST_P(OnMknod, PipesAndSockets) {
    for (const ftype3 type : {NF3FIFO, NF3SOCK}) {
        const std::string name = std::to_string(type);
        auto reply = mknod(name, type);
        ASSERT_EQ(reply->status, NFS3_OK);
        const fattr3 attr = w.attr(w.find(w.root, name));
        EXPECT_EQ(attr.type, type);
        EXPECT_EQ(attr.mode, 0620u);
        EXPECT_EQ(w.read(w.find(w.root, name), 0, 1).status, NFS3ERR_INVAL);
    }
}

TEST_P(OnMknod, DevicesNeedPrivilege) {
    auto reply = mknod("null", NF3CHR);
    if (reply->status == NFS3ERR_PERM) return;
    ASSERT_EQ(reply->status, NFS3_OK);
    EXPECT_EQ(w.attr(w.find(w.root, "null")).rdev.specdata2, 3u);
}

TEST_P(OnMknod, OtherTypesAreBadTypes) {
    for (const ftype3 type : {NF3REG, NF3DIR, NF3LNK}) {
        auto reply = mknod("x", type);
        EXPECT_EQ(reply->status, NFS3ERR_BADTYPE);
        EXPECT_NE(reply->MKNOD3res_u.resfail.dir_wcc.after.attributes_follow, FALSE);
    }
}

}  // namespace
}  // namespace nfsrdma::testing
