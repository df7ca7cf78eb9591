// nfsrdma: files of an NFS server over RDMA, without a mount.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>

#include "sunrpc/xprt_group.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/patience.hpp"

namespace nfsrdma::tool {
namespace {

using Run = int (*)(const Options&);

void add_common(CLI::App& app, Options& options) {
    devices::add_client_options(
        app, options, 0.001,
        "seconds to wait for each answer, and for a server that asks for patience; for the "
        "connection 10 at most");
    add_patience_options(app, options.patience);
    app.add_option("--rsize", options.rsize,
                   "bytes of one READ at most (default: what the server allows)");
    app.add_option("--wsize", options.wsize,
                   "bytes of one WRITE at most (default: what the server allows)");
    app.add_option("--nconnect", options.nconnect,
                   "connections to the server, over which the load is spread")
        ->check(CLI::Range(1u, sunrpc::XprtGroup::kMembersMax))
        ->capture_default_str();
    app.add_flag("--stats", options.stats,
                 "print counters of calls, keys and throughput at the end");
    app.add_flag(
        "--json", options.json,
        "results as JSON on standard output: one object a line; for cat on standard error");
}

struct Command {
    CLI::App* app;
    Run run;
};

class Commands {
  public:
    Commands(CLI::App& app, Options& options) : app_(app), options_(options) {
        look();
        look_at_server();
        copy();
        change_names();
        change_attributes();
    }
    int run() const {
        for (const Command& command : commands_) {
            if (command.app->parsed()) return command.run(options_);
        }
        return kUsage;
    }

  private:
    CLI::App& add(const char* name, const char* what, Run function, const char* arguments,
                  int least, int most = kMany) {
        CLI::App& sub = *app_.add_subcommand(name, what);
        sub.fallthrough();
        sub.add_option("paths", options_.paths, arguments)
            ->required(least > 0)
            ->expected(least, most)
            ->type_name("");
        sub.footer("Options of every command, such as --json, --timeout, --bind: nfsrdma --help\n" +
                   app_.get_footer());
        commands_.push_back({&sub, function});
        return sub;
    }
    void look() {
        CLI::App& ls =
            add("ls", "list directories, every name that is in them", run_ls, "URL...", 1);
        ls.add_flag("-l", options_.long_listing, "with modes, owners, sizes and times");
        ls.add_flag("-a,--all", options_.all, "also . and ..");
        ls.add_flag("-d,--directory", options_.directory_itself,
                    "the directories themselves, not what is in them");
        ls.add_flag("-1", options_.one_column, "one name a line (as always)");
        ls.add_flag("-0,--null", options_.null_ends,
                    "end each with a zero byte instead of a newline");
        ls.add_flag("-r,-R,--recursive", options_.recursive, "and what is below");
        add("stat", "show all attributes", run_stat, "URL...", 1);
        CLI::App& cat = add("cat", "write files to standard output", run_cat, "URL...", 1);
        cat.add_option("--offset", options_.offset, "begin at this byte");
        cat.add_option("--length", options_.length, "no more than so many bytes of each");
        add("df", "show the space of file systems", run_df, "URL...", 1);
    }
    void look_at_server() {
        CLI::App& ping = add("ping", "measure NULL calls", run_ping, "URL or HOST[:PORT]", 1, 1);
        ping.add_option("-c,--count", options_.count, "how many; 0: until interrupted")
            ->capture_default_str();
        ping.add_option("-i,--interval", options_.interval_s, "seconds between them")
            ->check(CLI::Range(0.0, 3600.0))
            ->capture_default_str();
        CLI::App& showmount = add("showmount", "show what a server exports, by MOUNT v3",
                                  run_showmount, "URL or HOST[:PORT]", 1, 1);
        showmount.add_flag("-e,--exports", options_.exports, "the exports (as without an option)");
        showmount.add_flag("-a,--all", options_.mounts,
                           "who has mounted what, as CLIENT:DIRECTORY");
        showmount.add_flag("-d,--directories", options_.directories,
                           "the directories that somebody has mounted");
        add("stats",
            "show the counters of a mount of mount.nfsrdma, or those that nfsrdmad --metrics "
            "serves; without an argument: which mounts there are",
            run_stats, "DIRECTORY or HOST[:PORT] (port 9949)", 0, 1);
    }
    void copy() {
        CLI::App& get = add("get", "copy from the server, with modes and times", run_get,
                            "URL... [LOCAL]; LOCAL -: standard output", 1);
        CLI::App& put = add("put", "copy to the server, with modes and times", run_put,
                            "LOCAL... URL; LOCAL -: standard input", 2);
        for (CLI::App* sub : {&get, &put}) {
            sub->add_flag("-r,-R,--recursive", options_.recursive,
                          "whole directories; symbolic links stay links");
            sub->add_flag("-c,--continue", options_.resume,
                          "leave out files that are there with the same size and time, and go on "
                          "with those that are there in part");
            sub->add_flag("--verify", options_.verify,
                          "read every copy back and compare it with its source");
            sub->add_option("-j,--jobs", options_.jobs, "files at a time")
                ->check(CLI::Range(1u, 256u))
                ->capture_default_str();
        }
    }
    void change_names() {
        CLI::App& mkdir = add("mkdir", "make directories", run_mkdir, "URL...", 1);
        mkdir.add_flag("-p,--parents", options_.parents,
                       "with those above; no error when it is there");
        CLI::App& rm = add("rm", "remove files", run_rm, "URL...", 1);
        rm.add_flag("-r,-R,--recursive", options_.recursive,
                    "directories with all that is in them");
        rm.add_flag("-f,--force", options_.force, "no error when it is not there");
        add("mv", "rename or move within an export", run_mv,
            "FROM-URL TO-URL, or FROM-URL... DIRECTORY-URL", 2);
        CLI::App& ln =
            add("ln", "make a hard link", run_ln, "URL NEW-URL, or with -s: TEXT NEW-URL", 2, 2);
        ln.add_flag("-s,--symbolic", options_.symbolic, "a symbolic link with this text");
    }
    void change_attributes() {
        add("chmod", "set permissions", run_chmod, "MODE URL...: octal, or such as u+rw,go-w", 2);
        add("chown", "set owners", run_chown, "UID[:GID] URL..., or :GID URL...", 2);
        CLI::App& touch = add("touch", "set times, to the server's present; make empty files",
                              run_touch, "URL...", 1);
        touch.add_flag("-c,--no-create", options_.no_create, "make none");
        touch.add_option("-d,--date", options_.date,
                         "this time: @SECONDS[.FRACTION] or YYYY-MM-DD[ HH:MM[:SS]]");
        CLI::App& truncate = add("truncate", "set sizes; make files", run_truncate, "URL...", 1);
        truncate.add_option("-s,--size", options_.size, "bytes, or such as 64K, 1M, 5G")
            ->required();
        truncate.add_flag("-c,--no-create", options_.no_create, "make none");
    }
    static constexpr int kMany = 1 << 20;
    CLI::App& app_;
    Options& options_;
    std::vector<Command> commands_;
};

int run(int argc, char** argv) {
    Options options;
    CLI::App app(
        "Files of an NFS server over RDMA, without a mount.\n"
        "Places on the server are written nfs://HOST[:PORT]/EXPORT/PATH (default port 20049; %XX "
        "is a byte).");
    app.name("nfsrdma");
    app.require_subcommand(1);
    app.footer(
        "Exit status: 0 all was done, 1 something failed, 2 the command line is wrong, 130 "
        "interrupted. See nfsrdma(1).");
    add_common(app, options);
    const Commands commands(app, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kOk : kUsage;
    }
    if (const std::string why = devices::check_client_options(options); !why.empty()) {
        (void)std::fprintf(stderr, "nfsrdma: %s\n", why.c_str());
        return kUsage;
    }
    // Output to a pipe whose reader has left is an error like others.
    (void)std::signal(SIGPIPE, SIG_IGN);
    const int status = commands.run();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
        return status == kOk ? kFailed : status;
    return status;
}

}  // namespace
}  // namespace nfsrdma::tool

int main(int argc, char** argv) {
    try {
        return nfsrdma::tool::run(argc, argv);
    } catch (const std::exception& error) {  // of libraries: out of memory
        (void)std::fprintf(stderr, "nfsrdma: %s\n", error.what());
        return nfsrdma::tool::kFailed;
    }
}
