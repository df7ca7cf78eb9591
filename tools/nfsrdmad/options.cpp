#include "tools/nfsrdmad/options.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <map>

#include "tools/device/options.hpp"

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
    bool foreground = false;
    std::string listen = "127.0.0.1", device = "softroce", loop = "auto", registration = "auto",
                faults, log_level = "info";
};

void declare(CLI::App& app, Words& words, Options& out) {
    app.add_option("--export", words.exports,
                   "directory to export, by the name NAME (begins with '/') and with options of "
                   "exports(5); without options all may change it, as this process's user; may be "
                   "repeated")
        ->type_name("PATH[=NAME][:OPTIONS]")
        ->allow_extra_args(false);
    app.add_option("--exports-file", out.exports_file,
                   "directories to export in the syntax of exports(5); read again at SIGHUP")
        ->type_name("FILE");
    app.add_flag("--check", out.check,
                 "say what would be served, and end: 0 when all is well, 2 when it is not");
    app.add_flag("--foreground", words.foreground, "stay in the foreground, as it does anyway");
    app.add_flag("--manage-gids", out.manage_gids,
                 "look up the groups of callers here and ignore those that they send");
    app.add_option("--listen", words.listen,
                   "numeric address and port to serve at; loopback only unless told otherwise here")
        ->type_name("ADDR[:PORT]")
        ->capture_default_str();
    devices::add_device_option(app, words.device);
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
                   "UDP port of the softroce device; standard peers use no other than the default")
        ->check(CLI::Range(1, 0xBFFF))
        ->capture_default_str();
    app.add_option("--faults", words.faults,
                   "for tests: what is to go wrong on the softroce device; see rpcrdma-stress(1)")
        ->type_name("SPEC");
    app.add_option("--log-level", words.log_level, "what to log on stderr")
        ->check(CLI::IsMember({"error", "warn", "info", "debug"}))
        ->capture_default_str();
    app.add_option("--stats-json", out.stats_file,
                   "file to write counters to, at SIGUSR1 and at the end")
        ->type_name("FILE");
    app.add_option("--state-dir", out.handles.state_dir,
                   "directory for what makes file handles survive a restart; made if missing")
        ->type_name("DIR");
    app.add_option("--handle-key", out.handles.key_file,
                   "file of 32 secret bytes that sign file handles, made if missing; servers that "
                   "share it and a file system serve each other's handles (default: in the state "
                   "directory, else new at each start)")
        ->type_name("FILE");
    app.add_option(
           "--places-max", out.handles.places_max,
           "names that each export remembers, some 70 bytes each, where the kernel does not "
           "open file handles for this process")
        ->check(CLI::Range(1024, 64 << 20))
        ->capture_default_str();
    declare_services(app, out.services);
}

// False when what is wrong has been said.
bool understand_faults(const Words& words, Options& out) {
    std::string why;
    const auto faults = verbs::softroce::parse_faults(words.faults, why);
    if (faults && faults->on_server()) why = "kill= and stop= are not for the server itself";
    if (faults) out.faults = *faults;
    if (why.empty()) return true;
    static_cast<void>(std::fprintf(stderr, "nfsrdmad: --faults: %s\n", why.c_str()));
    return false;
}

// False when what is wrong has been said.
bool understand_exports(const Words& words, Options& out) {
    for (const std::string& text : words.exports) {
        std::string why;
        out.exports.push_back(parse_export(text, why));
        if (why.empty()) continue;
        static_cast<void>(
            std::fprintf(stderr, "nfsrdmad: --export %s: %s\n", text.c_str(), why.c_str()));
        return false;
    }
    if (!out.exports.empty() || !out.exports_file.empty()) return true;
    static_cast<void>(std::fputs(
        "nfsrdmad: nothing to export: --export PATH or --exports-file FILE is needed\n", stderr));
    return false;
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
    out.device = devices::parse_choice(words.device).value_or(devices::Choice{});
    out.loop = loops.at(words.loop);
    out.registration = registrations.at(words.registration);
    return {};
}

}  // namespace

ExportOption parse_export(const std::string& text, std::string& why) {
    std::error_code ignored;
    ExportOption out;
    out.path = text;
    if (std::filesystem::exists(text, ignored)) {
        out.name = absolute_name(text);
        return out;
    }
    const std::size_t colon = text.rfind(':');
    if (colon != text.npos && colon != 0 && text.find('/', colon) == text.npos) {
        out.has_options = true;
        out.path = text.substr(0, colon);
        std::vector<std::string> without_effect;
        nfs::parse_client_options(text.substr(colon + 1), out.list, without_effect, why);
        for (const std::string& note : without_effect)
            log::debug("--export {}: {}", text, note);
    }
    const std::size_t mark = out.path.rfind("=/");
    if (mark != out.path.npos && mark != 0 && !std::filesystem::exists(out.path, ignored)) {
        out.name = out.path.substr(mark + 1);
        out.path.resize(mark);
    } else {
        out.name = absolute_name(out.path);
    }
    return out;
}

bool parse_options(int argc, const char* const* argv, Options& out, int& exit_status) {
    CLI::App app("Serves directories by NFSv3 over RPC-over-RDMA.", "nfsrdmad");
    app.footer(
        "Needs no privilege and no RDMA hardware. Prints one line on stdout when it serves;\n"
        "SIGTERM or SIGINT ends it in order, a second one at once; SIGHUP reads the exports file\n"
        "again. man nfsrdmad and man nfsrdma-exports tell the rest.\n"
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
    exit_status = kUsage;
    return understand_faults(words, out) && understand_exports(words, out);
}

}  // namespace nfsrdma::nfsrdmad
