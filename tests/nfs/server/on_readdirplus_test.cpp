#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnReaddirplus : public NfsTest {};
NR_ON_BACKENDS(OnReaddirplus);

TEST_P(OnReaddirplus, HandlesAndAttributesAreThoseOfLookup) {
    w.file(w.root, "f", "abc");
    w.directory(w.root, "d");
    w.symlink(w.root, "l", "f");
    const ListReply all = w.readdirplus(w.root, 0, 4096, 4096);
    ASSERT_EQ(all.status, NFS3_OK);
    EXPECT_TRUE(all.eof);
    EXPECT_EQ(all.entries.size(), 5u);
    for (const Listed& entry : all.entries) {
        if (entry.name == "..") continue;
        ASSERT_TRUE(entry.has_handle && entry.has_attr) << entry.name;
        EXPECT_EQ(entry.handle, w.find(w.root, entry.name)) << entry.name;
        EXPECT_EQ(w.attr(entry.handle).fileid, entry.fileid) << entry.name;
    }
}

TEST_P(OnReaddirplus, HandlesWorkWithoutALookup) {
    const Handle d = w.directory(w.root, "d");
    w.file(d, "f", "abc");
    for (const Listed& entry : w.readdirplus(d, 0, 4096, 4096).entries) {
        if (entry.name == "f") {
            EXPECT_EQ(w.read(entry.handle, 0, 10).data, "abc");
        }
    }
}

TEST_P(OnReaddirplus, DircountLimitsButLetsOneIn) {
    for (int i = 0; i < 20; ++i)
        w.file(w.root, "n" + std::to_string(i));
    const ListReply one = w.readdirplus(w.root, 0, 0, 65536);
    EXPECT_EQ(one.status, NFS3_OK);
    EXPECT_EQ(one.entries.size(), 1u);
    EXPECT_FALSE(one.eof);
    const ListReply some = w.readdirplus(w.root, 0, 100, 65536);
    EXPECT_GT(some.entries.size(), 1u);
    EXPECT_LE(some.entries.size(), 4u);
}

}  // namespace
}  // namespace nfsrdma::testing
