// The operations of a CLIENT: clnt_control, timeouts, one-way calls, errors, its end.
#include "tirpc/clnt_rdma.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <poll.h>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/alloc_counter.hpp"
#include "tests/tirpc/clnt_world.hpp"

namespace nfsrdma::tirpc::test {
namespace {

class ClntRdma : public ::testing::Test {
  protected:
    static void SetUpTestSuite() { register_table(); }
    template <class T>
    static bool control(const Client& client, u_int request, T& value) {
        return clnt_control(client.clnt, request, Client::as_caddr(&value)) != FALSE;
    }
    // Until it holds, within what any machine needs.
    template <class Condition>
    static bool soon(Condition condition) {
        for (int i = 0; i < 3000; ++i) {
            if (condition()) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return false;
    }
    Server server_;
};

TEST_F(ClntRdma, AllSixOperationsAreThere) {
    const Client client(server_.connect());
    const CLIENT::clnt_ops& ops = *client.clnt->cl_ops;
    EXPECT_TRUE(ops.cl_call != nullptr && ops.cl_abort != nullptr && ops.cl_geterr != nullptr &&
                ops.cl_freeres != nullptr && ops.cl_destroy != nullptr &&
                ops.cl_control != nullptr);
    CLNT_ABORT(client.clnt);
}

TEST_F(ClntRdma, ControlOfXids) {
    const Client client(server_.connect());
    std::uint32_t xid = 0x1000;
    EXPECT_TRUE(control(client, CLSET_XID, xid));
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    EXPECT_EQ(server_.last_xid.load(), 0x1000u);
    EXPECT_TRUE(control(client, CLGET_XID, xid));
    EXPECT_EQ(xid, 0x1000u);  // of the previous call
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    EXPECT_EQ(server_.last_xid.load(), 0x0fffu);
}

TEST_F(ClntRdma, AnXidThatIsUnderWayIsNotUsedTwice) {
    const Client client(server_.connect());
    for (int i = 0; i < 3; ++i)  // until there are credits enough
        EXPECT_EQ(client.null(), RPC_SUCCESS);
    std::uint32_t xid = 0x2000;
    EXPECT_TRUE(control(client, CLSET_XID, xid));
    server_.play({Trick::drop});
    EXPECT_EQ(client.null({0, 50000}), RPC_TIMEDOUT);
    EXPECT_TRUE(control(client, CLSET_XID, xid));
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    EXPECT_EQ(server_.last_xid.load(), 0x1fffu);
}

TEST_F(ClntRdma, ControlOfProgramAndVersion) {
    const Client client(server_.connect());
    std::uint32_t value = 0;
    EXPECT_TRUE(control(client, CLGET_PROG, value));
    EXPECT_EQ(value, kProg);
    EXPECT_TRUE(control(client, CLGET_VERS, value));
    EXPECT_EQ(value, kVers);
    value = 9;
    EXPECT_TRUE(control(client, CLSET_VERS, value));
    EXPECT_TRUE(control(client, CLSET_PROG, value));
    value = 0;
    EXPECT_TRUE(control(client, CLGET_VERS, value));
    EXPECT_EQ(value, 9u);
    // By what the server sees no table, and answers all the same.
    EXPECT_EQ(client.null(), RPC_SUCCESS);
}

TEST_F(ClntRdma, ControlOfAddresses) {
    const Client client(server_.connect());
    sockaddr_storage server{}, peer{};
    EXPECT_TRUE(control(client, CLGET_SERVER_ADDR, server));
    const void* const sa = &server;
    EXPECT_EQ(SockAddr::from(static_cast<const sockaddr*>(sa)), server_.address());
    netbuf address{};
    EXPECT_TRUE(control(client, CLGET_SVC_ADDR, address));
    EXPECT_EQ(address.len, server_.address().sa_len());
    EXPECT_EQ(SockAddr::from(static_cast<const sockaddr*>(address.buf)), server_.address());
    // Its fd has both addresses, and never has anything to read.
    int fd = -1;
    ASSERT_TRUE(control(client, CLGET_FD, fd));
    socklen_t size = sizeof peer;
    ASSERT_EQ(::getpeername(fd, static_cast<sockaddr*>(static_cast<void*>(&peer)), &size), 0);
    EXPECT_EQ(SockAddr::from(static_cast<const sockaddr*>(static_cast<const void*>(&peer))),
              server_.address());
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    pollfd poll{fd, POLLIN, 0};
    EXPECT_EQ(::poll(&poll, 1, 0), 0);
}

TEST_F(ClntRdma, AnFdThatIsNotToBeClosedStaysOpen) {
    int fd = -1;
    {
        const Client client(server_.connect());
        ASSERT_TRUE(control(client, CLGET_FD, fd));
        EXPECT_TRUE(clnt_control(client.clnt, CLSET_FD_NCLOSE, nullptr));
    }
    EXPECT_EQ(::close(fd), 0);
    {
        const Client client(server_.connect());
        ASSERT_TRUE(control(client, CLGET_FD, fd));
        EXPECT_TRUE(clnt_control(client.clnt, CLSET_FD_NCLOSE, nullptr));
        EXPECT_TRUE(clnt_control(client.clnt, CLSET_FD_CLOSE, nullptr));
    }
    EXPECT_NE(::close(fd), 0);
}

TEST_F(ClntRdma, ControlRefusesWhatClntVcRefuses) {
    const Client client(server_.connect());
    timeval time{1, 0};
    std::array<char, 128> other{};
    for (const u_int request : {CLSET_SVC_ADDR, CLSET_RETRY_TIMEOUT, CLGET_RETRY_TIMEOUT,
                                CLSET_CONNECT, CLSET_ASYNC, 4711, 0x52440099})
        EXPECT_FALSE(control(client, request, other)) << request;
    for (const u_int request :
         {CLSET_TIMEOUT, CLGET_TIMEOUT, CLGET_FD, CLGET_XID, static_cast<int>(CLRDMA_GET_STATS)})
        EXPECT_FALSE(clnt_control(client.clnt, request, nullptr)) << request;
    EXPECT_TRUE(control(client, CLSET_TIMEOUT, time));
    for (const timeval bad :
         {timeval{-1, 0}, timeval{0, -1}, timeval{100000001, 0}, timeval{0, 1000001}}) {
        time = bad;
        EXPECT_FALSE(control(client, CLSET_TIMEOUT, time));
    }
    EXPECT_TRUE(control(client, CLGET_TIMEOUT, time));
    EXPECT_EQ(time.tv_sec, 1);
}

TEST_F(ClntRdma, ATimeoutOfControlReplacesThatOfTheCalls) {
    const Client client(server_.connect());
    timeval time{0, 50000};
    EXPECT_TRUE(control(client, CLSET_TIMEOUT, time));
    EXPECT_EQ(client.sleep(2000, {60, 0}), RPC_TIMEDOUT);
    time = {60, 0};
    EXPECT_TRUE(control(client, CLSET_TIMEOUT, time));
    EXPECT_EQ(client.sleep(100, {0, 1000}), RPC_SUCCESS);
}

TEST_F(ClntRdma, ATimeoutThatIsNoneIsIgnored) {
    const Client client(server_.connect());
    timeval time{};
    EXPECT_EQ(client.null({7, 0}), RPC_SUCCESS);
    EXPECT_EQ(client.null({-1, 0}), RPC_SUCCESS);
    EXPECT_TRUE(control(client, CLGET_TIMEOUT, time));
    EXPECT_EQ(time.tv_sec, 7);
}

TEST_F(ClntRdma, ControlOfOurOwn) {
    const Client client(server_.connect());
    std::uint32_t bytes = 0;
    EXPECT_TRUE(control(client, CLRDMA_GET_REPLY_MAX, bytes));
    EXPECT_EQ(bytes, 1u << 20);
    bytes = 2048;
    EXPECT_TRUE(control(client, CLRDMA_SET_REPLY_MAX, bytes));
    blob args{}, res{};
    const std::uint64_t before = client.stats().reply_chunk_calls;
    EXPECT_EQ(client.call(T_LONG, xdr_blob, &args, xdr_blob, &res), RPC_SUCCESS);
    EXPECT_EQ(client.stats().reply_chunk_calls, before);  // it fits inline now
    for (const std::uint32_t bad : {0u, (1u << 20) + 1}) {
        bytes = bad;
        EXPECT_FALSE(control(client, CLRDMA_SET_REPLY_MAX, bytes));
    }
    rpcrdma_stats stats{};
    stats.size = 4;
    EXPECT_FALSE(control(client, CLRDMA_GET_STATS, stats));
}

TEST_F(ClntRdma, LateRepliesAreDroppedAndCounted) {
    const Client client(server_.connect());
    EXPECT_EQ(client.sleep(300, {0, 20000}), RPC_TIMEDOUT);
    EXPECT_EQ(client.error().re_status, RPC_TIMEDOUT);
    int sum = 0;
    EXPECT_EQ(client.add(1, 1, sum), RPC_SUCCESS);
    EXPECT_EQ(sum, 2);
    EXPECT_TRUE(soon([&] { return client.stats().late_replies == 1; }));
    EXPECT_EQ(client.stats().replies, 2u);
}

// facts/fastreg.md, trap 3: until its reply a key lives, and the program has its memory back.
TEST_F(ClntRdma, MemoryOfATimedOutCallIsTheProgramsAtOnce) {
    const Client client(server_.connect());
    for (int i = 0; i < 40; ++i) {
        std::vector<char> data(60000, static_cast<char>('A' + i));
        wargs args{};
        args.data.data_val = data.data();
        args.data.data_len = static_cast<u_int>(data.size());
        args.trailer = Server::sum_of(data.data(), args.data.data_len);
        wres res{};
        const clnt_stat status =
            client.call(T_WRITE, xdr_wargs, &args, xdr_wres, &res, {0, 300 * (i % 4) + 1});
        std::fill(data.begin(), data.end(), '!');
        EXPECT_TRUE(status == RPC_TIMEDOUT || status == RPC_SUCCESS) << status;
    }
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    // Those that were sent before their time was out arrive by and by; others never do.
    ASSERT_TRUE(soon([&] { return !server_.written().empty(); }));
    static_cast<void>(client.sleep(1000, {30, 0}));
    const std::vector<Server::Written> written = server_.written();
    for (const Server::Written& each : written)
        EXPECT_EQ(each.sum, each.trailer);
}

TEST_F(ClntRdma, ManyTimedOutCallsGiveTheirCreditsBack) {
    const Client client(server_.connect());
    for (int i = 0; i < 60; ++i)
        EXPECT_EQ(client.sleep(200, {0, 1000}), RPC_TIMEDOUT);
    EXPECT_EQ(client.null({30, 0}), RPC_SUCCESS);
}

TEST_F(ClntRdma, OneWayCallsReturnAtOnce) {
    const Client client(server_.connect());
    // No results are wanted: success, as batched calls of clnt_vc.
    EXPECT_EQ(
        CLNT_CALL(client.clnt, T_NULL, void_routine(), nullptr, nullptr, nullptr, (timeval{0, 0})),
        RPC_SUCCESS);
    // Some are: it is too early for them.
    EXPECT_EQ(client.null({0, 0}), RPC_TIMEDOUT);
    EXPECT_TRUE(soon([&] { return server_.calls.load() >= 2; }));
}

TEST_F(ClntRdma, AThousandOneWayCallsAllArrive) {
    const Client client(server_.connect());
    int sum = 0;
    EXPECT_EQ(client.add(1, 2, sum), RPC_SUCCESS);
    const std::uint32_t before = server_.calls.load();
    for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(CLNT_CALL(client.clnt, T_NULL, void_routine(), nullptr, nullptr, nullptr,
                            (timeval{0, 0})),
                  RPC_SUCCESS)
            << i << clnt_sperror(client.clnt, "");
    }
    EXPECT_EQ(client.add(3, 4, sum), RPC_SUCCESS);
    EXPECT_EQ(sum, 7);
    EXPECT_TRUE(soon([&] { return server_.calls.load() == before + 1001; }));
}

// The server never answers them: they take all credits but one, and calls go on.
TEST_F(ClntRdma, OneWayCallsNeverTakeTheLastCredit) {
    const Client client(server_.connect());
    for (int i = 0; i < 40; ++i)  // until all credits are granted
        EXPECT_EQ(client.null(), RPC_SUCCESS);
    server_.play(std::vector<Trick>(100, Trick::drop));
    int sent = 0;
    while (CLNT_CALL(client.clnt, T_NULL, void_routine(), nullptr, nullptr, nullptr,
                     (timeval{0, 0})) == RPC_SUCCESS)
        ASSERT_LT(++sent, 100);
    EXPECT_EQ(client.error().re_status, RPC_CANTSEND);
    EXPECT_EQ(client.error().re_errno, EAGAIN);
    EXPECT_GE(sent, 1);
    ASSERT_TRUE(soon([&] { return server_.calls.load() == 40u + static_cast<unsigned>(sent); }));
    server_.play({});
    int sum = 0;
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(client.add(1, i, sum), RPC_SUCCESS) << clnt_sperror(client.clnt, "");
}

TEST_F(ClntRdma, DestroyWaitsForCallsInProgress) {
    CLIENT* const clnt = server_.connect();
    AUTH* const auth = clnt->cl_auth;
    std::atomic<bool> returned{false};
    std::thread caller([&] {
        int ms = 300, slept = 0;
        EXPECT_EQ(CLNT_CALL(clnt, T_SLEEPMS, routine(xdr_int), Client::as_caddr(&ms),
                            routine(xdr_int), Client::as_caddr(&slept), (timeval{20, 0})),
                  RPC_SUCCESS);
        EXPECT_EQ(slept, 300);
        returned.store(true);
    });
    while (server_.calls.load() == 0)
        std::this_thread::yield();
    CLNT_DESTROY(clnt);
    EXPECT_TRUE(soon([&] { return returned.load(); }));
    caller.join();
    AUTH_DESTROY(auth);  // which clnt_destroy leaves alone
}

TEST_F(ClntRdma, DestroyWithTimedOutAndOneWayCallsUnderWay) {
    Client client(server_.connect());
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    server_.play(std::vector<Trick>(3, Trick::drop));
    EXPECT_EQ(client.null({0, 0}), RPC_TIMEDOUT);
    EXPECT_EQ(client.null({0, 20000}), RPC_TIMEDOUT);
    client.reset();
}

TEST_F(ClntRdma, NetidAndDeviceMayBeReplacedAsLibtirpcDoes) {
    const Client client(server_.connect());
    std::free(client.clnt->cl_netid);
    std::free(client.clnt->cl_tp);
    static char empty[] = "";
    client.clnt->cl_netid = empty;
    client.clnt->cl_tp = ::strdup("/dev/x");
}

TEST_F(ClntRdma, AConnectionThatIsLostFailsCallsByErrno) {
    const Client client(server_.connect());
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    std::thread caller([&] {
        const clnt_stat status = client.sleep(20000, {30, 0});
        // The server's end may answer it, or not.
        EXPECT_TRUE(status == RPC_SUCCESS || status == RPC_CANTRECV);
    });
    ASSERT_TRUE(soon([&] { return server_.calls.load() == 2; }));
    server_.stop();
    caller.join();
    ASSERT_TRUE(soon([&] { return client.null({1, 0}) == RPC_CANTSEND; }));
    EXPECT_EQ(client.error().re_errno, ENOTCONN);
    const std::string text = clnt_sperror(client.clnt, "x");
    EXPECT_NE(text.find("errno"), std::string::npos) << text;
    EXPECT_EQ(clnt_rdma_alloc(client.clnt, 100), nullptr);
    // One-way calls, too, tell that it is of no use to try again.
    EXPECT_EQ(client.null({0, 0}), RPC_CANTSEND);
    EXPECT_EQ(client.error().re_errno, ENOTCONN);
}

TEST_F(ClntRdma, AOneWayCallThatComesFirstAfterALossSaysSo) {
    const Client client(server_.connect());
    server_.stop();
    clnt_stat status = RPC_SUCCESS;
    const bool told = soon([&] {
        status = client.null({0, 0});
        return client.error().re_errno != EAGAIN;
    });
    EXPECT_TRUE(told);
    EXPECT_TRUE(status == RPC_CANTSEND || status == RPC_CANTRECV) << status;
    EXPECT_EQ(client.null({0, 0}), RPC_CANTSEND);
    EXPECT_EQ(client.error().re_errno, ENOTCONN);
}

TEST_F(ClntRdma, MemoryThatTheProgramHasAllOfIsTold) {
    rpcrdma_opts opts = server_.opts();
    opts.credits = 1;
    const Client client(server_.connect(opts));
    std::vector<void*> all;
    for (;;) {
        void* const memory = clnt_rdma_alloc(client.clnt, 1u << 20);
        if (memory == nullptr) break;
        all.push_back(memory);
        ASSERT_LT(all.size(), 100u);
    }
    EXPECT_NE(std::string(rpcrdma_strerror()).find("all that there is"), std::string::npos)
        << rpcrdma_strerror();
    ASSERT_GE(all.size(), 2u);
    // Calls that need none go on; the next one that does has what was given back.
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    clnt_rdma_free(client.clnt, all.back());
    all.back() = clnt_rdma_alloc(client.clnt, 1u << 20);
    EXPECT_NE(all.back(), nullptr);
    for (void* memory : all)
        clnt_rdma_free(client.clnt, memory);
}

TEST_F(ClntRdma, DestroyEndsAnAllocThatWaits) {
    rpcrdma_opts opts = server_.opts();
    opts.credits = 1;
    CLIENT* const clnt = server_.connect(opts);
    AUTH* const auth = clnt->cl_auth;
    std::vector<void*> all;
    for (;;) {
        void* const memory = clnt_rdma_alloc(clnt, 1u << 20);
        if (memory == nullptr) break;
        all.push_back(memory);
    }
    clnt_rdma_free(clnt, all.back());
    server_.play({Trick::drop});
    std::thread caller([&] {  // has the last one, and waits
        std::vector<char> data(5000, 'x');
        wargs args{};
        args.data.data_val = data.data();
        args.data.data_len = static_cast<u_int>(data.size());
        wres res{};
        EXPECT_EQ(CLNT_CALL(clnt, T_WRITE, routine(xdr_wargs), Client::as_caddr(&args),
                            routine(xdr_wres), Client::as_caddr(&res), (timeval{3, 0})),
                  RPC_TIMEDOUT);
    });
    ASSERT_TRUE(soon([&] { return server_.calls.load() == 1; }));
    std::string why;
    std::thread allocates([&] {
        EXPECT_EQ(clnt_rdma_alloc(clnt, 1u << 20), nullptr);
        why = rpcrdma_strerror();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    CLNT_DESTROY(clnt);
    caller.join();
    allocates.join();
    EXPECT_FALSE(why.empty());
    AUTH_DESTROY(auth);
}

bool_t xdr_three_bytes(XDR* xdr, char* bytes) {
    return XDR_PUTBYTES(xdr, bytes, 3);
}

// Written by hand, and without its pad bytes: told at once, as what it is, by one XID.
TEST_F(ClntRdma, ArgumentsWithoutTheirPadBytesDoNotEncode) {
    const Client client(server_.connect());
    std::uint32_t before = 0, after = 0;
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    EXPECT_TRUE(control(client, CLGET_XID, before));
    char bytes[3] = {1, 2, 3};
    EXPECT_EQ(CLNT_CALL(client.clnt, T_ADD, routine(xdr_three_bytes), bytes, void_routine(),
                        nullptr, (timeval{20, 0})),
              RPC_CANTENCODEARGS);
    EXPECT_NE(std::string(rpcrdma_strerror()).find("XDR units"), std::string::npos)
        << rpcrdma_strerror();
    EXPECT_TRUE(control(client, CLGET_XID, after));
    EXPECT_EQ(before - 1, after);
}

TEST_F(ClntRdma, SizesThatAreNoWholeWordsWork) {
    rpcrdma_opts opts = server_.opts();
    opts.max_payload = 1'000'001;
    opts.max_message = 100'001;
    const Client client(server_.connect(opts));
    for (const std::uint32_t bytes : {99'000u, 100'000u}) {
        std::vector<char> data(bytes, 'q');
        for (const rpcproc_t proc : {rpcproc_t{T_ECHO}, rpcproc_t{T_LONG}}) {
            blob args{bytes, data.data()}, res{};
            ASSERT_EQ(client.call(proc, xdr_blob, &args, xdr_blob, &res), RPC_SUCCESS)
                << proc << clnt_sperror(client.clnt, "") << rpcrdma_strerror();
            EXPECT_EQ(res.blob_len, bytes);
            CLNT_FREERES(client.clnt, routine(xdr_blob), Client::as_caddr(&res));
        }
    }
    std::vector<char> data(1'000'001, 'r');
    blob args{static_cast<u_int>(data.size()), data.data()}, res{};
    EXPECT_EQ(client.call(T_ECHO, xdr_blob, &args, xdr_blob, &res), RPC_SUCCESS)
        << clnt_sperror(client.clnt, "") << rpcrdma_strerror();
    EXPECT_TRUE(std::equal(data.begin(), data.end(), res.blob_val, res.blob_val + res.blob_len));
    CLNT_FREERES(client.clnt, routine(xdr_blob), Client::as_caddr(&res));
}

TEST_F(ClntRdma, EachThreadIsToldOfItsOwnFailure) {
    const Client client(server_.connect());
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    std::thread([&] {
        EXPECT_EQ(client.sleep(300, {0, 1000}), RPC_TIMEDOUT);
        std::thread([&] { EXPECT_EQ(client.null(), RPC_SUCCESS); }).join();
        EXPECT_EQ(client.error().re_status, RPC_TIMEDOUT);
    }).join();
    EXPECT_EQ(client.error().re_status, RPC_SUCCESS);
    // Who made no call is told of the last one of all.
    std::thread([&] { EXPECT_EQ(client.error().re_status, RPC_SUCCESS); }).join();
}

TEST_F(ClntRdma, ReconnectsWhenItIsToldTo) {
    auto first = std::make_unique<Server>();
    rpcrdma_opts opts = first->opts();
    opts.flags = RPCRDMA_RECONNECT;
    const Client client(first->connect(opts));
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    const std::uint16_t udp_port = first->udp_port();
    const SockAddr address = first->address();
    std::thread caller([&] {
        // Sent to the one, answered by the other.
        EXPECT_EQ(client.sleep(500, {60, 0}), RPC_SUCCESS) << rpcrdma_strerror();
    });
    ASSERT_TRUE(soon([&] { return first->calls.load() == 2; }));
    first->forget_calls();
    first = nullptr;
    const Server second(udp_port, address);
    caller.join();
    EXPECT_EQ(client.null({60, 0}), RPC_SUCCESS);
    EXPECT_GE(second.calls.load(), 2u);
}

TEST_F(ClntRdma, WithoutAServerToReconnectToCallsTimeOut) {
    Server gone;
    rpcrdma_opts opts = gone.opts();
    opts.flags = RPCRDMA_RECONNECT;
    const Client client(gone.connect(opts));
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    gone.stop();
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(client.null({0, 100000}), RPC_TIMEDOUT);
}

// A call of several threads, and of as many slots, allocates nothing once the first were made.
TEST_F(ClntRdma, CallsAllocateNothing) {
    if (!::nfsrdma::test::kAllocCounterWorks) GTEST_SKIP() << "needs a build without sanitizers";
    const Client client(server_.connect());
    int sum = 0;
    for (int i = 0; i < 100; ++i)
        EXPECT_EQ(client.add(i, i, sum), RPC_SUCCESS);
    constexpr std::uint32_t kBytes = 100000;
    auto* const memory = static_cast<char*>(clnt_rdma_alloc(client.clnt, kBytes));
    std::memset(memory, 1, kBytes);
    const ::nfsrdma::test::AllocCounter counter;
    for (int i = 0; i < 200; ++i) {
        ASSERT_EQ(client.null(), RPC_SUCCESS);
        ASSERT_EQ(client.add(i, i, sum), RPC_SUCCESS);
        // The server does not know it: all that is counted is the client's.
        blob args{kBytes, memory}, res{};
        ASSERT_EQ(client.call(4711, xdr_blob, &args, xdr_blob, &res), RPC_CANTDECODERES);
        ASSERT_EQ(CLNT_CALL(client.clnt, 4711, routine(xdr_blob), Client::as_caddr(&args),
                            void_routine(), nullptr, (timeval{20, 0})),
                  RPC_SUCCESS);
    }
    EXPECT_EQ(counter.count(), 0u);
    clnt_rdma_free(client.clnt, memory);
}

TEST_F(ClntRdma, MoreCallsThanSlotsWaitTheirTurn) {
    rpcrdma_opts opts = server_.opts();
    opts.credits = 1;
    const Client client(server_.connect(opts));
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t) {
        threads.emplace_back([&client, t] {
            for (int i = 0; i < 50; ++i) {
                int sum = 0;
                ASSERT_EQ(client.add(t, i, sum), RPC_SUCCESS);
                ASSERT_EQ(sum, t + i);
                std::string data(3000, static_cast<char>('a' + t));
                blob args{3000, data.data()}, res{};
                ASSERT_EQ(client.call(T_ECHO, xdr_blob, &args, xdr_blob, &res), RPC_SUCCESS);
                ASSERT_EQ(std::string(res.blob_val, res.blob_len), data);
                clnt_freeres(client.clnt, routine(xdr_blob), Client::as_caddr(&res));
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
}

}  // namespace
}  // namespace nfsrdma::tirpc::test
