// Results that stay where they were placed, and whose memory is given back by clnt_freeres.
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tirpc/clnt_world.hpp"

namespace nfsrdma::tirpc::test {
namespace {

class ZeroCopy : public ::testing::Test {
  protected:
    static void SetUpTestSuite() { register_table(); }
    Client connect() {
        rpcrdma_opts opts = server_.opts();
        opts.flags = RPCRDMA_ZERO_COPY;
        return Client(server_.connect(opts));
    }
    static rres read(const Client& client, std::uint32_t bytes, char seed) {
        rargs args{};
        args.count = bytes;
        args.offset = static_cast<unsigned char>(seed);
        rres res{};
        EXPECT_EQ(client.call(T_READ, xdr_rargs, &args, xdr_rres, &res), RPC_SUCCESS)
            << clnt_sperror(client.clnt, "");
        EXPECT_EQ(std::string(res.rres_u.resok.data.data_val, bytes), pattern(bytes, seed));
        return res;
    }
    static bool free_of(const Client& client, rres& res) {
        return CLNT_FREERES(client.clnt, routine(xdr_rres), Client::as_caddr(&res)) != FALSE;
    }
    Server server_;
};

TEST_F(ZeroCopy, ResultsStayWhereTheyWerePlacedUntilTheyAreFreed) {
    const Client client = connect();
    rres first = read(client, 100000, 'g'), second = read(client, 70000, 'h');
    EXPECT_EQ(client.stats().payload_copied_bytes, 0u);
    EXPECT_EQ(address_of(first.rres_u.resok.data.data_val) % 4096, 0u);
    EXPECT_EQ(std::string(first.rres_u.resok.data.data_val, 100000), pattern(100000, 'g'));
    // By a copy of the struct, and not in the order of the calls.
    rres moved = second;
    EXPECT_TRUE(free_of(client, moved));
    EXPECT_EQ(moved.rres_u.resok.data.data_val, nullptr);
    EXPECT_TRUE(free_of(client, first));
}

TEST_F(ZeroCopy, ManyTimesOverNothingIsLost) {
    const Client client = connect();
    for (int i = 0; i < 200; ++i) {
        rres res = read(client, 5000 + static_cast<std::uint32_t>(i), 'i');
        EXPECT_TRUE(free_of(client, res));
    }
}

TEST_F(ZeroCopy, WhatIsNotFreedGoesWithTheClient) {
    const Client client = connect();
    static_cast<void>(read(client, 100000, 'j'));
}

TEST_F(ZeroCopy, WhatCameInlineIsLibtirpcsOwn) {
    const Client client = connect();
    rres res = read(client, 100, 'k');
    EXPECT_TRUE(free_of(client, res));
    server_.play({Trick::inline_item});
    res = read(client, 3000, 'l');
    EXPECT_TRUE(free_of(client, res));
}

// A string's decoding writes behind it, with the peer's length: it is always copied.
TEST_F(ZeroCopy, AStringIsCopied) {
    const Client client = connect();
    std::string path = pattern(4096, 'A'), name = "n";
    largs args{};
    args.name = name.data();
    args.path = path.data();
    char* res = nullptr;
    ASSERT_EQ(client.call(T_LINK, xdr_largs, &args, xdr_wrapstring, &res), RPC_SUCCESS);
    EXPECT_EQ(path, res);
    std::free(res);
}

TEST_F(ZeroCopy, APresetPointerIsStillTheProgramsOwn) {
    const Client client = connect();
    std::vector<char> mine(50000);
    rargs args{};
    args.count = 50000;
    args.offset = 'm';
    rres res{};
    res.rres_u.resok.data.data_val = mine.data();
    ASSERT_EQ(client.call(T_READ, xdr_rargs, &args, xdr_rres, &res), RPC_SUCCESS);
    EXPECT_EQ(res.rres_u.resok.data.data_val, mine.data());
    EXPECT_EQ(std::string(mine.data(), mine.size()), pattern(50000, 'm'));
}

// What the pointer of READ's results led to when they were decoded.
char* slot_when_decoded = nullptr;
bool_t xdr_rres_seen(XDR* xdrs, rres* res) {
    if (xdrs->x_op == XDR_DECODE) slot_when_decoded = res->rres_u.resok.data.data_val;
    return xdr_rres(xdrs, res);
}

// An arm that the peer chooses might have a pointer of its own there, and be decoded to where that
// leads: so it leads nowhere, unless the table says that it may.
TEST_F(ZeroCopy, OnlyWhereTheTableSaysSoThePointerIsSetBefore) {
    static constexpr rpcvers_t kOther = kVers + 1;
    static const std::array<rpcrdma_proc, 1> procs = {
        {{T_READ, RPCRDMA_NO_DDP, RPCRDMA_DDP(rres, rres_u.resok.data.data_val), read_max,
          small_reply}}};
    const rpcrdma_ulb ulb RPCRDMA_ULB(kProg, kOther, procs.size(), procs.data());
    ASSERT_EQ(rpcrdma_ulb_register(&ulb), 0);
    const Client client = connect();
    for (rpcvers_t version : {kVers, kOther}) {
        ASSERT_TRUE(CLNT_CONTROL(client.clnt, CLSET_VERS, Client::as_caddr(&version)));
        rargs args{};
        args.count = 50000;
        args.offset = 'q';
        rres res{};
        ASSERT_EQ(client.call(T_READ, xdr_rargs, &args, xdr_rres_seen, &res), RPC_SUCCESS);
        EXPECT_EQ(slot_when_decoded != nullptr, version == kVers);
        EXPECT_EQ(std::string(res.rres_u.resok.data.data_val, 50000), pattern(50000, 'q'));
        EXPECT_EQ(client.stats().payload_copied_bytes, version == kVers ? 0u : 50000u);
        EXPECT_TRUE(CLNT_FREERES(client.clnt, routine(xdr_rres_seen), Client::as_caddr(&res)));
    }
}

TEST_F(ZeroCopy, AnErrorArmLeavesNothingBehind) {
    const Client client = connect();
    rargs args{};
    args.count = 50000;
    rres res{};
    server_.play({Trick::error_arm});
    ASSERT_EQ(client.call(T_READ, xdr_rargs, &args, xdr_rres, &res), RPC_SUCCESS);
    EXPECT_EQ(res.status, ST_ERR);
    EXPECT_TRUE(free_of(client, res));
}

}  // namespace
}  // namespace nfsrdma::tirpc::test
