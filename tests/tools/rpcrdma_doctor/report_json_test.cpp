#include <gtest/gtest.h>

#include "tests/tools/rpcrdma_doctor/samples.hpp"
#include "tools/rpcrdma_doctor/report.hpp"

namespace nfsrdma::doctor {
namespace {

bool has(const std::string& text, const char* what) {
    return text.find(what) != std::string::npos;
}

TEST(DoctorReportJson, AMachine) {
    Report report;
    report.machine = testing::sample_machine();
    report.machine->memlock.hard = UINT64_MAX;
    report.findings = {{Level::failure, "a \"text\"", ""}};
    const std::string line = to_json(report);
    for (const char* what :
         {R"("name":"rxe0")", R"("strategy":"windows")", R"("hard":null)",
          R"("address":"::ffff:10.9.0.1")", R"("it has \"ways\"")", R"("auto":"rdmacore:rxe0")",
          R"("text":"a \"text\"")", R"("failure":true)"})
        EXPECT_TRUE(has(line, what)) << what << '\n' << line;
    EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST(DoctorReportJson, APeer) {
    Report report;
    report.peer = testing::sample_peer();
    const std::string line = to_json(report);
    for (const char* what : {R"("connected":true)", R"("send_size":4096)", R"("null_avg_ns":2000)",
                             R"("mount":"tcp","mount_port":20048)", R"("failure":false)"})
        EXPECT_TRUE(has(line, what)) << what << '\n' << line;
    report.peer->connected = Error{Errc::refused, 0, "no"};
    EXPECT_TRUE(has(to_json(report), R"("connected":false,"error":)"));
    report.peer->device_error = "none";
    EXPECT_TRUE(has(to_json(report), R"("error":"none")"));
}

}  // namespace
}  // namespace nfsrdma::doctor
