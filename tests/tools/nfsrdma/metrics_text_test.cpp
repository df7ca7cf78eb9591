#include "tools/nfsrdma/metrics_text.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace nfsrdma::tool {
namespace {

constexpr const char* kText =
    "# HELP nfsrdmad_procedure_calls_total Calls.\n"
    "# TYPE nfsrdmad_procedure_calls_total counter\n"
    "nfsrdmad_procedure_calls_total{program=\"nfs\",procedure=\"READ\"} 100\n"
    "nfsrdmad_procedure_calls_total{program=\"nfs\",procedure=\"WRITE\"} 0\n"
    "nfsrdmad_procedure_errors_total{program=\"nfs\",procedure=\"READ\"} 3\n"
    "nfsrdmad_procedure_sent_bytes_total{program=\"nfs\",procedure=\"READ\"} 409600\n"
    "nfsrdmad_procedure_latency_seconds_count{program=\"nfs\",procedure=\"READ\"} 100\n"
    "nfsrdmad_procedure_latency_seconds_sum{program=\"nfs\",procedure=\"READ\"} 0.002\n"
    "nfsrdmad_procedure_latency_seconds_bucket{program=\"nfs\",procedure=\"READ\",le=\"1e-06\"} "
    "10\n"
    "nfsrdmad_procedure_latency_seconds_bucket{program=\"nfs\",procedure=\"READ\",le=\"2e-06\"} "
    "60\n"
    "nfsrdmad_procedure_latency_seconds_bucket{program=\"nfs\",procedure=\"READ\",le=\"+Inf\"} "
    "100\n"
    "nfsrdmad_connection_credits{peer=\"[::1]:4000\"} 32\n"
    "nfsrdmad_connection_calls_total{peer=\"[::1]:4000\"} 77\n"
    "nfsrdmad_connections 1\n";

TEST(MetricsText, LinesAreTakenApart) {
    const auto samples = parse_metrics("a{b=\"c\\\"\\\\d\\ne\",f=\"\"} 1.5\nplain 2e3\n");
    ASSERT_EQ(samples.size(), 2u);
    EXPECT_EQ(samples[0].name, "a");
    EXPECT_EQ(samples[0].label("b"), "c\"\\d\ne");
    EXPECT_EQ(samples[0].label("f"), "");
    EXPECT_EQ(samples[0].label("none"), "");
    EXPECT_EQ(samples[0].value, 1.5);
    EXPECT_EQ(samples[1].value, 2000);
}

TEST(MetricsText, OtherLinesArePassedOver) {
    for (const char* text :
         {"", "\n", "#", "# x 1", "name", "name{", "name{a", "name{a=", "name{a=\"", "name{a=\"b\\",
          "name{a=\"b\"", "name{a=\"b\"}", "name{a=\"b\"} x", " 1", "{} 1"})
        EXPECT_TRUE(parse_metrics(text).empty()) << text;
}

TEST(MetricsText, EveryPrefixIsReadWithoutHarm) {
    const std::string text = kText;
    for (std::size_t size = 0; size < text.size(); ++size)
        stats_as_json(parse_metrics(std::string_view(text).substr(0, size)));
}

TEST(MetricsText, ProceduresThatWereCalled) {
    const auto rows = procedures_of(parse_metrics(kText));
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].procedure, "READ");
    EXPECT_EQ(rows[0].calls, 100);
    EXPECT_EQ(rows[0].errors, 3);
    EXPECT_DOUBLE_EQ(rows[0].mean(), 2e-5);
    EXPECT_DOUBLE_EQ(rows[0].quantile(0.5), 2e-6);
    EXPECT_DOUBLE_EQ(rows[0].quantile(0.1), 1e-6);
    EXPECT_TRUE(std::isinf(rows[0].quantile(0.99)));
}

TEST(MetricsText, ForPeopleAndForPrograms) {
    const auto samples = parse_metrics(kText);
    const std::string people = stats_for_people(samples);
    EXPECT_NE(people.find("nfs READ"), people.npos);
    EXPECT_NE(people.find("400.0 KiB"), people.npos);
    EXPECT_NE(people.find("[::1]:4000"), people.npos);
    EXPECT_EQ(people.find("WRITE"), people.npos);
    const std::string json = stats_as_json(samples);
    EXPECT_EQ(json.back(), '\n');
    EXPECT_NE(json.find("\"nfs.READ\":{\"calls\":100,\"errors\":3"), json.npos);
    EXPECT_NE(json.find("\"p99_seconds\":null"), json.npos);
    EXPECT_NE(json.find("\"[::1]:4000\":{\"calls\":77,\"credits\":32}"), json.npos);
    EXPECT_NE(json.find("\"totals\":{\"connections\":1}}"), json.npos);
}

TEST(MetricsText, APeersNamesCannotSpoilATerminal) {
    const auto samples = parse_metrics(
        "nfsrdmad_x\x1b[2J 1\n"
        "nfsrdmad_connection_credits{peer=\"\x1b[2J\"} 1\n");
    EXPECT_EQ(stats_for_people(samples).find("\x1b[2J 1"), std::string::npos);
    EXPECT_EQ(stats_as_json(samples).find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace nfsrdma::tool
