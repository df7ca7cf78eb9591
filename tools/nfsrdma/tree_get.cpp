#include "tools/nfsrdma/tree_get.hpp"

#include <cerrno>
#include <fcntl.h>

#include "tools/nfsrdma/local_file.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {

using nfs::client::FileHandle;
using nfs::client::Outcome;

TreeGetter::TreeGetter(Calls& calls, const CopyOptions& options, Progress& progress,
                       CopyReport& report)
    : calls_(calls),
      options_(options),
      report_(report),
      jobs_(calls, options.jobs, options.depth, progress,
            [this](const GetJob& job) { on_done(job); }) {}

void TreeGetter::failed(const std::string& path, const std::string& why) {
    report_.failed(path, why, calls_.interrupted());
}

void TreeGetter::failed(const std::string& path, const Error& error) {
    const bool about_place = error.sys == ELOOP || error.sys == EEXIST;
    failed(path, about_place ? error.what : errno_text(error.sys));
    if (error.sys == ENOSPC || error.sys == EDQUOT) hopeless_ = true;
}

void TreeGetter::get(const Url& url, int at, const std::string& name, const std::string& path) {
    const Found found = calls_.walk(url, true);
    if (!found.outcome.ok()) {
        failed(url.text(), calls_.explain(found.outcome));
        return;
    }
    Entry root{name, found.attributes, found.handle, true, false};
    if (found.attributes.type != NF3DIR) {
        get_entry(root, at, path);
    } else if (!options_.recursive) {
        failed(url.text(), "is a directory; get -r copies it with all that is in it");
    } else {
        at_ = at;
        walk_tree(calls_, *this, root, path, WalkOptions{options_.depth_max, ListOptions{}});
        if (calls_.interrupted() || !calls_.connected()) failed(path, "not all of it was copied");
        directories_.clear();
    }
}

bool TreeGetter::enter(const Entry& directory, const std::string& path) {
    Result<UniqueFd> fd =
        make_directory(directories_.empty() ? at_ : directories_.back().get(), directory.name);
    if (!fd) {
        failed(path, errno_text(fd.error().sys));
        return false;
    }
    directories_.push_back(*std::move(fd));
    ++report_.directories;
    return true;
}

void TreeGetter::leaf(const Entry& entry, const FileHandle& /*parent*/, const std::string& path) {
    if (entry.known) {
        get_entry(entry, directories_.back().get(), path);
    } else {
        failed(path, "the server does not tell what it is");
    }
}

// Every name in it has been made, and files that are still being filled do not change the time.
void TreeGetter::leave(const Entry& directory, const FileHandle& /*parent*/,
                       const std::string& path) {
    const fattr3& attr = directory.attributes;
    const Result<void> set =
        set_mode_and_times(directories_.back().get(), attr.mode, attr.atime, attr.mtime);
    if (!set) failed(path, errno_text(set.error().sys));
    directories_.pop_back();
}

void TreeGetter::get_entry(const Entry& entry, int at, const std::string& path) {
    switch (entry.attributes.type) {
        case NF3REG: {
            GetJob::Task task;
            task.file = entry.handle;
            task.attributes = entry.attributes;
            task.directory.reset(::fcntl(at, F_DUPFD_CLOEXEC, 0));
            if (!task.directory) {
                failed(path, errno_text(errno));
                return;
            }
            task.name = entry.name;
            task.label = path;
            task.rules = options_.rules;
            jobs_.start(std::move(task));
            return;
        }
        case NF3LNK:
            get_link(entry, at, path);
            return;
        case NF3DIR:  // of these the walk takes care
        case NF3BLK:
        case NF3CHR:
        case NF3SOCK:
        case NF3FIFO:
            break;
    }
    report_.left_out(path, std::string("it is a ") + type_text(entry.attributes.type));
}

void TreeGetter::get_link(const Entry& entry, int at, const std::string& path) {
    nfs::client::ReadlinkOp op;
    op.args.symlink = entry.handle.view();
    const Outcome outcome = calls_.run(op);
    const char* const target = outcome.ok() ? op.res.READLINK3res_u.resok.data : nullptr;
    if (target == nullptr) {
        failed(path,
               outcome.ok() ? "the server sent a link without text" : calls_.explain(outcome));
        return;
    }
    const Result<void> made = make_symlink(at, entry.name, target, entry.attributes.mtime);
    if (!made) {
        failed(path, errno_text(made.error().sys));
        return;
    }
    ++report_.links;
}

void TreeGetter::on_done(const GetJob& job) {
    const CopyResult& result = job.result;
    if (result.verified) ++report_.verified;
    if (job.outcome.ok() && result.trouble.empty()) {
        ++(result.skipped ? report_.skipped : report_.files);
        if (result.continued) ++report_.continued;
        return;
    }
    if (!job.outcome.ok() && !job.outcome.rpc && job.outcome.rpc.error().code == Errc::system &&
        job.remains().empty()) {
        failed(job.label(), job.outcome.rpc.error());
        return;
    }
    if (!job.outcome.rpc && job.outcome.rpc.error().sys == ENOSPC) hopeless_ = true;
    std::string why =
        result.trouble.empty() ? calls_.explain(job.outcome) + job.remains() : result.trouble;
    // What is left of a file is told also after an interrupt.
    const bool told = calls_.interrupted() && job.remains().empty();
    if (calls_.interrupted()) why = "interrupted" + job.remains();
    report_.failed(job.label(), why, told);
}

bool TreeGetter::finish() {
    jobs_.wait_for_all();
    return report_.good();
}

}  // namespace nfsrdma::tool
