#include "tools/nfsrdma/tree_get.hpp"

#include <cstring>
#include <map>

#include "base/bytes.hpp"
#include "tests/tools/nfsrdma/tree_test.hpp"

namespace nfsrdma::tool {
namespace {

namespace fs = std::filesystem;

// A server that answers with the names it is told to, whatever they are.
struct HostileServer {
    struct Item {
        std::string name;
        ftype3 type;
        std::string text;   // of a link or a file
        std::string child;  // of a directory: the handle of its listing
    };
    HostileServer() {
        for (std::uint32_t i = 0; i < nfs_table.size(); ++i) {
            nfs_table.at(i).info = nfs::nfs3_procs()[i];
            nfs_table.at(i).handle = [](sunrpc::SvcCall& call) noexcept { call.fail(5); };
        }
        for (std::uint32_t i = 0; i < mount_table.size(); ++i) {
            mount_table.at(i).info = nfs::mount3_procs()[i];
            mount_table.at(i).handle = [](sunrpc::SvcCall& call) noexcept { call.fail(5); };
        }
        mount_table.at(MOUNTPROC3_MNT).handle = on_mnt;
        nfs_table.at(NFSPROC3_FSINFO).handle = on_fsinfo;
        nfs_table.at(NFSPROC3_GETATTR).handle = on_getattr;
        nfs_table.at(NFSPROC3_READDIRPLUS).handle = on_readdirplus;
        nfs_table.at(NFSPROC3_READLINK).handle = on_readlink;
        nfs_table.at(NFSPROC3_READ).handle = on_read;
        dispatcher.add({NFS3_PROGRAM, NFS_V3, nfs_table, 0, 0, 0, this});
        dispatcher.add({MOUNT3_PROGRAM, MOUNT_V3, mount_table, 0, 0, 0, this});
    }
    static HostileServer& of(sunrpc::SvcCall& call) {
        return *static_cast<HostileServer*>(call.program->context);
    }
    static std::string text_of(const nfs_fh3& fh) { return {fh.data.data_val, fh.data.data_len}; }
    static void on_mnt(sunrpc::SvcCall& call) noexcept {
        static char root[] = "root";
        auto& res = *static_cast<mountres3*>(call.res);
        res.mountres3_u.mountinfo.fhandle = {4, root};
        call.reply();
    }
    static void on_fsinfo(sunrpc::SvcCall& call) noexcept {
        auto& res = *static_cast<FSINFO3res*>(call.res);
        res.FSINFO3res_u.resok.rtmax = res.FSINFO3res_u.resok.wtmax = 65536;
        call.reply();
    }
    static void on_getattr(sunrpc::SvcCall& call) noexcept {
        auto& res = *static_cast<GETATTR3res*>(call.res);
        res.GETATTR3res_u.resok.obj_attributes.type = NF3DIR;
        call.reply();
    }
    static void on_readdirplus(sunrpc::SvcCall& call) noexcept {
        HostileServer& self = of(call);
        auto& args = *static_cast<READDIRPLUS3args*>(call.args);
        auto& resok = static_cast<READDIRPLUS3res*>(call.res)->READDIRPLUS3res_u.resok;
        std::vector<Item>& items = self.listings[text_of(args.dir)];
        std::vector<entryplus3> entries(items.size());
        for (std::size_t i = 0; i < items.size(); ++i) {
            entryplus3& entry = entries[i];
            Item& item = items[i];
            entry.name = item.name.data();
            entry.cookie = i + 1;
            entry.name_attributes.attributes_follow = TRUE;
            fattr3& attr = entry.name_attributes.post_op_attr_u.attributes;
            attr.type = item.type;
            attr.mode = 04755;
            attr.size = attr.used = item.type == NF3REG ? item.text.size() : 0;
            entry.name_handle.handle_follows = TRUE;
            std::string& handle = item.type == NF3DIR ? item.child : item.text;
            entry.name_handle.post_op_fh3_u.handle.data = {static_cast<u_int>(handle.size()),
                                                           handle.data()};
            entry.nextentry = i + 1 < items.size() ? &entries[i + 1] : nullptr;
        }
        resok.reply.entries = entries.empty() ? nullptr : entries.data();
        resok.reply.eof = TRUE;
        call.reply();
    }
    static void on_readlink(sunrpc::SvcCall& call) noexcept {
        static std::string text;
        text = text_of(static_cast<READLINK3args*>(call.args)->symlink);
        static_cast<READLINK3res*>(call.res)->READLINK3res_u.resok.data = text.data();
        call.reply();
    }
    static void on_read(sunrpc::SvcCall& call) noexcept {
        const std::string text = text_of(static_cast<READ3args*>(call.args)->file);
        auto& resok = static_cast<READ3res*>(call.res)->READ3res_u.resok;
        auto room = call.get_result_payload(static_cast<std::uint32_t>(text.size()));
        if (!room) {
            call.fail(5);
            return;
        }
        std::memcpy(room->data(), text.data(), text.size());
        resok.data.data_len = static_cast<u_int>(text.size());
        resok.data.data_val = as_chars(room->data());
        resok.count = resok.data.data_len;
        resok.eof = TRUE;
        call.reply();
    }
    std::map<std::string, std::vector<Item>> listings;
    std::array<sunrpc::SvcProcedure, 22> nfs_table;
    std::array<sunrpc::SvcProcedure, 6> mount_table;
    sunrpc::SvcDispatcher dispatcher;
};

class TreeGetTest : public ::testing::Test {
  protected:
    TreeGetTest() {
        url.host = "server";
        url.path = "/";
        EXPECT_TRUE(calls.mount("/"));
        fs::create_directories(local / "target");
    }
    bool get() {
        Progress progress(*world.loop, false, 0);
        CopyOptions how{true, 4, 2, rules, 20};
        TreeGetter getter(calls, how, progress, report);
        getter.get(url, local.fd(), "target", local / "target");
        return getter.finish();
    }
    testing::LocalDir local;
    testing::DirectWorld world;
    CopyReport report;
    CopyRules rules;
    HostileServer server;
    testing::DirectXprt xprt{*world.loop, server.dispatcher, testing::DirectOptions{}};
    nfs::client::Client client{xprt, nullptr};
    Url url;
    Calls calls{client, url};
};

TEST_F(TreeGetTest, NamesThatLeadOutAreRefusedAndTheRestIsCopied) {
    server.listings["root"] = {{"../evil1", NF3REG, "evil", ""},
                               {"..", NF3DIR, "", "sub"},
                               {"a/../../evil2", NF3REG, "e", ""},
                               {"/tmp/nfsrdma-evil3", NF3REG, "e", ""},
                               {"", NF3REG, "e", ""},
                               {"good", NF3REG, "good", ""},
                               {"sub", NF3DIR, "", "sub"}};
    server.listings["sub"] = {{"../../evil4", NF3LNK, "/etc", ""}, {"inner", NF3REG, "inner", ""}};
    EXPECT_FALSE(get());
    EXPECT_EQ(local.read("target/good"), "good");
    EXPECT_EQ(local.read("target/sub/inner"), "inner");
    for (const char* name : {"evil1", "evil2", "evil4"})
        EXPECT_FALSE(local.has(name)) << name;
    EXPECT_FALSE(fs::exists("/tmp/nfsrdma-evil3"));
    EXPECT_EQ(std::distance(fs::directory_iterator(local / "target"), fs::directory_iterator()), 2);
}

// The same name first as a link that leads out and then as a directory, or a file: nothing goes
// through the link.
TEST_F(TreeGetTest, ALinkIsNotWrittenThrough) {
    fs::create_directories(local / "outside");
    local.write("outside/file", "precious");
    server.listings["root"] = {{"d", NF3LNK, "../outside", ""},
                               {"d", NF3DIR, "", "sub"},
                               {"f", NF3LNK, "../outside/file", ""},
                               {"f", NF3REG, "evil", ""}};
    server.listings["sub"] = {{"evil", NF3REG, "evil", ""}};
    EXPECT_FALSE(get());
    EXPECT_FALSE(local.has("outside/evil"));
    EXPECT_EQ(local.read("outside/file"), "precious");
}

TEST_F(TreeGetTest, ATreeWithoutEndEnds) {
    server.listings["root"] = {{"again", NF3DIR, "", "root"}};
    EXPECT_FALSE(get());
}

TEST_F(TreeGetTest, SetUidIsNotTakenOver) {
    server.listings["root"] = {{"tool", NF3REG, "x", ""}};
    EXPECT_TRUE(get());
    struct stat st {};
    ASSERT_EQ(::stat((local / "target/tool").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777, 0755u);
}

TEST_F(TreeGetTest, DevicesAreLeftOut) {
    server.listings["root"] = {{"device", NF3BLK, "x", ""}, {"fifo", NF3FIFO, "x", ""}};
    EXPECT_TRUE(get());
    EXPECT_TRUE(fs::is_empty(local / "target"));
    EXPECT_EQ(report.omitted, 2u);
}

// The same name twice for the same thing: a directory that changed while it was read.
TEST_F(TreeGetTest, ARepeatedEntryIsTakenOnce) {
    server.listings["root"] = {{"f", NF3REG, "text", ""}, {"f", NF3REG, "text", ""}};
    EXPECT_TRUE(get());
    EXPECT_EQ(report.files, 1u);
    EXPECT_EQ(local.read("target/f"), "text");
}

TEST_F(TreeGetTest, EveryFailureIsInTheReport) {
    server.listings["root"] = {
        {"..", NF3REG, "x", ""}, {"a/b", NF3REG, "x", ""}, {"good", NF3REG, "x", ""}};
    EXPECT_FALSE(get());
    ASSERT_EQ(report.failures().size(), 1u);
    EXPECT_NE(report.failures()[0].path.find("a/b"), std::string::npos);
    EXPECT_EQ(report.files, 1u);
    JsonObject object;
    report.add_to(object);
    EXPECT_NE(object.text().find("\"failed\":1"), std::string::npos);
}

// What is there already as a link, put by whomever, is not written through, whatever the server
// says.
TEST_F(TreeGetTest, LocalLinksInTheTargetAreNotFollowed) {
    fs::create_directories(local / "outside");
    local.write("outside/file", "precious");
    fs::create_symlink("../outside", local / "target/d");
    fs::create_symlink("../outside/file", local / "target/f");
    server.listings["root"] = {{"d", NF3DIR, "", "sub"}, {"f", NF3REG, "evil", ""}};
    server.listings["sub"] = {{"evil", NF3REG, "evil", ""}};
    EXPECT_FALSE(get());
    EXPECT_FALSE(local.has("outside/evil"));
    EXPECT_EQ(local.read("outside/file"), "precious");
    EXPECT_EQ(report.failures().size(), 2u);
}

TEST_F(TreeGetTest, VerifyingReadsItBack) {
    server.listings["root"] = {{"f", NF3REG, std::string(60, 'v'), ""}, {"empty", NF3REG, "", ""}};
    rules.verify = true;
    (void)get();
    EXPECT_EQ(report.verified, 1u);  // the other one's handle is none
    EXPECT_EQ(local.read("target/f"), std::string(60, 'v'));
}

}  // namespace
}  // namespace nfsrdma::tool
