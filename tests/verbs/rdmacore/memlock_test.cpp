#include "verbs/rdmacore/memlock.hpp"

#include <cerrno>

#include <gtest/gtest.h>

namespace nfsrdma::verbs::rdmacore {
namespace {

TEST(Memlock, LimitIsNamedWithItsCures) {
    const std::string text = memory_sentence("make a queue pair", {64 << 10, 64 << 10, false});
    for (const char* part : {"cannot make a queue pair", "RLIMIT_MEMLOCK is 64 KiB", "ulimit -l",
                             "LimitMEMLOCK", "--ulimit memlock=-1", "CAP_IPC_LOCK"})
        EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Memlock, NoLimitIsNotBlamed) {
    for (const MemlockLimit& limit :
         {MemlockLimit{UINT64_MAX, UINT64_MAX, false}, MemlockLimit{64 << 10, 64 << 10, true}}) {
        const std::string text = memory_sentence("make a queue pair", limit);
        EXPECT_EQ(text.find("RLIMIT"), std::string::npos) << text;
        EXPECT_NE(text.find("out of memory"), std::string::npos) << text;
    }
}

TEST(Memlock, OnlyErrorsThatMayComeOfItAreExplained) {
    for (const int error : {ENOMEM, EPERM, EAGAIN})
        EXPECT_TRUE(is_memory_error(error)) << error;
    for (const int error : {0, EINVAL, ENODEV, EOPNOTSUPP})
        EXPECT_FALSE(is_memory_error(error)) << error;
    ::testing::internal::CaptureStderr();
    explain_memory("make a queue pair", EINVAL);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    ::testing::internal::CaptureStderr();
    explain_memory("make a queue pair", ENOMEM);
    EXPECT_NE(::testing::internal::GetCapturedStderr().find("cannot make a queue pair"),
              std::string::npos);
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore
