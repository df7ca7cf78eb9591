#include "sunrpc/auth.hpp"

#include <cstring>
#include <unistd.h>

#include <gtest/gtest.h>

namespace nfsrdma::sunrpc {
namespace {

TEST(AuthSys, OfProcessIsOfThisProcess) {
    bool truncated = true;
    const AuthSys sys = AuthSys::of_process(truncated);
    EXPECT_EQ(sys.uid, ::geteuid());
    EXPECT_EQ(sys.gid, ::getegid());
    EXPECT_LE(sys.group_count, kAuthSysGroupsMax);
    EXPECT_LT(std::strlen(sys.machine.data()), sys.machine.size());
    EXPECT_EQ(truncated, ::getgroups(0, nullptr) > static_cast<int>(kAuthSysGroupsMax) + 1 ||
                             (truncated && sys.group_count == kAuthSysGroupsMax));
}

}  // namespace
}  // namespace nfsrdma::sunrpc
