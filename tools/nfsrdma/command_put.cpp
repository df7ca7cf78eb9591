// put: local files and trees to the server.
#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/local_file.hpp"
#include "tools/nfsrdma/text.hpp"
#include "tools/nfsrdma/tree_put.hpp"

namespace nfsrdma::tool {
namespace {

// What the sources are called at the server: in the directory `url` when there is one, else `url`
// itself.
bool find_target(Session& session, const Url& url, bool must_be_directory, Found& target) {
    target = session.walk(url, true);
    if (target.outcome.ok() && target.attributes.type == NF3DIR) {
        target.name.clear();
        return true;
    }
    const bool absent = target.outcome.rpc && target.outcome.status == NFS3ERR_NOENT;
    if (!target.outcome.ok() && !absent) {
        complain(url, target.outcome);
        return false;
    }
    if (must_be_directory) {
        complain(url.text(),
                 absent ? "no such directory; nfsrdma mkdir makes one" : "is not a directory");
        return false;
    }
    target = session.walk_to_parent(url);
    if (!target.outcome.ok()) complain(url, target.outcome);
    return target.outcome.ok();
}

std::uint64_t size_of(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode)
               ? static_cast<std::uint64_t>(st.st_size)
               : 0;
}

std::string own_name(std::string path) {
    while (path.size() > 1 && path.back() == '/')
        path.pop_back();
    const std::string name = path.substr(path.rfind('/') + 1);
    // "." and ".." have no name of their own: what is in them goes into the target.
    return name == "." || name == ".." ? "" : name;
}

}  // namespace

int run_put(const Options& options) {
    std::vector<std::string> sources = options.paths;
    std::vector<Url> urls;
    if (!parse_urls({sources.back()}, urls)) return kUsage;
    sources.pop_back();
    raise_descriptor_limit();
    for (const std::string& source : sources) {
        struct stat st {};
        if (::stat(source.c_str(), &st) == 0) continue;
        complain(source, errno_text(errno));
        return kFailed;
    }
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    Found target;
    const bool must_be_directory =
        sources.size() > 1 || (urls.front().ends_in_slash() && !options.recursive);
    if (!find_target(*session, urls.front(), must_be_directory, target)) return kFailed;

    bool good = true;
    double seconds = 0;
    std::uint64_t bytes = 0;
    {
        std::uint64_t total = 0;
        if (!options.recursive) {
            for (const std::string& source : sources)
                total += size_of(source);
        }
        Progress progress(session->loop(), ::isatty(STDOUT_FILENO) != 0 && !options.json, total);
        TreePutter putter(*session, CopyOptions{options.recursive, options.jobs, kDepth}, progress);
        for (const std::string& source : sources) {
            putter.put(source, target.handle, target.name.empty() ? own_name(source) : target.name);
        }
        good = putter.finish();
        seconds = progress.seconds();
        bytes = progress.bytes();
    }
    if (session->interrupted()) complain("", "interrupted");
    session->print_stats(seconds, bytes);
    return good ? kOk : kFailed;
}

}  // namespace nfsrdma::tool
