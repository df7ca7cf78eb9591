// showmount: what a server exports, and who has mounted it, as far as it knows. MOUNT v3.
#include <cstdio>
#include <set>

#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/json.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::Outcome;

void print_exports(Session& session, const Options& options,
                   const std::vector<nfs::client::ExportedDirectory>& exports) {
    if (!options.json)
        std::printf("Export list for %s:\n", for_stdout(session.server_name()).c_str());
    for (const nfs::client::ExportedDirectory& entry : exports) {
        std::string clients, list;
        for (const std::string& name : entry.clients) {
            clients.append(clients.empty() ? "" : ",").append(name);
            list.append(list.empty() ? "" : ",").append(json_string(name));
        }
        if (options.json) {
            JsonObject object;
            object.add("export", entry.path).add_raw("clients", "[" + list + "]");
            (void)std::fputs(object.line().c_str(), stdout);
            continue;
        }
        std::printf("%s %s\n", for_stdout(entry.path).c_str(),
                    clients.empty() ? "(everyone)" : for_stdout(clients).c_str());
    }
}

void print_mounts(Session& session, const Options& options,
                  const std::vector<nfs::client::MountedDirectory>& mounts) {
    std::set<std::string> lines;
    for (const nfs::client::MountedDirectory& entry : mounts) {
        const std::string host = entry.client.empty() ? "?" : entry.client;
        const std::string directory = entry.path.empty() ? "?" : entry.path;
        if (options.json) {
            lines.insert(JsonObject().add("client", host).add("directory", directory).text());
        } else if (options.directories) {
            lines.insert(directory);
        } else {
            std::string line = host;
            line.append(":").append(directory);
            lines.insert(std::move(line));
        }
    }
    if (!options.json) {
        std::printf("%s %s:\n", options.directories ? "Directories on" : "All mount points on",
                    for_stdout(session.server_name()).c_str());
    }
    for (const std::string& line : lines)
        std::printf("%s\n", for_stdout(line).c_str());
}

}  // namespace

int run_showmount(const Options& options) {
    int status = kOk;
    std::unique_ptr<Session> session = open_server(options, options.paths.front(), status);
    if (session == nullptr) return status;
    const bool wants_mounts = options.mounts || options.directories;
    Outcome outcome;
    if (!wants_mounts || options.exports) {
        std::vector<nfs::client::ExportedDirectory> exports;
        outcome = session->mounts().exports(exports);
        if (outcome.ok()) print_exports(*session, options, exports);
    }
    if (outcome.ok() && wants_mounts) {
        std::vector<nfs::client::MountedDirectory> mounts;
        outcome = session->mounts().dump(mounts);
        if (outcome.ok()) print_mounts(*session, options, mounts);
    }
    if (!outcome.ok()) {
        session->complain_about_mount(outcome);
        status = kFailed;
    }
    session->print_stats();
    return session->status(status);
}

}  // namespace nfsrdma::tool
