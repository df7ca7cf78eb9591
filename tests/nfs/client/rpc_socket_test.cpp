#include "nfs/client/rpc_socket.hpp"

#include <atomic>
#include <string>

#include "tests/nfs/client/socket_server.hpp"

namespace nfsrdma::nfs::client {
namespace {

using testing::Bytes;
using testing::put_word;
using testing::SocketCall;
using testing::SocketServer;

constexpr RpcPatience kPatience{20 * kNsPerSec, -1};
constexpr RpcPatience kShort{300 * kNsPerMs, -1};

RpcRequest null_call() {
    RpcRequest request;
    request.prog = 100005;
    request.vers = 3;
    return request;
}

Result<RpcAnswer> call_once(RpcSocket& socket, const RpcPatience& patience = kPatience) {
    return socket.call(null_call(), patience);
}

TEST(RpcSocket, ArgumentsGoAndResultsComeByBoth) {
    SocketServer server([](const SocketCall& call) {
        Bytes out = SocketServer::success(call);
        out.insert(out.end(), call.message.end() - 4, call.message.end());
        return out;
    });
    for (const RpcProto proto : {RpcProto::tcp, RpcProto::udp}) {
        auto socket = RpcSocket::connect(server.local(), proto, false, kPatience);
        ASSERT_TRUE(static_cast<bool>(socket)) << to_string(socket.error());
        for (std::uint32_t i = 1; i < 4; ++i) {
            Bytes args;
            put_word(args, i);
            RpcRequest request = null_call();
            request.args = args;
            auto answer = socket->call(request, kPatience);
            ASSERT_TRUE(static_cast<bool>(answer)) << to_string(answer.error());
            EXPECT_EQ(answer->status, sunrpc::RpcStatus::success);
            ASSERT_EQ(answer->results.size(), 4u);
            EXPECT_EQ(load_be32(answer->results.data()), i);
        }
    }
}

TEST(RpcSocket, EveryRefusalIsTold) {
    std::atomic<std::uint32_t> stat{0};
    SocketServer server([&](const SocketCall& call) {
        return stat == 99 ? SocketServer::denied(call) : SocketServer::accepted(call, stat);
    });
    const std::pair<std::uint32_t, sunrpc::RpcStatus> cases[] = {
        {1, sunrpc::RpcStatus::prog_unavail}, {2, sunrpc::RpcStatus::prog_mismatch},
        {3, sunrpc::RpcStatus::proc_unavail}, {4, sunrpc::RpcStatus::garbage_args},
        {5, sunrpc::RpcStatus::system_err},   {99, sunrpc::RpcStatus::auth_error}};
    auto socket = RpcSocket::connect(server.local(), RpcProto::tcp, false, kPatience);
    ASSERT_TRUE(static_cast<bool>(socket));
    for (const auto& [number, status] : cases) {
        stat = number;
        auto answer = call_once(*socket);
        ASSERT_TRUE(static_cast<bool>(answer));
        EXPECT_EQ(answer->status, status);
    }
}

// A port of TCP and UDP that nobody else can take, and that nobody answers at: there, TCP is bound
// and does not listen, and UDP is for one peer alone, which is not us.
class SilentPort {
  public:
    SilentPort() {
        for (int tries = 0; tries < 100 && local_.port() == 0; ++tries) {
            udp_ = UniqueFd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
            tcp_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
            const SockAddr any = *SockAddr::parse("127.0.0.1:0", 0);
            const SockAddr other = *SockAddr::parse("127.99.99.99:9", 0);
            if (::bind(udp_.get(), any.sa(), any.sa_len()) != 0) continue;
            if (::connect(udp_.get(), other.sa(), other.sa_len()) != 0) continue;
            sockaddr_in name{};
            socklen_t size = sizeof name;
            auto* const sa = static_cast<sockaddr*>(static_cast<void*>(&name));
            if (::getsockname(udp_.get(), sa, &size) != 0) continue;
            const SockAddr both = SockAddr::from(sa);
            if (::bind(tcp_.get(), both.sa(), both.sa_len()) == 0) local_ = both;
        }
    }
    SockAddr local() const { return local_; }

  private:
    UniqueFd udp_, tcp_;
    SockAddr local_;
};

TEST(RpcSocket, NobodyListens) {
    const SilentPort silent;
    const SockAddr nobody = silent.local();
    ASSERT_NE(nobody.port(), 0);
    auto tcp = RpcSocket::connect(nobody, RpcProto::tcp, false, kPatience);
    ASSERT_FALSE(static_cast<bool>(tcp));
    EXPECT_EQ(tcp.error().code, Errc::refused);
    auto udp = RpcSocket::connect(nobody, RpcProto::udp, false, kPatience);
    ASSERT_TRUE(static_cast<bool>(udp));
    auto answer = call_once(*udp);
    ASSERT_FALSE(static_cast<bool>(answer));
    EXPECT_EQ(answer.error().code, Errc::refused);
}

TEST(RpcSocket, SilenceEndsInTime) {
    // The kernel accepts for a listener that never does.
    UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const SockAddr any = *SockAddr::parse("127.0.0.1:0", 0);
    ASSERT_EQ(::bind(listener.get(), any.sa(), any.sa_len()), 0);
    ASSERT_EQ(::listen(listener.get(), 4), 0);
    sockaddr_in name{};
    socklen_t size = sizeof name;
    auto* const sa = static_cast<sockaddr*>(static_cast<void*>(&name));
    ASSERT_EQ(::getsockname(listener.get(), sa, &size), 0);
    auto tcp = RpcSocket::connect(SockAddr::from(sa), RpcProto::tcp, false, kPatience);
    ASSERT_TRUE(static_cast<bool>(tcp));
    auto answer = call_once(*tcp, kShort);
    ASSERT_FALSE(static_cast<bool>(answer));
    EXPECT_EQ(answer.error().code, Errc::timed_out);

    SocketServer silent([](const SocketCall&) { return Bytes(); });
    auto udp = RpcSocket::connect(silent.local(), RpcProto::udp, false, kPatience);
    ASSERT_TRUE(static_cast<bool>(udp));
    answer = call_once(*udp, kShort);
    ASSERT_FALSE(static_cast<bool>(answer));
    EXPECT_EQ(answer.error().code, Errc::timed_out);
}

TEST(RpcSocket, AnInterruptEndsTheWait) {
    SocketServer silent([](const SocketCall&) { return Bytes(); });
    UniqueFd interrupt(::eventfd(1, EFD_CLOEXEC));
    const RpcPatience patience{600 * kNsPerSec, interrupt.get()};
    auto socket = RpcSocket::connect(silent.local(), RpcProto::udp, false, patience);
    ASSERT_TRUE(static_cast<bool>(socket));
    auto answer = call_once(*socket, patience);
    ASSERT_FALSE(static_cast<bool>(answer));
    EXPECT_EQ(answer.error().code, Errc::closed);
}

// The second answer has come with the first one, behind many that are somebody else's: there is
// always something to receive.
TEST(RpcSocket, AnInterruptIsSeenWhileBytesFlow) {
    SocketServer server([](const SocketCall& call) {
        Bytes out;
        const auto add = [&](std::uint32_t xid) {
            SocketCall other = call;
            other.xid = xid;
            const Bytes whole = SocketServer::success(other);
            put_word(out, static_cast<std::uint32_t>(whole.size()) | 0x80000000);
            out.insert(out.end(), whole.begin(), whole.end());
        };
        add(call.xid);
        for (int i = 0; i < 1000; ++i)
            add(call.xid - 7);
        add(call.xid + 1);
        return out;
    });
    server.raw = true;
    UniqueFd interrupt(::eventfd(0, EFD_CLOEXEC));
    const RpcPatience patience{600 * kNsPerSec, interrupt.get()};
    auto socket = RpcSocket::connect(server.local(), RpcProto::tcp, false, patience);
    ASSERT_TRUE(static_cast<bool>(socket));
    ASSERT_TRUE(static_cast<bool>(call_once(*socket, patience)));
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(interrupt.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
    auto answer = call_once(*socket, patience);
    ASSERT_FALSE(static_cast<bool>(answer));
    EXPECT_EQ(answer.error().code, Errc::closed);
}

TEST(RpcSocket, UdpAsksAgainAndTakesNoOtherAnswer) {
    std::atomic<int> calls{0};
    SocketServer server([&](const SocketCall& call) {
        const int n = ++calls;
        if (n == 1) return Bytes();  // lost
        SocketCall other = call;
        if (n == 2) other.xid += 1;  // somebody else's
        return SocketServer::success(other);
    });
    auto socket = RpcSocket::connect(server.local(), RpcProto::udp, false, kPatience);
    ASSERT_TRUE(static_cast<bool>(socket));
    ASSERT_TRUE(static_cast<bool>(call_once(*socket)));
    EXPECT_GE(calls, 3);
}

TEST(RpcSocket, TheServerCloses) {
    SocketServer server([](const SocketCall&) { return Bytes(); });
    auto socket = RpcSocket::connect(server.local(), RpcProto::tcp, false, kPatience);
    ASSERT_TRUE(static_cast<bool>(socket));
    auto answer = call_once(*socket);
    ASSERT_FALSE(static_cast<bool>(answer));
    EXPECT_EQ(answer.error().code, Errc::reconnect);
}

// What a hostile server sends on TCP, record marks included.
Errc error_of_raw(const std::function<Bytes(const SocketCall&)>& make) {
    SocketServer server(make);
    server.raw = true;
    auto socket = RpcSocket::connect(server.local(), RpcProto::tcp, false, kPatience);
    EXPECT_TRUE(static_cast<bool>(socket));
    auto answer = call_once(*socket);
    return answer ? Errc::again : answer.error().code;
}

TEST(RpcSocket, HostileRecords) {
    EXPECT_EQ(error_of_raw([](const SocketCall&) {
                  Bytes out;
                  put_word(out, 0xFFFFFFFF);  // 2 GiB
                  return out;
              }),
              Errc::too_big);
    EXPECT_EQ(error_of_raw([](const SocketCall&) {
                  Bytes out;
                  put_word(out, 0);  // an empty fragment that is not the last
                  return out;
              }),
              Errc::bad_message);
    EXPECT_EQ(error_of_raw([](const SocketCall& call) {
                  Bytes out;
                  for (const std::uint32_t word : {0x80000004u, call.xid})
                      put_word(out, word);  // ends behind its XID
                  return out;
              }),
              Errc::bad_message);
    EXPECT_EQ(error_of_raw([](const SocketCall&) {
                  Bytes out;
                  for (int i = 0; i < 3; ++i) {
                      put_word(out, 1u << 19);
                      out.resize(out.size() + (1u << 19));
                  }
                  return out;
              }),
              Errc::too_big);
}

TEST(RpcSocket, FragmentsAreJoined) {
    SocketServer server([](const SocketCall& call) {
        const Bytes whole = SocketServer::success(call);
        Bytes out;
        put_word(out, 8);
        out.insert(out.end(), whole.begin(), whole.begin() + 8);
        put_word(out, static_cast<std::uint32_t>(whole.size() - 8) | 0x80000000);
        out.insert(out.end(), whole.begin() + 8, whole.end());
        return out;
    });
    server.raw = true;
    auto socket = RpcSocket::connect(server.local(), RpcProto::tcp, false, kPatience);
    ASSERT_TRUE(static_cast<bool>(socket));
    EXPECT_TRUE(static_cast<bool>(call_once(*socket)));
}

TEST(RpcSocket, ACallThatIsTooLong) {
    SocketServer server([](const SocketCall& call) { return SocketServer::success(call); });
    auto socket = RpcSocket::connect(server.local(), RpcProto::tcp, false, kPatience);
    ASSERT_TRUE(static_cast<bool>(socket));
    const Bytes args(RpcSocket::kCallMax);
    RpcRequest request = null_call();
    request.args = args;
    auto answer = socket->call(request, kPatience);
    ASSERT_FALSE(static_cast<bool>(answer));
    EXPECT_EQ(answer.error().code, Errc::too_big);
}

TEST(RpcSocket, RootCallsFromAReservedPort) {
    std::atomic<std::uint16_t> port{0};
    SocketServer server([&](const SocketCall& call) {
        port = call.peer_port;
        return SocketServer::success(call);
    });
    for (const RpcProto proto : {RpcProto::tcp, RpcProto::udp}) {
        auto socket = RpcSocket::connect(server.local(), proto, true, kPatience);
        ASSERT_TRUE(static_cast<bool>(socket));
        ASSERT_TRUE(static_cast<bool>(call_once(*socket)));
        if (::geteuid() == 0) {
            EXPECT_LT(port, 1024);
        }
    }
}

}  // namespace
}  // namespace nfsrdma::nfs::client
