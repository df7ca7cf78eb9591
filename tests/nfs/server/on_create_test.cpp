#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnCreate : public NfsTest {};
class B83 : public NfsTest {};
class B95 : public NfsTest {};
NR_ON_BACKENDS(OnCreate);
NR_ON_BACKENDS(B83);
NR_ON_BACKENDS(B95);

TEST_P(OnCreate, HandleAttributesAndWccComeBack) {
    auto reply = w.create(w.root, "f", GUARDED, 0640);
    ASSERT_EQ(reply->status, NFS3_OK);
    const CREATE3resok& ok = reply->CREATE3res_u.resok;
    ASSERT_NE(ok.obj.handle_follows, FALSE);
    EXPECT_EQ(Handle::of(ok.obj.post_op_fh3_u.handle), w.find(w.root, "f"));
    EXPECT_EQ(ok.obj_attributes.post_op_attr_u.attributes.mode, 0640u);
    EXPECT_NE(ok.dir_wcc.before.attributes_follow, FALSE);
    EXPECT_NE(ok.dir_wcc.after.attributes_follow, FALSE);
}

TEST_P(OnCreate, GuardedRefusesWhatIsThere) {
    w.file(w.root, "f");
    auto reply = w.create(w.root, "f", GUARDED);
    EXPECT_EQ(reply->status, NFS3ERR_EXIST);
    EXPECT_NE(reply->CREATE3res_u.resfail.dir_wcc.after.attributes_follow, FALSE);
}

TEST_P(OnCreate, UncheckedKeepsWhatIsThereAndCutsItWhenToldTo) {
    const Handle file = w.file(w.root, "f", "content");
    auto again = w.create(w.root, "f", UNCHECKED);
    ASSERT_EQ(again->status, NFS3_OK);
    EXPECT_EQ(Handle::of(again->CREATE3res_u.resok.obj.post_op_fh3_u.handle), file);
    EXPECT_EQ(w.attr(file).size, 7u);
    CREATE3args args{};
    const std::string name = "f";
    args.where = at(w.root, name);
    args.how.createhow3_u.obj_attributes.size.set_it = TRUE;
    auto cut = w.call<CREATE3args, CREATE3res>(NFSPROC3_CREATE, args);
    ASSERT_EQ(cut->status, NFS3_OK);
    EXPECT_EQ(w.attr(file).size, 0u);
}

TEST_P(OnCreate, DirectoryIsThereAlready) {
    w.directory(w.root, "d");
    EXPECT_EQ(w.create(w.root, "d", UNCHECKED)->status, NFS3ERR_EXIST);
}

TEST_P(OnCreate, InAFileOrNowhere) {
    const Handle file = w.file(w.root, "f");
    EXPECT_EQ(w.create(file, "x")->status, NFS3ERR_NOTDIR);
    EXPECT_EQ(w.create(Handle{}, "x")->status, NFS3ERR_BADHANDLE);
    const Handle dir = w.directory(w.root, "d");
    w.rmdir(w.root, "d");
    EXPECT_EQ(w.create(dir, "x")->status, NFS3ERR_STALE);
}

TEST_P(OnCreate, FileWithoutTheRightToWriteIsWrittenByWhoMadeIt) {
    auto reply = w.create(w.root, "ro", GUARDED, 0444);
    ASSERT_EQ(reply->status, NFS3_OK);
    const Handle file = Handle::of(reply->CREATE3res_u.resok.obj.post_op_fh3_u.handle);
    w.vfs->tidy();
    EXPECT_EQ(w.write(file, 0, "data")->status, NFS3_OK);
    EXPECT_EQ(w.attr(file).mode, 0444u);
    EXPECT_EQ(w.read(file, 0, 10).data, "data");
}

TEST_P(B83, AllBitsOfTheVerifierCount) {
    for (const std::uint64_t verifier :
         {0xFFFFFFFF80000001ull, 0x8000000000000000ull, 1ull, 0ull}) {
        const std::string name = "f" + std::to_string(verifier);
        auto first = w.create_exclusive(w.root, name, verifier);
        ASSERT_EQ(first->status, NFS3_OK);
        const Handle made = Handle::of(first->CREATE3res_u.resok.obj.post_op_fh3_u.handle);
        auto again = w.create_exclusive(w.root, name, verifier);
        ASSERT_EQ(again->status, NFS3_OK);
        EXPECT_EQ(Handle::of(again->CREATE3res_u.resok.obj.post_op_fh3_u.handle), made);
        for (const int bit : {0, 31, 32, 63}) {
            EXPECT_EQ(w.create_exclusive(w.root, name, verifier ^ (1ull << bit))->status,
                      NFS3ERR_EXIST);
        }
        sattr3 set{};
        set.mode.set_it = TRUE;
        set.mode.set_mode3_u.mode = 0600;
        set.mtime.set_it = set.atime.set_it = SET_TO_SERVER_TIME;
        EXPECT_EQ(w.setattr(made, set)->status, NFS3_OK);
        EXPECT_EQ(w.attr(made).mode, 0600u);
        EXPECT_EQ(w.create_exclusive(w.root, name, verifier)->status, NFS3ERR_EXIST);
    }
}

TEST_P(B95, NamesThatAreNoneAreRefused) {
    struct Row {
        std::string name;
        nfsstat3 make, remove;
    };
    const Handle dir = w.directory(w.root, "d");
    for (const Row& row : {
             Row{"", NFS3ERR_INVAL, NFS3ERR_INVAL},
             Row{".", NFS3ERR_EXIST, NFS3ERR_INVAL},
             Row{"..", NFS3ERR_EXIST, NFS3ERR_INVAL},
             Row{"a/b", NFS3ERR_INVAL, NFS3ERR_INVAL},
             Row{"../x", NFS3ERR_INVAL, NFS3ERR_INVAL},
             Row{std::string(256, 'n'), NFS3ERR_NAMETOOLONG, NFS3ERR_NAMETOOLONG},
         }) {
        EXPECT_EQ(w.create(dir, row.name)->status, row.make) << row.name;
        EXPECT_EQ(w.create_exclusive(dir, row.name, 1)->status, row.make) << row.name;
        EXPECT_EQ(w.mkdir(dir, row.name)->status, row.make) << row.name;
        EXPECT_EQ(w.symlink(dir, row.name, "x")->status, row.make) << row.name;
        EXPECT_EQ(w.remove(dir, row.name)->status, row.remove) << row.name;
        EXPECT_EQ(w.rmdir(dir, row.name)->status, row.remove) << row.name;
        EXPECT_EQ(w.rename(w.root, "d", dir, row.name)->status, row.remove) << row.name;
    }
    EXPECT_EQ(w.list(w.root, false, 4096), (std::set<std::string>{".", "..", "d"}));
}

TEST_P(B95, LongestNameWorks) {
    const std::string name(255, 'n');
    w.file(w.root, name);
    EXPECT_EQ(w.lookup(w.root, name)->status, NFS3_OK);
    EXPECT_EQ(w.remove(w.root, name)->status, NFS3_OK);
}

// The answer was lost and the server started anew: the client asks once more, and must not be told
// that somebody else made its file.
TEST(B83AfterARestart, VerifierIsStillKnown) {
    TempDir dir;
    const nfs::Cred cred;
    nfs::NodeId made{};
    for (const bool again : {false, true}) {
        auto vfs = nfs::VfsPosix::create(dir.path(), {});
        ASSERT_TRUE(static_cast<bool>(vfs));
        nfs::CreateHow how;
        how.mode = EXCLUSIVE;
        nfs::Node node;
        nfs::Wcc wcc;
        for (const std::uint64_t verifier : {0xffffffff80000001ull, 0x8000000000000000ull, 1ull}) {
            how.verifier = verifier;
            const std::string name = "f" + std::to_string(verifier);
            const nfs::DirName where{(*vfs)->root(), name};
            EXPECT_EQ((*vfs)->create(cred, where, how, node, wcc), NFS3_OK) << again;
            if (verifier == 1) {
                if (again) {
                    EXPECT_EQ(node.id, made);
                }
                made = node.id;
            }
            how.verifier ^= 1ull << 63;
            EXPECT_EQ((*vfs)->create(cred, where, how, node, wcc), NFS3ERR_EXIST);
        }
    }
}

}  // namespace
}  // namespace nfsrdma::testing
