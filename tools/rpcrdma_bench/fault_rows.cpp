#include "tools/rpcrdma_bench/fault_rows.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "tools/rpcrdma_bench/peer_process.hpp"
#include "tools/rpcrdma_bench/server.hpp"

namespace nfsrdma::bench {
namespace {

struct Row {
    const char* name;
    const char* faults;
};
constexpr std::array<Row, 2> kRows = {
    {{"loss_1pct_vs_clean", "loss=1%,dup=1%,reorder=1%"}, {"loss_01pct_vs_clean", "loss=0.1%"}}};
constexpr double kEndSeconds = 300;  // to read everything once more, on a bad link

// Bytes a second that one run moves and verifies; negative when it failed.
double stress(const std::string& directory, const std::string& faults, double seconds) {
    PeerProcess::Spec spec;
    spec.program = "rpcrdma-stress";
    spec.cpu = kAnyCpu;
    spec.arguments = {"--serve",         directory, "--seconds",         std::to_string(seconds),
                      "--cancel-rate",   "0",       "--disconnect-rate", "0",
                      "--tolerate-loss", "--json"};
    if (!faults.empty()) {
        spec.arguments.emplace_back("--faults");
        spec.arguments.push_back(faults);
    }
    auto run = PeerProcess::start(spec, seconds + kEndSeconds);
    if (!run) return -1;
    const std::string json = run->ready_line();
    if (run->stop() != 0) return -1;
    const double took = json_sum(json, "seconds");
    return took > 0 ? (json_sum(json, "bytes_read") + json_sum(json, "bytes_written")) / took : -1;
}

}  // namespace

std::vector<std::string> fault_row_names() {
    std::vector<std::string> names;
    names.reserve(kRows.size());
    for (const Row& row : kRows)
        names.emplace_back(row.name);
    return names;
}

int run_faults(const RatioOptions& options) {
    std::string directory = "/dev/shm/rpcrdma-bench.XXXXXX";
    if (::mkdtemp(directory.data()) == nullptr) {
        (void)std::fprintf(stderr, "rpcrdma-bench: cannot make a directory on tmpfs\n");
        return 1;
    }
    bool good = true;
    for (const Row& row : kRows) {
        if (!options.wants(row.name)) continue;
        const Load bad = [&](double s) { return stress(directory, row.faults, s); };
        const Load clean = [&](double s) { return stress(directory, "", s); };
        good =
            print(measure_pairs(row.name, "B/s", bad, clean, options.pairs), options.json) && good;
    }
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
    return good ? 0 : 1;
}

}  // namespace nfsrdma::bench
