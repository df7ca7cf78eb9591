#include "tools/rpcrdma_bench/compare_linux.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tools/rpcrdma_bench/linux_client.hpp"
#include "tools/rpcrdma_bench/nfs_load.hpp"
#include "tools/rpcrdma_bench/pairs.hpp"

namespace nfsrdma::bench {
namespace {

constexpr std::uint32_t kMiB = 1u << 20, k4KiB = 4096;
constexpr std::uint64_t kFileBytes = 64u << 20;
constexpr std::uint16_t kNfsPort = 20049;

struct Work {
    const char* name;
    NfsOp op;
    std::uint32_t bytes, depth;
    std::uint64_t calls;
};
constexpr std::array<Work, 3> kWorks{{{"read1m", NfsOp::read, kMiB, 8, kFileBytes / kMiB},
                                      {"write1m", NfsOp::write, kMiB, 8, kFileBytes / kMiB},
                                      {"read4k", NfsOp::read, k4KiB, 16, 4096}}};

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Of all processors, kernel and user: what the machine spends, wherever the work is done.
double busy_seconds() {
    std::ifstream in("/proc/stat");
    std::string cpu;
    double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0;
    in >> cpu >> user >> nice >> system >> idle >> wait >> irq >> soft;
    return (user + nice + system + irq + soft) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// What a side has spent since it connected.
struct KeyCounters {
    double calls = 0, keys = 0, local_invs = 0;
};

// One way to do the work.
struct Side {
    const char* name;
    std::function<double(const Work&)> rate;  // bytes per second; negative after a failure
    std::function<KeyCounters()> counters;
    KeyCounters before, after;  // of all rounds
    std::vector<double> rates, cpu_ms_per_mib;
};

KeyCounters counted(const NfsLoad& load) {
    const auto& io = load.io_counters();
    return {static_cast<double>(load.transport_counters().calls), static_cast<double>(io.binds),
            static_cast<double>(io.local_invalidations)};
}

KeyCounters counted_by_linux(const CompareLinuxOptions& options) {
    std::ifstream in("/proc/self/mountstats");
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const LinuxCounters c = linux_counters(text, options.mounted);
    return {static_cast<double>(c.calls),
            static_cast<double>(c.read_segments + c.write_segments + c.reply_segments),
            static_cast<double>(c.local_invalidations)};
}

Result<std::unique_ptr<NfsLoad>> client_of(const CompareLinuxOptions& options,
                                           const std::string& server, const std::string& path,
                                           std::uint16_t mount_port) {
    NfsLoadOptions how;
    NR_TRY_ASSIGN(how.server, SockAddr::parse(server, kNfsPort));
    how.export_path = path;
    how.device = options.device;
    how.mount_port = mount_port;
    auto load = NfsLoad::create(how);
    if (load) (*load)->set_file_bytes(kFileBytes);
    return load;
}

double ours(NfsLoad& load, const Work& work) {
    const double begin = now_s();
    if (!load.run(work.op, work.bytes, work.depth, work.calls, nullptr, nullptr)) return -1;
    return static_cast<double>(work.calls) * work.bytes / (now_s() - begin);
}

std::string shell_quoted(const std::string& text) {
    std::string out = "'";
    for (const char c : text)
        out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

double by_fio(const CompareLinuxOptions& options, const Work& work) {
    const bool write = work.op == NfsOp::write;
    const std::string command =
        "fio --name=compare --filename=" + shell_quoted(options.mounted + "/bench-data") +
        " --ioengine=libaio --direct=1 --rw=" + (write ? "write" : "read") +
        " --bs=" + std::to_string(work.bytes) + " --iodepth=" + std::to_string(work.depth) +
        " --size=" + std::to_string(work.calls * work.bytes) +
        " --overwrite=1 --output-format=json";
    std::FILE* pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return -1;
    std::string text;
    std::array<char, 4096> part{};
    for (std::size_t n = 0; (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
        text.append(part.data(), n);
    return ::pclose(pipe) == 0 ? fio_rate(text, write) : -1;
}

void print(const std::string& name, double value, const CompareLinuxOptions& options) {
    std::printf(options.json ? "{\"name\":\"%s\",\"value\":%.6g}\n" : "%s %.3f\n", name.c_str(),
                value);
    (void)std::fflush(stdout);
}

// The sides take turns, so that what disturbs the machine disturbs all of them.
bool measure(const Work& work, std::array<Side, 3>& sides, int rounds) {
    for (Side& side : sides) {
        side.rates.clear();
        side.cpu_ms_per_mib.clear();
        side.before = side.counters();
    }
    const double mib = static_cast<double>(work.calls) * work.bytes / kMiB;
    for (int round = -1; round < rounds; ++round) {  // the first is to warm up
        for (Side& side : sides) {
            const double cpu = busy_seconds();
            const double rate = side.rate(work);
            if (rate <= 0) {
                (void)std::fprintf(stderr, "rpcrdma-bench: %s of %s failed\n", work.name,
                                   side.name);
                return false;
            }
            if (round < 0) continue;
            side.rates.push_back(rate);
            side.cpu_ms_per_mib.push_back((busy_seconds() - cpu) * 1e3 / mib);
        }
    }
    for (Side& side : sides)
        side.after = side.counters();
    return true;
}

void report(const Work& work, const std::array<Side, 3>& sides,
            const CompareLinuxOptions& options) {
    const Side& linux_side = sides[0];
    for (std::size_t i = 1; i < sides.size(); ++i) {
        std::vector<double> ratios;
        for (std::size_t round = 0; round < sides[i].rates.size(); ++round)
            ratios.push_back(sides[i].rates[round] / linux_side.rates[round]);
        print(std::string(work.name) + "_" + sides[i].name + "_vs_linux", median(ratios), options);
    }
    for (const Side& side : sides) {
        print(std::string(work.name) + "_" + side.name + "_MiBps", median(side.rates) / kMiB,
              options);
        print(std::string(work.name) + "_" + side.name + "_cpu_ms_per_MiB",
              median(side.cpu_ms_per_mib), options);
        const double calls = side.after.calls - side.before.calls;
        if (calls <= 0) continue;
        print(std::string(work.name) + "_" + side.name + "_keys_per_rpc",
              (side.after.keys - side.before.keys) / calls, options);
        print(std::string(work.name) + "_" + side.name + "_local_inv_per_rpc",
              (side.after.local_invs - side.before.local_invs) / calls, options);
    }
}

}  // namespace

int run_compare_linux(const CompareLinuxOptions& options) {
    auto nfsd =
        client_of(options, options.linux_server, options.linux_export, options.linux_mount_port);
    auto nfsrdmad = client_of(options, options.our_server, options.our_export, 0);
    if (!nfsd || !nfsrdmad) {
        const Error& error = nfsd ? nfsrdmad.error() : nfsd.error();
        (void)std::fprintf(stderr, "rpcrdma-bench: compare-linux: %s: %s\n",
                           nfsd ? options.our_server.c_str() : options.linux_server.c_str(),
                           to_string(error).c_str());
        return 1;
    }
    std::array<Side, 3> sides;
    const auto side = [](const char* name, std::function<double(const Work&)> rate,
                         std::function<KeyCounters()> counters) {
        return Side{name, std::move(rate), std::move(counters), {}, {}, {}, {}};
    };
    sides[0] = side(
        "linux", [&](const Work& work) { return by_fio(options, work); },
        [&] { return counted_by_linux(options); });
    sides[1] = side(
        "ours_nfsd", [&](const Work& work) { return ours(**nfsd, work); },
        [&] { return counted(**nfsd); });
    sides[2] = side(
        "ours_ours", [&](const Work& work) { return ours(**nfsrdmad, work); },
        [&] { return counted(**nfsrdmad); });
    bool all = true;
    for (const Work& work : kWorks) {
        if (measure(work, sides, options.rounds)) {
            report(work, sides, options);
        } else {
            all = false;
        }
    }
    return all ? 0 : 1;
}

}  // namespace nfsrdma::bench
