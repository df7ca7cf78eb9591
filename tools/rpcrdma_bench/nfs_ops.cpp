#include "tools/rpcrdma_bench/nfs_ops.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <functional>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "base/assert.hpp"
#include "base/unique_fd.hpp"
#include "tools/rpcrdma_bench/local_ops.hpp"
#include "tools/rpcrdma_bench/nfs_load.hpp"
#include "tools/rpcrdma_bench/nfs_session.hpp"
#include "tools/rpcrdma_bench/peer_process.hpp"
#include "tools/rpcrdma_bench/server.hpp"

namespace nfsrdma::bench {
namespace {

constexpr std::uint32_t k4KiB = 4096;
constexpr std::uint64_t kEntries = 10'000;
constexpr const char* kManyFolder = "many";
constexpr const char* kBenchFile = "bench-data";
constexpr const char* kMadeFile = "made-and-gone";

bool make_many(const std::string& parent) {
    const std::string folder = parent + "/" + kManyFolder;
    if (::mkdir(folder.c_str(), 0755) != 0) return false;
    for (std::uint64_t i = 0; i < kEntries; ++i) {
        const std::string name = folder + "/entry-" + std::to_string(i);
        const UniqueFd made(::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        if (!made) return false;
    }
    return true;
}

// How often a second `operation` goes through; negative after a failure.
Load repeat(std::function<bool()> operation) {
    return [operation = std::move(operation)](double seconds) {
        using Clock = std::chrono::steady_clock;
        const auto start = Clock::now();
        double passed = 0;
        std::uint64_t count = 0;
        while (passed < seconds) {
            if (!operation()) return -1.0;
            ++count;
            passed = std::chrono::duration<double>(Clock::now() - start).count();
        }
        return static_cast<double>(count) / passed;
    };
}

constexpr std::array<const char*, 7> kRows{
    "read4k_qd1", "read4k_qd32", "getattr", "lookup", "create_remove", "raw3rpc", "readdirplus10k"};

class NfsOps {
  public:
    NfsOps(const RatioOptions& options, BenchServer& server, NfsLoad& load, LocalOps& local)
        : options_(options), load_(load), session_(load), local_(local) {
        mounted_ = session_.mount(server.export_path());
        load_.set_random_offsets(true);
    }
    bool run() {
        if (!mounted_) return false;
        const auto read = [this](std::uint32_t depth) -> Load {
            return [this, depth](double s) { return load_.rate(NfsOp::read, k4KiB, depth, s); };
        };
        const Load local_read = repeat([this] { return local_.read_random(k4KiB); });
        row("read4k_qd1", read(1), local_read);
        row("read4k_qd32", read(32), local_read);
        row("getattr", repeat([this] { return session_.getattr(); }),
            repeat([this] { return local_.getattr(); }));
        row("lookup", repeat([this] { return session_.lookup(kBenchFile); }),
            repeat([this] { return local_.lookup(kBenchFile); }));
        row("create_remove",
            repeat([this] { return session_.create(kMadeFile) && session_.remove(kMadeFile); }),
            repeat([this] { return local_.create(kMadeFile) && local_.remove(kMadeFile); }));
        // Three calls one after the other: CREATE, WRITE of 4 KiB FILE_SYNC, REMOVE.
        row("raw3rpc", repeat([this] {
                return session_.create(kMadeFile) && session_.write(k4KiB) &&
                       session_.remove(kMadeFile);
            }),
            repeat([this] {
                return local_.create(kMadeFile) && local_.write(k4KiB) && local_.remove(kMadeFile);
            }));
        // Whole listings of 10,000 entries with attributes.
        row("readdirplus10k", repeat([this] { return session_.list(kManyFolder) == kEntries + 2; }),
            repeat([this] { return local_.list(kManyFolder) == kEntries + 2; }));
        return !failed_;
    }

  private:
    void row(const std::string& name, const Load& remote, const Load& local) {
        NR_ASSERT(std::find(kRows.begin(), kRows.end(), name) != kRows.end());
        if (!options_.wants(name)) return;
        const Ratio ratio = measure_pairs(name, "1/s", remote, local, options_.pairs);
        if (!ratio.ok) {
            failed_ = true;
            (void)std::fprintf(stderr, "rpcrdma-bench: %s could not be measured\n", name.c_str());
            return;
        }
        std::printf(
            options_.json ? "{\"name\":\"nfs_%s_per_s\",\"value\":%.6g}\n" : "nfs_%s_per_s %.6g\n",
            name.c_str(), ratio.numerator);
        if (options_.json) {
            std::printf(
                "{\"name\":\"nfs_%s_vs_local\",\"value\":%.6g,\"low\":%.6g,\"high\":%.6g}\n",
                name.c_str(), ratio.value, ratio.low, ratio.high);
        } else {
            std::printf("nfs_%s_vs_local %.4f   (%.4f .. %.4f; local %.4g 1/s)\n", name.c_str(),
                        ratio.value, ratio.low, ratio.high, ratio.denominator);
        }
        (void)std::fflush(stdout);
    }

    const RatioOptions& options_;
    NfsLoad& load_;
    NfsSession session_;
    LocalOps& local_;
    bool mounted_ = false, failed_ = false;
};

template <class T>
bool said(const char* what, const Result<T>& result) {
    if (result) return true;
    (void)std::fprintf(stderr, "rpcrdma-bench: %s: %s\n", what, to_string(result.error()).c_str());
    return false;
}

}  // namespace

std::vector<std::string> nfs_ops_names() {
    return {kRows.begin(), kRows.end()};
}

int run_nfs_ops(const RatioOptions& options) {
    pin_to(kClientCpu);
    auto server = BenchServer::start();
    if (!said("nfsrdmad", server)) return 1;
    if (!make_many((*server)->export_path())) {
        (void)std::fprintf(stderr, "rpcrdma-bench: cannot fill the export on tmpfs\n");
        return 1;
    }
    NfsLoadOptions connect;
    connect.server = (*server)->address();
    connect.export_path = (*server)->export_path();
    auto load = NfsLoad::create(connect);
    if (!said("connect", load)) return 1;
    auto local = LocalOps::open((*server)->export_path(), kBenchFile);
    if (!said("the export", local)) return 1;
    return NfsOps(options, **server, **load, *local).run() ? 0 : 1;
}

}  // namespace nfsrdma::bench
