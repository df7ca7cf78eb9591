#include "tools/mount_nfsrdma/options.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/sock_addr.hpp"

namespace nfsrdma::mount {
namespace {

// MNTPATHLEN of RFC 1813 s5.1.2; names of hosts are shorter than 256 bytes.
constexpr std::size_t kPathMax = 1024, kHostMax = 255;

int complain(const std::string& what) {
    return std::fprintf(stderr, "mount.nfsrdma: %s\n", what.c_str());
}

// The words as they are typed.
struct Words {
    std::string source, directory, type, network_namespace;
    std::vector<std::string> lists;
    bool read_only = false, read_write = false;
};

void declare(CLI::App& app, Words& words, MountOptions& out) {
    app.name("mount.nfsrdma");
    app.set_help_flag("-h,--help", "this text; the options behind -o are in mount.nfsrdma(8)");
    app.set_version_flag("-V,--version", "mount.nfsrdma " NR_VERSION);
    app.add_option("SERVER:/EXPORT", words.source,
                   "what to mount; an IPv6 address stands in brackets")
        ->required();
    app.add_option("DIR", words.directory, "where to: a directory")->required();
    app.add_option(
           "-o", words.lists,
           "options, with the names and meanings of nfs(5) and mount(8); the last one holds")
        ->type_name("OPTION[,OPTION...]")
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_flag("-f,--fake", out.fake, "only look whether the command line is right");
    app.add_flag("-n,--no-mtab", out.no_mtab, "no effect: there is no mtab to write");
    app.add_flag("-s,--sloppy", out.sloppy, "leave out options that are not known");
    app.add_flag("-v,--verbose", out.verbose, "say more; twice: yet more");
    app.add_flag("-r,--read-only", words.read_only, "as -o ro");
    app.add_flag("-w,--read-write", words.read_write, "as -o rw");
    app.add_flag("-F,--foreground", out.foreground,
                 "stay in the foreground until it is unmounted: for supervisors and tests");
    app.add_option("-t", words.type, "what mount(8) calls the type: nfsrdma or fuse.nfsrdma");
    app.add_option("-N,--namespace", words.network_namespace, "refused: run it in the namespace");
    app.footer(
        "Among the options behind -o:\n"
        "  port=N nconnect=N rsize=N wsize=N mountport=N mountproto=rdma|tcp|udp device=NAME\n"
        "  hard soft softerr timeo=DECISECONDS retrans=N bg fg retry=MINUTES\n"
        "  ro rw noac actimeo=N acregmin=N acregmax=N acdirmin=N acdirmax=N nocto\n"
        "  lookupcache=all|positive|none rdirplus nordirplus nosuid nodev noexec noatime\n"
        "  allow_other no_allow_other default_permissions no_default_permissions\n"
        "Exit status: 0 it is mounted, 1 the command line is wrong, 2 the system has not what is\n"
        "needed, 32 it could not be mounted. See mount.nfsrdma(8).");
}

// Empty, or what is wrong with it.
std::string parse_source(const std::string& text, MountOptions& out) {
    std::string expected = "'" + text + "' is no export: write SERVER:/EXPORT";
    if (text.find("://") != std::string::npos) return expected + ", not a URL";
    std::size_t colon = std::string::npos;
    if (!text.empty() && text.front() == '[') {
        const std::size_t close = text.find(']');
        if (close == std::string::npos) return expected + ", with ']' behind an IPv6 address";
        out.server = text.substr(1, close - 1);
        if (!SockAddr::parse(out.server, 1) || out.server.find(':') == std::string::npos)
            return "'" + out.server + "' in brackets is no IPv6 address";
        colon = close + 1;
    } else {
        colon = text.find(':');
        out.server = text.substr(0, colon);
    }
    if (out.server.empty() || colon >= text.size() || text[colon] != ':') return expected;
    out.export_path = text.substr(colon + 1);
    if (out.export_path.empty() || out.export_path.front() != '/') {
        const bool is_v6 = text.front() != '[' && out.export_path.find(':') != std::string::npos;
        return expected + (is_v6 ? ", with an IPv6 address in brackets" : "; EXPORT begins with /");
    }
    if (out.server.find_first_of("/, ") != std::string::npos)
        return "'" + out.server + "' is not the name of one server";
    if (out.server.size() > kHostMax) return "the name of the server is too long";
    if (out.export_path.size() > kPathMax)
        return "the path of the export is longer than the 1024 bytes that MOUNT has for it";
    return {};
}

// What the command line has beside -o. Empty, or what is wrong with it.
std::string understand(const Words& words, MountOptions& out) {
    std::string why = parse_source(words.source, out);
    if (!why.empty()) return why;
    if (words.directory.empty()) return "the directory to mount at has no name";
    out.directory = words.directory;
    if (!words.type.empty() && words.type != "nfsrdma" && words.type != "fuse.nfsrdma")
        return "-t " + words.type + ": this mounts nfsrdma alone";
    if (!words.network_namespace.empty())
        return "-N: a namespace cannot be chosen here; run it by nsenter(1) or ip-netns(8)";
    return {};
}

}  // namespace

std::string MountOptions::source() const {
    const bool is_v6 = server.find(':') != std::string::npos;
    return (is_v6 ? "[" + server + "]" : server) + ":" + export_path;
}

Parsed parse_options(int argc, const char* const* argv, bool as_root, MountOptions& options) {
    options = MountOptions();
    options.allow_other = options.default_permissions = as_root;
    Words words;
    CLI::App app(
        "Mounts a directory that a server exports by NFS version 3 over RDMA (RFC 8166), without "
        "the kernel's NFS or RDMA.");
    declare(app, words, options);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? Parsed::done : Parsed::wrong;
    }
    std::string list;
    for (const std::string& text : words.lists)
        list += "," + text;
    if (words.read_only || words.read_write) list += words.read_only ? ",ro" : ",rw";
    std::string why = understand(words, options);
    if (why.empty()) why = parse_list(list, as_root, options.sloppy, options);
    if (why.empty()) return Parsed::mount;
    (void)complain(why);
    return Parsed::wrong;
}

}  // namespace nfsrdma::mount
