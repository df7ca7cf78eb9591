// get: files and trees from the server.
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/nfsrdma/command_copy.hpp"
#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/local_file.hpp"
#include "tools/nfsrdma/text.hpp"
#include "tools/nfsrdma/tree_get.hpp"

namespace nfsrdma::tool {
namespace {

bool is_directory(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

// The place of each argument: in the directory `target` when there is one, else `target` itself.
struct Target {
    UniqueFd directory;
    std::string name;  // empty: the arguments' own names
    std::string path;
};

struct Place {
    std::string name, path;
};
Place place_of(const Target& target, const Url& url) {
    if (!target.name.empty()) return {target.name, target.path};
    const std::string own = last_component(url.path);
    // The export's root has no name: its content goes into the target.
    if (own.empty() || own == "..") return {std::string(1, '.'), target.path};
    return {own, target.path + '/' + own};
}

bool open_target(const std::string& target, bool must_be_directory, Target& out) {
    std::string parent = target;
    out.path = target;
    if (!is_directory(target)) {
        if (must_be_directory || target.back() == '/') {
            complain(target, "is not a directory");
            return false;
        }
        const std::size_t slash = target.rfind('/');
        out.name = slash == std::string::npos ? target : target.substr(slash + 1);
        parent = slash == std::string::npos ? "." : target.substr(0, slash + 1);
    }
    Result<UniqueFd> fd = open_directory(AT_FDCWD, parent, true);
    if (!fd) {
        complain(parent, errno_text(fd.error().sys));
        return false;
    }
    out.directory = *std::move(fd);
    return true;
}

// See is_copy_itself.
bool goes_on_in(Session& session, const Target& target, const Url& url) {
    if (!target.name.empty()) return false;
    const Found source = session.walk(url, true);
    if (!source.outcome.ok() || source.attributes.type != NF3DIR) return false;
    Result<std::vector<std::string>> there = names_in(target.directory.get());
    return there &&
           is_copy_itself(last_component(url.path), *there, remote_names(session, source.handle));
}

// get URL... -: to standard output, as cat does.
bool is_stdout(const std::string& path) {
    return path == "-";
}

}  // namespace

int run_get(const Options& options) {
    std::vector<std::string> sources = options.paths;
    std::string local = ".";
    if (sources.size() > 1 && !looks_like_url(sources.back())) {
        local = sources.back();
        sources.pop_back();
    }
    if (is_stdout(local)) {
        Options cat = options;
        cat.paths = sources;
        return run_cat(cat);
    }
    std::vector<Url> urls;
    if (!parse_urls(sources, urls)) return kUsage;
    if (local.empty()) {
        complain("", "the local path is empty");
        return kUsage;
    }
    raise_descriptor_limit();
    Target target;
    if (!open_target(local, urls.size() > 1, target)) return kFailed;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;

    std::uint64_t total = 0;
    if (urls.size() == 1 && !options.recursive) {
        const Found found = session->walk(urls.front(), true);
        if (found.outcome.ok()) total = found.attributes.size;
    }
    const bool goes_on = options.resume && options.recursive && urls.size() == 1 &&
                         goes_on_in(*session, target, urls.front());
    return copy_with(
        *session, options, total,
        [&](const CopyOptions& how, Progress& progress, CopyReport& report) {
            TreeGetter getter(*session, how, progress, report);
            for (const Url& url : urls) {
                if (session->interrupted()) break;
                const Place place = goes_on ? Place{".", target.path} : place_of(target, url);
                getter.get(url, target.directory.get(), place.name, place.path);
            }
            return getter.finish();
        });
}

}  // namespace nfsrdma::tool
