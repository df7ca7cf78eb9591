#include "tools/rpcrdma_bench/ratios.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <sys/resource.h>
#include <thread>
#include <type_traits>
#include <unistd.h>

#include "tools/rpcrdma_bench/counters.hpp"
#include "tools/rpcrdma_bench/device_bench.hpp"
#include "tools/rpcrdma_bench/local_file.hpp"
#include "tools/rpcrdma_bench/nfs_load.hpp"
#include "tools/rpcrdma_bench/peer_process.hpp"
#include "tools/rpcrdma_bench/server.hpp"
#include "tools/rpcrdma_bench/tcp_baseline.hpp"
#include "tools/rpcrdma_bench/tirpc_echo.hpp"
#include "tools/rpcrdma_bench/udp_baseline.hpp"
#include "tools/rpcrdma_bench/udp_spin.hpp"

namespace nfsrdma::bench {
namespace {

constexpr std::uint32_t kMiB = 1u << 20;

// A baseline's server process and client, made when a row first needs them.
template <class Client>
class Baseline {
  public:
    explicit Baseline(std::string role) : role_(std::move(role)) {}
    Client* get() {
        if (client_ != nullptr) return client_.get();
        const std::string address = random_loopback();
        auto peer = PeerProcess::start(
            {.program = {}, .arguments = {"role", role_, address}, .environment = {}});
        if (!peer) {
            (void)std::fprintf(stderr, "rpcrdma-bench: %s: %s\n", role_.c_str(),
                               to_string(peer.error()).c_str());
            return nullptr;
        }
        peer_.emplace(*std::move(peer));
        const int port = std::atoi(peer_->ready_line().c_str());
        if constexpr (requires { Client::create(address, port, address); }) {
            auto made = Client::create(address, port, random_loopback());
            if (made) client_ = *std::move(made);
        } else if constexpr (std::is_same_v<Client, EchoClient>) {
            client_ = std::make_unique<Client>(EchoWay::tcp, address, port, random_loopback());
        } else {
            client_ = std::make_unique<Client>(address, port);
        }
        return client_.get();
    }

  private:
    std::string role_;
    std::optional<PeerProcess> peer_;
    std::unique_ptr<Client> client_;
};

// Everything that rows share.
class Bench {
  public:
    explicit Bench(const RatioOptions& options) : options_(options) {}
    int run();
    using Row = void (Bench::*)(const std::string& name);
    static std::vector<std::pair<std::string, Row>> rows();

  private:
    void device_rows(const std::string& name);
    void nfs_rows(const std::string& name);
    void one_core_row(const std::string& name);
    void rtt_rows(const std::string& name);
    void static_rows(const std::string& name);
    void idle_row(const std::string& name);
    void counter_rows(const std::string& name);
    void print(const Ratio& ratio);
    void print_value(const std::string& name, double value);
    NfsLoad* bound() { return load(bound_, pools::Registration::automatic); }
    NfsLoad* fixed() { return load(fixed_, pools::Registration::fixed); }
    NfsLoad* load(std::unique_ptr<NfsLoad>& slot, pools::Registration registration);
    BenchServer* server();
    Load nfs_bytes(NfsLoad* client, NfsOp op) const;
    Load nfs_calls(NfsLoad* client, NfsOp op, std::uint32_t bytes, std::uint32_t depth) const;

    const RatioOptions& options_;
    Baseline<UdpStreamClient> udp_{"udp"};
    Baseline<TcpStreamClient> tcp_{"tcp"};
    Baseline<DeviceClient> device_{"device"};
    Baseline<UdpSpinClient> spin_{"udp-spin"};
    Baseline<EchoClient> tirpc_{"tirpc-echo-tcp"};
    std::unique_ptr<BenchServer> server_;
    std::unique_ptr<NfsLoad> bound_, fixed_;
    std::optional<CounterResult> counted_;
    bool failed_ = false;
};

void Bench::print(const Ratio& ratio) {
    failed_ = !bench::print(ratio, options_.json) || failed_;
}

void Bench::print_value(const std::string& name, double value) {
    if (value < 0) {
        failed_ = true;
        (void)std::fprintf(stderr, "rpcrdma-bench: %s could not be measured\n", name.c_str());
        return;
    }
    std::printf(options_.json ? "{\"name\":\"%s\",\"value\":%.6g}\n" : "%s %.6g\n", name.c_str(),
                value);
    (void)std::fflush(stdout);
}

BenchServer* Bench::server() {
    if (server_ == nullptr) {
        auto started = BenchServer::start();
        if (started) {
            server_ = *std::move(started);
        } else {
            (void)std::fprintf(stderr, "rpcrdma-bench: nfsrdmad: %s\n",
                               to_string(started.error()).c_str());
        }
    }
    return server_.get();
}

NfsLoad* Bench::load(std::unique_ptr<NfsLoad>& slot, pools::Registration registration) {
    if (slot != nullptr || server() == nullptr) return slot.get();
    NfsLoadOptions options;
    options.server = server_->address();
    options.export_path = server_->export_path();
    options.registration = registration;
    auto made = NfsLoad::create(options);
    if (!made) {
        (void)std::fprintf(stderr, "rpcrdma-bench: %s\n", to_string(made.error()).c_str());
        return nullptr;
    }
    slot = *std::move(made);
    return slot.get();
}

Load Bench::nfs_bytes(NfsLoad* client, NfsOp op) const {
    return [client, op](double seconds) {
        return client == nullptr ? -1 : client->rate(op, kMiB, 8, seconds) * kMiB;
    };
}

Load Bench::nfs_calls(NfsLoad* client, NfsOp op, std::uint32_t bytes, std::uint32_t depth) const {
    return [=](double seconds) {
        return client == nullptr ? -1 : client->rate(op, bytes, depth, seconds);
    };
}

void Bench::device_rows(const std::string& name) {
    const Load write = [this](double s) {
        return device_.get() == nullptr ? -1 : device_.get()->write_rate(s);
    };
    const Load udp = [this](double s) { return udp_.get() == nullptr ? -1 : udp_.get()->rate(s); };
    const Load tcp = [this](double s) { return tcp_.get() == nullptr ? -1 : tcp_.get()->rate(s); };
    print(measure_pairs(name, "B/s", write, name == "device_write_vs_tcp" ? tcp : udp,
                        options_.pairs));
}

void Bench::nfs_rows(const std::string& name) {
    const bool read = name == "nfs_read_vs_device";
    const Load device = [this, read](double s) {
        DeviceClient* client = device_.get();
        if (client == nullptr) return -1.0;
        return read ? client->write_rate(s) : client->read_rate(s);
    };
    print(measure_pairs(name, "B/s", nfs_bytes(bound(), read ? NfsOp::read : NfsOp::write), device,
                        options_.pairs));
}

// What a server of one core can reach that reads a file first and sends then: the two rates in a
// row. It tells how much of nfs_read_vs_device is the file system's share.
void Bench::one_core_row(const std::string& name) {
    NfsLoad* const client = bound();
    if (client == nullptr) return print_value(name, -1);
    auto file = LocalFile::open(server_->export_path() + "/bench-data");
    const Load in_a_row = [&](double s) {
        const double read = file ? file->read_rate(s / 2) : -1;
        const double sent = device_.get() == nullptr ? -1 : device_.get()->write_rate(s / 2);
        return read <= 0 || sent <= 0 ? -1 : 1 / (1 / read + 1 / sent);
    };
    print(measure_pairs(name, "B/s", nfs_bytes(client, NfsOp::read), in_a_row, options_.pairs));
}

void Bench::rtt_rows(const std::string& name) {
    NfsLoad* const client = bound();
    const Load null_rtt = [client](double s) {
        return client == nullptr ? -1 : 1 / client->rate(NfsOp::null, 0, 1, s);
    };
    const Load spin_rtt = [this](double s) {
        return spin_.get() == nullptr ? -1 : spin_.get()->round_trip(s);
    };
    const Load tirpc_rtt = [this](double s) {
        return tirpc_.get() == nullptr ? -1 : 1 / tirpc_.get()->rate(0, s);
    };
    if (name == "null_rtt_vs_udp_spin")
        print(measure_pairs(name, "s", null_rtt, spin_rtt, options_.pairs));
    if (name == "null_rtt_vs_tirpc_tcp")
        print(measure_pairs(name, "s", null_rtt, tirpc_rtt, options_.pairs));
    if (name == "read4k_qd32_vs_udp_spin") {
        const Load trips = [spin_rtt](double s) { return 1 / spin_rtt(s); };
        print(measure_pairs(name, "1/s", nfs_calls(client, NfsOp::read, 4096, 32), trips,
                            options_.pairs));
    }
}

void Bench::static_rows(const std::string& name) {
    const bool large = name == "bound_vs_static_1MiB";
    const std::uint32_t bytes = large ? kMiB : 4096, depth = large ? 8 : 32;
    print(measure_pairs(name, "1/s", nfs_calls(bound(), NfsOp::read, bytes, depth),
                        nfs_calls(fixed(), NfsOp::read, bytes, depth), options_.pairs));
}

// CPU seconds per second of both processes while a mounted connection is idle.
void Bench::idle_row(const std::string& name) {
    NfsLoad* const client = bound();
    if (client == nullptr) return print_value(name, -1);
    client->idle(0.5);
    const double before = own_cpu_seconds() + server_->cpu_seconds();
    constexpr double kSeconds = 3;
    client->idle(kSeconds);
    print_value(name, (own_cpu_seconds() + server_->cpu_seconds() - before) / kSeconds);
}

void Bench::counter_rows(const std::string& name) {
    if (!counted_) {
        counted_ =
            server() == nullptr || bound() == nullptr ? CounterResult{} : count(*bound(), *server_);
    }
    print_value(name, counted_->ok ? counted_->row(name) : -1);
}

std::vector<std::pair<std::string, Bench::Row>> Bench::rows() {
    return {
        {"device_write_vs_udp_limit", &Bench::device_rows},
        {"device_write_vs_tcp", &Bench::device_rows},
        {"nfs_read_vs_device", &Bench::nfs_rows},
        {"nfs_read_vs_file_then_device", &Bench::one_core_row},
        {"nfs_write_vs_device", &Bench::nfs_rows},
        {"null_rtt_vs_udp_spin", &Bench::rtt_rows},
        {"null_rtt_vs_tirpc_tcp", &Bench::rtt_rows},
        {"read4k_qd32_vs_udp_spin", &Bench::rtt_rows},
        {"idle_cpu", &Bench::idle_row},
        {"bound_vs_static_1MiB", &Bench::static_rows},
        {"bound_vs_static_4KiB", &Bench::static_rows},
        {"keys_per_rpc", &Bench::counter_rows},
        {"local_inv_per_rpc", &Bench::counter_rows},
        {"doorbells_per_call", &Bench::counter_rows},
        {"payload_copies_per_rpc", &Bench::counter_rows},
        {"device_copies_per_byte", &Bench::counter_rows},
        {"allocs_per_rpc", &Bench::counter_rows},
    };
}

int Bench::run() {
    pin_to(kClientCpu);
    for (const auto& [name, row] : rows()) {
        if (options_.wants(name)) (this->*row)(name);
    }
    return failed_ ? 1 : 0;
}

}  // namespace

bool RatioOptions::wants(const std::string& row) const {
    return only.empty() || std::find(only.begin(), only.end(), row) != only.end();
}

std::vector<std::string> ratio_names() {
    std::vector<std::string> names;
    for (const auto& [name, row] : Bench::rows())
        names.push_back(name);
    return names;
}

int run_ratios(const RatioOptions& options) {
    return Bench(options).run();
}

int run_role(const std::string& role, const std::string& address) {
    if (role == "udp") return serve_udp_stream(address);
    if (role == "tcp") return serve_tcp_stream(address);
    if (role == "device") return serve_device(address);
    if (role == "udp-spin") return serve_udp_spin(address);
    if (role == "tirpc-echo-tcp") return serve_echo(EchoWay::tcp, address);
    if (role == "tirpc-echo-rdma") return serve_echo(EchoWay::rdma, address);
    if (role == "tirpc-echo-rdma-whole") return serve_echo(EchoWay::rdma_whole, address);
    if (role == "tirpc-echo-rdma-zero-copy") return serve_echo(EchoWay::rdma_zero_copy, address);
    return -1;
}

}  // namespace nfsrdma::bench
