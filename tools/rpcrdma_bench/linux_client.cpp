#include "tools/rpcrdma_bench/linux_client.hpp"

#include <array>
#include <cstdlib>
#include <sstream>

namespace nfsrdma::bench {
namespace {

// The words of the kernel's line "xprt: rdma ..." that matter, counted from "xprt:" as 0.
constexpr std::size_t kSends = 7, kReadSegments = 12, kWriteSegments = 13, kReplySegments = 14,
                      kLocalInvNeeded = 26, kWords = 27;

LinuxCounters parse_xprt(const std::string& line) {
    std::istringstream words(line);
    std::array<std::string, kWords> word;
    for (std::string& w : word) {
        if (!(words >> w)) return {};
    }
    if (word[0] != "xprt:" || word[1] != "rdma") return {};
    const auto number = [&](std::size_t i) {
        return std::uint64_t{std::strtoull(word[i].c_str(), nullptr, 10)};
    };
    return {true,
            number(kSends),
            number(kReadSegments),
            number(kWriteSegments),
            number(kReplySegments),
            number(kLocalInvNeeded)};
}

}  // namespace

double fio_rate(const std::string& json, bool write) {
    // "jobs" : [ { ... "read" : { ..., "bw_bytes" : N, ... }, "write" : { ... } } ]
    const std::string section = write ? "\"write\" : {" : "\"read\" : {";
    const std::string key = "\"bw_bytes\" : ";
    const std::size_t jobs = json.find("\"jobs\"");
    if (jobs == std::string::npos) return -1;
    const std::size_t begin = json.find(section, jobs);
    if (begin == std::string::npos) return -1;
    const std::size_t at = json.find(key, begin);
    if (at == std::string::npos) return -1;
    return std::strtod(json.c_str() + at + key.size(), nullptr);
}

LinuxCounters linux_counters(const std::string& mountstats, const std::string& where) {
    const std::string mounted = " mounted on " + where + " ";
    LinuxCounters found;
    bool here = false;
    std::istringstream lines(mountstats);
    for (std::string line; std::getline(lines, line);) {
        if (line.rfind("device ", 0) == 0) {
            here = line.find(mounted) != std::string::npos;
            if (here) found = {};
        }
        if (here && line.find("xprt:") != std::string::npos) {
            if (const LinuxCounters read = parse_xprt(line); read.found) found = read;
        }
    }
    return found;
}

}  // namespace nfsrdma::bench
