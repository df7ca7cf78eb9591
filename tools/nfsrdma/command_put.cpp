// put: local files and trees to the server.
#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/nfsrdma/command_copy.hpp"
#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/local_file.hpp"
#include "tools/nfsrdma/stream_put.hpp"
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
        session.complain_about(url.text(), target.outcome);
        return false;
    }
    if (must_be_directory) {
        complain(url.text(),
                 absent ? "no such directory; nfsrdma mkdir makes one" : "is not a directory");
        return false;
    }
    target = session.walk_to_parent(url);
    if (!target.outcome.ok()) session.complain_about(url.text(), target.outcome);
    return target.outcome.ok();
}

std::string own_name(std::string path);

// See is_copy_itself. Then the target is what the URL names, in its parent.
void go_on_in(Session& session, const std::string& source, const Url& url, Found& target) {
    Result<UniqueFd> fd = open_directory(AT_FDCWD, source, true);
    if (!target.name.empty() || !fd) return;
    Result<std::vector<std::string>> names = names_in(fd->get());
    if (!names) return;
    if (!is_copy_itself(own_name(source), remote_names(session, target.handle), *names)) return;
    const Found parent = session.walk_to_parent(url);
    if (parent.outcome.ok()) target = parent;
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
    const bool from_stdin = sources.size() == 1 && sources.front() == "-";
    raise_descriptor_limit();
    for (const std::string& source : sources) {
        struct stat st {};
        if (from_stdin || ::stat(source.c_str(), &st) == 0) continue;
        complain(source, errno_text(errno));
        return kFailed;
    }
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    Found target;
    const bool must_be_directory =
        sources.size() > 1 || (urls.front().ends_in_slash() && !options.recursive);
    if (!find_target(*session, urls.front(), must_be_directory, target))
        return session->status(kFailed);
    if (from_stdin && target.name.empty()) {
        complain(urls.front().text(), "is a directory; standard input needs the name of a file");
        return kFailed;
    }

    if (options.resume && options.recursive && sources.size() == 1)
        go_on_in(*session, sources.front(), urls.front(), target);
    std::uint64_t total = 0;
    if (!options.recursive && !from_stdin) {
        for (const std::string& source : sources)
            total += size_of(source);
    }
    return copy_with(*session, options, total,
                     [&](const CopyOptions& how, Progress& progress, CopyReport& report) {
                         if (from_stdin) {
                             return put_stream(*session, STDIN_FILENO, target, urls.front().text(),
                                               progress, report);
                         }
                         TreePutter putter(*session, how, progress, report);
                         for (const std::string& source : sources) {
                             if (session->interrupted()) break;
                             putter.put(source, target.handle,
                                        target.name.empty() ? own_name(source) : target.name);
                         }
                         return putter.finish();
                     });
}

}  // namespace nfsrdma::tool
