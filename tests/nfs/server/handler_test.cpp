#include "nfs/server/handler.hpp"

#include <cstring>

#include "nfs/exports_host.hpp"
#include "nfs/server/preset.hpp"
#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

TEST(Handler, CredIsThatOfAuthSysAlone) {
    sunrpc::SvcCall call;
    EXPECT_FALSE(nfs::cred_of(call).known);
    call.flavor = sunrpc::AuthFlavor::sys;
    call.sys.uid = 5;
    call.sys.gid = 6;
    call.sys.group_count = 2;
    call.sys.groups[1] = 7;
    const nfs::Cred cred = nfs::cred_of(call);
    EXPECT_TRUE(cred.known);
    EXPECT_EQ(cred.uid, 5u);
    EXPECT_EQ(cred.gid, 6u);
    EXPECT_EQ(cred.group_count, 2u);
    EXPECT_EQ(cred.groups[1], 7u);
}

TEST(Handler, InnerZeroIsSeen) {
    std::array<std::byte, nfs::kPresetBytes> room;
    LOOKUP3args args{};
    nfs::PresetRoom(room).take(args.what);
    char* name = args.what.name;
    std::memcpy(name, "abc", 4);
    EXPECT_FALSE(nfs::has_inner_zero(name, nfs::kNameRoom));
    std::memcpy(name, "a\0c", 4);
    EXPECT_TRUE(nfs::has_inner_zero(name, nfs::kNameRoom));
    nfs::PresetRoom(room).take(args.what);
    std::memset(name, 'n', NFS3_NAME_MAX);
    name[NFS3_NAME_MAX] = '\0';
    EXPECT_FALSE(nfs::has_inner_zero(name, nfs::kNameRoom));
    nfs::PresetRoom(room).take(args.what);
    name[0] = '\0';
    EXPECT_FALSE(nfs::has_inner_zero(name, nfs::kNameRoom));
}

// A raw call of a procedure with one diropargs3, whose name has `name`'s bytes, zeroes included.
std::vector<std::byte> raw_lookup(const Handle& dir, const std::string& name,
                                  std::uint32_t claimed) {
    std::vector<std::byte> out;
    const auto word = [&](std::uint32_t value) {
        out.resize(out.size() + 4);
        store_be32(out.data() + out.size() - 4, value);
    };
    const auto bytes = [&](const char* data, std::size_t size) {
        for (std::size_t i = 0; i < size; ++i)
            out.push_back(static_cast<std::byte>(data[i]));
        while (out.size() % 4 != 0)
            out.push_back(std::byte{0});
    };
    for (const std::uint32_t value : {1u, 0u, 2u, unsigned{NFS3_PROGRAM}, unsigned{NFS_V3},
                                      unsigned{NFSPROC3_LOOKUP}, 0u, 0u, 0u, 0u}) {
        word(value);
    }
    word(static_cast<std::uint32_t>(dir.bytes.size()));
    bytes(dir.bytes.data(), dir.bytes.size());
    word(claimed);
    bytes(name.data(), name.size());
    return out;
}

class B60 : public NfsTest {};
class B95Zero : public NfsTest {};
NR_ON_BACKENDS(B60);
NR_ON_BACKENDS(B95Zero);

TEST_P(B95Zero, NameWithAZeroInsideIsInvalid) {
    w.file(w.root, "ab");
    const auto status = [&](const std::string& name) {
        const RawReply reply = w.xprt->server().raw_call(
            raw_lookup(w.root, name, static_cast<std::uint32_t>(name.size())));
        EXPECT_TRUE(reply.answered);
        return reply.word(6);
    };
    EXPECT_EQ(status("ab"), unsigned{NFS3_OK});
    EXPECT_EQ(status(std::string("ab\0c", 4)), unsigned{NFS3ERR_INVAL});
    EXPECT_EQ(status(std::string("ab\0", 3)), unsigned{NFS3ERR_INVAL});
    EXPECT_EQ(status(std::string("\0", 1)), unsigned{NFS3ERR_INVAL});
}

TEST_P(B60, ClaimedLengthIsNotBelieved) {
    for (const std::uint32_t claimed : {0x7fffffffu, 0xffffffffu, 1025u, 100u}) {
        const RawReply reply = w.xprt->server().raw_call(raw_lookup(w.root, "name", claimed));
        ASSERT_TRUE(reply.answered);
        EXPECT_EQ(reply.word(5), 4u) << claimed;  // GARBAGE_ARGS
    }
}

// The export of the world with other rules.
void set_rules(NfsWorld& w, nfs::ExportRules rules) {
    const nfs::ExportList now = w.server.exports();
    std::vector<nfs::ExportParts> parts;
    parts.push_back({now.front()->name, now.front()->vfs, std::move(rules), {}});
    ASSERT_TRUE(static_cast<bool>(w.server.set_exports(std::move(parts))));
}
nfs::ExportRules only(const std::string& host, const nfs::ClientOptions& options) {
    nfs::ClientRule rule;
    std::string why;
    EXPECT_TRUE(nfs::parse_host(host, rule.host, why)) << why;
    rule.options = options;
    return {{rule}};
}
nfs::ClientOptions read_write() {
    nfs::ClientOptions out;
    out.read_only = false;
    out.squash = nfs::Squash::none;
    return out;
}

class ExportAccess : public NfsTest {
  protected:
    void come_from(const std::string& address, const char* netid = "rdma") {
        w.xprt->server().set_peer(*SockAddr::parse(address, 0), netid);
    }
};
NR_ON_BACKENDS(ExportAccess);

TEST_P(ExportAccess, AnotherHostHasNothing) {
    const Handle file = w.file(w.root, "f", "x");
    set_rules(w, only("10.0.0.0/8", read_write()));
    come_from("10.1.2.3");
    EXPECT_EQ(w.getattr(file)->status, NFS3_OK);
    come_from("11.1.2.3");
    EXPECT_EQ(w.getattr(file)->status, NFS3ERR_ACCES);
    EXPECT_EQ(w.read(file, 0, 1).status, NFS3ERR_ACCES);
    auto reply = w.create(w.root, "g");
    EXPECT_EQ(reply->status, NFS3ERR_ACCES);
    // Nothing is told of what is not for this host.
    EXPECT_EQ(reply->CREATE3res_u.resfail.dir_wcc.after.attributes_follow, FALSE);
    auto lookup = w.lookup(w.root, "f");
    EXPECT_EQ(lookup->status, NFS3ERR_ACCES);
    EXPECT_EQ(lookup->LOOKUP3res_u.resfail.dir_attributes.attributes_follow, FALSE);
}

TEST_P(ExportAccess, ReadOnlyRefusesEveryChangeAndTellsAttributes) {
    const Handle file = w.file(w.root, "f", "x"), dir = w.directory(w.root, "d");
    set_rules(w, only("*", nfs::ClientOptions{}));
    const auto refused = [](nfsstat3 status, const wcc_data& wcc) {
        EXPECT_EQ(status, NFS3ERR_ROFS);
        EXPECT_NE(wcc.after.attributes_follow, FALSE);
    };
    auto created = w.create(w.root, "g");
    refused(created->status, created->CREATE3res_u.resfail.dir_wcc);
    auto made = w.mkdir(w.root, "e");
    refused(made->status, made->MKDIR3res_u.resfail.dir_wcc);
    auto linked = w.symlink(w.root, "l", "x");
    refused(linked->status, linked->SYMLINK3res_u.resfail.dir_wcc);
    auto removed = w.remove(w.root, "f");
    refused(removed->status, removed->REMOVE3res_u.resfail.dir_wcc);
    auto gone = w.rmdir(w.root, "d");
    refused(gone->status, gone->RMDIR3res_u.resfail.dir_wcc);
    auto renamed = w.rename(w.root, "f", dir, "f");
    refused(renamed->status, renamed->RENAME3res_u.resfail.fromdir_wcc);
    refused(renamed->status, renamed->RENAME3res_u.resfail.todir_wcc);
    auto hard = w.link(file, w.root, "h");
    refused(hard->status, hard->LINK3res_u.resfail.linkdir_wcc);
    auto written = w.write(file, 0, "y");
    refused(written->status, written->WRITE3res_u.resfail.file_wcc);
    sattr3 set{};
    auto changed = w.setattr(file, set);
    refused(changed->status, changed->SETATTR3res_u.resfail.obj_wcc);
    EXPECT_EQ(w.read(file, 0, 9).data, "x");
    EXPECT_EQ(w.list(w.root, false, 4096).count("f"), 1u);
}

TEST_P(ExportAccess, ReadOnlyGrantsNoChange) {
    set_rules(w, only("*", nfs::ClientOptions{}));
    constexpr std::uint32_t kAll = 0x3f;
    auto reply = w.call<ACCESS3args, ACCESS3res>(NFSPROC3_ACCESS, {w.root.fh(), kAll});
    ASSERT_EQ(reply->status, NFS3_OK);
    const std::uint32_t granted = reply->ACCESS3res_u.resok.access;
    EXPECT_EQ(granted & (ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE), 0u);
    EXPECT_NE(granted & ACCESS3_READ, 0u);
}

TEST_P(ExportAccess, SecureIsOfPortsAndNotOfRdma) {
    set_rules(w, only("127.0.0.1", read_write()));  // secure, as exports(5) has it
    come_from("127.0.0.1:40000");
    EXPECT_EQ(w.getattr(w.root)->status, NFS3_OK);
    come_from("127.0.0.1:40000", "tcp");
    EXPECT_EQ(w.getattr(w.root)->status, NFS3ERR_ACCES);
    come_from("127.0.0.1:1024", "udp");
    EXPECT_EQ(w.getattr(w.root)->status, NFS3ERR_ACCES);
    come_from("127.0.0.1:1023", "tcp");
    EXPECT_EQ(w.getattr(w.root)->status, NFS3_OK);
    nfs::ClientOptions insecure = read_write();
    insecure.secure = false;
    set_rules(w, only("127.0.0.1", insecure));
    come_from("127.0.0.1:40000", "tcp");
    EXPECT_EQ(w.getattr(w.root)->status, NFS3_OK);
}

TEST_P(ExportAccess, NamesAreLookedUpWhileTheCallerTriesAgain) {
    const SockAddr peer = *SockAddr::parse("127.0.0.1", 0);
    set_rules(w, only("*.example", read_write()));
    come_from("127.0.0.1");
    NfsWorld::names_held = true;
    EXPECT_EQ(w.getattr(w.root)->status, NFS3ERR_JUKEBOX);
    NfsWorld::names_held = false;
    EXPECT_NE(w.server.host_names().wait(peer, 20 * kNsPerSec), nullptr);
    EXPECT_EQ(w.getattr(w.root)->status, NFS3_OK);
    set_rules(w, only("*.invalid", read_write()));
    EXPECT_NE(w.server.host_names().wait(peer, 20 * kNsPerSec), nullptr);
    EXPECT_EQ(w.getattr(w.root)->status, NFS3ERR_ACCES);
}

}  // namespace
}  // namespace nfsrdma::testing
