#include "tools/nfsrdma/copy_report.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::tool {
namespace {

TEST(CopyReport, FailuresAreKept) {
    CopyReport report;
    report.files = 2;
    report.skipped = 1;
    EXPECT_TRUE(report.good());
    EXPECT_EQ(report.line(), "2 files, 1 skipped");
    report.failed("a \"b\"", "why", true);
    report.left_out("fifo", "it is a fifo");
    EXPECT_FALSE(report.good());
    EXPECT_EQ(report.line(), "2 files, 1 skipped, 1 left out, 1 failed");
    JsonObject object;
    report.add_to(object);
    EXPECT_NE(object.text().find(
                  "\"failed\":1,\"failures\":[{\"path\":\"a \\\"b\\\"\",\"error\":\"why\"}]"),
              std::string::npos)
        << object.text();
}

}  // namespace
}  // namespace nfsrdma::tool
