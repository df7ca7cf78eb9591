#include "tirpc/svc_request.hpp"

#include <fstream>

#include "rpcrdma/pcl.hpp"
#include "tests/support/bad_headers.hpp"
#include "tests/tirpc/svc_world.hpp"

// Requests by the byte: how they may come, and how they are answered.
namespace nfsrdma::tirpc::svc_test {
namespace {

// What was freed AddressSanitizer keeps for a while.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kGrowthMax = 64u << 20;
#else
constexpr std::size_t kGrowthMax = 4u << 20;
#endif

std::size_t resident_bytes() {
    std::ifstream in("/proc/self/statm");
    std::size_t total = 0, resident = 0;
    in >> total >> resident;
    return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

constexpr std::uint32_t kTrailer = 0xAF00AF01;

std::uint32_t sum_of(const std::vector<char>& data) {
    std::uint32_t sum = 0;
    for (const char c : data)
        sum = sum * 31 + static_cast<unsigned char>(c);
    return sum;
}

// WRITE with its data in place, or apart, as a client with a table sends it.
Sent write_call(const std::vector<char>& data, bool apart) {
    Message message(T_WRITE);
    message.put_opaque({'f', 'h', '0', '1'}).put(0).put(0);
    message.put(static_cast<std::uint32_t>(data.size())).put(2);
    if (!apart || data.empty()) {
        message.put_opaque(data).put(kTrailer);
        return message.sent();
    }
    message.put(static_cast<std::uint32_t>(data.size()));
    Sent sent = message.sent();
    sent.payload = data;
    sent.tail.resize(4);
    store_be32(sent.tail.data(), kTrailer);
    return sent;
}
void expect_written(const Reply& reply, const std::vector<char>& data) {
    ASSERT_TRUE(is_success(reply));
    EXPECT_EQ(word(reply, 6), 0u);                                       // status
    EXPECT_EQ(word(reply, 7), 0u);                                       // no attributes
    EXPECT_EQ(word(reply, 8), static_cast<std::uint32_t>(data.size()));  // count
    EXPECT_EQ(word(reply, 9), sum_of(data));
    EXPECT_EQ(word(reply, 10), kTrailer);
}

Sent read_call(std::uint32_t bytes, std::uint32_t room, std::uint32_t reply_max) {
    Sent sent = Message(T_READ).put_opaque({'f', 'h', '0', '1'}).put(0).put(0).put(bytes).sent();
    sent.result_room = room;
    sent.reply_max = reply_max;
    return sent;
}

// Sizes around every limit: none, pads, inline, page, chunk.
const std::array<std::uint32_t, 22> kSizes{0,    1,    2,    3,     4,      5,      1023, 1024,
                                           1025, 2047, 2048, 3900,  4000,   4095,   4096, 4097,
                                           8191, 8192, 8193, 65537, 262143, 1048576};

TEST(B04, WritesOfEverySizeKeepTheirBytesInlineAndByChunk) {
    Server server;
    Client client(server.address());
    for (const std::uint32_t size : kSizes) {
        const std::vector<char> data = pattern(size, size);
        for (const bool apart : {false, true})
            expect_written(client.call(write_call(data, apart)), data);
    }
}

TEST(SvcRequest, AnItemOfArgumentsIsCopiedOnce) {
    Server server;
    Client client(server.address());
    const std::vector<char> data = pattern(65537, 1);
    expect_written(client.call(write_call(data, true)), data);
    const rpcrdma_stats stats = server.stats();
    EXPECT_EQ(stats.read_chunk_calls, 1u);
    EXPECT_EQ(stats.payload_copied_bytes, data.size());
}

TEST(SvcRequest, ZeroCopyArgumentsAreNotCopied) {
    Server server(make_opts(RPCRDMA_ZERO_COPY));
    Client client(server.address());
    for (const std::uint32_t size : kSizes) {
        const std::vector<char> data = pattern(size, size);
        for (const bool apart : {false, true})
            expect_written(client.call(write_call(data, apart)), data);
    }
    EXPECT_EQ(server.stats().payload_copied_bytes, 0u);
}

// The answer gives the arguments' memory back: it goes out when they are free, and not before.
TEST(SvcRequest, ZeroCopyArgumentsStayUntilTheyAreFreed) {
    Server server(make_opts(RPCRDMA_ZERO_COPY));
    Client client(server.address());
    const std::vector<char> data = pattern(300000, 9);
    Message message(T_ECHO);
    message.put(static_cast<std::uint32_t>(data.size()));
    Sent sent = message.sent();
    sent.payload = data;
    sent.result_room = static_cast<std::uint32_t>(data.size());
    for (int i = 0; i < 20; ++i) {
        const Reply reply = client.call(sent);
        ASSERT_TRUE(is_success(reply));
        EXPECT_EQ(word(reply, 6), data.size());
        EXPECT_EQ(reply.payload, data);
    }
    EXPECT_EQ(server.stats().payload_copied_bytes, 0u);  // it went out from where it came in
}

TEST(SvcRequest, ResultsOfEverySizeArePlacedWhereTheClientOffers) {
    Server server;
    Client client(server.address());
    for (const std::uint32_t size : kSizes) {
        if (size == 0) continue;
        const Reply reply = client.call(read_call(size, size, 512));
        ASSERT_TRUE(is_success(reply)) << size;
        EXPECT_EQ(word(reply, 8), size);
        EXPECT_EQ(reply.payload, pattern(size, size)) << size;
    }
    const rpcrdma_stats stats = server.stats();
    EXPECT_EQ(stats.write_chunk_calls, kSizes.size() - 1);
    EXPECT_EQ(stats.reply_chunk_calls, 0u);
}

TEST(SvcRequest, ResultsWithoutAPlaceGoInlineOrByReplyChunk) {
    Server server;
    Client client(server.address());
    for (const std::uint32_t size : kSizes) {
        const Reply reply = client.call(read_call(std::max(size, 1u), 0, size + 512));
        ASSERT_TRUE(is_success(reply)) << size;
        const std::vector<char> wanted = pattern(std::max(size, 1u), std::max(size, 1u));
        ASSERT_EQ(word(reply, 10), wanted.size());
        EXPECT_EQ(std::memcmp(reply.head.data() + 44, wanted.data(), wanted.size()), 0) << size;
    }
    EXPECT_EQ(server.stats().write_chunk_calls, 0u);
}

TEST(SvcRequest, MemoryOfSvcRdmaAllocIsNotCopied) {
    Server server;
    Client client(server.address());
    seen().alloc = true;
    for (const std::uint32_t size : {1u, 4097u, 1048576u}) {
        const Reply reply = client.call(read_call(size, size, 512));
        ASSERT_TRUE(is_success(reply));
        EXPECT_EQ(reply.payload, pattern(size, size));
    }
    EXPECT_EQ(server.stats().payload_copied_bytes, 0u);
    // No place was offered: then it lies where it may.
    EXPECT_TRUE(is_success(client.call(read_call(100, 0, 1024))));
    seen().alloc = false;
}

TEST(SvcRequest, AResultShorterThanItsPlaceIsToldByItsLength) {
    Server server;
    Client client(server.address());
    const Reply reply = client.call(read_call(5, 65536, 512));
    ASSERT_TRUE(is_success(reply));
    EXPECT_EQ(reply.payload, pattern(5, 5));
}

// RFC 8166 s4.5.3: there is no way to answer but an RDMA error. The connection stays.
TEST(SvcRequest, AResultLargerThanItsPlaceIsAnErrorAndTheConnectionStays) {
    Server server;
    Client client(server.address());
    EXPECT_FALSE(client.call(read_call(100000, 4096, 512)).answered);
    EXPECT_TRUE(is_success(client.call(Message(T_NULL).sent())));
    EXPECT_TRUE(client.connected());
}

TEST(SvcRequest, AStringItemIsPlacedToo) {
    Server server;
    Client client(server.address());
    const std::vector<char> path(3001, 'p');
    for (const bool apart : {false, true}) {
        Message message(T_LINK);
        message.put_opaque({'d'}).put_opaque({'n', 'a', 'm', 'e'}).put(0777);
        if (!apart) message.put_opaque(path);
        if (apart) message.put(static_cast<std::uint32_t>(path.size()));
        Sent sent = message.sent();
        if (apart) sent.payload = path;
        sent.result_room = 4096;
        const Reply reply = client.call(sent);
        ASSERT_TRUE(is_success(reply));
        EXPECT_EQ(word(reply, 6), path.size());
        EXPECT_EQ(reply.payload, path);
    }
}

// No table names its item: the whole message goes by RDMA, each way.
TEST(SvcRequest, WithoutATableWholeMessagesGoByRdma) {
    Server server;
    Client client(server.address());
    for (const std::uint32_t size : kSizes) {
        const std::vector<char> data = pattern(size, 3);
        Sent sent = Message(T_LONG).put_opaque(data).sent();
        sent.reply_max = size + 512;
        const Reply reply = client.call(sent);
        ASSERT_TRUE(is_success(reply)) << size;
        ASSERT_EQ(word(reply, 6), size);
        EXPECT_TRUE(size == 0 || std::memcmp(reply.head.data() + 28, data.data(), size) == 0);
    }
    const rpcrdma_stats stats = server.stats();
    EXPECT_GT(stats.long_calls, 0u);
    EXPECT_GT(stats.reply_chunk_calls, 0u);
    EXPECT_EQ(stats.payload_copied_bytes, 0u);
}

// A client whose table names more than ours does.
TEST(SvcRequest, AnItemThatNoTableNamesIsTakenByItsPlace) {
    Server server;
    Client client(server.address());
    const std::vector<char> data = pattern(50001, 3);
    Message message(T_LONG);
    message.put(static_cast<std::uint32_t>(data.size()));
    Sent sent = message.sent();
    sent.payload = data;
    sent.reply_max = 60000;
    const Reply reply = client.call(sent);
    ASSERT_TRUE(is_success(reply));
    EXPECT_EQ(std::memcmp(reply.head.data() + 28, data.data(), data.size()), 0);
}

TEST(SvcRequest, APayloadThatIsNoItemIsGarbage) {
    Server server;
    Client client(server.address());
    Sent sent = Message(T_ADD).put(1).sent();
    sent.payload = pattern(4096, 1);
    sent.tail.resize(4);
    EXPECT_EQ(accept_stat(client.call(sent)), 4u);
    EXPECT_TRUE(is_success(client.call(Message(T_NULL).sent())));
}

// The stub that rpcgen makes answers by svcerr_systemerr when svc_sendreply says FALSE.
TEST(SvcRequest, ResultsThatDoNotEncodeAreASystemError) {
    Server server;
    Client client(server.address());
    EXPECT_EQ(accept_stat(client.call(Message(T_SYSERR).put(0).sent())), 5u);
    EXPECT_TRUE(is_success(client.call(Message(T_NULL).sent())));
}

TEST(SvcRequest, ErrorsOfTheServiceReachTheClient) {
    Server server;
    Client client(server.address());
    EXPECT_EQ(accept_stat(client.call(Message(T_DECODE).put(0).sent())), 4u);
    EXPECT_EQ(accept_stat(client.call(Message(99).sent())), 3u);
    EXPECT_EQ(accept_stat(client.call(Message(T_NULL, TESTVERS, 0x20000999).sent())), 1u);
    const Reply versions = client.call(Message(T_NULL, 7).sent());
    EXPECT_EQ(accept_stat(versions), 2u);
    EXPECT_EQ(word(versions, 6), std::uint32_t{TESTVERS});
    EXPECT_EQ(word(versions, 7), std::uint32_t{TESTVERS});
}

// One answer a request: what comes after it is not sent.
TEST(SvcRequest, ASecondReplyIsNotSent) {
    Server server;
    Client client(server.address());
    std::atomic<int> second{-1};
    seen().set_on_close([&](svc_req* /*rqst*/, SVCXPRT* xprt) {
        EXPECT_NE(svc_sendreply(xprt, nothing, nullptr), FALSE);
        second = svc_sendreply(xprt, nothing, nullptr);
        svcerr_systemerr(xprt);
        int args = 0;
        EXPECT_EQ(svc_getargs(xprt, routine<xdr_int>, &args), FALSE);
    });
    EXPECT_TRUE(is_success(client.call(Message(T_CLOSE).put(0).sent())));
    EXPECT_TRUE(is_success(client.call(Message(T_NULL).sent())));
    EXPECT_EQ(second, FALSE);
    EXPECT_EQ(server.stats().replies, 2u);
}

TEST(SvcRequest, ARequestThatIsNotAnsweredIsForgotten) {
    Server server;
    Client client(server.address());
    seen().set_on_close([](svc_req* /*rqst*/, SVCXPRT* /*xprt*/) {});
    ASSERT_TRUE(is_success(client.call(Message(T_NULL).sent())));  // more than one credit
    Client::Flight flight;
    ASSERT_TRUE(client.send(flight, Message(T_CLOSE).put(0).sent()));
    for (int i = 0; i < 40; ++i)
        ASSERT_TRUE(is_success(client.call(Message(T_NULL).sent()))) << i;
    EXPECT_FALSE(flight.done);
    client.transport().put_rqst(*flight.rqst);
}

Sent with_cred(std::uint32_t flavor, const std::vector<std::uint32_t>& body, std::uint32_t proc) {
    Message message(proc);
    message.bytes.resize(24);
    message.put(flavor).put(static_cast<std::uint32_t>(body.size() * 4));
    for (const std::uint32_t each : body)
        message.put(each);
    message.put(0).put(0);
    return message.sent();
}

TEST(SvcRequest, AuthSysReachesTheService) {
    Server server;
    Client client(server.address());
    // Stamp, machine "host", uid, gid, two groups.
    const Reply reply =
        client.call(with_cred(AUTH_SYS, {7, 4, 0x686f7374, 1000, 100, 2, 5, 6}, T_WHO));
    ASSERT_TRUE(is_success(reply));
    EXPECT_EQ(word(reply, 6), std::uint32_t{AUTH_SYS});
    EXPECT_EQ(word(reply, 7), 1000u);
    EXPECT_EQ(word(reply, 8), 100u);
    EXPECT_EQ(word(reply, 9), 2u);
    EXPECT_EQ(word(reply, 11), 6u);
    EXPECT_EQ(word(reply, 13), 0x686f7374u);
    // The verifier's memory was repointed by that: the next request has it again.
    for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(is_success(client.call(Message(T_NULL).sent())));
}

std::uint32_t auth_stat_of(const Reply& reply) {
    return reply.answered && word(reply, 2) == 1 && word(reply, 3) == 1 ? word(reply, 4) : 0xff;
}

TEST(SvcRequest, CredentialsThatAreNoneAreDenied) {
    Server server;
    Client client(server.address());
    EXPECT_EQ(auth_stat_of(client.call(with_cred(AUTH_SHORT, {1}, T_NULL))),
              std::uint32_t{AUTH_REJECTEDCRED});
    EXPECT_EQ(auth_stat_of(client.call(with_cred(AUTH_SYS, {7, 400, 1}, T_NULL))),
              std::uint32_t{AUTH_BADCRED});
    EXPECT_NE(auth_stat_of(client.call(with_cred(0x4444, {1}, T_NULL))), 0xffu);
    // RPCSEC_GSS that is no credential of it.
    EXPECT_NE(auth_stat_of(client.call(with_cred(6, {1, 0, 1, 1, 0}, T_NULL))), 0xffu);
    EXPECT_TRUE(is_success(client.call(Message(T_NULL).sent())));
}

TEST(SvcRequest, TheCallerIsTheClientsAddress) {
    Server server;
    Client client(server.address());
    ASSERT_TRUE(is_success(client.call(Message(T_WHO).sent())));
    EXPECT_EQ(seen().get_caller(), "127.0.0.1");
}

TEST(SvcRequest, AnotherRpcVersionIsToldOurs) {
    Server server;
    Client client(server.address());
    Message message(T_NULL);
    store_be32(&message.bytes[8], 3);
    const Reply reply = client.call(message.sent());
    ASSERT_TRUE(reply.answered);
    EXPECT_EQ(word(reply, 2), 1u);  // denied
    EXPECT_EQ(word(reply, 3), 0u);  // RPC_MISMATCH
    EXPECT_EQ(word(reply, 4), 2u);
}

// Every prefix of a call: none is answered by success, none ends the connection or the server.
TEST(B61, APieceOfACallIsAnsweredOrDropped) {
    Server server;
    Client client(server.address());
    const std::vector<std::byte> full = Message(T_ADD).put(1).put(2).bytes;
    ASSERT_TRUE(is_success(client.call(Message(T_NULL).sent())));  // more than one credit
    for (std::size_t size = 4; size < full.size(); size += 4) {
        Sent sent;
        sent.head.assign(full.begin(), full.begin() + static_cast<std::ptrdiff_t>(size));
        store_be32(sent.head.data(), 0x70000000 + static_cast<std::uint32_t>(size));
        Client::Flight flight;
        ASSERT_TRUE(client.send(flight, sent));
        ASSERT_TRUE(is_success(client.call(Message(T_NULL).sent()))) << size;
        const Reply reply = client.wait(flight, 0);
        EXPECT_FALSE(is_success(reply)) << size;
    }
}

// A peer that sends bytes, on a device of its own.
class Hostile {
  public:
    explicit Hostile(const SockAddr& server) {
        LoopOptions loop_options;
        loop_options.backend = LoopBackend::epoll;
        loop_ = *Loop::create(loop_options);
        auto opened = devices::open(*loop_, client_request(*check_options(nullptr), server));
        NR_ASSERT(static_cast<bool>(opened));
        device_ = std::move(opened->device);
        conn_ = test::RawConn::connect(*device_, server, {});
        until([&] { return conn_->established || conn_->ended; });
    }
    test::RawConn& conn() { return *conn_; }
    bool until(const std::function<bool()>& done, std::uint64_t limit_ns = 20 * kNsPerSec) {
        const std::uint64_t limit = loop_->now_ns() + limit_ns;
        while (!done() && loop_->now_ns() < limit)
            loop_->run_once(kNsPerMs);
        return done();
    }

  private:
    std::unique_ptr<Loop> loop_;
    std::unique_ptr<verbs::Device> device_;
    std::unique_ptr<test::RawConn> conn_;
};

TEST(B13, HostileHeadersAreAnsweredAndOthersAreServed) {
    Server server;
    Hostile hostile(server.address());
    ASSERT_TRUE(hostile.conn().established);
    Client honest(server.address());
    const auto all = test::bad_headers();
    std::size_t answers = 0;
    const auto flood = [&](int rounds) {
        for (int round = 0; round < rounds; ++round) {
            for (const test::BadHeader& bad : all) {
                SCOPED_TRACE(bad.name);
                hostile.conn().send(bad.bytes);
                answers += bad.vers || bad.chunk;
                if (!bad.vers && !bad.chunk) continue;
                auto& inbox = hostile.conn().inbox;
                ASSERT_TRUE(hostile.until([&] { return !inbox.empty(); }));
                rpcrdma::ParsedHeader header;
                ASSERT_EQ(rpcrdma::parse_header(inbox.front().bytes, {1u << 30, 1u << 31}, header),
                          rpcrdma::HeaderFault::none);
                inbox.pop_front();
                EXPECT_EQ(header.xid, test::kBadXid);
                EXPECT_EQ(header.proc, rpcrdma::Proc::error);
                EXPECT_EQ(header.error,
                          bad.vers ? rpcrdma::ErrorCode::vers : rpcrdma::ErrorCode::chunk);
            }
            EXPECT_TRUE(is_success(honest.call(Message(T_NULL).sent())));
        }
    };
    flood(5);
    const std::size_t before = resident_bytes();
    flood(50);
    EXPECT_LT(resident_bytes(), before + kGrowthMax) << "of lengths that were but claimed";
    EXPECT_FALSE(hostile.conn().ended);
    EXPECT_GT(answers, 1000u);
}

TEST(B60, ALengthBeyondTheMessageAllocatesNothing) {
    Server server;
    Client client(server.address());
    const auto flood = [&](int count) {
        for (int i = 0; i < count; ++i) {
            EXPECT_EQ(accept_stat(client.call(Message(T_LONG).put(0x7fffffff).put(1).sent())), 4u);
            // Within the bound of the .x file, beyond the message.
            EXPECT_EQ(accept_stat(client.call(Message(T_LONG).put(MAXIO).put(1).sent())), 4u);
        }
    };
    flood(200);
    const std::size_t before = resident_bytes();
    flood(5000);  // two calls each
    EXPECT_LT(resident_bytes(), before + kGrowthMax);
    EXPECT_TRUE(is_success(client.call(Message(T_NULL).sent())));
}

TEST(B70, MalformedMessagesLeakNothing) {
    Server server;
    const auto flood = [&](int count) {
        Client client(server.address());
        for (int i = 0; i < count; ++i) {
            Message bad(T_NULL);
            store_be32(&bad.bytes[8], 9);  // RPC version
            EXPECT_TRUE(client.call(bad.sent()).answered);
            EXPECT_TRUE(client.call(with_cred(AUTH_SYS, {7, 400, 1}, T_NULL)).answered);
            EXPECT_EQ(accept_stat(client.call(Message(T_LINK).put(1).sent())), 4u);
        }
    };
    flood(200);
    const std::size_t before = resident_bytes();
    for (int i = 0; i < 4; ++i)
        flood(500);
    EXPECT_LT(resident_bytes(), before + kGrowthMax);
}

}  // namespace
}  // namespace nfsrdma::tirpc::svc_test
