#include <gtest/gtest.h>

#include "sunrpc/clnt.hpp"
#include "tests/sunrpc/blob_program.hpp"
#include "tests/support/direct_xprt.hpp"

namespace nfsrdma::sunrpc {
namespace {

namespace blob = testing::blob;

TEST(ClntCallAndWait, ReturnsWithTheAnswerOrItsError) {
    testing::DirectWorld world;
    const auto table = blob::procedures();
    blob::State state;
    SvcDispatcher dispatcher;
    dispatcher.add(blob::program(table, state));
    testing::DirectXprt xprt(*world.loop, dispatcher, {});
    {
        Clnt clnt(xprt, blob::kProg, blob::kVers, nullptr);
        blob::WriteArgs args{1, {0, nullptr}, 9};
        blob::WriteRes res{};
        Call call;
        call.proc = &table.at(blob::write).info;
        call.proc_number = blob::write;
        call.args = &args;
        call.res = &res;
        EXPECT_TRUE(clnt.call_and_wait(call));
        EXPECT_EQ(state.last_after, 9u);
        EXPECT_EQ(res.after, 0xAFAFAFAFu);
        call.proc = &table.at(blob::refuse).info;
        call.proc_number = blob::refuse;
        const auto refused = clnt.call_and_wait(call);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Errc::refused);
        EXPECT_EQ(call.status, RpcStatus::system_err);
        // Nobody answers: its own timer ends it.
        xprt.call_fate = [](std::uint32_t) { return testing::Fate{.lost = true}; };
        call.timeout_ns = kNsPerSec;
        EXPECT_EQ(clnt.call_and_wait(call).error().code, Errc::timed_out);
        EXPECT_EQ(clnt.pending(), 0u);
    }
}

}  // namespace
}  // namespace nfsrdma::sunrpc
