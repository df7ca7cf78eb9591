// put: local files and trees to the server.
#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/job_set.hpp"
#include "tools/nfsrdma/local_file.hpp"
#include "tools/nfsrdma/put_job.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::FileHandle;
using nfs::client::Outcome;

// Names in the directory, without "." and "..", sorted. The descriptor stays open.
Result<std::vector<std::string>> names_in(int fd) {
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return Error{Errc::system, errno, "read directory"};
    DIR* const dir = ::fdopendir(copy);
    if (dir == nullptr) {
        const int error = errno;
        ::close(copy);
        return Error{Errc::system, error, "read directory"};
    }
    std::vector<std::string> names;
    for (;;) {
        errno = 0;
        const dirent* const entry =
            ::readdir(dir);  // NOLINT(concurrency-mt-unsafe): this stream is ours alone
        if (entry == nullptr) break;
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
    }
    const int error = errno;
    ::closedir(dir);
    if (error != 0) return Error{Errc::system, error, "read directory"};
    std::sort(names.begin(), names.end());
    return names;
}

class Putter {
  public:
    Putter(Session& session, const Options& options, Progress& progress)
        : session_(session),
          options_(options),
          jobs_(session, options.jobs, kDepth, progress,
                [this](const std::string& label, const Outcome& outcome) {
                    trouble(label, to_string(outcome));
                }) {}

    // The local `path` becomes `name` in `directory`.
    void put(const std::string& path, const FileHandle& directory, const std::string& name) {
        struct stat st {};
        // An argument that is a link means what it leads to; in a tree links stay links.
        if (::stat(path.c_str(), &st) != 0) {
            trouble(path, errno_text(errno));
            return;
        }
        if (S_ISDIR(st.st_mode) && !options_.recursive) {
            trouble(path, "is a directory; put -r copies it with all that is in it");
            return;
        }
        put_entry(Source{AT_FDCWD, path, path, true}, st, directory, name, 0);
    }
    bool finish() {
        jobs_.wait_for_all();
        for (auto directory = directories_.rbegin(); directory != directories_.rend();
             ++directory) {
            if (session_.interrupted() || !session_.connected()) break;
            nfs::client::SetattrOp op;
            op.args.object = directory->handle.view();
            set_mode(op.args.new_attributes, directory->attributes.st_mode);
            set_mtime(op.args.new_attributes, directory->attributes.st_mtim);
            const Outcome outcome = session_.run(op);
            if (!outcome.ok()) trouble(directory->path, to_string(outcome));
        }
        return !failed_ && !jobs_.failed() && !session_.interrupted();
    }

  private:
    struct Source {
        int at;
        std::string name;
        std::string path;  // for messages
        bool follow_link;
    };
    struct Made {
        FileHandle handle;
        struct stat attributes;
        std::string path;
    };
    void trouble(const std::string& place, const std::string& what) {
        failed_ = true;
        if (!session_.interrupted()) complain(place, what);
    }

    void put_entry(const Source& source, const struct stat& st, const FileHandle& directory,
                   const std::string& name, std::uint32_t depth) {
        if (S_ISDIR(st.st_mode)) {
            put_directory(source, st, directory, name, depth);
        } else if (S_ISREG(st.st_mode)) {
            put_file(source, directory, name);
        } else if (S_ISLNK(st.st_mode)) {
            put_link(source, st, directory, name);
        } else {
            complain(source.path, "left out: it is neither file, directory nor symbolic link");
        }
    }

    void put_file(const Source& source, const FileHandle& directory, const std::string& name) {
        Result<UniqueFd> fd = open_source(source.at, source.name, source.follow_link);
        PutJob::Task task;
        if (!fd || ::fstat(fd->get(), &task.attributes) != 0) {
            trouble(source.path, errno_text(fd ? errno : fd.error().sys));
            return;
        }
        task.fd = *std::move(fd);
        task.directory = directory;
        task.name = name;
        task.label = source.path;
        jobs_.start(std::move(task));
    }

    void put_link(const Source& source, const struct stat& st, const FileHandle& directory,
                  std::string name) {
        Result<std::string> target = read_symlink(source.at, source.name);
        if (!target) {
            trouble(source.path, errno_text(target.error().sys));
            return;
        }
        nfs::client::SymlinkOp op;
        op.args.where = {directory.view(), name.data()};
        op.args.symlink.symlink_data = target->data();
        set_mode(op.args.symlink.symlink_attributes, st.st_mode);
        set_mtime(op.args.symlink.symlink_attributes, st.st_mtim);
        Outcome outcome = session_.run(op);
        // A link that is there is replaced; anything else is not.
        if (outcome.rpc && outcome.status == NFS3ERR_EXIST) {
            const Found found = session_.look_up(directory, name);
            if (found.outcome.ok() && found.attributes.type == NF3LNK) {
                nfs::client::RemoveOp remove;
                remove.args.object = {directory.view(), name.data()};
                outcome = session_.run(remove);
                if (outcome.ok()) outcome = session_.run(op);
            }
        }
        if (!outcome.ok()) trouble(source.path, to_string(outcome));
    }

    // The directory `name` at the server: made, or there already.
    Outcome make_directory(const FileHandle& parent, std::string name, FileHandle& made) {
        nfs::client::MkdirOp op;
        op.args.where = {parent.view(), name.data()};
        set_mode(op.args.attributes, 0700);
        const Outcome outcome = session_.run(op);
        if (outcome.ok() && !op.object.empty()) {
            made = op.object;
            return outcome;
        }
        if (!outcome.ok() && !(outcome.rpc && outcome.status == NFS3ERR_EXIST)) return outcome;
        const Found found = session_.look_up(parent, name);
        if (!found.outcome.ok()) return found.outcome;
        if (found.attributes.type != NF3DIR) return Outcome::failed(NFS3ERR_NOTDIR);
        made = found.handle;
        return found.outcome;
    }

    void put_directory(const Source& source, const struct stat& st, const FileHandle& parent,
                       const std::string& name, std::uint32_t depth) {
        if (depth > kTreeDepthMax) {
            trouble(source.path, "the tree is too deep");
            return;
        }
        Result<UniqueFd> fd = open_directory(source.at, source.name, source.follow_link);
        if (!fd) {
            trouble(source.path, errno_text(fd.error().sys));
            return;
        }
        FileHandle directory = parent;
        if (!name.empty()) {
            const Outcome outcome = make_directory(parent, name, directory);
            if (!outcome.ok()) {
                trouble(source.path, to_string(outcome));
                return;
            }
            directories_.push_back({directory, st, source.path});
        }
        Result<std::vector<std::string>> names = names_in(fd->get());
        if (!names) {
            trouble(source.path, errno_text(names.error().sys));
            return;
        }
        for (const std::string& below : *names) {
            if (session_.interrupted() || !session_.connected()) {
                failed_ = true;
                return;
            }
            const std::string path = source.path + "/" + below;
            struct stat below_st {};
            if (::fstatat(fd->get(), below.c_str(), &below_st, AT_SYMLINK_NOFOLLOW) != 0) {
                trouble(path, errno_text(errno));
                continue;
            }
            put_entry(Source{fd->get(), below, path, false}, below_st, directory, below, depth + 1);
        }
    }

    Session& session_;
    const Options& options_;
    JobSet<PutJob> jobs_;
    std::vector<Made> directories_;
    bool failed_ = false;
};

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
        Putter putter(*session, options, progress);
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
