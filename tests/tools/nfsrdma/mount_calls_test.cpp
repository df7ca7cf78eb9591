#include "tools/nfsrdma/mount_calls.hpp"

#include "tests/nfs/client/socket_server.hpp"
#include "tests/tools/nfsrdma/tree_test.hpp"
#include "tools/nfsrdmad/tirpc_mount.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::ExportedDirectory;
using nfs::client::FileHandle;
using nfs::client::MountedDirectory;
using nfs::client::Outcome;

// Calls that can be told where else MOUNT is.
class CallsWithMount : public Calls {
  public:
    CallsWithMount(nfs::client::Client& client, const Url& url) : Calls(client, url) {}
    void use(const MountOptions& options, const SockAddr& server) {
        bool truncated = false;
        mounts_.use(options, server, sunrpc::AuthSys::of_process(truncated));
    }
};

// The server with MOUNT over TCP and UDP, and another connection on which there is NFS alone, as
// Linux has it.
class MountCallsTest : public testing::ToolWorld {
  protected:
    MountCallsTest() {
        auto made = nfsrdmad::TirpcMount::create(server, *SockAddr::parse("127.0.0.1:0", 0));
        EXPECT_TRUE(static_cast<bool>(made));
        mountd = *std::move(made);
        mountd->start();
        for (const sunrpc::SvcProgram& program : dispatcher.programs())
            if (program.prog == NFS3_PROGRAM) nfs_only.add(program);
        nfs_xprt =
            std::make_unique<testing::DirectXprt>(*world.loop, nfs_only, testing::DirectOptions{});
        nfs_client = std::make_unique<nfs::client::Client>(*nfs_xprt, nullptr);
    }
    ~MountCallsTest() override { nfs_client.reset(); }
    MountOptions options(MountProto proto) const {
        MountOptions out;
        out.proto = proto;
        out.port = mountd->local().port();
        out.timeout_ns = 20 * kNsPerSec;
        return out;
    }
    std::unique_ptr<nfsrdmad::TirpcMount> mountd;
    sunrpc::SvcDispatcher nfs_only;
    std::unique_ptr<testing::DirectXprt> nfs_xprt;
    std::unique_ptr<nfs::client::Client> nfs_client;
};

TEST_F(MountCallsTest, AServerWithoutMountOverRdma) {
    const auto dir = mkdir(root, "dir");
    create(dir, "file");
    for (const MountProto proto : {MountProto::automatic, MountProto::tcp, MountProto::udp}) {
        CallsWithMount other(*nfs_client, url);
        other.use(options(proto), mountd->local());
        ASSERT_TRUE(other.mount("/export/dir/file"));
        EXPECT_TRUE(other.mounts().by_socket());
        EXPECT_EQ(other.export_path(), "/export");
        EXPECT_EQ(other.walk(at("/dir"), true).handle, dir);
        std::vector<MountedDirectory> mounted;
        EXPECT_TRUE(other.mounts().dump(mounted).ok());
        EXPECT_EQ(mounted.size(), 1u);
        EXPECT_TRUE(other.mounts().umnt("/export").ok());
        EXPECT_TRUE(other.mounts().dump(mounted).ok());
        EXPECT_TRUE(mounted.empty());
    }
}

TEST_F(MountCallsTest, ProgramUnavailableTurnsToRpcbind) {
    const std::uint16_t port = mountd->local().port();
    testing::SocketServer rpcbind([port](const testing::SocketCall& call) {
        testing::Bytes out = testing::SocketServer::success(call);
        testing::put_word(out, port);
        return out;
    });
    MountOptions how = options(MountProto::automatic);
    how.port = 0;
    how.rpcbind_port = rpcbind.local().port();
    CallsWithMount other(*nfs_client, url);
    other.use(how, mountd->local());
    EXPECT_FALSE(other.mounts().by_socket());
    EXPECT_TRUE(other.mount("/export"));
    EXPECT_TRUE(other.mounts().by_socket());
    how.rpcbind_port = port;  // no rpcbind at all
    CallsWithMount lost(*nfs_client, url);
    lost.use(how, mountd->local());
    EXPECT_FALSE(lost.mount("/export"));
    EXPECT_EQ(lost.mounts().trouble().find("no MOUNT over RDMA there; rpcbind"), 0u);
}

TEST_F(MountCallsTest, RdmaIsAskedFirst) {
    CallsWithMount other(*client, url);
    MountOptions how = options(MountProto::automatic);
    how.port = 0;  // a port that is named says where MOUNT is
    other.use(how, mountd->local());
    ASSERT_TRUE(other.mount("/export"));
    EXPECT_FALSE(other.mounts().by_socket());
    std::vector<ExportedDirectory> exports;
    ASSERT_TRUE(other.mounts().exports(exports).ok());
    ASSERT_EQ(exports.size(), 1u);
    EXPECT_EQ(exports[0].path, "/export");
}

TEST_F(MountCallsTest, OverRdmaOnly) {
    CallsWithMount other(*nfs_client, url);
    other.use(options(MountProto::rdma), mountd->local());
    EXPECT_FALSE(other.mount("/export"));
    std::vector<ExportedDirectory> exports;
    const Outcome outcome = other.mounts().exports(exports);
    EXPECT_EQ(outcome.rpc_status, sunrpc::RpcStatus::prog_unavail);
    EXPECT_EQ(other.mounts().trouble(), "");
}

TEST_F(MountCallsTest, TroubleIsTold) {
    SockAddr nobody;
    {
        testing::SocketServer gone([](const testing::SocketCall&) { return testing::Bytes(); });
        nobody = gone.local();
    }
    MountOptions how = options(MountProto::automatic);
    how.port = nobody.port();
    CallsWithMount named(*nfs_client, url);
    named.use(how, nobody);
    EXPECT_FALSE(named.mount("/export"));
    EXPECT_NE(named.mounts().trouble().find("connection refused"), std::string::npos);
    EXPECT_EQ(named.mounts().trouble().find("over RDMA"), std::string::npos);
}

TEST_F(MountCallsTest, WhatIsNotExportedIsNamedByTheServer) {
    CallsWithMount other(*nfs_client, url);
    other.use(options(MountProto::automatic), mountd->local());
    EXPECT_FALSE(other.mount("/elsewhere"));
    EXPECT_EQ(other.mounts().trouble(), "");
}

}  // namespace
}  // namespace nfsrdma::tool
