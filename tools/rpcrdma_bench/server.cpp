#include "tools/rpcrdma_bench/server.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace nfsrdma::bench {

double own_cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Result<std::unique_ptr<BenchServer>> BenchServer::start() {
    std::unique_ptr<BenchServer> server(new BenchServer);
    std::string folder = "/dev/shm/nfsrdma-bench.XXXXXX";
    if (mkdtemp(folder.data()) == nullptr)
        return Error{Errc::system, errno, "make the export on tmpfs"};
    server->path_ = folder;
    server->stats_file_ = folder + ".stats";
    std::ofstream file(folder + "/bench-data", std::ios::binary);
    std::vector<char> block(1u << 20);
    for (std::uint64_t done = 0; done < kBenchFileBytes; done += block.size()) {
        for (std::size_t i = 0; i < block.size(); i += 64)
            block[i] = static_cast<char>(done + i / 64);
        file.write(block.data(), static_cast<std::streamsize>(block.size()));
    }
    file.close();
    if (!file) return Error{Errc::system, ENOSPC, "fill the file to read"};
    std::vector<std::pair<std::string, std::string>> environment;
    const std::string interposer = program_folder() + "/librpcrdma-bench-allocs.so";
    server->counts_allocations_ = access(interposer.c_str(), R_OK) == 0;
    if (server->counts_allocations_) {
        environment = {{"LD_PRELOAD", interposer},
                       {"NR_ALLOC_COUNT_FILE", server->allocations_.path()}};
    }
    const std::string address = random_loopback();
    NR_TRY_ASSIGN(server->address_, SockAddr::parse(address, 20049));
    NR_TRY_ASSIGN(PeerProcess process,
                  PeerProcess::start({.program = "nfsrdmad",
                                      .arguments = {"--export", folder, "--listen", address,
                                                    "--stats-json", server->stats_file_},
                                      .environment = std::move(environment)}));
    server->process_ = std::make_unique<PeerProcess>(std::move(process));
    return server;
}

BenchServer::~BenchServer() {
    process_.reset();
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    if (!stats_file_.empty()) std::filesystem::remove(stats_file_, ignored);
}

double BenchServer::cpu_seconds() const {
    std::ifstream in("/proc/" + std::to_string(process_->pid()) + "/stat");
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    std::istringstream fields(text.substr(text.rfind(')') + 2));  // from field 3, the state
    std::string skipped;
    for (int field = 3; field < 14; ++field)
        fields >> skipped;
    double user = 0, system = 0;
    fields >> user >> system;
    return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::string BenchServer::statistics() const {
    std::error_code ignored;
    std::filesystem::remove(stats_file_, ignored);
    process_->signal(SIGUSR1);
    for (int i = 0; i < 200; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        std::ifstream in(stats_file_);
        std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
        if (text.find_last_of('}') != std::string::npos && text.back() == '\n') return text;
    }
    return {};
}

double json_sum(const std::string& json, const std::string& name) {
    const std::string key = "\"" + name + "\":";
    double sum = 0;
    bool found = false;
    for (std::size_t at = json.find(key); at != std::string::npos; at = json.find(key, at + 1)) {
        sum += std::strtod(json.c_str() + at + key.size(), nullptr);
        found = true;
    }
    return found ? sum : -1;
}

}  // namespace nfsrdma::bench
