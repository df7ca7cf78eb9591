// stats: a server's counters, as nfsrdmad --metrics serves them; those of a mount of this machine,
// as its process tells them; or which mounts there are.
#include <cstdio>
#include <cstdlib>

#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/http_get.hpp"
#include "tools/nfsrdma/metrics_text.hpp"
#include "tools/nfsrdma/mount_stats.hpp"
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

int print(const std::string& text) {
    return std::fputs(text.c_str(), stdout) < 0 ? kFailed : kOk;
}

std::string device_of(const MountEntry& mount) {
    return std::to_string(mount.major) + ":" + std::to_string(mount.minor);
}

int list_mounts(const std::vector<MountEntry>& table, bool json) {
    std::string out;
    for (const MountEntry& mount : table) {
        if (!mount.is_ours()) continue;
        if (json) {
            JsonObject object;
            object.add("source", mount.source)
                .add("directory", mount.directory)
                .add("device", device_of(mount))
                .add("options", mount.options)
                .add("owner", mount.owner);
            out += object.line();
        } else {
            out += printable(mount.source) + " on " + printable(mount.directory) + " (" +
                   mount.options + ", device " + device_of(mount) + ", user " +
                   std::to_string(mount.owner) + ")\n";
        }
    }
    return print(out);
}

int show_mount(const MountEntry& mount, const Options& options) {
    auto text = ask_mount(mount, options.json, options.timeout_s);
    if (!text) {
        complain(mount.directory, "cannot ask for the counters: " + to_string(text.error()));
        return kFailed;
    }
    return print(*text);
}

// What is no name of a host is one of a directory; and so is what a mount of ours is called.
bool looks_like_directory(const std::string& text) {
    return text.empty() || text.front() == '.' || text.find('/') != std::string::npos;
}

int show_server(const Options& options) {
    const std::string& where = options.paths.front();
    std::string host;
    std::uint16_t port = 0;
    if (!split_host(where, host, port)) {
        complain(where,
                 "write HOST or HOST:PORT, the address that nfsrdmad --metrics serves at, or "
                 "the directory of a mount");
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
    return print(options.json ? stats_as_json(samples) : stats_for_people(samples));
}

}  // namespace

int run_stats(const Options& options) {
    auto table = read_mount_table();
    if (options.paths.empty()) {
        if (table) return list_mounts(*table, options.json);
        complain("stats", to_string(table.error()));
        return kFailed;
    }
    const std::string& where = options.paths.front();
    const MountEntry* const mount = table ? find_mount(*table, where) : nullptr;
    if (mount != nullptr) return show_mount(*mount, options);
    if (!looks_like_directory(where)) return show_server(options);
    complain(where, "no mount of mount.nfsrdma is there; nfsrdma stats alone lists them all");
    return kFailed;
}

}  // namespace nfsrdma::tool
