// What goes how: inline, by chunk, whole; and what comes back, from good servers and others.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tirpc/clnt_world.hpp"

namespace nfsrdma::tirpc::test {
namespace {

class ClntCall : public ::testing::Test {
  protected:
    static void SetUpTestSuite() { register_table(); }
    Server server_;
};

std::uint32_t sum_of(const char* data, std::uint32_t bytes) {
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < bytes; ++i)
        sum = sum * 31 + static_cast<unsigned char>(data[i]);
    return sum;
}

constexpr std::array<std::uint32_t, 12> kSizes = {0,    1,    3,     2047,  2048,   2049,
                                                  4095, 4096, 65537, 65538, 262143, 1u << 20};

void write_and_check(const Client& client, char* data, std::uint32_t bytes) {
    wargs args{};
    std::string handle = "handle";
    args.fh.fh_val = handle.data();
    args.fh.fh_len = 6;
    args.data.data_val = data;
    args.data.data_len = bytes;
    args.trailer = 0xfeed0000u + (bytes & 0xffffu);
    wres res{};
    ASSERT_EQ(client.call(T_WRITE, xdr_wargs, &args, xdr_wres, &res), RPC_SUCCESS)
        << bytes << clnt_sperror(client.clnt, "");
    ASSERT_EQ(res.status, ST_OK);
    EXPECT_EQ(res.wres_u.resok.count, bytes);
    EXPECT_EQ(load_be32(as_bytes(&res.wres_u.resok.verf[0])), sum_of(data, bytes)) << bytes;
    EXPECT_EQ(load_be32(as_bytes(&res.wres_u.resok.verf[4])), args.trailer) << bytes;
}

TEST_F(ClntCall, ScalarsGoInline) {
    const Client client(server_.connect());
    int sum = 0;
    EXPECT_EQ(client.add(40, 2, sum), RPC_SUCCESS);
    EXPECT_EQ(sum, 42);
    const rpcrdma_stats stats = client.stats();
    EXPECT_EQ(stats.inline_calls, 1u);
    EXPECT_EQ(stats.reply_chunk_calls, 0u);
    EXPECT_EQ(stats.keys_bound, 0u);
}

TEST_F(ClntCall, WhatReturnsNothingOffersNothing) {
    const Client client(server_.connect());
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    // NULL in place of routines is the same.
    EXPECT_EQ(
        CLNT_CALL(client.clnt, T_NULL, void_routine(), nullptr, nullptr, nullptr, (timeval{20, 0})),
        RPC_SUCCESS);
    EXPECT_EQ(client.stats().keys_bound, 0u);
}

TEST_F(ClntCall, AnItemOfArgumentsGoesByReadChunkFromItsLimitOn) {
    const Client client(server_.connect());
    std::uint64_t chunks = 0;
    for (const std::uint32_t bytes : kSizes) {
        std::string data = pattern(bytes);
        write_and_check(client, data.data(), bytes);
        if (bytes >= kMinChunkBytes) ++chunks;
        EXPECT_EQ(server_.last_payload.load(), bytes >= kMinChunkBytes ? bytes : 0);
        EXPECT_EQ(client.stats().read_chunk_calls, chunks) << bytes;
    }
    EXPECT_EQ(client.stats().long_calls, 0u);
}

TEST_F(ClntCall, AnItemOfTheConnectionsMemoryIsNotCopied) {
    const Client client(server_.connect());
    constexpr std::uint32_t kBytes = 200001;
    auto* const memory = static_cast<char*>(clnt_rdma_alloc(client.clnt, kBytes));
    ASSERT_NE(memory, nullptr);
    const std::string data = pattern(kBytes);
    std::memcpy(memory, data.data(), kBytes);
    write_and_check(client, memory, kBytes);
    EXPECT_EQ(server_.last_payload.load(), kBytes);
    EXPECT_EQ(client.stats().payload_copied_bytes, 0u);
    // A part of it, too.
    write_and_check(client, memory + 4096, 100000);
    EXPECT_EQ(client.stats().payload_copied_bytes, 0u);
    clnt_rdma_free(client.clnt, memory);
    // It is not shown to the peer any more once it is the connection's again.
    std::string own = pattern(kBytes);
    write_and_check(client, own.data(), kBytes);
    EXPECT_EQ(client.stats().payload_copied_bytes, kBytes);
}

TEST_F(ClntCall, AnItemOfResultsIsPlaced) {
    const Client client(server_.connect());
    for (const std::uint32_t bytes : kSizes) {
        rargs args{};
        args.count = bytes;
        args.offset = 'b';
        rres res{};
        ASSERT_EQ(client.call(T_READ, xdr_rargs, &args, xdr_rres, &res), RPC_SUCCESS)
            << bytes << clnt_sperror(client.clnt, "");
        ASSERT_EQ(res.rres_u.resok.data.data_len, bytes);
        EXPECT_EQ(std::string(res.rres_u.resok.data.data_val, bytes), pattern(bytes, 'b'));
        EXPECT_TRUE(CLNT_FREERES(client.clnt, routine(xdr_rres), Client::as_caddr(&res)));
    }
    EXPECT_GE(client.stats().write_chunk_calls, 8u);
    EXPECT_EQ(client.stats().reply_chunk_calls, 0u);
}

TEST_F(ClntCall, APresetPointerIsFilledInPlace) {
    const Client client(server_.connect());
    std::vector<char> mine(100000);
    rargs args{};
    args.count = 100000;
    args.offset = 'c';
    rres res{};
    res.rres_u.resok.data.data_val = mine.data();
    ASSERT_EQ(client.call(T_READ, xdr_rargs, &args, xdr_rres, &res), RPC_SUCCESS);
    EXPECT_EQ(res.rres_u.resok.data.data_val, mine.data());
    EXPECT_EQ(std::string(mine.data(), mine.size()), pattern(100000, 'c'));
}

// Inline, and longer than what was asked for, which is what the program's buffer holds.
TEST_F(ClntCall, APresetBufferIsNeverOverrun) {
    const Client client(server_.connect());
    std::vector<char> mine(1000 + 64, 'z');
    rargs args{};
    args.count = 1000;
    rres res{};
    res.rres_u.resok.data.data_val = mine.data();
    server_.play({Trick::longer_inline});
    EXPECT_EQ(client.call(T_READ, xdr_rargs, &args, xdr_rres, &res), RPC_CANTDECODERES);
    EXPECT_EQ(std::string(mine.data() + 1000, 64), std::string(64, 'z'));
}

TEST_F(ClntCall, APlaceThatTheServerDidNotUseIsNone) {
    const Client client(server_.connect());
    rargs args{};
    args.count = 3000;
    args.offset = 'd';
    rres res{};
    server_.play({Trick::inline_item, Trick::error_arm});
    ASSERT_EQ(client.call(T_READ, xdr_rargs, &args, xdr_rres, &res), RPC_SUCCESS);
    ASSERT_EQ(res.rres_u.resok.data.data_len, 3000u);
    EXPECT_EQ(std::string(res.rres_u.resok.data.data_val, 3000), pattern(3000, 'd'));
    CLNT_FREERES(client.clnt, routine(xdr_rres), Client::as_caddr(&res));
    res = {};
    ASSERT_EQ(client.call(T_READ, xdr_rargs, &args, xdr_rres, &res), RPC_SUCCESS);
    EXPECT_EQ(res.status, ST_ERR);
}

TEST_F(ClntCall, StringsOfBothDirections) {
    const Client client(server_.connect());
    for (const std::uint32_t bytes : {0u, 1u, 300u, 2048u, 4095u, 4096u}) {
        std::string path = pattern(bytes, 'A'), name = "a name";
        largs args{};
        args.name = name.data();
        args.path = path.data();
        char* res = nullptr;
        ASSERT_EQ(client.call(T_LINK, xdr_largs, &args, xdr_wrapstring, &res), RPC_SUCCESS)
            << bytes << clnt_sperror(client.clnt, "");
        EXPECT_EQ(path, res);
        CLNT_FREERES(client.clnt, routine(xdr_wrapstring), Client::as_caddr(&res));
    }
}

TEST_F(ClntCall, BothWaysByRdmaAtOnce) {
    const Client client(server_.connect());
    for (const std::uint32_t bytes : kSizes) {
        std::string data = pattern(bytes, 'e');
        blob args{bytes, data.data()}, res{};
        ASSERT_EQ(client.call(T_ECHO, xdr_blob, &args, xdr_blob, &res), RPC_SUCCESS)
            << bytes << clnt_sperror(client.clnt, "");
        EXPECT_EQ(std::string(res.blob_val, res.blob_len), data);
        CLNT_FREERES(client.clnt, routine(xdr_blob), Client::as_caddr(&res));
    }
}

TEST_F(ClntCall, WithoutATableMessagesGoWhole) {
    const Client client(server_.connect());
    for (const std::uint32_t bytes : kSizes) {
        std::string data = pattern(bytes, 'f');
        blob args{bytes, data.data()}, res{};
        ASSERT_EQ(client.call(T_LONG, xdr_blob, &args, xdr_blob, &res), RPC_SUCCESS)
            << bytes << clnt_sperror(client.clnt, "") << rpcrdma_strerror();
        EXPECT_EQ(std::string(res.blob_val, res.blob_len), data);
        CLNT_FREERES(client.clnt, routine(xdr_blob), Client::as_caddr(&res));
    }
    EXPECT_GE(client.stats().long_calls, 5u);
    EXPECT_GE(client.stats().reply_chunk_calls, 5u);
    EXPECT_EQ(client.stats().read_chunk_calls, 0u);
}

TEST_F(ClntCall, WhatIsLargerThanItMayBeFailsAloneAndIsNotSent) {
    const Client client(server_.connect());
    std::string data = pattern((1u << 20) + 5000);
    blob args{static_cast<u_int>(data.size()), data.data()}, res{};
    for (const rpcproc_t proc : {T_LONG, T_ECHO}) {
        EXPECT_EQ(client.call(proc, xdr_blob, &args, xdr_blob, &res), RPC_CANTENCODEARGS);
        EXPECT_EQ(client.error().re_errno, EMSGSIZE) << rpcrdma_strerror();
    }
    EXPECT_EQ(server_.calls.load(), 0u);
    EXPECT_EQ(client.null(), RPC_SUCCESS);
}

TEST_F(ClntCall, ArgumentsThatDoNotEncodeFailAlone) {
    const Client client(server_.connect());
    wargs args{};
    args.fh.fh_len = FHMAX + 1;
    wres res{};
    EXPECT_EQ(client.call(T_WRITE, xdr_wargs, &args, xdr_wres, &res), RPC_CANTENCODEARGS);
    EXPECT_EQ(client.error().re_status, RPC_CANTENCODEARGS);
    EXPECT_EQ(client.null(), RPC_SUCCESS);
}

TEST_F(ClntCall, RepliesThatEndEarlyDoNotDecode) {
    const Client client(server_.connect());
    int sum = 0;
    server_.play({Trick::short_header, Trick::short_results});
    EXPECT_EQ(client.add(1, 2, sum), RPC_CANTDECODERES);
    EXPECT_EQ(client.add(1, 2, sum), RPC_CANTDECODERES);
    EXPECT_EQ(client.add(1, 2, sum), RPC_SUCCESS);
}

// A length that is not followed by so many bytes: libtirpc reserves them, and touches none.
TEST(B60, ResultsThatClaimMoreThanTheyHaveCostNoMemory) {
    register_table();
    Server server;
    const Client client(server.connect());
    const auto resident = [] {
        std::ifstream statm("/proc/self/statm");
        std::size_t size = 0, pages = 0;
        statm >> size >> pages;
        return pages * 4096;
    };
    std::size_t before = 0;
    for (int i = 0; i < 300; ++i) {
        if (i == 50) before = resident();
        blob args{}, res{};
        server.play({Trick::long_claim});
        ASSERT_EQ(client.call(T_LONG, xdr_blob, &args, xdr_blob, &res), RPC_CANTDECODERES);
        CLNT_FREERES(client.clnt, routine(xdr_blob), Client::as_caddr(&res));
    }
    EXPECT_LT(resident(), before + (16u << 20));
}

TEST_F(ClntCall, WhatTheServerRefusesIsToldAsLibtirpcTellsIt) {
    const Client client(server_.connect());
    server_.play({Trick::system_err, Trick::prog_mismatch});
    EXPECT_EQ(client.null(), RPC_SYSTEMERROR);
    EXPECT_EQ(client.null(), RPC_PROGVERSMISMATCH);
    EXPECT_EQ(client.error().re_vers.low, 7u);
    EXPECT_EQ(client.error().re_vers.high, 9u);
    const std::string text = clnt_sperror(client.clnt, "x");
    EXPECT_NE(text.find("low version = 7, high version = 9"), std::string::npos) << text;
}

// A server's shorthand is used, and when the server knows it no more the call is sent anew, with
// the credential of before and another XID.
TEST_F(ClntCall, AShorthandThatIsForgottenIsRefreshed) {
    const Client client(server_.connect());
    AUTH_DESTROY(client.clnt->cl_auth);
    std::array<gid_t, 1> groups{7};
    client.clnt->cl_auth = authunix_create(std::string("host").data(), 55, 66, 1, groups.data());
    server_.play({Trick::shorthand, Trick::auth_error, Trick::none, Trick::auth_error});
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    EXPECT_EQ(server_.last_flavor.load(), 1u);
    EXPECT_EQ(client.null(), RPC_SUCCESS);  // by shorthand, refused, refreshed
    EXPECT_EQ(server_.calls.load(), 3u);
    EXPECT_EQ(server_.last_flavor.load(), 1u);
    EXPECT_EQ(server_.last_uid.load(), 55u);
    // There is no other form to return to.
    EXPECT_EQ(client.null(), RPC_AUTHERROR);
    EXPECT_EQ(client.error().re_why, AUTH_REJECTEDCRED);
    EXPECT_EQ(server_.calls.load(), 4u);
}

TEST_F(ClntCall, CredentialsAreRefreshedTwiceAtMost) {
    const Client client(server_.connect());
    // One that believes in itself each time.
    AUTH* const none = client.clnt->cl_auth;
    static std::atomic<int> refreshes;
    refreshes = 0;
    AUTH::auth_ops ops = *none->ah_ops;
    ops.ah_refresh = [](AUTH* /*auth*/, void* /*message*/) -> int {
        ++refreshes;
        return TRUE;
    };
    AUTH stubborn = *none;
    stubborn.ah_ops = &ops;
    client.clnt->cl_auth = &stubborn;
    server_.play(std::vector<Trick>(9, Trick::auth_error));
    EXPECT_EQ(client.null(), RPC_AUTHERROR);
    EXPECT_EQ(refreshes.load(), 2);
    EXPECT_EQ(server_.calls.load(), 3u);
    client.clnt->cl_auth = none;
}

TEST_F(ClntCall, ALongVerifierIsTakenInPlace) {
    const Client client(server_.connect());
    int sum = 0;
    server_.play({Trick::verifier, Trick::verifier});
    EXPECT_EQ(client.add(3, 4, sum), RPC_SUCCESS);
    EXPECT_EQ(sum, 7);
    EXPECT_EQ(client.null(), RPC_SUCCESS);
}

TEST_F(ClntCall, CredentialsOfAuthSysArrive) {
    const Client client(server_.connect());
    AUTH_DESTROY(client.clnt->cl_auth);
    client.clnt->cl_auth = authunix_create(std::string("host").data(), 1234, 66, 0, nullptr);
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    EXPECT_EQ(server_.last_flavor.load(), 1u);
    EXPECT_EQ(server_.last_uid.load(), 1234u);
}

TEST_F(ClntCall, LargePayloadsAreAMatterOfOptions) {
    constexpr std::uint32_t kMost = 4u << 20;
    rpcrdma_opts opts = server_.opts();
    opts.max_payload = opts.max_message = kMost;
    opts.credits = 4;
    const Server large(0, *SockAddr::parse("127.0.7.1", 0), server_options(*check_options(&opts)));
    opts.port = large.address().port();
    opts.peer_udp_port = large.udp_port();
    const Client client(large.connect(opts));
    std::string data = pattern(kMost, 'n');
    for (const rpcproc_t proc : {T_ECHO, T_LONG}) {
        blob args{kMost, data.data()}, res{};
        ASSERT_EQ(client.call(proc, xdr_blob, &args, xdr_blob, &res), RPC_SUCCESS)
            << clnt_sperror(client.clnt, "") << rpcrdma_strerror();
        EXPECT_TRUE(std::string_view(res.blob_val, res.blob_len) == data);
        CLNT_FREERES(client.clnt, routine(xdr_blob), Client::as_caddr(&res));
    }
}

TEST_F(ClntCall, TheLargestOptionsMakeAConnection) {
    rpcrdma_opts opts = server_.opts();
    opts.max_payload = kPayloadMax;
    opts.max_message = kMessageMax;
    opts.credits = 1;
    const Client client(server_.connect(opts));
    ASSERT_NE(client.clnt, nullptr);
    EXPECT_EQ(client.null(), RPC_SUCCESS);
}

// RPCSEC_GSS as it looks to a transport: a credential of its flavor, whose service says what may
// be done to the data.
class Gss : public ClntCall {
  protected:
    static constexpr std::uint32_t kData = 0, kInit = 1;
    static constexpr std::uint32_t kNone = 1, kIntegrity = 2, kPrivacy = 3;
    static inline std::atomic<int> inside{0}, inside_max{0}, refreshed{0};
    static inline std::uint32_t procedure = kData, service = kNone;

    static int marshal(AUTH* auth, XDR* xdr) {
        const int now = ++inside;
        if (now > inside_max.load()) inside_max.store(now);
        auth->ah_cred.oa_flavor = RPCSEC_GSS;
        std::array<std::uint32_t, 9> words = {kGss, 20, 1, procedure, 5, service, 0, 0, 0};
        for (std::uint32_t& word : words)
            if (xdr_u_int(xdr, &word) == FALSE) return FALSE;
        // As it computes its checksum: over all that is there.
        const u_int here = XDR_GETPOS(xdr);
        if (XDR_SETPOS(xdr, 0) == FALSE) return FALSE;
        const int32_t* const header = XDR_INLINE(xdr, static_cast<int>(here));
        return header != nullptr && XDR_GETPOS(xdr) == here;
    }
    static int validate(AUTH* /*auth*/, opaque_auth* /*verifier*/) {
        --inside;
        return TRUE;
    }
    static int refresh(AUTH* /*auth*/, void* /*message*/) {
        ++refreshed;
        return TRUE;
    }
    static int wrap(AUTH* /*auth*/, XDR* xdr, xdrproc_t routine, caddr_t object) {
        return routine(xdr, object);
    }
    void SetUp() override {
        ops_.ah_nextverf = [](AUTH*) {};
        ops_.ah_marshal = marshal;
        ops_.ah_validate = validate;
        ops_.ah_refresh = refresh;
        ops_.ah_destroy = [](AUTH*) {};
        ops_.ah_wrap = ops_.ah_unwrap = wrap;
        auth_.ah_ops = &ops_;
        inside = inside_max = refreshed = 0;
        procedure = kData;
        service = kNone;
    }
    AUTH::auth_ops ops_{};
    AUTH auth_{};
};

TEST_F(Gss, UnderServiceNoneItemsGoByRdma) {
    const Client client(server_.connect());
    AUTH* const none = std::exchange(client.clnt->cl_auth, &auth_);
    std::string data = pattern(50001, 'o');
    blob args{50001, data.data()}, res{};
    ASSERT_EQ(client.call(T_ECHO, xdr_blob, &args, xdr_blob, &res), RPC_SUCCESS)
        << clnt_sperror(client.clnt, "");
    EXPECT_EQ(std::string(res.blob_val, res.blob_len), data);
    EXPECT_EQ(client.stats().read_chunk_calls, 1u);
    EXPECT_EQ(client.stats().write_chunk_calls, 1u);
    CLNT_FREERES(client.clnt, routine(xdr_blob), Client::as_caddr(&res));
    client.clnt->cl_auth = none;
}

TEST_F(Gss, UnderIntegrityAndPrivacyNothingIsTakenApart) {
    const Client client(server_.connect());
    AUTH* const none = std::exchange(client.clnt->cl_auth, &auth_);
    for (const std::uint32_t each : {kIntegrity, kPrivacy}) {
        service = each;
        for (const std::uint32_t bytes : {10u, 3000u, 50001u, 1u << 20}) {
            std::string data = pattern(bytes, 'p');
            blob args{bytes, data.data()}, res{};
            ASSERT_EQ(client.call(T_ECHO, xdr_blob, &args, xdr_blob, &res), RPC_SUCCESS)
                << clnt_sperror(client.clnt, "") << rpcrdma_strerror();
            EXPECT_EQ(std::string(res.blob_val, res.blob_len), data);
            CLNT_FREERES(client.clnt, routine(xdr_blob), Client::as_caddr(&res));
        }
    }
    EXPECT_EQ(client.stats().read_chunk_calls, 0u);
    EXPECT_EQ(client.stats().write_chunk_calls, 0u);
    EXPECT_GE(client.stats().long_calls, 4u);
    client.clnt->cl_auth = none;
}

// Its own messages have other types than those of the procedure that they name.
TEST_F(Gss, ItsOwnMessagesKnowNoTable) {
    const Client client(server_.connect());
    AUTH* const none = std::exchange(client.clnt->cl_auth, &auth_);
    procedure = kInit;
    std::string data = pattern(5000, 'q');
    blob args{5000, data.data()}, res{};
    ASSERT_EQ(client.call(T_ECHO, xdr_blob, &args, xdr_blob, &res), RPC_SUCCESS);
    EXPECT_EQ(client.stats().read_chunk_calls + client.stats().write_chunk_calls, 0u);
    CLNT_FREERES(client.clnt, routine(xdr_blob), Client::as_caddr(&res));
    client.clnt->cl_auth = none;
}

TEST_F(Gss, ItsCallsAreMadeOneByOne) {
    const Client client(server_.connect());
    AUTH* const none = std::exchange(client.clnt->cl_auth, &auth_);
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t) {
        threads.emplace_back([&client] {
            for (int i = 0; i < 50; ++i)
                EXPECT_EQ(client.null(), RPC_SUCCESS);
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(inside_max.load(), 1);
    client.clnt->cl_auth = none;
}

TEST_F(Gss, ACallWaitsForItsTurnNoLongerThanItsTimeout) {
    const Client client(server_.connect());
    AUTH* const none = std::exchange(client.clnt->cl_auth, &auth_);
    EXPECT_EQ(client.null(), RPC_SUCCESS);
    std::thread first([&] { EXPECT_EQ(client.sleep(1000, {60, 0}), RPC_SUCCESS); });
    while (server_.calls.load() < 2)
        std::this_thread::yield();
    EXPECT_EQ(client.null({0, 20000}), RPC_TIMEDOUT);
    first.join();
    client.clnt->cl_auth = none;
}

TEST_F(Gss, ItIsNotRefreshedFromWithinACall) {
    const Client client(server_.connect());
    AUTH* const none = std::exchange(client.clnt->cl_auth, &auth_);
    server_.play({Trick::auth_error});
    EXPECT_EQ(client.null(), RPC_AUTHERROR);
    EXPECT_EQ(refreshed.load(), 0);
    client.clnt->cl_auth = none;
}

}  // namespace
}  // namespace nfsrdma::tirpc::test
