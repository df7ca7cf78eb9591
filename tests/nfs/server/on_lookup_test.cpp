#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnLookup : public NfsTest {};
class B99 : public NfsTest {};
NR_ON_BACKENDS(OnLookup);
NR_ON_BACKENDS(B99);

TEST_P(OnLookup, FindsWithAttributesOfBoth) {
    const Handle made = w.file(w.root, "f", "abc");
    auto reply = w.lookup(w.root, "f");
    ASSERT_EQ(reply->status, NFS3_OK);
    const LOOKUP3resok& ok = reply->LOOKUP3res_u.resok;
    EXPECT_EQ(Handle::of(ok.object), made);
    EXPECT_EQ(ok.obj_attributes.post_op_attr_u.attributes.size, 3u);
    EXPECT_EQ(ok.dir_attributes.post_op_attr_u.attributes.type, NF3DIR);
}

TEST_P(OnLookup, FailuresHaveTheDirectorysAttributes) {
    auto reply = w.lookup(w.root, "none");
    EXPECT_EQ(reply->status, NFS3ERR_NOENT);
    EXPECT_NE(reply->LOOKUP3res_u.resfail.dir_attributes.attributes_follow, FALSE);
    const Handle file = w.file(w.root, "f");
    EXPECT_EQ(w.lookup(file, "x")->status, NFS3ERR_NOTDIR);
    EXPECT_EQ(w.lookup(w.root, std::string(256, 'n'))->status, NFS3ERR_NAMETOOLONG);
    EXPECT_EQ(w.lookup(w.root, std::string(1024, 'n'))->status, NFS3ERR_NAMETOOLONG);
    EXPECT_EQ(w.lookup(w.root, "a/b")->status, NFS3ERR_INVAL);
    EXPECT_EQ(w.lookup(w.root, "")->status, NFS3ERR_INVAL);
    EXPECT_EQ(w.lookup(Handle{}, "x")->status, NFS3ERR_BADHANDLE);
}

TEST_P(B99, DotAndDotDot) {
    const Handle a = w.directory(w.root, "a"), b = w.directory(a, "b");
    EXPECT_EQ(w.find(b, ".."), a);
    EXPECT_EQ(w.find(a, ".."), w.root);
    EXPECT_EQ(w.find(w.root, ".."), w.root);
    EXPECT_EQ(w.find(b, "."), b);
}

}  // namespace
}  // namespace nfsrdma::testing
