#include "nfs/client/resend.hpp"

#include <array>

#include "base/bytes.hpp"
#include "tests/nfs/client/world.hpp"

namespace nfsrdma::nfs::client {
namespace {

// The server does the call, its answer is lost with the connection, and on the next one it is a
// server that was started again: it remembers nothing.
class ResendTest : public testing::NfsWorld {
  protected:
    // `between` runs after the server has done it, before the call is sent again.
    Outcome run_twice(Op& op, const std::function<void()>& between = {}) {
        bool finished = false, lost = false;
        op.user = &finished;
        op.done = [](Op& o) noexcept { *static_cast<bool*>(o.user) = true; };
        lose_next(lost);
        client->start(op);
        EXPECT_TRUE(world.run_until([&] { return lost; }));
        EXPECT_FALSE(finished);
        if (between) between();
        xprt->recover();
        EXPECT_TRUE(world.run_until([&] { return finished; }));
        return op.outcome;
    }
    void lose_next(bool& lost) {
        xprt->reply_fate = [this, &lost](std::uint32_t) {
            xprt->reply_fate = nullptr;
            lost = true;
            return testing::Fate{.lost = true, .delay_ns = 0};
        };
    }
    Outcome look_up(const std::string& where, FileHandle& object) {
        std::string copy = where;
        LookupOp op;
        op.args.what = {root.view(), copy.data()};
        const Outcome outcome = run(op);
        object = op.object;
        return outcome;
    }
    Outcome remove(std::string where) {
        RemoveOp op;
        op.args.object = {root.view(), where.data()};
        return run(op);
    }
    static void set_mode(sattr3& attributes, std::uint32_t mode) {
        attributes.mode.set_it = TRUE;
        attributes.mode.set_mode3_u.mode = mode;
    }
    std::uint64_t resolved() { return client->counters().resolved; }
    std::uint64_t unresolved() { return client->counters().unresolved; }
    char name[8] = "name", other[8] = "other";
};

TEST_F(ResendTest, RemoveThatFindsNothingWasDone) {
    create(root, name);
    RemoveOp op;
    op.args.object = {root.view(), name};
    EXPECT_TRUE(run_twice(op).ok()) << to_string(op.outcome);
    EXPECT_EQ(op.res.status, NFS3_OK);
    EXPECT_EQ(resolved(), 1u);
    EXPECT_TRUE(op.resolved());
    // A fact of one call: the next one's errors are its own.
    EXPECT_EQ(run(op).status, NFS3ERR_NOENT);
    EXPECT_FALSE(op.resolved());
}

TEST_F(ResendTest, RmdirThatFindsNothingWasDone) {
    mkdir(root, name);
    RmdirOp op;
    op.args.object = {root.view(), name};
    EXPECT_TRUE(run_twice(op).ok()) << to_string(op.outcome);
    EXPECT_EQ(resolved(), 1u);
}

TEST_F(ResendTest, CallsThatWereSentOnceKeepTheirErrors) {
    EXPECT_EQ(remove("nothing").status, NFS3ERR_NOENT);
    mkdir(root, name);
    MkdirOp op;
    op.args.where = {root.view(), name};
    EXPECT_EQ(run(op).status, NFS3ERR_EXIST);
    EXPECT_EQ(resolved() + unresolved(), 0u);
}

// What was true of the first time is not of the next.
TEST_F(ResendTest, OpThatIsStartedAnewIsInNoDoubt) {
    create(root, name);
    RemoveOp op;
    op.args.object = {root.view(), name};
    EXPECT_TRUE(run_twice(op).ok());
    EXPECT_EQ(run(op).status, NFS3ERR_NOENT);
}

TEST_F(ResendTest, MkdirThatExistsGivesTheDirectory) {
    MkdirOp op;
    op.args.where = {root.view(), name};
    set_mode(op.args.attributes, 0750);
    ASSERT_TRUE(run_twice(op).ok()) << to_string(op.outcome);
    FileHandle there;
    ASSERT_TRUE(look_up(name, there).ok());
    EXPECT_EQ(op.object, there);
    EXPECT_EQ(op.res.status, NFS3_OK);
    ASSERT_NE(op.res.MKDIR3res_u.resok.obj_attributes.attributes_follow, FALSE);
    EXPECT_EQ(op.res.MKDIR3res_u.resok.obj_attributes.post_op_attr_u.attributes.type, NF3DIR);
    EXPECT_EQ(resolved(), 1u);
}

TEST_F(ResendTest, MkdirWhereAFileIsStaysAnError) {
    MkdirOp op;
    op.args.where = {root.view(), name};
    const Outcome outcome = run_twice(op, [this] {
        RmdirOp rmdir;
        rmdir.args.object = {root.view(), name};
        EXPECT_TRUE(run(rmdir).ok());
        create(root, name);
    });
    EXPECT_EQ(outcome.status, NFS3ERR_EXIST);
    EXPECT_TRUE(op.object.empty());
    EXPECT_EQ(unresolved(), 1u);
}

TEST_F(ResendTest, MkdirWhereADirectoryOfAnotherModeIsStaysAnError) {
    MkdirOp op;
    op.args.where = {root.view(), name};
    set_mode(op.args.attributes, 0750);
    const Outcome outcome = run_twice(op, [this] {
        FileHandle there;
        EXPECT_TRUE(look_up(name, there).ok());
        SetattrOp change;
        change.args.object = there.view();
        set_mode(change.args.new_attributes, 0700);
        EXPECT_TRUE(run(change).ok());
    });
    EXPECT_EQ(outcome.status, NFS3ERR_EXIST);
}

TEST_F(ResendTest, SymlinkThatExistsIsReadAndCompared) {
    char text[] = "to/there";
    SymlinkOp op;
    op.args.where = {root.view(), name};
    op.args.symlink.symlink_data = text;
    ASSERT_TRUE(run_twice(op).ok()) << to_string(op.outcome);
    EXPECT_FALSE(op.object.empty());
    EXPECT_EQ(resolved(), 1u);
}

TEST_F(ResendTest, SymlinkOfAnotherTextStaysAnError) {
    char text[] = "to/there";
    SymlinkOp op;
    op.args.where = {root.view(), name};
    op.args.symlink.symlink_data = text;
    const Outcome outcome = run_twice(op, [this] {
        EXPECT_TRUE(remove(name).ok());
        symlink(root, name, "to/elsewhere");
    });
    EXPECT_EQ(outcome.status, NFS3ERR_EXIST);
    EXPECT_EQ(unresolved(), 1u);
}

TEST_F(ResendTest, LinkToTheVeryFileWasDone) {
    const FileHandle file = create(root, name);
    LinkOp op;
    op.args.file = file.view();
    op.args.link = {root.view(), other};
    EXPECT_TRUE(run_twice(op).ok()) << to_string(op.outcome);
    EXPECT_EQ(resolved(), 1u);
}

TEST_F(ResendTest, LinkWhereAnotherFileIsStaysAnError) {
    const FileHandle file = create(root, name);
    LinkOp op;
    op.args.file = file.view();
    op.args.link = {root.view(), other};
    const Outcome outcome = run_twice(op, [this] {
        EXPECT_TRUE(remove(other).ok());
        create(root, other);
    });
    EXPECT_EQ(outcome.status, NFS3ERR_EXIST);
}

TEST_F(ResendTest, MknodOfTheSameKindWasDone) {
    MknodOp op;
    op.args.where = {root.view(), name};
    op.args.what.type = NF3FIFO;
    set_mode(op.args.what.mknoddata3_u.pipe_attributes, 0640);
    ASSERT_TRUE(run_twice(op).ok()) << to_string(op.outcome);
    EXPECT_FALSE(op.object.empty());
}

TEST_F(ResendTest, GuardedCreateThatExistsGivesTheFile) {
    CreateOp op;
    op.args.where = {root.view(), name};
    op.args.how.mode = GUARDED;
    set_mode(op.args.how.createhow3_u.obj_attributes, 0640);
    ASSERT_TRUE(run_twice(op).ok()) << to_string(op.outcome);
    FileHandle there;
    ASSERT_TRUE(look_up(name, there).ok());
    EXPECT_EQ(op.object, there);
}

// Somebody else's file, with something in it.
TEST_F(ResendTest, GuardedCreateWhereAFullFileIsStaysAnError) {
    CreateOp op;
    op.args.where = {root.view(), name};
    op.args.how.mode = GUARDED;
    const Outcome outcome = run_twice(op, [this] {
        FileHandle there;
        EXPECT_TRUE(look_up(name, there).ok());
        SetattrOp change;
        change.args.object = there.view();
        change.args.new_attributes.size.set_it = TRUE;
        change.args.new_attributes.size.set_size3_u.size = 5;
        EXPECT_TRUE(run(change).ok());
    });
    EXPECT_EQ(outcome.status, NFS3ERR_EXIST);
}

// cases B83: the server knows its verifier again.
TEST_F(ResendTest, B83ExclusiveCreateIsKnownAgainByItsVerifier) {
    CreateOp op;
    op.args.where = {root.view(), name};
    op.args.how.mode = EXCLUSIVE;
    const unsigned char verifier[] = {0xff, 0xff, 0xff, 0xff, 0x80, 0, 0, 1};
    std::memcpy(op.args.how.createhow3_u.verf, verifier, sizeof verifier);
    ASSERT_TRUE(run_twice(op).ok()) << to_string(op.outcome);
    EXPECT_EQ(resolved() + unresolved(), 0u);
}

TEST_F(ResendTest, RenameOfAKnownObjectIsFoundUnderTheNewName) {
    const FileHandle file = create(root, name);
    RenameOp op;
    op.object = file;
    op.args.from = {root.view(), name};
    op.args.to = {root.view(), other};
    EXPECT_TRUE(run_twice(op).ok()) << to_string(op.outcome);
    EXPECT_EQ(resolved(), 1u);
}

TEST_F(ResendTest, RenameWhereTheNewNameIsAnotherObjectStaysAnError) {
    const FileHandle file = create(root, name);
    RenameOp op;
    op.object = file;
    op.args.from = {root.view(), name};
    op.args.to = {root.view(), other};
    const Outcome outcome = run_twice(op, [this] {
        EXPECT_TRUE(remove(other).ok());
        create(root, other);
    });
    EXPECT_EQ(outcome.status, NFS3ERR_NOENT);
    EXPECT_EQ(unresolved(), 1u);
}

TEST_F(ResendTest, RenameOfAnUnknownObjectIsDoneWhenTheNewNameIsThere) {
    create(root, name);
    RenameOp op;
    op.args.from = {root.view(), name};
    op.args.to = {root.view(), other};
    EXPECT_TRUE(run_twice(op).ok());
    create(root, name);
    const Outcome gone = run_twice(op, [this] { EXPECT_TRUE(remove(other).ok()); });
    EXPECT_EQ(gone.status, NFS3ERR_NOENT);
}

TEST_F(ResendTest, GuardedSetattrIsDoneWhenTheAttributesAreThose) {
    const FileHandle file = create(root, name);
    GetattrOp before;
    before.args.object = file.view();
    ASSERT_TRUE(run(before).ok());
    SetattrOp op;
    op.args.object = file.view();
    op.args.guard.check = TRUE;
    op.args.guard.sattrguard3_u.obj_ctime = before.attributes().ctime;
    op.args.new_attributes.size.set_it = TRUE;
    op.args.new_attributes.size.set_size3_u.size = 77;
    const Outcome outcome = run_twice(op, [&] {
        // So that its change time differs, however coarse the clock.
        SetattrOp touch;
        touch.args.object = file.view();
        touch.args.new_attributes.mtime.set_it = SET_TO_SERVER_TIME;
        EXPECT_TRUE(run(touch).ok());
    });
    EXPECT_TRUE(outcome.ok()) << to_string(outcome);
}

// The server asked for patience meanwhile: the next try has a new XID, and is in the same doubt.
TEST_F(ResendTest, DoubtOutlivesJukebox) {
    MkdirOp op;
    op.args.where = {root.view(), name};
    bool asked = false;
    const Outcome outcome = run_twice(op, [&] {
        xprt->tamper = [this, &asked](std::vector<std::byte>& head, std::uint32_t&) {
            if (std::exchange(asked, true)) return;
            ASSERT_EQ(xprt->replying_proc(), std::uint32_t{NFSPROC3_MKDIR});
            store_be32(head.data() + 24, NFS3ERR_JUKEBOX);
        };
    });
    EXPECT_TRUE(asked);
    EXPECT_TRUE(outcome.ok()) << to_string(outcome);
    EXPECT_EQ(client->counters().jukebox, 1u);
}

// Many at once are looked at one after the other.
TEST_F(ResendTest, ManyInDoubtAreAllTold) {
    constexpr int kMany = 8;
    std::array<MkdirOp, kMany> ops;
    std::array<std::string, kMany> names;
    int finished = 0, lost = 0;
    xprt->reply_fate = [&lost](std::uint32_t) {
        ++lost;
        return testing::Fate{.lost = lost <= kMany, .delay_ns = 0};
    };
    for (int i = 0; i < kMany; ++i) {
        names[i] = "d" + std::to_string(i);
        ops[i].args.where = {root.view(), names[i].data()};
        ops[i].user = &finished;
        ops[i].done = [](Op& o) noexcept { ++*static_cast<int*>(o.user); };
        client->start(ops[i]);
    }
    ASSERT_TRUE(world.run_until([&] { return lost == kMany; }));
    xprt->recover();
    ASSERT_TRUE(world.run_until([&] { return finished == kMany; }));
    for (MkdirOp& op : ops) {
        EXPECT_TRUE(op.outcome.ok());
        EXPECT_FALSE(op.object.empty());
    }
    EXPECT_EQ(resolved(), std::uint64_t{kMany});
}

// One that is looked at, and one that waits for that.
TEST_F(ResendTest, CancelOfACallInDoubtAnswersAtOnce) {
    std::array<MkdirOp, 2> ops;
    std::array<std::string, 2> names{"a", "b"};
    int finished = 0, lost = 0, lookups = 0;
    xprt->reply_fate = [&](std::uint32_t) {
        ++lost;
        if (xprt->replying_proc() == NFSPROC3_LOOKUP) ++lookups;
        return testing::Fate{.lost = lost <= 2 || lookups == 1, .delay_ns = 0};
    };
    for (std::size_t i = 0; i < 2; ++i) {
        ops[i].args.where = {root.view(), names[i].data()};
        ops[i].user = &finished;
        ops[i].done = [](Op& o) noexcept { ++*static_cast<int*>(o.user); };
        client->start(ops[i]);
    }
    ASSERT_TRUE(world.run_until([&] { return lost == 2; }));
    xprt->recover();
    ASSERT_TRUE(world.run_until([&] { return lookups == 1; }));
    client->cancel(ops[1]);
    EXPECT_EQ(finished, 1);
    client->cancel(ops[0]);
    EXPECT_EQ(finished, 2);
    for (MkdirOp& op : ops)
        EXPECT_EQ(op.outcome.rpc.error().code, Errc::closed);
    // The LOOKUP that was given up is still on its way: as of a transport that is closed.
    xprt->recover();
    world.run_idle();
}

// The connection ends for good while it is looked at.
TEST_F(ResendTest, LookThatFailsTellsThat) {
    MkdirOp op;
    op.args.where = {root.view(), name};
    bool finished = false, lost = false;
    op.user = &finished;
    op.done = [](Op& o) noexcept { *static_cast<bool*>(o.user) = true; };
    lose_next(lost);
    client->start(op);
    ASSERT_TRUE(world.run_until([&] { return lost; }));
    bool looks = false;
    xprt->reply_fate = [&](std::uint32_t) {
        looks = xprt->replying_proc() == NFSPROC3_LOOKUP;
        return testing::Fate{.lost = looks, .delay_ns = 0};
    };
    xprt->recover();
    ASSERT_TRUE(world.run_until([&] { return looks; }));
    xprt->disconnect();
    ASSERT_TRUE(world.run_until([&] { return finished; }));
    ASSERT_FALSE(op.outcome.rpc);
    EXPECT_EQ(op.outcome.rpc.error().code, Errc::reconnect);
    xprt->reply_fate = nullptr;
    xprt->reconnect();
}

TEST(Doubt, OnlyWhatACopyOfTheCallWouldBringAbout) {
    sunrpc::Call call;
    call.proc_number = NFSPROC3_REMOVE;
    EXPECT_EQ(doubt_of(call, NFS3ERR_NOENT), Doubt::was_done);
    EXPECT_EQ(doubt_of(call, NFS3ERR_ACCES), Doubt::none);
    EXPECT_EQ(doubt_of(call, NFS3_OK), Doubt::none);
    call.proc_number = NFSPROC3_MKDIR;
    EXPECT_EQ(doubt_of(call, NFS3ERR_EXIST), Doubt::look);
    EXPECT_EQ(doubt_of(call, NFS3ERR_NOENT), Doubt::none);
    call.proc_number = NFSPROC3_RENAME;
    EXPECT_EQ(doubt_of(call, NFS3ERR_NOENT), Doubt::look);
    EXPECT_EQ(doubt_of(call, NFS3ERR_EXIST), Doubt::none);
    call.proc_number = NFSPROC3_LOOKUP;
    EXPECT_EQ(doubt_of(call, NFS3ERR_NOENT), Doubt::none);
    CREATE3args create{};
    call.proc_number = NFSPROC3_CREATE;
    call.args = &create;
    for (const createmode3 mode : {UNCHECKED, GUARDED, EXCLUSIVE}) {
        create.how.mode = mode;
        EXPECT_EQ(doubt_of(call, NFS3ERR_EXIST), mode == GUARDED ? Doubt::look : Doubt::none);
    }
}

// Only its owner may look into the directory: the check goes as whoever made the call.
TEST_F(ResendTest, LooksAsTheOneWhoCalled) {
    sunrpc::AuthSys sys;
    sys.uid = sys.gid = 3000;
    char home[] = "home";
    MkdirOp make_home;
    make_home.args.where = {root.view(), home};
    set_mode(make_home.args.attributes, 0700);
    make_home.args.attributes.uid.set_it = TRUE;
    make_home.args.attributes.uid.set_uid3_u.uid = 3000;
    ASSERT_TRUE(run(make_home).ok());
    MkdirOp op;
    op.sys = &sys;
    op.args.where = {make_home.object.view(), name};
    EXPECT_TRUE(run_twice(op).ok()) << to_string(op.outcome);
    EXPECT_EQ(resolved(), 1u);
}

}  // namespace
}  // namespace nfsrdma::nfs::client
