// stats: a server's counters, as nfsrdmad --metrics serves them.
#include <cstdio>
#include <cstdlib>

#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/http_get.hpp"
#include "tools/nfsrdma/metrics_text.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

constexpr std::uint16_t kMetricsPort = 9949;

// HOST, HOST:PORT, [ADDRESS]:PORT or a bare IPv6 address.
bool split_host(const std::string& text, std::string& host, std::uint16_t& port) {
    port = kMetricsPort;
    std::string number;
    if (!text.empty() && text.front() == '[') {
        const std::size_t end = text.find(']');
        if (end == text.npos) return false;
        host = text.substr(1, end - 1);
        if (end + 1 == text.size()) return !host.empty();
        if (text[end + 1] != ':') return false;
        number = text.substr(end + 2);
    } else {
        const std::size_t colon = text.find(':');
        const bool one = colon != text.npos && text.find(':', colon + 1) == text.npos;
        host = one ? text.substr(0, colon) : text;
        if (!one) return !host.empty();
        number = text.substr(colon + 1);
    }
    char* end = nullptr;
    const unsigned long value = std::strtoul(number.c_str(), &end, 10);
    if (number.empty() || *end != '\0' || value == 0 || value > UINT16_MAX) return false;
    port = static_cast<std::uint16_t>(value);
    return !host.empty();
}

}  // namespace

int run_stats(const Options& options) {
    const std::string& where = options.paths.front();
    std::string host;
    std::uint16_t port = 0;
    if (!split_host(where, host, port)) {
        complain(where, "write HOST or HOST:PORT, the address that nfsrdmad --metrics serves at");
        return kUsage;
    }
    auto server = SockAddr::resolve(host, port);
    if (!server) {
        complain(host, "unknown host: " + to_string(server.error()));
        return kFailed;
    }
    auto text = http_get(*server, "/metrics", options.timeout_s);
    if (!text) {
        complain(server->to_string(), "cannot read the counters: " + to_string(text.error()) +
                                          "; does nfsrdmad run there with --metrics?");
        return kFailed;
    }
    const std::vector<Sample> samples = parse_metrics(*text);
    const std::string out = options.json ? stats_as_json(samples) : stats_for_people(samples);
    return std::fputs(out.c_str(), stdout) < 0 ? kFailed : kOk;
}

}  // namespace nfsrdma::tool
