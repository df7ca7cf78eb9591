#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnNull : public NfsTest {};
NR_ON_BACKENDS(OnNull);

struct Nothing {};

TEST_P(OnNull, Answers) {
    w.call<Nothing, Nothing>(NFSPROC3_NULL, {});
    EXPECT_EQ(w.dispatcher.counters().replies, 1u);
}

}  // namespace
}  // namespace nfsrdma::testing
