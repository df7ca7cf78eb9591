#include "nfs/client/client.hpp"

#include <cstring>
#include <set>

#include "tests/nfs/client/fake_server.hpp"
#include "tests/nfs/client/world.hpp"

namespace nfsrdma::nfs::client {
namespace {

using ClientTest = testing::NfsWorld;

TEST(FileHandle, BoundsAndEquality) {
    FileHandle a, b;
    std::array<char, 65> bytes{};
    EXPECT_FALSE(a.assign(bytes.data(), 0));
    EXPECT_FALSE(a.assign(bytes.data(), 65));
    EXPECT_FALSE(a.assign(nullptr, 4));
    EXPECT_TRUE(a.empty());
    bytes.fill('x');
    EXPECT_TRUE(a.assign(bytes.data(), 64));
    EXPECT_TRUE(b.assign(bytes.data(), 64));
    EXPECT_EQ(a, b);
    EXPECT_TRUE(b.assign(bytes.data(), 63));
    EXPECT_FALSE(a == b);
    EXPECT_EQ(b.view().data.data_len, 63u);
}

TEST(PlainName, RefusesWhatIsNoName) {
    for (const char* name : {"", ".", "..", "/", "a/b", "../x", "x/.."})
        EXPECT_FALSE(is_plain_name(name)) << name;
    EXPECT_FALSE(is_plain_name(nullptr));
    for (const char* name : {"a", "...", ".x", "..x", "a b", "\xff\xfe"})
        EXPECT_TRUE(is_plain_name(name)) << name;
}

TEST(Outcome, SaysWhatIsWrong) {
    EXPECT_EQ(to_string(Outcome::failed(NFS3ERR_NOENT)),
              "no such file or directory (NFS3ERR_NOENT)");
    EXPECT_EQ(to_string(Outcome::failed(Error{Errc::timed_out, 0, "x"})),
              "the server did not answer in time");
    Outcome refused = Outcome::failed(Error{Errc::refused, 0, "x"});
    refused.rpc_status = sunrpc::RpcStatus::auth_error;
    EXPECT_EQ(to_string(refused), "the server refused the credentials");
}

TEST_F(ClientTest, MountTakesTheServersSizes) {
    EXPECT_FALSE(root.empty());
    EXPECT_EQ(client->sizes().read, 1u << 20);
    EXPECT_EQ(client->sizes().write, 1u << 20);
    EXPECT_GE(client->sizes().directory, 32768u);
}

// rsize and wsize are what FSINFO and the transport both allow, in whole pages.
TEST_F(ClientTest, B128_SizesAreClamped) {
    FSINFO3resok info{};
    EXPECT_FALSE(client->set_sizes(info));
    for (const std::uint32_t most :
         {1u, 512u, 4096u, 65536u, 65536u + 4096, 1u << 20, 4u << 20, 0xFFFFFFFFu}) {
        info.rtmax = info.wtmax = most;
        ASSERT_TRUE(client->set_sizes(info));
        EXPECT_EQ(client->sizes().read, std::min(most, 1u << 20));
    }
    info.rtmax = 65536 + 100;
    ASSERT_TRUE(client->set_sizes(info));
    EXPECT_EQ(client->sizes().read, 65536u);
    client->limit_sizes(10000, 0);
    EXPECT_EQ(client->sizes().read, 8192u);
    EXPECT_EQ(client->sizes().write, 1u << 20);
}

TEST_F(ClientTest, MountOfWhatIsNotExported) {
    MountFlow flow(*client);
    bool finished = false;
    flow.start(
        "/other", [](MountFlow& f) noexcept { *static_cast<bool*>(f.user) = true; }, &finished);
    ASSERT_TRUE(world.run_until([&] { return finished; }));
    EXPECT_FALSE(flow.outcome.ok());
    EXPECT_TRUE(flow.outcome.rpc);
    EXPECT_EQ(flow.outcome.status, NFS3ERR_NOENT);
}

TEST_F(ClientTest, EveryKindOfCall) {
    NullOp null;
    EXPECT_TRUE(run(null).ok());
    const FileHandle dir = mkdir(root, "dir");
    const FileHandle file = create(dir, "file");

    LookupOp lookup;
    std::string name = "file";
    lookup.args.what = {dir.view(), name.data()};
    ASSERT_TRUE(run(lookup).ok());
    EXPECT_EQ(lookup.object, file);
    ASSERT_NE(lookup.attributes(), nullptr);
    EXPECT_EQ(lookup.attributes()->type, NF3REG);
    name = "none";
    lookup.args.what = {dir.view(), name.data()};
    EXPECT_EQ(run(lookup).status, NFS3ERR_NOENT);
    EXPECT_TRUE(lookup.object.empty());

    SetattrOp setattr;
    setattr.args.object = file.view();
    setattr.args.new_attributes.mode.set_it = TRUE;
    setattr.args.new_attributes.mode.set_mode3_u.mode = 0600;
    EXPECT_TRUE(run(setattr).ok());
    GetattrOp getattr;
    getattr.args.object = file.view();
    ASSERT_TRUE(run(getattr).ok());
    EXPECT_EQ(getattr.res.GETATTR3res_u.resok.obj_attributes.mode & 07777, 0600u);

    AccessOp access;
    access.args = {file.view(), ACCESS3_READ};
    EXPECT_TRUE(run(access).ok());

    std::string target = "../somewhere/else";
    symlink(dir, "link", target);
    name = "link";
    lookup.args.what = {dir.view(), name.data()};
    ASSERT_TRUE(run(lookup).ok());
    ReadlinkOp readlink;
    readlink.args.symlink = lookup.object.view();
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(run(readlink).ok());
        EXPECT_EQ(std::string(readlink.res.READLINK3res_u.resok.data), target);
    }
}

TEST_F(ClientTest, CallsThatMoveAndRemoveNames) {
    const FileHandle dir = mkdir(root, "dir");
    const FileHandle file = create(dir, "file");
    create(dir, "other");
    RenameOp rename;
    std::string from = "file", to = "moved";
    rename.args.from = {dir.view(), from.data()};
    rename.args.to = {root.view(), to.data()};
    EXPECT_TRUE(run(rename).ok());
    LinkOp link;
    std::string second = "second";
    link.args.file = file.view();
    link.args.link = {root.view(), second.data()};
    EXPECT_TRUE(run(link).ok());

    for (std::string victim : {"moved", "second"}) {
        RemoveOp remove;
        remove.args.object = {root.view(), victim.data()};
        EXPECT_TRUE(run(remove).ok());
    }
    RmdirOp rmdir;
    std::string name = "dir";
    rmdir.args.object = {root.view(), name.data()};
    EXPECT_EQ(run(rmdir).status, NFS3ERR_NOTEMPTY);
}

TEST_F(ClientTest, CallsAboutFileSystemsAndExports) {
    FsstatOp fsstat;
    fsstat.args.fsroot = root.view();
    EXPECT_TRUE(run(fsstat).ok());
    EXPECT_GT(fsstat.res.FSSTAT3res_u.resok.tbytes, 0u);
    PathconfOp pathconf;
    pathconf.args.object = root.view();
    EXPECT_TRUE(run(pathconf).ok());
    ExportOp exports;
    EXPECT_TRUE(run(exports).ok());
    ASSERT_NE(exports.res.entries, nullptr);
    EXPECT_STREQ(exports.res.entries->ex_dir, "/export");
    UmntOp umnt;
    std::string path = "/export";
    umnt.args.dirpath = path.data();
    EXPECT_TRUE(run(umnt).ok());
    GetattrOp stale;
    FileHandle nonsense;
    ASSERT_TRUE(nonsense.assign("nonsense", 8));
    stale.args.object = nonsense.view();
    EXPECT_FALSE(run(stale).ok());
}

// A symlink's target in the call, whatever its length up to the protocol's bound (long calls, long
// replies).
TEST_F(ClientTest, B16_LongSymlinkTargets) {
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{1023}, std::size_t{4000}, std::size_t{4095}}) {
        std::string name = "link" + std::to_string(size), target(size, 't');
        SymlinkOp op;
        op.args.where = {root.view(), name.data()};
        op.args.symlink.symlink_data = target.data();
        ASSERT_TRUE(run(op).ok()) << size << " " << to_string(op.outcome);
        ReadlinkOp readlink;
        readlink.args.symlink = op.object.view();
        ASSERT_TRUE(run(readlink).ok()) << size;
        EXPECT_EQ(std::string(readlink.res.READLINK3res_u.resok.data), target);
    }
}

TEST_F(ClientTest, CallThatCannotBeEncodedIsAnsweredByDone) {
    std::string name(NFS3_NAME_MAX + 1, 'x');
    LookupOp lookup;
    lookup.args.what = {root.view(), name.data()};
    const Outcome outcome = run(lookup);
    ASSERT_FALSE(outcome.rpc);
    EXPECT_EQ(outcome.rpc.error().code, Errc::invalid_argument);
}

TEST_F(ClientTest, TimeoutAndCancel) {
    xprt->reply_fate = [](std::uint32_t /*xid*/) { return testing::Fate{false, 100 * kNsPerSec}; };
    client->timeout_ns = kNsPerSec;
    NullOp op;
    const Outcome outcome = run(op);
    ASSERT_FALSE(outcome.rpc);
    EXPECT_EQ(outcome.rpc.error().code, Errc::timed_out);
    int times = 0;
    NullOp other;
    other.user = &times;
    other.done = [](Op& o) noexcept { ++*static_cast<int*>(o.user); };
    client->start(other);
    client->cancel(other);
    EXPECT_EQ(times, 1);
    world.run_idle();
    EXPECT_EQ(times, 1);
}

class FakeClientTest : public ::testing::Test {
  protected:
    FakeClientTest() { EXPECT_TRUE(handle.assign("file", 4)); }
    Outcome run(Op& op) {
        bool finished = false;
        op.user = &finished;
        op.done = [](Op& o) noexcept { *static_cast<bool*>(o.user) = true; };
        client.start(op);
        EXPECT_TRUE(world.run_until([&] { return finished; }));
        return op.outcome;
    }
    testing::DirectWorld world;
    testing::FakeServer fake;
    testing::DirectXprt xprt{*world.loop, fake.dispatcher, testing::DirectOptions{}};
    Client client{xprt, nullptr};
    FileHandle handle;
};

TEST_F(FakeClientTest, B07_ShortReadReportsReturnedLength) {
    fake.file.assign(100, 'x');
    Result<sunrpc::Payload> room = xprt.get_payload(8192);
    ASSERT_TRUE(room);
    std::memset(room->memory().data(), 0x5A, 8192);
    ReadOp read;
    read.args = {handle.view(), 0, 8192};
    read.room = room->memory();
    ASSERT_TRUE(run(read).ok());
    EXPECT_EQ(read.data().size(), 100u);
    EXPECT_EQ(read.data().data(), room->memory().data());
    EXPECT_TRUE(read.eof());
    EXPECT_EQ(room->memory()[100], std::byte{0x5A});
    // A count that is not the data's length.
    fake.lie_about_count = 8092;
    const Outcome lied = run(read);
    ASSERT_FALSE(lied.rpc);
    EXPECT_EQ(lied.rpc.error().code, Errc::bad_message);
}

// Numbers that no enumeration has: an error, or nothing known, but never undefined.
TEST_F(FakeClientTest, StatusAndTypeOfAnyNumber) {
    for (const std::uint32_t number : {8u, 99u, 16384u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
        xprt.tamper = [number](std::vector<std::byte>& head, std::uint32_t& /*placed*/) {
            store_be32(head.data() + 28, number);  // the type
        };
        GetattrOp op;
        op.args.object = handle.view();
        EXPECT_TRUE(run(op).ok());
        EXPECT_EQ(static_cast<int>(op.attributes().type), 0) << number;
        xprt.tamper = [number](std::vector<std::byte>& head, std::uint32_t& /*placed*/) {
            head.resize(28);
            store_be32(head.data() + 24, number);
        };
        EXPECT_FALSE(run(op).ok()) << number;
    }
}

TEST_F(FakeClientTest, B109_JukeboxIsTriedAgainWithANewXidAndThenTold) {
    std::set<std::uint32_t> xids;
    xprt.call_fate = [&](std::uint32_t xid) {
        EXPECT_TRUE(xids.insert(xid).second);
        return testing::Fate{};
    };
    GetattrOp op;
    op.args.object = handle.view();
    fake.jukebox_left = 3;
    EXPECT_TRUE(run(op).ok());
    EXPECT_EQ(client.counters().jukebox, 3u);
    EXPECT_EQ(xids.size(), 4u);
    fake.jukebox_left = 100;
    client.jukebox_ns = 10 * kNsPerSec;
    const std::uint64_t begin = world.clock.now_ns();
    EXPECT_EQ(run(op).status, NFS3ERR_JUKEBOX);
    const std::uint64_t waited = world.clock.now_ns() - begin;
    EXPECT_GT(waited, 5 * kNsPerSec);
    EXPECT_LE(waited, 10 * kNsPerSec);
}

// After the transport was closed nobody waits for a jukebox.
TEST_F(FakeClientTest, HurryEndsThePatience) {
    fake.jukebox_left = 100;
    GetattrOp op;
    op.args.object = handle.view();
    bool finished = false;
    op.user = &finished;
    op.done = [](Op& o) noexcept { *static_cast<bool*>(o.user) = true; };
    client.start(op);
    ASSERT_TRUE(world.run_until([&] { return client.counters().jukebox == 4; }));
    const std::uint64_t begin = world.clock.now_ns();
    xprt.close();
    client.hurry();
    ASSERT_TRUE(world.run_until([&] { return finished; }));
    EXPECT_FALSE(op.outcome.rpc);
    EXPECT_LT(world.clock.now_ns() - begin, kNsPerMs);
}

// One call goes as somebody else, with every repeat, and the next one as the client itself.
TEST_F(FakeClientTest, CallAsSomebodyElseKeepsThatOverTheJukebox) {
    fake.jukebox_left = 2;
    sunrpc::AuthSys sys;
    sys.uid = 3000;
    GetattrOp op;
    op.args.object = handle.view();
    op.sys = &sys;
    EXPECT_TRUE(run(op).ok());
    op.sys = nullptr;
    EXPECT_TRUE(run(op).ok());
    const std::vector<std::pair<std::uint32_t, int>> expected{{NFSPROC3_GETATTR, 3000},
                                                              {NFSPROC3_GETATTR, 3000},
                                                              {NFSPROC3_GETATTR, 3000},
                                                              {NFSPROC3_GETATTR, -1}};
    EXPECT_EQ(fake.callers, expected);
}

TEST_F(FakeClientTest, CancelWhileTheJukeboxPlays) {
    fake.jukebox_left = 1;
    int times = 0;
    GetattrOp op;
    op.args.object = handle.view();
    op.user = &times;
    op.done = [](Op& o) noexcept { ++*static_cast<int*>(o.user); };
    client.start(op);
    world.run_until([&] { return client.counters().jukebox == 1; });
    client.cancel(op);
    EXPECT_EQ(times, 1);
    world.run_idle();
    EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace nfsrdma::nfs::client
