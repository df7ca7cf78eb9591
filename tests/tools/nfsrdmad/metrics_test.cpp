#include "tools/nfsrdmad/metrics.hpp"

#include <array>
#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/unique_fd.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

Snapshot example() {
    Snapshot snapshot;
    for (const std::uint64_t ns : {1500u, 3000u}) {
        LoopStats loop;
        ProcedureStats read{"nfs", "READ", {}};
        read.stats.calls = 1;
        read.stats.errors = 1;
        read.stats.bytes_out = 4096;
        read.stats.latency.add(ns);
        loop.procedures.push_back(read);
        loop.connections = 1;
        svcrdma::ConnectionStats client;
        client.peer = *SockAddr::parse("127.0.0.1:" + std::to_string(ns), 0);
        client.credits = 7;
        client.queue.rnr_naks_sent = 3;
        loop.clients.push_back(client);
        snapshot.loops.push_back(std::move(loop));
    }
    snapshot.reply_cache.replayed = 5;
    return snapshot;
}

const prometheus::MetricFamily* find(const std::vector<prometheus::MetricFamily>& all,
                                     const std::string& name) {
    for (const auto& family : all)
        if (family.name == name) return &family;
    return nullptr;
}

TEST(Metrics, RefusalsHaveTheirReasonAndPeersAreCounted) {
    Snapshot snapshot = example();
    snapshot.loops[0].rdma.refused_quarantined = 2;
    snapshot.loops[1].rdma.refused_quarantined = 3;
    snapshot.loops[1].rdma.peers_lost = 4;
    snapshot.peers.quarantined = 1;
    const auto all = to_metrics(snapshot);
    const auto* refused = find(all, "nfsrdmad_connections_refused_total");
    ASSERT_NE(refused, nullptr);
    ASSERT_EQ(refused->metric.size(), 6u);
    EXPECT_EQ(refused->metric[0].label[0].value, "quarantine");
    EXPECT_EQ(refused->metric[0].counter.value, 5);
    EXPECT_EQ(find(all, "nfsrdmad_peers_lost_total")->metric[0].counter.value, 4);
    EXPECT_EQ(find(all, "nfsrdmad_peers_quarantined")->metric[0].gauge.value, 1);
}

TEST(Metrics, ProceduresAreSummedOverLoops) {
    const auto all = to_metrics(example());
    const auto* calls = find(all, "nfsrdmad_procedure_calls_total");
    ASSERT_NE(calls, nullptr);
    ASSERT_EQ(calls->metric.size(), 1u);
    EXPECT_EQ(calls->metric[0].counter.value, 2);
    const auto* latency = find(all, "nfsrdmad_procedure_latency_seconds");
    ASSERT_NE(latency, nullptr);
    const auto& histogram = latency->metric[0].histogram;
    EXPECT_EQ(histogram.sample_count, 2u);
    EXPECT_DOUBLE_EQ(histogram.sample_sum, 4.5e-6);
    EXPECT_EQ(histogram.bucket[0].cumulative_count, 0u);
    EXPECT_EQ(histogram.bucket[1].cumulative_count, 1u);
    EXPECT_EQ(histogram.bucket[2].cumulative_count, 2u);
    EXPECT_EQ(histogram.bucket.back().cumulative_count, 2u);
}

TEST(Metrics, MountOverSocketsIsCountedWithTheLoops) {
    Snapshot snapshot = example();
    ProcedureStats mnt{"mount", "MNT", {}};
    mnt.stats.calls = 3;
    snapshot.loops[1].procedures.push_back(mnt);
    snapshot.loops[1].rpc.calls = 3;
    snapshot.loops[1].rpc.off_loop = 2;
    mnt.stats.calls = 4;
    snapshot.sockets.procedures.push_back(mnt);
    snapshot.sockets.rpc.calls = 4;
    const auto all = to_metrics(snapshot);
    const auto* calls = find(all, "nfsrdmad_procedure_calls_total");
    ASSERT_NE(calls, nullptr);
    ASSERT_EQ(calls->metric.size(), 2u);
    EXPECT_EQ(calls->metric[0].label[1].value, "MNT");
    EXPECT_EQ(calls->metric[0].counter.value, 7);
    EXPECT_EQ(find(all, "nfsrdmad_rpc_calls_total")->metric[0].counter.value, 7);
    EXPECT_EQ(find(all, "nfsrdmad_rpc_off_loop_total")->metric[0].counter.value, 2);
}

TEST(Metrics, EachConnectionHasItsSeries) {
    const auto all = to_metrics(example());
    const auto* credits = find(all, "nfsrdmad_connection_credits");
    ASSERT_NE(credits, nullptr);
    ASSERT_EQ(credits->metric.size(), 2u);
    EXPECT_EQ(credits->metric[0].label[0].value, "127.0.0.1:1500");
    EXPECT_EQ(credits->metric[0].gauge.value, 7);
    EXPECT_EQ(find(all, "nfsrdmad_connection_rnr_naks_sent_total")->metric[1].counter.value, 3);
    EXPECT_EQ(find(all, "nfsrdmad_connections")->metric[0].gauge.value, 2);
    EXPECT_EQ(find(all, "nfsrdmad_reply_cache_replayed_total")->metric[0].counter.value, 5);
}

// docs/metrics.md names a family whole, or by the end of its name beside others of its kind.
TEST(Metrics, EveryNameIsDocumented) {
    std::stringstream text;
    text << std::ifstream("docs/metrics.md").rdbuf();
    for (const auto& family : to_metrics(example())) {
        bool found = text.str().find('`' + family.name + '`') != std::string::npos;
        for (std::size_t at = family.name.find('_'); !found && at != family.name.npos;
             at = family.name.find('_', at + 1))
            found = text.str().find("`..." + family.name.substr(at) + '`') != std::string::npos;
        EXPECT_TRUE(found) << family.name;
    }
}

std::string ask(const SockAddr& to, const std::string& request) {
    const UniqueFd fd(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), to.sa(), to.sa_len()) != 0) return {};
    static_cast<void>(::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL));
    std::string all;
    std::array<char, 4096> part{};
    for (ssize_t n = 0; (n = ::recv(fd.get(), part.data(), part.size(), 0)) > 0;)
        all.append(part.data(), static_cast<std::size_t>(n));
    return all;
}

TEST(Metrics, AreServedAndThePortIsExclusive) {
    auto server = MetricsServer::create(*SockAddr::parse("127.0.0.1:0", 0), example);
    ASSERT_TRUE(static_cast<bool>(server));
    const SockAddr at = (*server)->local();
    ASSERT_NE(at.port(), 0);
    const std::string answer = ask(at, "GET /metrics HTTP/1.0\r\n\r\n");
    EXPECT_NE(answer.find(" 200 OK"), answer.npos);
    EXPECT_NE(answer.find("nfsrdmad_procedure_calls_total{program=\"nfs\",procedure=\"READ\"} 2"),
              answer.npos);
    EXPECT_NE(ask(at, "GET /other HTTP/1.0\r\n\r\n").find(" 404 "), std::string::npos);
    const auto second = MetricsServer::create(at, [] { return Snapshot{}; });
    ASSERT_FALSE(static_cast<bool>(second));
    EXPECT_EQ(second.error().sys, EADDRINUSE);
}

TEST(Metrics, AreServedByIpv6) {
    auto server = MetricsServer::create(*SockAddr::parse("[::1]:0", 0), example);
    ASSERT_TRUE(static_cast<bool>(server)) << to_string(server.error());
    EXPECT_TRUE((*server)->local().is_v6());
    const std::string answer = ask((*server)->local(), "GET /metrics HTTP/1.1\r\n\r\n");
    EXPECT_NE(answer.find(" 200 OK"), answer.npos) << answer;
    EXPECT_NE(answer.find("nfsrdmad_connections 2"), answer.npos);
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
