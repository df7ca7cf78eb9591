#include "tools/rpcrdma_bench/linux_client.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::bench {
namespace {

const char kNoNfs[] =
    "device rootfs mounted on / with fstype rootfs\n"
    "device tmpfs mounted on /srv/linux with fstype tmpfs\n";

std::string mount_of(const std::string& where, const std::string& xprt) {
    return "device 10.9.0.1:/srv/linux mounted on " + where +
           " with fstype nfs statvers=1.1\n\topts:\trw,vers=3,proto=rdma\n\tage:\t7\n"
           "\tRPC iostats version: 1.1  p/v: 100003/3 (nfs)\n\txprt:\t" +
           xprt + "\n\tper-op statistics\n\t        NULL: 1 1 0 44 24 5 0 5 0\n\n";
}

// The order of Linux 6.1: 8 numbers of every transport, then chunks, bytes, and keys.
const char kRdma[] =
    "rdma 0 1 1 0 4 1034 1034 0 8210 0 257 513 3 268435456 134217728 11 0 0 0 0 0 0 0 16 21 0 0";

TEST(LinuxCounters, AreThoseOfTheMount) {
    const std::string text = kNoNfs +
                             mount_of("/mnt/other",
                                      "rdma 0 1 1 0 0 5 5 0 5 0 1 1 1 1 1 "
                                      "1 1 1 1 1 1 1 1 1 1 1 1") +
                             mount_of("/mnt/linux", kRdma);
    const LinuxCounters c = linux_counters(text, "/mnt/linux");
    ASSERT_TRUE(c.found);
    EXPECT_EQ(c.calls, 1034u);
    EXPECT_EQ(c.read_segments, 257u);
    EXPECT_EQ(c.write_segments, 513u);
    EXPECT_EQ(c.reply_segments, 3u);
    EXPECT_EQ(c.local_invalidations, 21u);
}

TEST(LinuxCounters, APlaceWhoseNameBeginsAlikeIsAnother) {
    EXPECT_FALSE(linux_counters(mount_of("/mnt/linux2", kRdma), "/mnt/linux").found);
    EXPECT_FALSE(linux_counters(mount_of("/a/mnt/linux", kRdma), "/mnt/linux").found);
}

TEST(LinuxCounters, NothingThereOrNotByRdmaIsNotFound) {
    EXPECT_FALSE(linux_counters("", "/mnt/linux").found);
    EXPECT_FALSE(linux_counters(kNoNfs, "/srv/linux").found);
    const std::string tcp = "tcp 930 1 1 0 0 5 5 0 5 0 2 0 0";
    EXPECT_FALSE(linux_counters(mount_of("/mnt/linux", tcp), "/mnt/linux").found);
}

TEST(LinuxCounters, ALineThatEndsEarlyIsNotFound) {
    const std::string cut(kRdma, sizeof kRdma - 8);
    EXPECT_FALSE(linux_counters(mount_of("/mnt/linux", cut), "/mnt/linux").found);
}

TEST(LinuxCounters, OfTwoMountsAtOnePlaceTheLastIsMeant) {
    const std::string below = mount_of("/mnt/linux", kRdma);
    EXPECT_FALSE(linux_counters(below + "device none mounted on /mnt/linux with fstype tmpfs\n",
                                "/mnt/linux")
                     .found);
}

TEST(FioRate, IsOfTheDirectionThatWasAsked) {
    const std::string json = R"({"jobs" : [ {"read" : { "io_bytes" : 5, "bw_bytes" : 1024 },)"
                             R"( "write" : { "io_bytes" : 7, "bw_bytes" : 2048 } } ] })";
    EXPECT_EQ(fio_rate(json, false), 1024);
    EXPECT_EQ(fio_rate(json, true), 2048);
}

TEST(FioRate, OutputOfAnotherKindIsNegative) {
    EXPECT_LT(fio_rate("", false), 0);
    EXPECT_LT(fio_rate("fio: failed to open", false), 0);
    EXPECT_LT(fio_rate(R"({"jobs" : [ {"read" : { "io_bytes" : 5 } } ] })", false), 0);
}

}  // namespace
}  // namespace nfsrdma::bench
