#include "tools/nfsrdma/command_copy.hpp"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {

int copy_with(Session& session, const Options& options, std::uint64_t total_bytes,
              const Copy& copy) {
    const bool terminal = ::isatty(STDOUT_FILENO) != 0 && !options.json;
    CopyOptions how;
    how.recursive = options.recursive;
    how.jobs = options.jobs;
    how.depth = kDepth;
    how.rules = {options.resume, options.verify};
    CopyReport report;
    bool good = true;
    Moved moved;
    std::string line;
    {
        Progress progress(session.loop(), terminal, total_bytes);
        good = copy(how, progress, report);
        moved = {progress.seconds(), progress.bytes()};
        line = progress.line();
    }
    if (terminal) std::printf("%s\n", line.c_str());
    const bool worth_a_word = !report.good() || report.skipped != 0 || report.omitted != 0;
    if (worth_a_word && !options.json) complain("", report.line());
    // At its end, or nobody had the patience to wait until it is made again.
    if (!session.client().xprt().connected() && !session.interrupted() && !good)
        complain("", "the connection is lost; the same command with --continue goes on");
    JsonObject object;
    report.add_to(object);
    object.add("interrupted", session.interrupted());
    session.print_summary(moved, std::move(object));
    return session.status(good ? kOk : kFailed);
}

bool is_copy_itself(const std::string& own_name, const std::vector<std::string>& there,
                    const std::vector<std::string>& in_source) {
    if (there.empty() || std::binary_search(there.begin(), there.end(), own_name)) return false;
    return std::includes(in_source.begin(), in_source.end(), there.begin(), there.end());
}

std::vector<std::string> remote_names(Session& session, const nfs::client::FileHandle& directory) {
    std::vector<Entry> entries;
    std::vector<std::string> names;
    if (!session.list(directory, entries, ListOptions{true, false}).ok()) return names;
    for (Entry& entry : entries)
        names.push_back(std::move(entry.name));
    return names;
}

}  // namespace nfsrdma::tool
