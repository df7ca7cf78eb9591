#include "nfs/server/handler.hpp"

#include <cstring>

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

}  // namespace
}  // namespace nfsrdma::testing
