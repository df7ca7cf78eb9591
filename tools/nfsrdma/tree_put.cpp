#include "tools/nfsrdma/tree_put.hpp"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "tools/nfsrdma/local_file.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {

using nfs::client::FileHandle;
using nfs::client::Outcome;

TreePutter::TreePutter(Calls& calls, const CopyOptions& options, Progress& progress)
    : calls_(calls),
      options_(options),
      jobs_(calls, options.jobs, options.depth, progress,
            [this](const std::string& label, const Outcome& outcome) {
                trouble(label, to_string(outcome));
            }) {}

void TreePutter::trouble(const std::string& place, const std::string& what) {
    failed_ = true;
    if (!calls_.interrupted()) complain(place, what);
}

void TreePutter::put(const std::string& path, const FileHandle& directory,
                     const std::string& name) {
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
    put_entry(Source{AT_FDCWD, path, path, true}, st, Target{directory, name}, 0);
}

void TreePutter::put_entry(const Source& source, const struct stat& st, const Target& target,
                           std::uint32_t depth) {
    if (S_ISDIR(st.st_mode)) {
        put_directory(source, st, target, depth);
    } else if (S_ISREG(st.st_mode)) {
        put_file(source, target);
    } else if (S_ISLNK(st.st_mode)) {
        put_link(source, st, target);
    } else {
        complain(source.path, "left out: it is neither file, directory nor symbolic link");
    }
}

void TreePutter::put_file(const Source& source, const Target& target) {
    Result<UniqueFd> fd = open_source(source.at, source.name, source.follow_link);
    if (!fd) {
        trouble(source.path, errno_text(fd.error().sys));
        return;
    }
    PutJob::Task task;
    if (::fstat(fd->get(), &task.attributes) != 0) {
        trouble(source.path, errno_text(errno));
        return;
    }
    task.fd = *std::move(fd);
    task.directory = target.directory;
    task.name = target.name;
    task.label = source.path;
    jobs_.start(std::move(task));
}

void TreePutter::put_link(const Source& source, const struct stat& st, const Target& target) {
    Result<std::string> text = read_symlink(source.at, source.name);
    if (!text) {
        trouble(source.path, errno_text(text.error().sys));
        return;
    }
    std::string name = target.name;
    nfs::client::SymlinkOp op;
    op.args.where = {target.directory.view(), name.data()};
    op.args.symlink.symlink_data = text->data();
    set_mode(op.args.symlink.symlink_attributes, st.st_mode);
    set_mtime(op.args.symlink.symlink_attributes, st.st_mtim);
    Outcome outcome = calls_.run(op);
    // A link that is there is replaced; anything else is not.
    if (outcome.rpc && outcome.status == NFS3ERR_EXIST) {
        const Found found = calls_.look_up(target.directory, name);
        if (found.outcome.ok() && found.attributes.type == NF3LNK) {
            nfs::client::RemoveOp remove;
            remove.args.object = {target.directory.view(), name.data()};
            outcome = calls_.run(remove);
            if (outcome.ok()) outcome = calls_.run(op);
        }
    }
    if (!outcome.ok()) trouble(source.path, to_string(outcome));
}

// The directory at the server: made, or there already.
Outcome TreePutter::make_remote(const Target& target, FileHandle& made) {
    std::string name = target.name;
    nfs::client::MkdirOp op;
    op.args.where = {target.directory.view(), name.data()};
    set_mode(op.args.attributes, 0700);
    const Outcome outcome = calls_.run(op);
    if (outcome.ok() && !op.object.empty()) {
        made = op.object;
        return outcome;
    }
    if (!outcome.ok() && !(outcome.rpc && outcome.status == NFS3ERR_EXIST)) return outcome;
    const Found found = calls_.look_up(target.directory, name);
    if (!found.outcome.ok()) return found.outcome;
    if (found.attributes.type != NF3DIR) return Outcome::failed(NFS3ERR_NOTDIR);
    made = found.handle;
    return found.outcome;
}

void TreePutter::put_directory(const Source& source, const struct stat& st, const Target& target,
                               std::uint32_t depth) {
    if (depth > kTreeDepthMax) {
        trouble(source.path, "the tree is too deep");
        return;
    }
    Result<UniqueFd> fd = open_directory(source.at, source.name, source.follow_link);
    if (!fd) {
        trouble(source.path, errno_text(fd.error().sys));
        return;
    }
    FileHandle directory = target.directory;
    if (!target.name.empty()) {
        const Outcome outcome = make_remote(target, directory);
        if (!outcome.ok()) {
            trouble(source.path, to_string(outcome));
            return;
        }
        directories_.push_back({directory, st, source.path});
    }
    put_below(fd->get(), source.path, directory, depth);
}

namespace {

// Names in the directory, without "." and "..", sorted. The descriptor stays open.
Result<std::vector<std::string>> names_in(int fd) {
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR* const dir = copy < 0 ? nullptr : ::fdopendir(copy);
    if (dir == nullptr) {
        const int error = errno;
        if (copy >= 0) ::close(copy);
        return Error{Errc::system, error, "read directory"};
    }
    std::vector<std::string> names;
    errno = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): this stream is ours alone
    while (const dirent* const entry = ::readdir(dir)) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
        errno = 0;
    }
    const int error = errno;
    ::closedir(dir);
    if (error != 0) return Error{Errc::system, error, "read directory"};
    std::sort(names.begin(), names.end());
    return names;
}

}  // namespace

void TreePutter::put_below(int local, const std::string& path, const FileHandle& directory,
                           std::uint32_t depth) {
    Result<std::vector<std::string>> names = names_in(local);
    if (!names) {
        trouble(path, errno_text(names.error().sys));
        return;
    }
    for (const std::string& name : *names) {
        if (calls_.interrupted() || !calls_.connected()) {
            failed_ = true;
            return;
        }
        std::string below = path;
        below.append("/").append(name);
        struct stat st {};
        if (::fstatat(local, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
            trouble(below, errno_text(errno));
            continue;
        }
        put_entry(Source{local, name, below, false}, st, Target{directory, name}, depth + 1);
    }
}

bool TreePutter::finish() {
    jobs_.wait_for_all();
    for (auto made = directories_.rbegin(); made != directories_.rend(); ++made) {
        if (calls_.interrupted() || !calls_.connected()) break;
        nfs::client::SetattrOp op;
        op.args.object = made->handle.view();
        set_mode(op.args.new_attributes, made->attributes.st_mode);
        set_mtime(op.args.new_attributes, made->attributes.st_mtim);
        const Outcome outcome = calls_.run(op);
        if (!outcome.ok()) trouble(made->path, to_string(outcome));
    }
    directories_.clear();
    return !failed_ && !jobs_.failed() && !calls_.interrupted();
}

}  // namespace nfsrdma::tool
