// rpcrdma-doctor: what a machine has for RPC over RDMA and what would be used; what another one
// says. It changes nothing.
#include <algorithm>
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "devices/rdma.hpp"
#include "tools/device/options.hpp"
#include "tools/nfsrdma/url.hpp"
#include "tools/rpcrdma_doctor/report.hpp"

namespace nfsrdma::doctor {
namespace {

constexpr int kOk = 0, kFailed = 1, kUsage = 2;

struct Options {
    std::string target, device = "auto", bind;
    double timeout_s = 5;
    std::uint32_t count = 10;
    bool json = false;
};

int complain(const std::string& what) {
    (void)std::fprintf(stderr, "rpcrdma-doctor: %s\n", what.c_str());
    return kFailed;
}

bool is_device(const std::vector<verbs::rdmacore::DeviceInfo>& known, const std::string& name) {
    return name == "softroce" || std::any_of(known.begin(), known.end(), [&](const auto& device) {
               return device.name == name;
           });
}

int print(const Report& report, bool json) {
    const std::string text = json ? to_json(report) : to_text(report);
    (void)std::fputs(text.c_str(), stdout);
    if (std::fflush(stdout) != 0) return kFailed;
    return any_failure(report.findings) ? kFailed : kOk;
}

int examine_machine(const Options& options) {
    Report report;
    report.machine = look_at_machine();
    report.device = options.target;
    report.findings = judge(*report.machine, options.target);
    return print(report, options.json);
}

int examine_peer(const Options& options) {
    std::string why;
    const auto url = tool::parse_server(options.target, why);
    if (!url) {
        (void)complain(why);
        return kUsage;
    }
    auto server = SockAddr::resolve(url->host, url->port);
    if (!server) {
        return complain("'" + options.target +
                        "' is neither an RDMA device of this machine nor a host that is known");
    }
    PeerQuestion question;
    question.server = *server;
    question.device.choice = devices::parse_choice(options.device).value_or(devices::Choice{});
    question.device.address = *server;
    question.timeout_ns =
        static_cast<std::uint64_t>(options.timeout_s * static_cast<double>(kNsPerSec));
    question.nulls = options.count;
    if (!options.bind.empty()) {
        auto bind = SockAddr::parse(options.bind, 0);
        if (!bind) {
            (void)complain("--bind " + options.bind + " is no address");
            return kUsage;
        }
        question.device.bind = *bind;
    }
    Report report;
    report.peer = look_at_peer(question);
    report.findings = judge(*report.peer);
    return print(report, options.json);
}

int run(int argc, char** argv) {
    Options options;
    CLI::App app(
        "Tells what this machine has for RPC over RDMA and what would be used; of a HOST, whether "
        "it can be reached, and what it says of itself. Changes nothing.",
        "rpcrdma-doctor");
    app.footer(
        "Exit status: 0 it works, 1 it does not, 2 the command line is wrong. See "
        "rpcrdma-doctor(1).");
    app.add_option("target", options.target,
                   "a device of this machine (rxe0, softroce), or HOST[:PORT], or a URL "
                   "nfs://HOST[:PORT]/... (default: this machine with all it has)")
        ->type_name("DEVICE|HOST");
    devices::add_device_option(app, options.device);
    app.add_option("--bind", options.bind,
                   "softroce: local ADDRESS[:PORT] of the device towards HOST");
    app.add_option("--timeout", options.timeout_s, "seconds to wait for HOST, each time")
        ->check(CLI::Range(0.1, 600.0))
        ->capture_default_str();
    app.add_option("-c,--count", options.count, "NULL calls that are measured")
        ->check(CLI::Range(1u, 100000u))
        ->capture_default_str();
    app.add_flag("--json", options.json, "as one line of JSON");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kOk : kUsage;
    }
    if (options.target.empty() || is_device(devices::list_rdma_devices(), options.target))
        return examine_machine(options);
    return examine_peer(options);
}

}  // namespace
}  // namespace nfsrdma::doctor

int main(int argc, char** argv) {
    try {
        return nfsrdma::doctor::run(argc, argv);
    } catch (const std::exception& error) {  // of libraries: out of memory
        (void)std::fprintf(stderr, "rpcrdma-doctor: %s\n", error.what());
        return nfsrdma::doctor::kFailed;
    }
}
