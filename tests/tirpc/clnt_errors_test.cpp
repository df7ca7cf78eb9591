#include "tirpc/clnt_errors.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace nfsrdma::tirpc {
namespace {

constexpr std::uint64_t kBase = 1'000'000;  // far from the numbers of CLIENTs of other tests

rpc_err error_of(clnt_stat status) {
    rpc_err made{};
    made.re_status = status;
    return made;
}

TEST(ClntErrors, EachThreadFindsItsOwn) {
    note_error(kBase, error_of(RPC_TIMEDOUT));
    std::thread([] {
        EXPECT_EQ(find_error(kBase), nullptr);
        note_error(kBase, error_of(RPC_CANTRECV));
        EXPECT_EQ(find_error(kBase)->re_status, RPC_CANTRECV);
    }).join();
    EXPECT_EQ(find_error(kBase)->re_status, RPC_TIMEDOUT);
}

TEST(ClntErrors, TheLastOneOfAClientCounts) {
    note_error(kBase + 1, error_of(RPC_TIMEDOUT));
    note_error(kBase + 2, error_of(RPC_SYSTEMERROR));
    note_error(kBase + 1, error_of(RPC_SUCCESS));
    EXPECT_EQ(find_error(kBase + 1)->re_status, RPC_SUCCESS);
    EXPECT_EQ(find_error(kBase + 2)->re_status, RPC_SYSTEMERROR);
}

TEST(ClntErrors, WithMoreClientsTheOldestIsForgotten) {
    for (std::uint64_t i = 0; i <= kErrorsOfThread; ++i)
        note_error(kBase + 100 + i, error_of(RPC_TIMEDOUT));
    EXPECT_EQ(find_error(kBase + 100), nullptr);
    for (std::uint64_t i = 1; i <= kErrorsOfThread; ++i)
        EXPECT_NE(find_error(kBase + 100 + i), nullptr) << i;
}

}  // namespace
}  // namespace nfsrdma::tirpc
