// showmount: what a server exports, and who has mounted it, as far as it knows. MOUNT v3 over RDMA.
#include <cstdio>
#include <set>

#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/json.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::Outcome;

std::string text_or(const char* text, const char* instead) {
    return text == nullptr || *text == '\0' ? instead : text;
}

void print_exports(Session& session, const Options& options, const mountexports3& exports) {
    if (!options.json)
        std::printf("Export list for %s:\n", for_stdout(session.server_name()).c_str());
    for (const mountexport3* entry = exports.entries; entry != nullptr; entry = entry->ex_next) {
        const std::string directory = text_or(entry->ex_dir, "");
        std::string clients, list;
        for (const mountgroup3* group = entry->ex_groups; group != nullptr;
             group = group->gr_next) {
            const std::string name = text_or(group->gr_name, "");
            clients.append(clients.empty() ? "" : ",").append(name);
            list.append(list.empty() ? "" : ",").append(json_string(name));
        }
        if (options.json) {
            JsonObject object;
            object.add("export", directory).add_raw("clients", "[" + list + "]");
            (void)std::fputs(object.line().c_str(), stdout);
            continue;
        }
        std::printf("%s %s\n", for_stdout(directory).c_str(),
                    clients.empty() ? "(everyone)" : for_stdout(clients).c_str());
    }
}

void print_mounts(Session& session, const Options& options, const mountlist3& mounts) {
    std::set<std::string> lines;
    for (const mountentry3* entry = mounts.entries; entry != nullptr; entry = entry->ml_next) {
        const std::string host = text_or(entry->ml_hostname, "?");
        const std::string directory = text_or(entry->ml_directory, "?");
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
        nfs::client::ExportOp op;
        outcome = session->run(op);
        if (outcome.ok()) print_exports(*session, options, op.res);
    }
    if (outcome.ok() && wants_mounts) {
        nfs::client::DumpOp op;
        outcome = session->run(op);
        if (outcome.ok()) print_mounts(*session, options, op.res);
    }
    if (!outcome.ok()) {
        session->complain_about(session->server_name(), outcome);
        status = kFailed;
    }
    session->print_stats();
    return session->status(status);
}

}  // namespace nfsrdma::tool
