#include "tools/rpcrdma_doctor/report.hpp"

#include <gtest/gtest.h>

#include "tests/tools/rpcrdma_doctor/samples.hpp"

namespace nfsrdma::doctor {
namespace {

bool has(const std::string& text, const char* what) {
    return text.find(what) != std::string::npos;
}

TEST(DoctorReport, AMachine) {
    Report report;
    report.machine = testing::sample_machine();
    report.findings = {{Level::warning, "something is wrong", "do this"}};
    const std::string text = to_text(report);
    for (const char* what :
         {"rxe0: ", "PORT_ACTIVE", "GID 1: ::ffff:10.9.0.1, RoCE v2, v0", "windows of type 2B: yes",
          "quirk: ", "rdmacore:rxe0", "warning something is wrong", "-> do this", "8.0 MiB"})
        EXPECT_TRUE(has(text, what)) << what << '\n' << text;
}

TEST(DoctorReport, OneDeviceAlone) {
    Report report;
    report.machine = testing::sample_machine();
    report.device = "softroce";
    EXPECT_FALSE(has(to_text(report), "rxe0: "));
    EXPECT_TRUE(has(to_text(report), "10.9.0.1"));
    report.device = "rxe0";
    EXPECT_TRUE(has(to_text(report), "rxe0: "));
    EXPECT_FALSE(has(to_text(report), "softroce ("));
}

TEST(DoctorReport, ADeviceThatCannotBeOpened) {
    Report report;
    report.machine = testing::sample_machine();
    report.machine->devices.front().error = "permission denied";
    EXPECT_TRUE(has(to_text(report), "rxe0: permission denied"));
}

TEST(DoctorReport, APeer) {
    Report report;
    report.peer = testing::sample_peer();
    const std::string text = to_text(report);
    for (const char* what : {"10.9.0.2:20049 by softroce", "sends 4096 bytes inline",
                             "2 calls, min 1.0 us, avg 2.0 us; 32 credits", "over TCP, port 20048"})
        EXPECT_TRUE(has(text, what)) << what << '\n' << text;
    report.peer->has_private_data = false;
    EXPECT_TRUE(has(to_text(report), "none, so 1024 bytes inline"));
    report.peer->mount = MountWay::none;
    report.peer->mount_port = 0;
    EXPECT_TRUE(has(to_text(report), "none that rpcbind knows of"));
}

}  // namespace
}  // namespace nfsrdma::doctor
