// get: files and trees from the server.
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/get_job.hpp"
#include "tools/nfsrdma/job_set.hpp"
#include "tools/nfsrdma/local_file.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::FileHandle;
using nfs::client::Outcome;

class Getter {
  public:
    Getter(Session& session, const Options& options, Progress& progress)
        : session_(session),
          options_(options),
          jobs_(session, options.jobs, kDepth, progress,
                [this](const std::string& label, const Outcome& outcome) {
                    trouble(label, to_string(outcome));
                }) {}

    // One argument of the command to `name` in the directory `at`; `path` is how the place is
    // called.
    void get(const Url& url, int at, const std::string& name, const std::string& path) {
        const Found found = session_.walk(url, true);
        if (!found.outcome.ok()) {
            trouble(url.text(), to_string(found.outcome));
            return;
        }
        if (found.attributes.type == NF3DIR && !options_.recursive) {
            trouble(url.text(), "is a directory; get -r copies it with all that is in it");
            return;
        }
        get_entry(Entry{"", found.attributes, found.handle, true}, Place{at, name, path}, 0);
    }
    // Afterwards: what directories look like from outside, deepest first.
    bool finish() {
        jobs_.wait_for_all();
        for (auto directory = directories_.rbegin(); directory != directories_.rend();
             ++directory) {
            Result<UniqueFd> fd = reopen(*directory);
            Result<void> set = fd ? set_mode_and_mtime(fd->get(), directory->attributes.mode,
                                                       directory->attributes.mtime)
                                  : Result<void>(fd.error());
            if (!set) trouble(directory->path, errno_text(set.error().sys));
        }
        return !failed_ && !jobs_.failed();
    }

  private:
    struct Place {
        int at;
        std::string name;
        std::string path;  // for messages
    };
    // A directory made: by the names that lead to it from where the copy began.
    struct Made {
        int at;
        std::vector<std::string> names;
        std::string path;
        fattr3 attributes;
    };
    void trouble(const std::string& place, const std::string& what) {
        failed_ = true;
        if (!session_.interrupted()) complain(place, what);
    }
    void trouble(const Place& place, const Error& error) {
        trouble(place.path, errno_text(error.sys));
    }

    void get_entry(const Entry& entry, const Place& place, std::uint32_t depth) {
        switch (entry.attributes.type) {
            case NF3DIR:
                get_directory(entry, place, depth);
                return;
            case NF3REG:
                get_file(entry, place);
                return;
            case NF3LNK:
                get_link(entry, place);
                return;
            case NF3BLK:
            case NF3CHR:
            case NF3SOCK:
            case NF3FIFO:
                break;
        }
        complain(place.path, std::string("left out: it is a ") + type_text(entry.attributes.type));
    }

    void get_file(const Entry& entry, const Place& place) {
        Result<UniqueFd> fd = create_file(place.at, place.name);
        if (!fd) {
            trouble(place, fd.error());
            return;
        }
        GetJob::Task task;
        task.file = entry.handle;
        task.attributes = entry.attributes;
        task.fd = *std::move(fd);
        task.label = place.path;
        jobs_.start(std::move(task));
    }

    void get_link(const Entry& entry, const Place& place) {
        nfs::client::ReadlinkOp op;
        op.args.symlink = entry.handle.view();
        const Outcome outcome = session_.run(op);
        const char* target = op.res.READLINK3res_u.resok.data;
        if (!outcome.ok() || target == nullptr) {
            trouble(place.path, to_string(outcome));
            return;
        }
        const Result<void> made =
            make_symlink(place.at, place.name, target, entry.attributes.mtime);
        if (!made) trouble(place, made.error());
    }

    void get_directory(const Entry& entry, const Place& place, std::uint32_t depth) {
        if (depth > kTreeDepthMax) {
            trouble(place.path, "the tree is too deep");
            return;
        }
        Result<UniqueFd> fd = make_directory(place.at, place.name);
        if (!fd) {
            trouble(place, fd.error());
            return;
        }
        if (depth == 0) top_ = place.at;
        names_.push_back(place.name);
        directories_.push_back({top_, names_, place.path, entry.attributes});
        std::vector<Entry> entries;
        const Outcome outcome = session_.list(entry.handle, entries);
        if (!outcome.ok()) trouble(place.path, to_string(outcome));
        for (const Entry& below : entries) {
            if (session_.interrupted() || !session_.connected()) {
                failed_ = true;
                break;
            }
            const std::string path = place.path + "/" + below.name;
            if (!nfs::client::is_plain_name(below.name.c_str())) {
                trouble(
                    path,
                    "refused: the server sent a name that could lead out of the target directory");
            } else if (!below.known) {
                trouble(path, "the server does not tell what it is");
            } else {
                get_entry(below, Place{fd->get(), below.name, path}, depth + 1);
            }
        }
        // Local files are open already, or written: their jobs do not need this descriptor.
        names_.pop_back();
    }

    // Step by step, each without following a link.
    static Result<UniqueFd> reopen(const Made& made) {
        UniqueFd fd;
        int at = made.at;
        for (const std::string& name : made.names) {
            Result<UniqueFd> next = open_directory(at, name, false);
            if (!next) return next;
            fd = *std::move(next);
            at = fd.get();
        }
        return fd;
    }

    Session& session_;
    const Options& options_;
    JobSet<GetJob> jobs_;
    std::vector<Made> directories_;
    std::vector<std::string> names_;
    int top_ = AT_FDCWD;
    bool failed_ = false;
};

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

}  // namespace

int run_get(const Options& options) {
    std::vector<std::string> sources = options.paths;
    std::string local = ".";
    if (sources.size() > 1 && !looks_like_url(sources.back())) {
        local = sources.back();
        sources.pop_back();
    }
    std::vector<Url> urls;
    if (!parse_urls(sources, urls)) return kUsage;
    raise_descriptor_limit();
    Target target;
    if (local.empty()) {
        complain("", "the local path is empty");
        return kUsage;
    }
    if (!open_target(local, urls.size() > 1, target)) return kFailed;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;

    bool good = true;
    double seconds = 0;
    std::uint64_t bytes = 0;
    {
        std::uint64_t total = 0;
        if (urls.size() == 1 && !options.recursive) {
            const Found found = session->walk(urls.front(), true);
            if (found.outcome.ok()) total = found.attributes.size;
        }
        Progress progress(session->loop(), ::isatty(STDOUT_FILENO) != 0 && !options.json, total);
        Getter getter(*session, options, progress);
        for (const Url& url : urls) {
            std::string name = target.name.empty() ? last_component(url.path) : target.name;
            std::string path = target.name.empty() ? target.path + "/" + name : target.path;
            if (name.empty() || name == "..") {
                // The export's root has no name: its content goes into the target.
                name = ".";
                path = target.path;
            }
            getter.get(url, target.directory.get(), name, path);
        }
        good = getter.finish();
        seconds = progress.seconds();
        bytes = progress.bytes();
    }
    if (session->interrupted()) complain("", "interrupted");
    session->print_stats(seconds, bytes);
    return good ? kOk : kFailed;
}

}  // namespace nfsrdma::tool
