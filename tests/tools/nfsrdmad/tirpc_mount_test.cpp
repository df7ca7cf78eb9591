#include "tools/nfsrdmad/tirpc_mount.hpp"

#include <array>
#include <chrono>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/prng.hpp"
#include "nfs/binding.hpp"
#include "nfs/vfs_mem.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

constexpr std::uint32_t kNlm = 100021, kNfsAcl = 100227;

bool_t nothing(XDR* /*xdr*/, ...) {
    return TRUE;
}

// A call by a libtirpc client.
class Caller {
  public:
    Caller(const SockAddr& server, int type, std::uint32_t prog, std::uint32_t vers)
        : fd_(::socket(AF_INET, type | SOCK_CLOEXEC, 0)) {
        EXPECT_EQ(::connect(fd_.get(), server.sa(), server.sa_len()), 0);
        SockAddr copy = server;
        netbuf address{};
        address.len = address.maxlen = copy.sa_len();
        address.buf = const_cast<sockaddr*>(copy.sa());
        client_ = type == SOCK_STREAM ? clnt_vc_create(fd_.get(), &address, prog, vers, 0, 0)
                                      : clnt_dg_create(fd_.get(), &address, prog, vers, 0, 0);
        EXPECT_NE(client_, nullptr);
    }
    ~Caller() {
        if (client_ == nullptr) return;
        if (client_->cl_auth != nullptr) auth_destroy(client_->cl_auth);
        clnt_destroy(client_);
    }
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;
    void be_somebody() {
        auth_destroy(client_->cl_auth);
        client_->cl_auth = authunix_create_default();
    }
    clnt_stat call(std::uint32_t proc, void* args, void* res) {
        const sunrpc::ProcInfo& info = nfs::mount3_procs()[std::min<std::uint32_t>(proc, 5)];
        return client_->cl_ops->cl_call(client_, proc, info.xdr_args, args, info.xdr_res, res,
                                        timeval{30, 0});
    }
    clnt_stat null() {
        return client_->cl_ops->cl_call(client_, 0, nothing, nullptr, nothing, nullptr,
                                        timeval{30, 0});
    }

  private:
    UniqueFd fd_;
    CLIENT* client_ = nullptr;
};

class TirpcMountTest : public ::testing::Test {
  protected:
    TirpcMountTest() {
        EXPECT_TRUE(
            static_cast<bool>(server.add_export("/srv/a", std::make_unique<nfs::VfsMem>())));
        EXPECT_TRUE(
            static_cast<bool>(server.add_export("/srv/b", std::make_unique<nfs::VfsMem>())));
        auto made = TirpcMount::create(server, *SockAddr::parse("127.0.0.1:0", 0));
        EXPECT_TRUE(static_cast<bool>(made)) << to_string(made.error());
        mount = *std::move(made);
        mount->start();
    }
    UniqueFd raw(int type) const {
        UniqueFd fd(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
        const SockAddr to = mount->local();
        EXPECT_EQ(::connect(fd.get(), to.sa(), to.sa_len()), 0);
        return fd;
    }
    void expect_alive() {
        Caller caller(mount->local(), SOCK_STREAM, MOUNT3_PROGRAM, MOUNT_V3);
        EXPECT_EQ(caller.null(), RPC_SUCCESS);
    }
    nfs::Server server;
    std::unique_ptr<TirpcMount> mount;
};

TEST_F(TirpcMountTest, B93_MntExportDumpUmntallByTcpAndUdp) {
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
        Caller caller(mount->local(), type, MOUNT3_PROGRAM, MOUNT_V3);
        caller.be_somebody();
        EXPECT_EQ(caller.null(), RPC_SUCCESS);
        std::string path = "/srv/b";
        mountargs3 args{path.data()};
        mountres3 res{};
        ASSERT_EQ(caller.call(MOUNTPROC3_MNT, &args, &res), RPC_SUCCESS);
        EXPECT_EQ(res.fhs_status, MNT3_OK);
        EXPECT_GT(res.mountres3_u.mountinfo.fhandle.fhandle3_len, 0u);
        xdr_free(nfs::mount3_procs()[MOUNTPROC3_MNT].xdr_res, &res);
        mountexports3 exports{};
        ASSERT_EQ(caller.call(MOUNTPROC3_EXPORT, nullptr, &exports), RPC_SUCCESS);
        ASSERT_NE(exports.entries, nullptr);
        EXPECT_STREQ(exports.entries->ex_dir, "/srv/a");
        ASSERT_NE(exports.entries->ex_next, nullptr);
        EXPECT_STREQ(exports.entries->ex_next->ex_dir, "/srv/b");
        xdr_free(nfs::mount3_procs()[MOUNTPROC3_EXPORT].xdr_res, &exports);
        mountlist3 mounts{};
        ASSERT_EQ(caller.call(MOUNTPROC3_DUMP, nullptr, &mounts), RPC_SUCCESS);
        ASSERT_NE(mounts.entries, nullptr);
        EXPECT_STREQ(mounts.entries->ml_hostname, "127.0.0.1");
        EXPECT_STREQ(mounts.entries->ml_directory, "/srv/b");
        xdr_free(nfs::mount3_procs()[MOUNTPROC3_DUMP].xdr_res, &mounts);
        EXPECT_EQ(caller.call(MOUNTPROC3_UMNTALL, nullptr, nullptr), RPC_SUCCESS);
        EXPECT_TRUE(server.mounts().empty());
    }
}

TEST_F(TirpcMountTest, B94_ErrorsAreMountsOwn) {
    Caller caller(mount->local(), SOCK_STREAM, MOUNT3_PROGRAM, MOUNT_V3);
    const std::pair<std::string, mountstat3> cases[] = {
        {"/srv/none", MNT3ERR_NOENT}, {"/srv/b/", MNT3_OK}, {"srv/b", MNT3ERR_NOENT}};
    for (auto [path, status] : cases) {
        mountargs3 args{path.data()};
        mountres3 res{};
        ASSERT_EQ(caller.call(MOUNTPROC3_MNT, &args, &res), RPC_SUCCESS);
        EXPECT_EQ(res.fhs_status, status) << path;
        xdr_free(nfs::mount3_procs()[MOUNTPROC3_MNT].xdr_res, &res);
    }
}

TEST_F(TirpcMountTest, OtherProgramsAreUnavailable) {
    for (const std::uint32_t prog : {std::uint32_t{NFS3_PROGRAM}, kNlm, kNfsAcl}) {
        for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
            Caller caller(mount->local(), type, prog, 3);
            EXPECT_EQ(caller.null(), RPC_PROGUNAVAIL) << prog;
        }
    }
    Caller old(mount->local(), SOCK_STREAM, MOUNT3_PROGRAM, 1);
    EXPECT_EQ(old.null(), RPC_PROGVERSMISMATCH);
    Caller caller(mount->local(), SOCK_STREAM, MOUNT3_PROGRAM, MOUNT_V3);
    EXPECT_EQ(caller.call(6, nullptr, nullptr), RPC_PROCUNAVAIL);
}

// The record's mark says 2 GiB, or more than is allowed; or nothing follows it.
TEST_F(TirpcMountTest, HostileRecordsEndTheirConnectionOnly) {
    Prng prng(7);
    for (const std::uint32_t mark :
         {0x80000000u, 0xFFFFFFFFu, 0x7FFFFFFFu, 0x80004000u, 0x00000000u}) {
        const UniqueFd fd = raw(SOCK_STREAM);
        std::array<std::byte, 20000> junk{};
        for (std::byte& b : junk)
            b = static_cast<std::byte>(prng.next());
        store_be32(junk.data(), mark);
        static_cast<void>(::send(fd.get(), junk.data(), junk.size(), MSG_NOSIGNAL));
        expect_alive();
    }
    for (int i = 0; i < 300; ++i) {
        const UniqueFd fd = raw(i % 2 == 0 ? SOCK_STREAM : SOCK_DGRAM);
        std::array<std::byte, 512> junk{};
        for (std::byte& b : junk)
            b = static_cast<std::byte>(prng.next());
        const auto size = static_cast<std::uint32_t>(prng.next() % junk.size());
        std::size_t at = 0;
        if (i % 2 == 0) {  // one whole record, that begins as a call
            store_be32(junk.data(), 0x80000000u | (size - 4));
            at = 4;
        }
        if (size < 64) continue;
        const std::uint32_t words[] = {
            1, 0, 2, MOUNT3_PROGRAM, MOUNT_V3, static_cast<std::uint32_t>(prng.next() % 7)};
        for (std::size_t word = 0; word < std::size(words); ++word)
            store_be32(junk.data() + at + 4 * word, words[word]);
        static_cast<void>(::send(fd.get(), junk.data(), size, MSG_NOSIGNAL));
    }
    expect_alive();
}

TEST_F(TirpcMountTest, CallsAreCounted) {
    const auto calls_of = [this](std::size_t proc) {
        const SocketStats stats = mount->stats();
        return stats.procedures.size() <= proc ? 0 : stats.procedures[proc].stats.calls;
    };
    EXPECT_EQ(calls_of(MOUNTPROC3_EXPORT), 0u);
    for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
        Caller caller(mount->local(), type, MOUNT3_PROGRAM, MOUNT_V3);
        caller.be_somebody();
        mountexports3 exports{};
        ASSERT_EQ(caller.call(MOUNTPROC3_EXPORT, nullptr, &exports), RPC_SUCCESS);
        xdr_free(nfs::mount3_procs()[MOUNTPROC3_EXPORT].xdr_res, &exports);
        std::string path = "/none";
        mountargs3 args{path.data()};
        mountres3 res{};
        ASSERT_EQ(caller.call(MOUNTPROC3_MNT, &args, &res), RPC_SUCCESS);
        EXPECT_EQ(res.fhs_status, MNT3ERR_NOENT);
    }
    EXPECT_LT(mount->stats().procedures[MOUNTPROC3_EXPORT].stats.bytes_in, 1024u);
    EXPECT_EQ(calls_of(MOUNTPROC3_EXPORT), 2u);
    EXPECT_EQ(calls_of(MOUNTPROC3_MNT), 2u);
    const SocketStats stats = mount->stats();
    EXPECT_EQ(stats.rpc.calls, 4u);
    const ProcedureStats& mnt = stats.procedures[MOUNTPROC3_MNT];
    EXPECT_STREQ(mnt.program, "mount");
    EXPECT_STREQ(mnt.name, "MNT");
    EXPECT_EQ(mnt.stats.errors, 2u);
    EXPECT_GT(mnt.stats.bytes_in, 0u);
    EXPECT_GT(mnt.stats.bytes_out, 0u);
}

// libtirpc's buffer of datagrams still has the bytes of the one before.
TEST_F(TirpcMountTest, DatagramEndsWhereItEnds) {
    const UniqueFd fd = raw(SOCK_DGRAM);
    const timeval patience{30, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    // MNT of /srv/a, whole, and then cut behind the length of its path.
    const std::uint32_t words[] = {7, 0, 2, MOUNT3_PROGRAM, MOUNT_V3,   MOUNTPROC3_MNT, 0, 0,
                                   0, 0, 6, 0x2F737276u,    0x2F610000u};
    std::array<std::byte, sizeof words> call{};
    for (std::size_t i = 0; i < std::size(words); ++i)
        store_be32(call.data() + 4 * i, words[i]);
    std::array<std::byte, 512> answer{};
    for (const std::size_t size : {call.size(), call.size() - 8}) {
        ASSERT_EQ(::send(fd.get(), call.data(), size, 0), static_cast<ssize_t>(size));
        ASSERT_GE(::recv(fd.get(), answer.data(), answer.size(), 0), 24);
        constexpr std::uint32_t kSuccess = 0, kGarbageArgs = 4;
        EXPECT_EQ(load_be32(answer.data() + 20), size == call.size() ? kSuccess : kGarbageArgs);
    }
    EXPECT_LT(mount->stats().procedures[MOUNTPROC3_MNT].stats.bytes_in, 256u);
}

TEST_F(TirpcMountTest, HalfARecordHoldsUpNobody) {
    const UniqueFd slow = raw(SOCK_STREAM);
    const std::array<std::byte, 8> half = {std::byte{0x80}, {}, {}, std::byte{100}, {}, {}, {}, {}};
    ASSERT_EQ(::send(slow.get(), half.data(), half.size(), 0), 8);
    const auto before = std::chrono::steady_clock::now();
    for (int i = 0; i < 10; ++i)
        expect_alive();
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20));
}

TEST_F(TirpcMountTest, IdleConnectionsMakeRoom) {
    std::vector<UniqueFd> idle;
    for (std::uint32_t i = 0; i < 2 * TirpcMount::kConnectionsMax; ++i)
        idle.push_back(raw(SOCK_STREAM));
    expect_alive();
}

TEST(TirpcMount, PortInUseIsAnError) {
    nfs::Server server;
    const UniqueFd other(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const SockAddr any = *SockAddr::parse("127.0.0.1:0", 0);
    ASSERT_EQ(::bind(other.get(), any.sa(), any.sa_len()), 0);
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    auto* const sa = static_cast<sockaddr*>(static_cast<void*>(&name));
    ASSERT_EQ(::getsockname(other.get(), sa, &size), 0);
    const auto mount = TirpcMount::create(server, SockAddr::from(sa));
    ASSERT_FALSE(static_cast<bool>(mount));
    EXPECT_EQ(mount.error().sys, EADDRINUSE);
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
