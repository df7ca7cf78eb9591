#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "tools/device/options.hpp"
#include "tools/rpcrdma_bench/compare_linux.hpp"
#include "tools/rpcrdma_bench/fault_rows.hpp"
#include "tools/rpcrdma_bench/nfs_ops.hpp"
#include "tools/rpcrdma_bench/ratios.hpp"
#include "tools/rpcrdma_bench/register_bench.hpp"
#include "tools/rpcrdma_bench/tirpc_rows.hpp"

namespace {

CLI::App* declare_register(CLI::App& app, nfsrdma::bench::RegisterOptions& keys, bool& smoke) {
    CLI::App* command = app.add_subcommand(
        "register",
        "what a key costs that is bound and invalidated, against a registration of the same "
        "memory; 32 at a time, on a device that talks to itself");
    nfsrdma::devices::add_device_option(*command, keys.device);
    command->add_option("--address", keys.address, "an address of the device")->required();
    command->add_flag("--json", keys.json, "one JSON object a line");
    command->add_flag("--smoke", smoke, "few and short pairs: shows that it runs, not how fast");
    command->add_option("--pairs", keys.pairs.pairs, "pairs of each row")
        ->check(CLI::Range(1, 101))
        ->capture_default_str();
    command->add_option("--seconds", keys.pairs.seconds, "of each side of a pair")
        ->check(CLI::Range(0.05, 60.0))
        ->capture_default_str();
    return command;
}

CLI::App* declare_compare_linux(CLI::App& app, nfsrdma::bench::CompareLinuxOptions& beside) {
    CLI::App* command = app.add_subcommand(
        "compare-linux",
        "our client and server beside Linux's, on one RDMA device: each export holds a file "
        "bench-data of 64 MiB; needs fio");
    nfsrdma::devices::add_device_option(*command, beside.device);
    command->add_option("--linux-server", beside.linux_server, "Linux nfsd: ADDRESS[:PORT]")
        ->required();
    command->add_option("--linux-export", beside.linux_export, "its export")->required();
    command->add_option("--linux-mountport", beside.linux_mount_port, "of its MOUNT over TCP")
        ->capture_default_str();
    command->add_option("--our-server", beside.our_server, "nfsrdmad: ADDRESS[:PORT]")->required();
    command->add_option("--our-export", beside.our_export, "its export")->required();
    command
        ->add_option("--mounted", beside.mounted,
                     "where Linux has mounted the Linux export over RDMA")
        ->required();
    command->add_option("--rounds", beside.rounds, "of each; the medians are printed")
        ->check(CLI::Range(1, 101))
        ->capture_default_str();
    command->add_flag("--json", beside.json, "one JSON object a line");
    return command;
}

// rpcrdma-bench: what this build reaches on this machine, as ratios to what the machine can do at
// all.
int run(int argc, char** argv) {
    CLI::App app{
        "Measures RPC-over-RDMA on the soft device against bare UDP, TCP and libtirpc, side by "
        "side on the same "
        "cores. Every line is `NAME VALUE`; a ratio is the median of interleaved pairs, its spread "
        "and both sides "
        "stand behind it."};
    app.require_subcommand(1);
    nfsrdma::bench::RatioOptions options;
    bool smoke = false;
    const auto declare = [&](const char* name, const char* help,
                             const std::vector<std::string>& rows) {
        CLI::App* command = app.add_subcommand(name, help);
        command->add_flag("--json", options.json, "one JSON object a line");
        command->add_flag("--smoke", smoke,
                          "few and short pairs: shows that it runs, not how fast");
        command->add_option("--pairs", options.pairs.pairs, "pairs of each row")
            ->check(CLI::Range(1, 101));
        command->add_option("--seconds", options.pairs.seconds, "of each side of a pair")
            ->check(CLI::Range(0.05, 60.0));
        command->add_option("--only", options.only, "these rows alone")
            ->delimiter(',')
            ->check(CLI::IsMember(rows));
        return command;
    };
    declare("ratios", "every ratio and counter, in one run", nfsrdma::bench::ratio_names());
    const CLI::App* ops =
        declare("nfs_ops", "NFS operations per second, beside the same by system calls",
                nfsrdma::bench::nfs_ops_names());
    CLI::App* faults =
        declare("faults", "verified mixed IO on a link that loses packets, beside a clean one",
                nfsrdma::bench::fault_row_names());
    const CLI::App* tirpc =
        declare("tirpc", "a libtirpc program over RDMA, beside the same over libtirpc's TCP",
                nfsrdma::bench::tirpc_row_names());
    nfsrdma::bench::RegisterOptions keys;
    CLI::App* registering = declare_register(app, keys, smoke);
    nfsrdma::bench::CompareLinuxOptions beside;
    CLI::App* comparing = declare_compare_linux(app, beside);
    std::string role, address;
    CLI::App* child = app.add_subcommand("role", "a child process of `ratios`")->group("");
    child->add_option("role", role)->required();
    child->add_option("address", address)->required();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    if (*child) {
        const int status = nfsrdma::bench::run_role(role, address);
        if (status < 0)
            (void)std::fprintf(stderr, "rpcrdma-bench: no such role: %s\n", role.c_str());
        return status < 0 ? 2 : status;
    }
    if (smoke) options.pairs = keys.pairs = {1, 0.1};
    if (*comparing) return nfsrdma::bench::run_compare_linux(beside);
    if (*tirpc) return nfsrdma::bench::run_tirpc(options);
    if (*registering) return nfsrdma::bench::run_register(keys);
    if (*faults) {
        if (!smoke && faults->count("--pairs") == 0)
            options.pairs.pairs = nfsrdma::bench::kFaultPairs.pairs;
        if (!smoke && faults->count("--seconds") == 0)
            options.pairs.seconds = nfsrdma::bench::kFaultPairs.seconds;
        return nfsrdma::bench::run_faults(options);
    }
    return *ops ? nfsrdma::bench::run_nfs_ops(options) : nfsrdma::bench::run_ratios(options);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {  // of libraries: out of memory
        (void)std::fprintf(stderr, "rpcrdma-bench: %s\n", error.what());
        return 1;
    }
}
