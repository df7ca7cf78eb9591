#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "tools/mount_nfsrdma/stats.hpp"

namespace nfsrdma::mount {
namespace {

using ::testing::HasSubstr;

Stats sample() {
    Stats stats;
    stats.source = "server:/srv/data";
    stats.directory = "/mnt/a b";
    stats.options = "rw,vers=3,rsize=1048576,wsize=1048576,hard,proto=rdma";
    stats.age_s = 100;
    stats.dtsize = 32768;
    stats.port = 20049;
    stats.connections = 2;
    stats.rdma.calls = 12;
    stats.rdma.resends = 1;
    stats.rdma.replies = 11;
    stats.rdma.bad_xids = 3;
    stats.rdma.write_chunk_calls = 4;
    stats.rdma.reconnects = 1;
    stats.bytes[0] = 4096;
    stats.bytes[4] = 1 << 20;
    stats.events[4] = 9;
    ProcCounts& read = stats.procs[6];
    read.ops = 4;
    read.transmissions = 5;
    read.timeouts = 1;
    read.bytes_sent = 600;
    read.bytes_received = 1 << 20;
    read.queue_ns = 2 * kNsPerMs;
    read.rtt_ns = 30 * kNsPerMs;
    read.execute_ns = 40 * kNsPerMs;
    read.errors = 1;
    stats.more = {{"nodes", 17, true}, {"dirty_bytes", 5, true}};
    return stats;
}

TEST(StatsText, IsThatOfTheKernel) {
    const std::string text = to_mountstats(sample());
    for (const char* line :
         {"device server:/srv/data mounted on /mnt/a\\040b with fstype nfs statvers=1.1\n",
          "\topts:\trw,vers=3,", "\tage:\t100\n",
          "\tcaps:\tcaps=0x0,wtmult=4096,dtsize=32768,bsize=0,namlen=255\n",
          "\tsec:\tflavor=1,pseudoflavor=1\n",
          "\tevents:\t0 0 0 0 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
          "\tbytes:\t4096 0 0 0 1048576 0 0 0\n", "\tnfsrdma:\tnodes=17,dirty_bytes=5\n",
          "\tRPC iostats version: 1.1  p/v: 100003/3 (nfs)\n",
          "\txprt:\trdma 20049 0 3 0 0 13 11 3 0 0 0 4 0 0 1048576 0 0 0 0 0 0 0 0 0 0 0 0\n",
          "\tper-op statistics\n", "\t        NULL: 0 0 0 0 0 0 0 0 0\n",
          "\t        READ: 4 5 1 600 1048576 2 30 40 1\n", "\t      COMMIT: 0 0 0 0 0 0 0 0 0\n"}) {
        EXPECT_THAT(text, HasSubstr(line));
    }
    EXPECT_EQ(text.substr(text.size() - 2), "\n\n");
}

TEST(StatsText, JsonHasTheSameNumbers) {
    const std::string text = to_json(sample());
    for (const char* part :
         {"\"source\":\"server:/srv/data\"", "\"directory\":\"/mnt/a b\"", "\"age\":100",
          "\"vfs_open\":9", "\"normal_read\":4096", "\"connections\":2", "\"replies\":11",
          "\"mount\":{\"nodes\":17,\"dirty_bytes\":5}",
          "\"READ\":{\"ops\":4,\"transmissions\":5,\"timeouts\":1,\"bytes_sent\":600,"
          "\"bytes_received\":1048576,\"queue_ms\":2,\"rtt_ms\":30,\"execute_ms\":40,\"errors\":"
          "1}"})
        EXPECT_THAT(text, HasSubstr(part));
    EXPECT_EQ(text.front(), '{');
    EXPECT_EQ(text.back(), '\n');
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

// Debian's own tool, on what we write: its figures are ours.
TEST(StatsText, MountstatsReadsIt) {
    if (!std::filesystem::exists("/usr/sbin/mountstats") ||
        !std::filesystem::exists("/usr/bin/python3"))
        GTEST_SKIP() << "needs mountstats: of the package nfs-common";
    std::string name = (std::filesystem::temp_directory_path() / "nfsrdma-stats-XXXXXX").string();
    const int fd = ::mkstemp(name.data());
    ASSERT_GE(fd, 0);
    ::close(fd);
    Stats stats = sample();
    stats.directory = "/mnt/data";
    std::ofstream(name) << to_mountstats(stats);
    const auto run = [&](const std::string& arguments) {
        std::string out;
        const std::string command =
            "/usr/sbin/mountstats " + arguments + " -f " + name + " /mnt/data 2>&1";
        FILE* const pipe = ::popen(command.c_str(), "r");
        std::array<char, 4096> part{};
        for (std::size_t n = 0; (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
            out.append(part.data(), n);
        EXPECT_EQ(::pclose(pipe), 0) << out;
        return out;
    };
    const std::string all = run("mountstats");
    EXPECT_THAT(all, HasSubstr("Stats for server:/srv/data mounted on /mnt/data:"));
    EXPECT_THAT(all, HasSubstr("READ:\n\t4 ops (30%)"));
    EXPECT_THAT(all, HasSubstr("applications read 4096 bytes via read(2)"));
    EXPECT_THAT(run("mountstats --raw"), HasSubstr("READ: 4 5 1 600 1048576 2 30 40 1"));
    EXPECT_THAT(run("mountstats --rpc"), HasSubstr("RPC statistics"));
    std::filesystem::remove(name);
}

}  // namespace
}  // namespace nfsrdma::mount
