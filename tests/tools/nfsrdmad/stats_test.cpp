#include "tools/nfsrdmad/stats.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

namespace nfsrdma::nfsrdmad {
namespace {

TEST(Stats, OneObjectALoop) {
    std::array<LoopStats, 2> loops;
    loops[0].rdma.payload_copied_bytes = 7;
    loops[1].device.rx_copied_bytes = 8;
    loops[1].io.binds = 9;
    const std::string json = to_json(loops);
    EXPECT_EQ(json.back(), '\n');
    EXPECT_EQ(std::count(json.begin(), json.end(), '{'), std::count(json.begin(), json.end(), '}'));
    EXPECT_NE(json.find("\"payload_copied_bytes\":7"), json.npos);
    EXPECT_NE(json.find("\"rx_copied_bytes\":8"), json.npos);
    EXPECT_NE(json.find("\"binds\":9"), json.npos);
    EXPECT_EQ(json.find(",}"), json.npos);
    EXPECT_EQ(json.find(",,"), json.npos);
}

TEST(Stats, FileIsReplacedWhole) {
    const std::string path = ::testing::TempDir() + "nfsrdmad-stats.json";
    for (const std::string text : {"{\"long\":123456789}\n", "{}\n"}) {
        ASSERT_TRUE(static_cast<bool>(write_file(path, text)));
        std::stringstream content;
        content << std::ifstream(path).rdbuf();
        EXPECT_EQ(content.str(), text);
    }
    EXPECT_FALSE(std::filesystem::exists(path + ".new"));
    std::filesystem::remove(path);
    EXPECT_FALSE(static_cast<bool>(write_file("/nonexistent/stats", "{}\n")));
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
