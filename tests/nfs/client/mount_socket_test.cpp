#include "nfs/client/mount_socket.hpp"

#include <atomic>
#include <string>

#include "tests/nfs/client/socket_server.hpp"

namespace nfsrdma::nfs::client {
namespace {

using testing::Bytes;
using testing::put_string;
using testing::put_word;
using testing::SocketCall;
using testing::SocketServer;

constexpr std::uint32_t kPortMapper = 100000;

// A mountd with one export, /srv/data.
Bytes mountd(const SocketCall& call) {
    if (call.prog != MOUNT3_PROGRAM) return SocketServer::accepted(call, 1);
    Bytes out = SocketServer::success(call);
    const std::string message(as_chars(call.message.data()), call.message.size());
    switch (call.proc) {
        case MOUNTPROC3_MNT:
            if (message.find("/srv/data") == std::string::npos) {
                put_word(out, MNT3ERR_ACCES);
                return out;
            }
            put_word(out, MNT3_OK);
            put_string(out, "the handle");
            put_word(out, 1);
            put_word(out, message.find("/srv/data/krb") == std::string::npos ? 1 : 390003);
            return out;
        case MOUNTPROC3_EXPORT:
            put_word(out, 1);
            put_string(out, "/srv/data");
            put_word(out, 1);
            put_string(out, "10.0.0.0/8");
            put_word(out, 1);
            put_string(out, "host.example");
            put_word(out, 0);
            put_word(out, 1);
            put_string(out, "/");
            put_word(out, 0);
            put_word(out, 0);
            return out;
        case MOUNTPROC3_DUMP:
            put_word(out, 1);
            put_string(out, "client");
            put_string(out, "/srv/data");
            put_word(out, 0);
            return out;
        default:
            return out;
    }
}

// A port mapper that gives everything the same port.
SocketServer::Answer port_mapper(std::uint16_t port) {
    return [port](const SocketCall& call) {
        if (call.prog != kPortMapper) return SocketServer::accepted(call, 1);
        Bytes out = SocketServer::success(call);
        if (call.vers == 2) {
            put_word(out, port);
        } else {
            put_string(out, port == 0 ? ""
                                      : "::1." + std::to_string(port >> 8) + "." +
                                            std::to_string(port & 0xFF));
        }
        return out;
    };
}

MountSocketOptions options_for(const SockAddr& server) {
    MountSocketOptions options;
    options.server = server;
    options.port = server.port();
    options.patience.timeout_ns = 20 * kNsPerSec;
    return options;
}

std::string trouble_of(const MountSocket& socket) {
    return to_string(socket.troubles());
}
bool says(const MountSocket& socket, const char* what) {
    return trouble_of(socket).find(what) != std::string::npos;
}

TEST(MountSocket, AllCallsByBothProtocols) {
    SocketServer server(mountd);
    for (const bool tcp : {true, false}) {
        MountSocketOptions options = options_for(server.local());
        options.tcp = tcp;
        options.udp = !tcp;
        bool truncated = false;
        const sunrpc::AuthSys sys = sunrpc::AuthSys::of_process(truncated);
        MountSocket socket(options, &sys);
        FileHandle root;
        EXPECT_TRUE(socket.mnt("/srv/data", root).ok());
        EXPECT_EQ(root.view().data.data_len, 10u);
        EXPECT_EQ(socket.mnt("/srv/other", root).status, NFS3ERR_ACCES);
        std::vector<ExportedDirectory> exports;
        ASSERT_TRUE(socket.exports(exports).ok());
        ASSERT_EQ(exports.size(), 2u);
        EXPECT_EQ(exports[0].path, "/srv/data");
        EXPECT_EQ(exports[0].clients, (std::vector<std::string>{"10.0.0.0/8", "host.example"}));
        EXPECT_TRUE(exports[1].clients.empty());
        std::vector<MountedDirectory> mounts;
        ASSERT_TRUE(socket.dump(mounts).ok());
        ASSERT_EQ(mounts.size(), 1u);
        EXPECT_EQ(mounts[0].client, "client");
        EXPECT_TRUE(socket.umnt("/srv/data").ok());
        EXPECT_TRUE(socket.troubles().empty());
    }
}

TEST(MountSocket, ThePortIsRpcbinds) {
    for (const char* address : {"127.0.0.1:0", "[::1]:0"}) {
        SocketServer server(mountd, true, true, address);
        SocketServer rpcbind(port_mapper(server.local().port()), true, true, address);
        for (const bool tcp : {true, false}) {
            MountSocketOptions options = options_for(server.local().with_port(1));
            options.port = 0;
            options.rpcbind_port = rpcbind.local().port();
            options.tcp = tcp;
            MountSocket socket(options, nullptr);
            FileHandle root;
            EXPECT_TRUE(socket.mnt("/srv/data", root).ok()) << trouble_of(socket);
        }
    }
}

TEST(MountSocket, UdpWhereTcpIsNot) {
    std::atomic<int> by_tcp{0};
    SocketServer server(
        [&](const SocketCall& call) {
            by_tcp += call.tcp ? 1 : 0;
            return mountd(call);
        },
        false, true);
    MountSocket socket(options_for(server.local()), nullptr);
    FileHandle root;
    EXPECT_TRUE(socket.mnt("/srv/data", root).ok()) << trouble_of(socket);
    EXPECT_TRUE(socket.umnt("/srv/data").ok());
    EXPECT_EQ(by_tcp, 0);
}

TEST(MountSocket, NoRpcbindNamesTheWayOut) {
    SockAddr nobody;
    {
        SocketServer gone(mountd);
        nobody = gone.local();
    }
    MountSocketOptions options = options_for(nobody);
    options.port = 0;
    options.rpcbind_port = nobody.port();
    MountSocket socket(options, nullptr);
    FileHandle root;
    EXPECT_FALSE(static_cast<bool>(socket.mnt("/srv/data", root).rpc));
    EXPECT_TRUE(says(socket, "rpcbind at ") && says(socket, "over TCP and UDP") &&
                says(socket, "--mountport"))
        << trouble_of(socket);
}

TEST(MountSocket, NotRegisteredNamesMountd) {
    SocketServer rpcbind(port_mapper(0));
    MountSocketOptions options = options_for(rpcbind.local());
    options.port = 0;
    options.rpcbind_port = rpcbind.local().port();
    MountSocket socket(options, nullptr);
    std::vector<ExportedDirectory> exports;
    EXPECT_FALSE(static_cast<bool>(socket.exports(exports).rpc));
    EXPECT_TRUE(says(socket, "knows no MOUNT")) << trouble_of(socket);
}

TEST(MountSocket, WrongPortsAndRefusalsAreTold) {
    SockAddr nobody;
    {
        SocketServer gone(mountd);
        nobody = gone.local();
    }
    MountSocket closed(options_for(nobody), nullptr);
    FileHandle root;
    EXPECT_FALSE(static_cast<bool>(closed.mnt("/srv/data", root).rpc));
    EXPECT_TRUE(says(closed, "connection refused") && says(closed, "rpcinfo"))
        << trouble_of(closed);

    SocketServer other([](const SocketCall& call) { return SocketServer::accepted(call, 1); });
    MountSocket wrong(options_for(other.local()), nullptr);
    EXPECT_FALSE(static_cast<bool>(wrong.mnt("/srv/data", root).rpc));
    EXPECT_TRUE(says(wrong, "no mountd")) << trouble_of(wrong);

    SocketServer strict([](const SocketCall& call) { return SocketServer::denied(call); });
    MountSocket denied(options_for(strict.local()), nullptr);
    const Outcome outcome = denied.mnt("/srv/data", root);
    EXPECT_FALSE(static_cast<bool>(outcome.rpc));
    EXPECT_EQ(outcome.rpc_status, sunrpc::RpcStatus::auth_error);
    EXPECT_EQ(denied.troubles().size(), 1u);  // UDP would say the same
    EXPECT_TRUE(says(denied, "reserved source port")) << trouble_of(denied);
}

TEST(MountSocket, KerberosOnlyIsTold) {
    SocketServer server(mountd);
    MountSocket socket(options_for(server.local()), nullptr);
    FileHandle root;
    EXPECT_FALSE(static_cast<bool>(socket.mnt("/srv/data/krb", root).rpc));
    EXPECT_TRUE(says(socket, "Kerberos")) << trouble_of(socket);
}

TEST(MountSocket, APathThatIsTooLong) {
    SocketServer server(mountd);
    MountSocket socket(options_for(server.local()), nullptr);
    FileHandle root;
    EXPECT_EQ(socket.mnt("/" + std::string(MNT3_PATH_MAX, 'x'), root).status, NFS3ERR_NAMETOOLONG);
}

TEST(MountSocket, HostileAnswers) {
    Bytes results;
    SocketServer server([&](const SocketCall& call) {
        Bytes out = SocketServer::success(call);
        out.insert(out.end(), results.begin(), results.end());
        return out;
    });
    MountSocket socket(options_for(server.local()), nullptr);
    FileHandle root;
    for (const std::vector<std::uint32_t>& words : {std::vector<std::uint32_t>{},
                                                    {77777},
                                                    {0xFFFFFFFF},
                                                    {0, 0},
                                                    {0, 65},
                                                    {0, 4, 1, 0xFFFFFF}}) {
        results.clear();
        for (const std::uint32_t word : words)
            put_word(results, word);
        const Outcome outcome = socket.mnt("/srv/data", root);
        ASSERT_FALSE(static_cast<bool>(outcome.rpc));
        EXPECT_EQ(outcome.rpc.error().code, Errc::bad_message);
    }
}

TEST(MountSocket, ListsAreDecodedWithoutRecursion) {
    Bytes list;
    for (int i = 0; i < 80'000; ++i) {
        put_word(list, 1);
        put_string(list, "");
        put_word(list, 0);
    }
    std::vector<ExportedDirectory> exports;
    EXPECT_FALSE(static_cast<bool>(decode_exports(list, exports)));  // no end
    put_word(list, 0);
    exports.clear();
    EXPECT_TRUE(static_cast<bool>(decode_exports(list, exports)));
    EXPECT_EQ(exports.size(), 80'000u);
    Bytes long_name;
    put_word(long_name, 1);
    put_string(long_name, std::string(MNT3_PATH_MAX + 1, 'x'));
    exports.clear();
    EXPECT_FALSE(static_cast<bool>(decode_exports(long_name, exports)));
    std::vector<MountedDirectory> mounts;
    EXPECT_FALSE(static_cast<bool>(decode_mounts(long_name, mounts)));
}

}  // namespace
}  // namespace nfsrdma::nfs::client
