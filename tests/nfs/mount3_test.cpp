#include "nfs/mount3.hpp"

#include "nfs/exports_host.hpp"
#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class Mount3 : public NfsTest {
  protected:
    Reply<mountres3> mnt(const std::string& path) {
        return w.call_mount<mountargs3, mountres3>(MOUNTPROC3_MNT, {text(path)});
    }
    void umnt(const std::string& path) {
        w.call_mount<mountargs3, Nothing>(MOUNTPROC3_UMNT, {text(path)});
    }
    std::vector<std::string> dump() {
        auto reply = w.call_mount<Nothing, mountlist3>(MOUNTPROC3_DUMP, {});
        std::vector<std::string> out;
        for (const mountentry3* e = reply->entries; e != nullptr; e = e->ml_next) {
            out.push_back(std::string(e->ml_hostname) + ":" + e->ml_directory);
        }
        return out;
    }
    struct Nothing {};
};
class B93 : public Mount3 {};
class B94 : public Mount3 {};
NR_ON_BACKENDS(Mount3);
NR_ON_BACKENDS(B93);
NR_ON_BACKENDS(B94);

TEST_P(Mount3, RootHandleAndFlavorsComeBack) {
    auto reply = mnt("/export");
    ASSERT_EQ(reply->fhs_status, MNT3_OK);
    const mountres3_ok& ok = reply->mountres3_u.mountinfo;
    nfs_fh3 fh{};
    fh.data.data_len = ok.fhandle.fhandle3_len;
    fh.data.data_val = ok.fhandle.fhandle3_val;
    EXPECT_EQ(Handle::of(fh), w.root);
    ASSERT_GE(ok.auth_flavors.auth_flavors_len, 1u);
    EXPECT_EQ(ok.auth_flavors.auth_flavors_val[0], 1u);  // AUTH_SYS
}

TEST_P(Mount3, DirectoryBelowAnExportIsMounted) {
    const Handle d = w.directory(w.root, "d");
    w.directory(d, "e");
    EXPECT_EQ(mnt("/export/d/e")->fhs_status, MNT3_OK);
    EXPECT_EQ(mnt("/export//d//e/")->fhs_status, MNT3_OK);
}

TEST_P(Mount3, NothingOutsideIsMounted) {
    for (const char* path :
         {"/export/..", "/export/../etc", "/exportx", "/", "", "export", "/etc"}) {
        EXPECT_NE(mnt(path)->fhs_status, MNT3_OK) << path;
    }
    w.symlink(w.root, "l", "/etc");
    EXPECT_EQ(mnt("/export/l")->fhs_status, MNT3ERR_NOTDIR);
}

TEST_P(B93, ListsAreAnswered) {
    EXPECT_TRUE(dump().empty());
    auto exports = w.call_mount<Nothing, mountexports3>(MOUNTPROC3_EXPORT, {});
    ASSERT_NE(exports->entries, nullptr);
    EXPECT_STREQ(exports->entries->ex_dir, "/export");
    EXPECT_EQ(exports->entries->ex_next, nullptr);
    w.call_mount<Nothing, Nothing>(MOUNTPROC3_UMNTALL, {});
    w.call_mount<Nothing, Nothing>(MOUNTPROC3_NULL, {});
}

TEST_P(B94, ErrorsSayWhatIsWrong) {
    w.file(w.root, "file");
    EXPECT_EQ(mnt("/export/none")->fhs_status, MNT3ERR_NOENT);
    EXPECT_EQ(mnt("/nowhere")->fhs_status, MNT3ERR_NOENT);
    EXPECT_EQ(mnt("/export/file")->fhs_status, MNT3ERR_NOTDIR);
    EXPECT_EQ(mnt("/" + std::string(1024, 'x'))->fhs_status, MNT3ERR_NAMETOOLONG);
    EXPECT_EQ(mnt("/export/" + std::string(300, 'x'))->fhs_status, MNT3ERR_NAMETOOLONG);
    EXPECT_EQ(mnt("/export/")->fhs_status, MNT3_OK);
    EXPECT_EQ(dump(), std::vector<std::string>{"127.0.0.1:/export"});  // failures are not listed
}

TEST_P(B94, UnmountOfOnePathLeavesTheOthers) {
    w.directory(w.root, "d");
    mnt("/export");
    mnt("/export/d");
    mnt("/export/d");
    EXPECT_EQ(dump().size(), 2u);
    umnt("/export/");
    EXPECT_EQ(dump(), std::vector<std::string>{"127.0.0.1:/export/d"});
    w.call_mount<Nothing, Nothing>(MOUNTPROC3_UMNTALL, {});
    EXPECT_TRUE(dump().empty());
}

// Export A only for host 1, B only for host 2 and a network.
TEST_P(B94, EachExportIsForItsHosts) {
    const auto rules = [](std::vector<const char*> hosts) {
        nfs::ExportRules out;
        for (const char* host : hosts) {
            nfs::ClientRule rule;
            std::string why;
            EXPECT_TRUE(nfs::parse_host(host, rule.host, why)) << why;
            out.clients.push_back(rule);
        }
        return out;
    };
    std::vector<nfs::ExportParts> parts;
    parts.push_back({"/a", w.server.exports().front()->vfs, rules({"10.0.0.1"}), {}});
    parts.push_back(
        {"/b", std::make_shared<nfs::VfsMem>(), rules({"10.0.0.2", "fd00::/64", "*.x.org"}), {}});
    ASSERT_TRUE(static_cast<bool>(w.server.set_exports(std::move(parts))));
    const auto come_from = [&](const char* address, const char* netid = "rdma") {
        w.xprt->server().set_peer(*SockAddr::parse(address, 0), netid);
    };
    come_from("10.0.0.1");
    EXPECT_EQ(mnt("/a")->fhs_status, MNT3_OK);
    come_from("10.0.0.2");
    EXPECT_EQ(mnt("/a")->fhs_status, MNT3ERR_ACCES);
    EXPECT_EQ(mnt("/b/")->fhs_status, MNT3_OK);
    EXPECT_EQ(mnt("/b/none")->fhs_status, MNT3ERR_NOENT);
    EXPECT_EQ(mnt("/c")->fhs_status, MNT3ERR_NOENT);
    come_from("[fd00::7]:900", "tcp");
    EXPECT_EQ(mnt("/b")->fhs_status, MNT3_OK);
    come_from("[fd00::8]:1900", "tcp");  // secure
    EXPECT_EQ(mnt("/b")->fhs_status, MNT3ERR_ACCES);
    EXPECT_EQ(dump(), (std::vector<std::string>{"10.0.0.1:/a", "10.0.0.2:/b", "fd00::7:/b"}));

    auto exports = w.call_mount<Nothing, mountexports3>(MOUNTPROC3_EXPORT, {});
    std::vector<std::string> listed;
    for (const mountexport3* e = exports->entries; e != nullptr; e = e->ex_next) {
        std::string line = e->ex_dir;
        for (const mountgroup3* g = e->ex_groups; g != nullptr; g = g->gr_next)
            line += std::string(" ") + g->gr_name;
        listed.push_back(line);
    }
    EXPECT_EQ(listed, (std::vector<std::string>{"/a 10.0.0.1", "/b 10.0.0.2 fd00::/64 *.x.org"}));
}

TEST_P(Mount3, InnermostExportDecides) {
    std::vector<nfs::ExportParts> parts;
    nfs::ExportRules nobody;
    parts.push_back({"/", w.server.exports().front()->vfs, nfs::ExportRules::open(), {}});
    parts.push_back({"/d/e", std::make_shared<nfs::VfsMem>(), nobody, {}});
    w.directory(w.root, "d");
    ASSERT_TRUE(static_cast<bool>(w.server.set_exports(std::move(parts))));
    EXPECT_EQ(mnt("/")->fhs_status, MNT3_OK);
    EXPECT_EQ(mnt("/d")->fhs_status, MNT3_OK);
    EXPECT_EQ(mnt("/d/e")->fhs_status, MNT3ERR_ACCES);
    EXPECT_EQ(mnt("/d/e/f")->fhs_status, MNT3ERR_ACCES);
}

TEST_P(Mount3, ManyHostsFitTheirReply) {
    nfs::ExportRules rules;
    nfs::ClientRule rule;
    for (int i = 0; i < 2000; ++i) {
        rule.host.text = std::string(200, 'h') + std::to_string(i);
        rules.clients.push_back(rule);
    }
    std::vector<nfs::ExportParts> parts;
    for (const char* name : {"/a", "/b"})
        parts.push_back({name, std::make_shared<nfs::VfsMem>(), rules, {}});
    ASSERT_TRUE(static_cast<bool>(w.server.set_exports(std::move(parts))));
    auto exports = w.call_mount<Nothing, mountexports3>(MOUNTPROC3_EXPORT, {});
    EXPECT_NE(exports->entries, nullptr);
}

TEST_P(Mount3, ListsFitTheirReply) {
    for (int i = 0; i < 1100; ++i) {
        w.server.note_mount("host-" + std::to_string(i), "/export/" + std::string(200, 'x'));
    }
    EXPECT_GT(dump().size(), 200u);  // and the reply was not larger than announced
}

}  // namespace
}  // namespace nfsrdma::testing
