#include "tools/nfsrdmad/options.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>

namespace nfsrdma::nfsrdmad {
namespace {

constexpr int kUsage = 2;

std::string absolute_name(const std::string& path) {
    std::error_code error;
    std::filesystem::path absolute = std::filesystem::absolute(path, error);
    if (error) absolute = path;
    return absolute.lexically_normal().string();
}

// The words as they are typed.
struct Words {
    std::vector<std::string> exports;
    std::string listen = "127.0.0.1", device = "softroce", loop = "auto", registration = "auto",
                log_level = "info";
};

void declare(CLI::App& app, Words& words, Options& out) {
    app.add_option(
           "--export", words.exports,
           "directory to export, as PATH or PATH=NAME (NAME begins with '/'); may be repeated")
        ->required()
        ->type_name("PATH[=NAME]")
        ->allow_extra_args(false);
    app.add_option("--listen", words.listen,
                   "numeric address and port to serve at; loopback only unless told otherwise here")
        ->type_name("ADDR[:PORT]")
        ->capture_default_str();
    app.add_option("--device", words.device,
                   "RDMA device: softroce is the built-in soft-RoCE device")
        ->check(CLI::IsMember({"softroce"}))
        ->capture_default_str();
    app.add_option("--loops", out.loops, "event loops, each a thread")
        ->check(CLI::Range(1, 64))
        ->capture_default_str();
    app.add_option("--loop", words.loop, "how loops wait for the kernel")
        ->check(CLI::IsMember({"auto", "io_uring", "epoll"}))
        ->capture_default_str();
    app.add_option("--registration", words.registration,
                   "how memory keys are made; static is the unsafe one")
        ->check(CLI::IsMember({"auto", "bind", "static"}))
        ->capture_default_str();
    app.add_option("--roce-port", out.roce_port,
                   "UDP port of the soft-RoCE device; standard peers use no other than the default")
        ->check(CLI::Range(1, 0xBFFF))
        ->capture_default_str();
    app.add_option("--log-level", words.log_level, "what to log on stderr")
        ->check(CLI::IsMember({"error", "warn", "info", "debug"}))
        ->capture_default_str();
    app.add_option("--stats-json", out.stats_file,
                   "file to write counters to, at SIGUSR1 and at the end")
        ->type_name("FILE");
}

Result<void> understand(const Words& words, Options& out) {
    static const std::map<std::string, LoopBackend> loops = {{"auto", LoopBackend::automatic},
                                                             {"io_uring", LoopBackend::io_uring},
                                                             {"epoll", LoopBackend::epoll}};
    static const std::map<std::string, pools::Registration> registrations = {
        {"auto", pools::Registration::automatic},
        {"bind", pools::Registration::bind},
        {"static", pools::Registration::fixed}};
    NR_TRY_ASSIGN(out.listen, SockAddr::parse(words.listen, kNfsRdmaPort));
    NR_TRY_ASSIGN(out.log_level, log::parse_level(words.log_level));
    out.loop = loops.at(words.loop);
    out.registration = registrations.at(words.registration);
    for (const std::string& text : words.exports)
        out.exports.push_back(parse_export(text));
    return {};
}

}  // namespace

ExportOption parse_export(const std::string& text) {
    std::error_code ignored;
    const std::size_t mark = text.rfind("=/");
    if (mark != text.npos && mark != 0 && !std::filesystem::exists(text, ignored)) {
        return {text.substr(0, mark), text.substr(mark + 1)};
    }
    return {text, absolute_name(text)};
}

bool parse_options(int argc, const char* const* argv, Options& out, int& exit_status) {
    CLI::App app("Serves directories by NFSv3 over RPC-over-RDMA.", "nfsrdmad");
    app.footer(
        "Needs no privilege and no RDMA hardware. Prints one line on stdout when it serves;\n"
        "SIGTERM or SIGINT ends it in order, a second one at once.\n"
        "Exit status: 0 ended in order, 1 failed, 2 bad usage.");
    app.set_version_flag("--version", "nfsrdmad " NR_VERSION);
    Words words;
    declare(app, words, out);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        const int status = app.exit(error);
        exit_status = status == 0 ? 0 : kUsage;
        return false;
    }
    const Result<void> understood = understand(words, out);
    if (!understood) {
        static_cast<void>(
            std::fprintf(stderr, "nfsrdmad: --listen %s: not a numeric address (ADDR[:PORT])\n",
                         words.listen.c_str()));
        exit_status = kUsage;
        return false;
    }
    return true;
}

}  // namespace nfsrdma::nfsrdmad
