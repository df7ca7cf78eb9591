#include "sunrpc/auth.hpp"

#include <algorithm>
#include <cstring>
#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

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

// In a child with `count` supplementary groups (primary 500, then 1000, 1001 ...): 0 when it finds
// the first 16 of them, and the truth about the rest.
int of_process_with_groups(std::size_t count) {
    const pid_t child = ::fork();
    if (child == 0) {
        std::vector<gid_t> groups;
        for (std::size_t i = 0; i < count; ++i)
            groups.push_back(static_cast<gid_t>(1000 + i));
        if (::setgroups(groups.size(), groups.data()) != 0 || ::setegid(500) != 0) ::_exit(2);
        bool truncated = false;
        const AuthSys sys = AuthSys::of_process(truncated);
        const std::size_t kept = std::min<std::size_t>(count, kAuthSysGroupsMax);
        bool good = sys.gid == 500 && sys.group_count == kept && truncated == (count > kept);
        for (std::size_t i = 0; i < kept && good; ++i)
            good = sys.groups.at(i) == 1000 + i;
        ::_exit(good ? 0 : 1);
    }
    int status = 0;
    if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
    return WEXITSTATUS(status);
}

TEST(B69, UsersOfMoreThanSixteenGroupsSendTheFirstAndSaySo) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: sets its groups";
    for (const std::size_t count : {0u, 1u, 16u, 17u, 64u})
        EXPECT_EQ(of_process_with_groups(count), 0) << count << " groups";
}

}  // namespace
}  // namespace nfsrdma::sunrpc
