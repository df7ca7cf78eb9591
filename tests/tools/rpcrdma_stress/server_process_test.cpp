#include "tools/rpcrdma_stress/server_process.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace nfsrdma::stress {
namespace {

// A program that is started as nfsrdmad would be.
class ServerProcessTest : public ::testing::Test {
  protected:
    ServerProcessTest() {
        std::string name = "/tmp/server-process-test.XXXXXX";
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    ~ServerProcessTest() override { std::filesystem::remove_all(folder_); }
    std::string program(const std::string& body) const {
        const std::string path = folder_ + "/program";
        std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
        EXPECT_EQ(::chmod(path.c_str(), 0755), 0);
        return path;
    }
    // The letter by which the kernel names its state; 0: there is no such process.
    static char state_of(pid_t pid) {
        std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
        std::string text;
        std::getline(in, text);
        const std::size_t at = text.rfind(") ");
        return at == std::string::npos ? '\0' : text[at + 2];
    }
    // Signals are not heeded at once.
    template <class F>
    static bool soon(F done) {
        for (int i = 0; i < 3000; ++i) {
            if (done()) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return false;
    }
    static bool stopped(pid_t pid) { return state_of(pid) == 'T'; }

    std::string folder_;
};

constexpr const char* kServes = "echo ready\nexec sleep 1000";

TEST_F(ServerProcessTest, StartsOnceItServes) {
    auto server = ServerProcess::start(program(kServes), folder_);
    ASSERT_TRUE(server) << to_string(server.error());
    EXPECT_EQ((*server)->address().rfind("127.", 0), 0u);
    const pid_t pid = (*server)->pid();
    EXPECT_NE(state_of(pid), '\0');
    server->reset();
    EXPECT_EQ(state_of(pid), '\0') << "ended, and waited for";
}

TEST_F(ServerProcessTest, OneThatEndsBeforeItServesIsAnError) {
    auto server = ServerProcess::start(program("exit 3"), folder_);
    ASSERT_FALSE(server);
    EXPECT_EQ(server.error().code, Errc::closed);
    EXPECT_FALSE(ServerProcess::start(folder_ + "/absent", folder_));
}

TEST_F(ServerProcessTest, KilledOnesAreStartedAgainAtTheSameAddress) {
    auto server =
        ServerProcess::start(program("echo $4 >>" + folder_ + "/log\n" + kServes), folder_);
    ASSERT_TRUE(server);
    const pid_t first = (*server)->pid();
    ASSERT_TRUE((*server)->kill_and_restart());
    EXPECT_NE((*server)->pid(), first);
    EXPECT_EQ(state_of(first), '\0');
    const auto logged = [this] {
        std::ifstream in(folder_ + "/log");
        std::vector<std::string> lines;
        for (std::string line; std::getline(in, line);)
            lines.push_back(line);
        return lines;
    };
    ASSERT_TRUE(soon([&] { return logged().size() == 2; }));
    EXPECT_EQ(logged()[0], (*server)->address());
    EXPECT_EQ(logged()[1], (*server)->address());
}

TEST_F(ServerProcessTest, FaultsOfItsDeviceAreHandedOn) {
    verbs::softroce::FaultSpec spec;
    EXPECT_EQ(faults_of_server(spec), "");
    spec.rnr = {kNsPerSec, 20 * kNsPerMs};
    EXPECT_EQ(faults_of_server(spec), "rnr=1000000us/20000us");
    const std::string path = program("echo \"$*\" >" + folder_ + "/log\n" + kServes);
    auto server = ServerProcess::start(path, folder_, faults_of_server(spec));
    ASSERT_TRUE(server);
    std::ifstream in(folder_ + "/log");
    std::string words;
    std::getline(in, words);
    EXPECT_NE(words.find("--faults rnr=1000000us/20000us"), std::string::npos) << words;
}

TEST_F(ServerProcessTest, StopsAndGoesOn) {
    auto server = ServerProcess::start(program(kServes), folder_);
    ASSERT_TRUE(server);
    (*server)->freeze();
    EXPECT_TRUE(soon([&] { return stopped((*server)->pid()); }));
    (*server)->thaw();
    EXPECT_TRUE(soon([&] { return !stopped((*server)->pid()); }));
}

TEST_F(ServerProcessTest, WhatIsTypedAtTheTerminalIsNotForIt) {
    auto server = ServerProcess::start(program(kServes), folder_);
    ASSERT_TRUE(server);
    EXPECT_EQ(::getpgid((*server)->pid()), (*server)->pid());
}

TEST_F(ServerProcessTest, OneThatEndsByItselfIsTold) {
    const std::string again = folder_ + "/again";
    auto server = ServerProcess::start(
        program("[ -e " + again + " ] && exit 3\n: >" + again + "\n" + kServes), folder_);
    ASSERT_TRUE(server);
    ManualClock clock;
    auto loop = *Loop::create({.backend = LoopBackend::simulated, .clock = &clock});
    verbs::softroce::FaultSpec spec;
    spec.server_kill_ns = 3 * kNsPerSec;
    std::vector<std::string> said;
    ServerFaults faults(*loop, **server, spec, 1,
                        [&said](const std::string& what) { said.push_back(what); });
    EXPECT_TRUE(soon([&] {
        loop->run_until([](void*) { return false; }, nullptr, 3 * kNsPerSec);
        return !said.empty();
    }));
    EXPECT_EQ(said, std::vector<std::string>{"nfsrdmad ended with status 3"});
    EXPECT_EQ(loop->next_timer_ns(), UINT64_MAX) << "nothing more is done";
}

TEST_F(ServerProcessTest, FaultsComeAsOftenAsTheSpecSays) {
    auto server = ServerProcess::start(program(kServes), folder_);
    ASSERT_TRUE(server);
    ManualClock clock;
    auto loop = *Loop::create({.backend = LoopBackend::simulated, .clock = &clock});
    verbs::softroce::FaultSpec spec;
    spec.server_kill_ns = 3 * kNsPerSec;
    spec.server_stop = {2 * kNsPerSec, kNsPerSec / 2};
    {
        ServerFaults faults(*loop, **server, spec, 1);
        loop->run_until([](void*) { return false; }, nullptr, 30 * kNsPerSec);
        EXPECT_GE(faults.kills(), 6u);
        EXPECT_LE(faults.kills(), 20u);
        EXPECT_GE(faults.stops(), 6u);
        EXPECT_LE(faults.stops(), 22u);
        faults.end();
        EXPECT_TRUE(soon([&] { return !stopped((*server)->pid()); })) << "it is left running";
    }
    EXPECT_EQ(loop->next_timer_ns(), UINT64_MAX);
}

}  // namespace
}  // namespace nfsrdma::stress
