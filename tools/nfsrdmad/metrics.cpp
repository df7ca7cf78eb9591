#include "tools/nfsrdmad/metrics.hpp"

#include <cerrno>
#include <cmath>
#include <limits>
#include <map>
#include <prometheus/text_serializer.h>

#include "tools/nfsrdmad/http_text.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

double to_double(std::uint64_t value) {
    return static_cast<double>(value);
}

class Families {
  public:
    MetricFamily& family(const char* name, const char* help, MetricType type) {
        MetricFamily family;
        family.name = name;
        family.help = help;
        family.type = type;
        out_.push_back(std::move(family));
        return out_.back();
    }
    void counter(const char* name, const char* help, std::uint64_t value) {
        add_counter(family(name, help, MetricType::Counter), {}, value);
    }
    void gauge(const char* name, const char* help, std::uint64_t value) {
        add_gauge(family(name, help, MetricType::Gauge), {}, value);
    }
    static void add_counter(MetricFamily& family, Labels labels, std::uint64_t value) {
        ClientMetric metric;
        metric.label = std::move(labels);
        metric.counter.value = to_double(value);
        family.metric.push_back(std::move(metric));
    }
    static void add_gauge(MetricFamily& family, Labels labels, std::uint64_t value) {
        ClientMetric metric;
        metric.label = std::move(labels);
        metric.gauge.value = to_double(value);
        family.metric.push_back(std::move(metric));
    }
    std::vector<MetricFamily> take() { return std::move(out_); }

  private:
    std::vector<MetricFamily> out_;
};

ClientMetric::Histogram to_histogram(const sunrpc::LatencyHistogram& latency) {
    ClientMetric::Histogram out;
    out.sample_sum = to_double(latency.sum_ns) / 1e9;
    for (std::uint32_t i = 0; i < sunrpc::LatencyHistogram::kBuckets; ++i) {
        out.sample_count += latency.counts[i];
        ClientMetric::Bucket bucket;
        bucket.cumulative_count = out.sample_count;
        bucket.upper_bound = i + 1 == sunrpc::LatencyHistogram::kBuckets
                                 ? std::numeric_limits<double>::infinity()
                                 : to_double(sunrpc::LatencyHistogram::bound_ns(i)) / 1e9;
        out.bucket.push_back(bucket);
    }
    return out;
}

// By program's and procedure's name.
using Procedures = std::map<std::pair<std::string, std::string>, sunrpc::ProcStats>;

Procedures sum_procedures(const Snapshot& snapshot) {
    Procedures out;
    for (const LoopStats& loop : snapshot.loops) {
        for (const ProcedureStats& one : loop.procedures)
            out[{one.program, one.name}].add(one.stats);
    }
    for (const ProcedureStats& one : snapshot.sockets.procedures)
        out[{one.program, one.name}].add(one.stats);
    return out;
}

void add_procedures(Families& out, const Procedures& procedures) {
    struct Row {
        const char* name;
        const char* help;
        std::uint64_t sunrpc::ProcStats::*value;
    };
    constexpr Row kRows[] = {
        {"nfsrdmad_procedure_calls_total", "Calls that were executed and answered.",
         &sunrpc::ProcStats::calls},
        {"nfsrdmad_procedure_errors_total", "Of those, answers with a status that is not OK.",
         &sunrpc::ProcStats::errors},
        {"nfsrdmad_procedure_received_bytes_total", "Bytes of call messages, payloads included.",
         &sunrpc::ProcStats::bytes_in},
        {"nfsrdmad_procedure_sent_bytes_total", "Bytes of reply messages, payloads included.",
         &sunrpc::ProcStats::bytes_out}};
    for (const Row& row : kRows) {
        MetricFamily& family = out.family(row.name, row.help, MetricType::Counter);
        for (const auto& [name, stats] : procedures) {
            Families::add_counter(family, {{"program", name.first}, {"procedure", name.second}},
                                  stats.*row.value);
        }
    }
    MetricFamily& latency = out.family(
        "nfsrdmad_procedure_latency_seconds",
        "From the dispatch of a call to the handing over of its reply.", MetricType::Histogram);
    for (const auto& [name, stats] : procedures) {
        ClientMetric metric;
        metric.label = {{"program", name.first}, {"procedure", name.second}};
        metric.histogram = to_histogram(stats.latency);
        latency.metric.push_back(std::move(metric));
    }
}

void add_connections(Families& out, const Snapshot& snapshot) {
    struct Row {
        const char* name;
        const char* help;
        MetricType type;
        std::uint64_t (*value)(const svcrdma::ConnectionStats&);
    };
    using Stats = svcrdma::ConnectionStats;
    constexpr Row kRows[] = {
        {"nfsrdmad_connection_credits", "Credits granted last.", MetricType::Gauge,
         [](const Stats& s) { return std::uint64_t{s.credits}; }},
        {"nfsrdmad_connection_calls_in_progress", "Calls from Receive to release.",
         MetricType::Gauge, [](const Stats& s) { return std::uint64_t{s.calls_in_progress}; }},
        {"nfsrdmad_connection_receives_posted", "Receives posted.", MetricType::Gauge,
         [](const Stats& s) { return std::uint64_t{s.receives_posted}; }},
        {"nfsrdmad_connection_memory_bytes", "Memory that belongs to it alone.", MetricType::Gauge,
         [](const Stats& s) { return s.memory_bytes; }},
        {"nfsrdmad_connection_calls_total", "Calls received.", MetricType::Counter,
         [](const Stats& s) { return s.calls; }},
        {"nfsrdmad_connection_keys_bound_total", "Memory keys bound for local use.",
         MetricType::Counter, [](const Stats& s) { return s.io.binds; }},
        {"nfsrdmad_connection_local_invalidations_total", "Keys invalidated by ourselves.",
         MetricType::Counter, [](const Stats& s) { return s.io.local_invalidations; }},
        {"nfsrdmad_connection_sends_with_invalidate_total",
         "Replies that invalidated a key of the client.", MetricType::Counter,
         [](const Stats& s) { return s.queue.sends_with_inv; }},
        {"nfsrdmad_connection_rnr_naks_received_total", "The client had no Receive for us.",
         MetricType::Counter, [](const Stats& s) { return s.queue.rnr_naks_received; }},
        {"nfsrdmad_connection_rnr_naks_sent_total", "We had no Receive for the client.",
         MetricType::Counter, [](const Stats& s) { return s.queue.rnr_naks_sent; }},
        {"nfsrdmad_connection_send_queue_waits_total", "Postings that waited for send-queue room.",
         MetricType::Counter, [](const Stats& s) { return s.io.waited_for_send_room; }},
        {"nfsrdmad_connection_pulled_bytes_total", "Bytes fetched by RDMA READ.",
         MetricType::Counter, [](const Stats& s) { return s.io.bytes_pulled; }},
        {"nfsrdmad_connection_pushed_bytes_total", "Bytes placed by RDMA WRITE.",
         MetricType::Counter, [](const Stats& s) { return s.io.bytes_pushed; }}};
    for (const Row& row : kRows) {
        MetricFamily& family = out.family(row.name, row.help, row.type);
        for (const LoopStats& loop : snapshot.loops) {
            for (const Stats& stats : loop.clients) {
                Labels labels{{"peer", stats.peer.to_string()}};
                if (row.type == MetricType::Gauge) {
                    Families::add_gauge(family, std::move(labels), row.value(stats));
                } else {
                    Families::add_counter(family, std::move(labels), row.value(stats));
                }
            }
        }
    }
}

template <class Get>
std::uint64_t sum_of(const Snapshot& snapshot, Get get) {
    std::uint64_t sum = 0;
    for (const LoopStats& loop : snapshot.loops)
        sum += get(loop);
    return sum;
}

void add_peers(Families& out, const Snapshot& s) {
    const auto sum = [&s](std::uint64_t svcrdma::ServerCounters::*field) {
        return sum_of(s, [field](const LoopStats& loop) { return loop.rdma.*field; });
    };
    using Counters = svcrdma::ServerCounters;
    out.gauge("nfsrdmad_peers_known", "Addresses that are connected or remembered.", s.peers.known);
    out.gauge("nfsrdmad_peers_quarantined", "Of those, in quarantine.", s.peers.quarantined);
    out.counter("nfsrdmad_peer_faults_total",
                "Messages and accesses of peers that break the protocol.",
                sum(&Counters::peer_faults));
    out.counter("nfsrdmad_quarantines_total", "Quarantines that began.", s.peers.quarantines);
    out.counter("nfsrdmad_waits_for_peer_total",
                "Times that calls waited because their peer had as many as it may.",
                sum(&Counters::waited_for_peer));
    out.counter("nfsrdmad_keepalives_total", "Quiet clients that were asked whether they live.",
                sum(&Counters::keepalives));
    out.counter("nfsrdmad_peers_lost_total", "Connections whose client did not answer any more.",
                sum(&Counters::peers_lost));
}

void add_transport(Families& out, const Snapshot& s) {
    const auto sum = [&s](std::uint64_t svcrdma::ServerCounters::*field) {
        return sum_of(s, [field](const LoopStats& loop) { return loop.rdma.*field; });
    };
    using Counters = svcrdma::ServerCounters;
    out.gauge("nfsrdmad_connections", "Connections that live.",
              sum_of(s, [](const LoopStats& loop) { return std::uint64_t{loop.connections}; }));
    out.counter("nfsrdmad_connections_accepted_total", "Connections accepted.",
                sum(&Counters::accepted));
    out.counter("nfsrdmad_connections_rejected_total", "Connections rejected.",
                sum(&Counters::rejected));
    out.counter("nfsrdmad_connections_refused_for_memory_total",
                "Of those, for want of memory (--memory).", sum(&Counters::refused_for_memory));
    struct Reason {
        const char* name;
        std::uint64_t Counters::*value;
    };
    constexpr Reason kReasons[] = {
        {"quarantine", &Counters::refused_quarantined}, {"peer", &Counters::refused_per_peer},
        {"rate", &Counters::refused_too_fast},          {"full", &Counters::refused_full},
        {"handshakes", &Counters::refused_handshakes},  {"memory", &Counters::refused_for_memory}};
    MetricFamily& refused = out.family("nfsrdmad_connections_refused_total",
                                       "Of those rejected, by the reason.", MetricType::Counter);
    for (const Reason& reason : kReasons)
        Families::add_counter(refused, {{"reason", reason.name}}, sum(reason.value));
    out.counter("nfsrdmad_connections_stalled_total", "Given up: they took no replies.",
                sum(&Counters::stalled));
    out.counter("nfsrdmad_bad_headers_total", "RPC-over-RDMA headers that break the rules.",
                sum(&Counters::bad_headers));
    add_peers(out, s);
    out.counter("nfsrdmad_grants_raised_total", "Times that a connection's credits grew.",
                sum(&Counters::grants_raised));
    out.counter("nfsrdmad_grants_lowered_total", "Times that they were lowered: memory was scarce.",
                sum(&Counters::grants_lowered));
    out.counter("nfsrdmad_waits_for_payload_total", "Calls that waited for payload memory.",
                sum(&Counters::waited_for_payload));
    out.counter("nfsrdmad_waits_for_send_room_total", "Replies that waited for send-queue room.",
                sum(&Counters::waited_for_send_room));
}

void add_rpc(Families& out, const Snapshot& s) {
    const auto sum = [&s](std::uint64_t sunrpc::SvcCounters::*field) {
        return s.sockets.rpc.*field +
               sum_of(s, [field](const LoopStats& loop) { return loop.rpc.*field; });
    };
    using Counters = sunrpc::SvcCounters;
    out.counter("nfsrdmad_rpc_calls_total", "RPC calls received.", sum(&Counters::calls));
    out.counter("nfsrdmad_rpc_bad_calls_total", "Calls that are none.", sum(&Counters::bad_calls));
    out.counter("nfsrdmad_rpc_dropped_total", "Calls dropped without an answer.",
                sum(&Counters::dropped));
    out.counter("nfsrdmad_rpc_auth_errors_total", "Calls denied for their credentials.",
                sum(&Counters::auth_errors));
    out.counter("nfsrdmad_rpc_program_unavailable_total", "Calls of programs that are not served.",
                sum(&Counters::prog_unavail));
    out.counter("nfsrdmad_rpc_garbage_arguments_total", "Calls with undecodable arguments.",
                sum(&Counters::garbage_args));
    out.counter("nfsrdmad_rpc_off_loop_total", "Calls that left the loop for a helper thread.",
                sum(&Counters::off_loop));
    out.counter("nfsrdmad_reply_cache_executed_total", "Calls that run once, and were new.",
                s.reply_cache.executed);
    out.counter("nfsrdmad_reply_cache_replayed_total", "Copies answered from the cache.",
                s.reply_cache.replayed);
    out.counter("nfsrdmad_reply_cache_in_progress_total",
                "Copies that waited: the first was being executed.", s.reply_cache.in_progress);
    out.counter("nfsrdmad_reply_cache_evicted_total", "Replies that left before their time.",
                s.reply_cache.evicted);
    out.gauge("nfsrdmad_memory_used_bytes", "Memory counted against --memory.", s.memory_used);
    out.gauge("nfsrdmad_memory_limit_bytes", "What --memory says; 0 without.", s.memory_limit);
}

}  // namespace

std::vector<MetricFamily> to_metrics(const Snapshot& snapshot) {
    Families out;
    add_procedures(out, sum_procedures(snapshot));
    add_transport(out, snapshot);
    add_rpc(out, snapshot);
    add_connections(out, snapshot);
    return out.take();
}

struct MetricsServer::State {
    std::unique_ptr<HttpText> http;
};

MetricsServer::MetricsServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
MetricsServer::~MetricsServer() = default;

Result<std::unique_ptr<MetricsServer>> MetricsServer::create(const SockAddr& local,
                                                             std::function<Snapshot()> collect) {
    auto state = std::make_unique<State>();
    const auto text = [collect = std::move(collect)] {
        return prometheus::TextSerializer().Serialize(to_metrics(collect()));
    };
    NR_TRY_ASSIGN(state->http, HttpText::create(local, "/metrics",
                                                "text/plain; version=0.0.4; charset=utf-8", text));
    return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(state)));
}

SockAddr MetricsServer::local() const noexcept {
    return state_->http->local();
}

}  // namespace nfsrdma::nfsrdmad
