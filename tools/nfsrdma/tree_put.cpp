#include "tools/nfsrdma/tree_put.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "tools/nfsrdma/local_file.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {

using nfs::client::FileHandle;
using nfs::client::Outcome;

TreePutter::TreePutter(Calls& calls, const CopyOptions& options, Progress& progress,
                       CopyReport& report)
    : calls_(calls),
      options_(options),
      report_(report),
      jobs_(calls, options.jobs, options.depth, progress,
            [this](const PutJob& job) { on_done(job); }),
      links_(calls, options.jobs, [this](LinkPool::Slot& slot) { on_link(slot); }),
      makes_(calls, options.jobs, [](MakePool::Slot& slot) {
          Ahead& ahead = *static_cast<Ahead*>(slot.about);
          ahead.outcome = slot.op.outcome;
          ahead.handle = slot.op.object;
          ahead.finished = true;
      }) {}

void TreePutter::failed(const std::string& place, const std::string& why) {
    report_.failed(place, why, calls_.interrupted());
}

void TreePutter::failed(const std::string& place, const Outcome& outcome) {
    failed(place, calls_.explain(outcome));
    if (!outcome.rpc) return;
    // With each further file it would be the same.
    hopeless_ = hopeless_ || outcome.status == NFS3ERR_NOSPC || outcome.status == NFS3ERR_DQUOT ||
                outcome.status == NFS3ERR_ROFS;
}

bool TreePutter::stopped() const {
    return hopeless_ || calls_.interrupted() || !calls_.connected();
}

void TreePutter::put(const std::string& path, const FileHandle& directory,
                     const std::string& name) {
    struct stat st {};
    // An argument that is a link means what it leads to; in a tree links stay links.
    if (::stat(path.c_str(), &st) != 0) {
        failed(path, errno_text(errno));
        return;
    }
    if (S_ISDIR(st.st_mode) && !options_.recursive) {
        failed(path, "is a directory; put -r copies it with all that is in it");
        return;
    }
    path_ = path;
    put_entry(Source{AT_FDCWD, path, path_, true}, st, Target{directory, name});
    walk();
    makes_.wait_for_all();
    ahead_.clear();
    if (calls_.interrupted() || !calls_.connected()) failed(path, "not all of it was copied");
}

void TreePutter::put_entry(const Source& source, const struct stat& st, const Target& target) {
    if (S_ISDIR(st.st_mode)) {
        put_directory(source, st, target);
    } else if (S_ISREG(st.st_mode)) {
        put_file(source, target);
    } else if (S_ISLNK(st.st_mode)) {
        put_link(source, st, target);
    } else {
        report_.left_out(source.path, "it is neither file, directory nor symbolic link");
    }
}

void TreePutter::put_file(const Source& source, const Target& target) {
    Result<UniqueFd> fd = open_source(source.at, source.name, source.follow_link);
    if (!fd) {
        failed(source.path, errno_text(fd.error().sys));
        return;
    }
    PutJob::Task task;
    if (::fstat(fd->get(), &task.attributes) != 0) {
        failed(source.path, errno_text(errno));
        return;
    }
    if (!S_ISREG(task.attributes.st_mode)) {
        failed(source.path, "became something else than a file");
        return;
    }
    task.fd = *std::move(fd);
    task.directory = target.directory;
    task.name = target.name;
    task.label = source.path;
    task.rules = options_.rules;
    jobs_.start(std::move(task));
}

void TreePutter::put_link(const Source& source, const struct stat& st, const Target& target) {
    Result<std::string> text = read_symlink(source.at, source.name);
    if (!text) {
        failed(source.path, errno_text(text.error().sys));
        return;
    }
    LinkPool::Slot& slot = links_.get();
    slot.object = target.directory;
    slot.name = target.name;
    slot.text = *std::move(text);
    slot.label = source.path;
    slot.op.args.where = {slot.object.view(), slot.name.data()};
    slot.op.args.symlink.symlink_data = slot.text.data();
    slot.op.args.symlink.symlink_attributes = sattr3{};
    set_mode(slot.op.args.symlink.symlink_attributes, st.st_mode);
    set_times(slot.op.args.symlink.symlink_attributes, st);
    links_.start(slot);
}

void TreePutter::on_link(LinkPool::Slot& slot) {
    const Outcome& outcome = slot.op.outcome;
    if (outcome.ok()) {
        ++report_.links;
    } else if (outcome.rpc && outcome.status == NFS3ERR_EXIST) {
        links_there_.push_back({slot.object, slot.name, slot.text, slot.label,
                                slot.op.args.symlink.symlink_attributes});
    } else {
        failed(slot.label, outcome);
    }
}

// A link that is there is replaced; anything else is not.
void TreePutter::replace_link(LinkThere& link) {
    Outcome outcome = Outcome::failed(NFS3ERR_EXIST);
    const Found found = calls_.look_up(link.directory, link.name);
    if (found.outcome.ok() && found.attributes.type == NF3LNK) {
        nfs::client::RemoveOp remove;
        remove.args.object = {link.directory.view(), link.name.data()};
        outcome = calls_.run(remove);
        if (outcome.ok()) {
            nfs::client::SymlinkOp op;
            op.args.where = {link.directory.view(), link.name.data()};
            op.args.symlink.symlink_data = link.text.data();
            op.args.symlink.symlink_attributes = link.attributes;
            outcome = calls_.run(op);
        }
    }
    if (outcome.ok()) {
        ++report_.links;
    } else {
        failed(link.path, outcome);
    }
}

// Directories are made before their turn comes, many at a time: what goes into them needs their
// handles, and would wait for each.
void TreePutter::make_ahead(Level& level, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
        if (stopped()) return;
        MakePool::Slot& slot = makes_.get();
        Ahead& ahead = ahead_.emplace_back();
        ahead.self = std::prev(ahead_.end());
        level.ahead[name] = &ahead;
        slot.object = level.remote;
        slot.name = name;
        slot.about = &ahead;
        slot.op.args.where = {slot.object.view(), slot.name.data()};
        slot.op.args.attributes = sattr3{};
        set_mode(slot.op.args.attributes, 0700);
        makes_.start(slot);
    }
}

Outcome TreePutter::ask_for(const Target& target, FileHandle& made) {
    if (!levels_.empty()) {
        std::map<std::string, Ahead*>& asked = levels_.back().ahead;
        const auto found = asked.find(target.name);
        if (found != asked.end()) {
            Ahead& ahead = *found->second;
            calls_.wait_until([&] { return ahead.finished; });
            const Outcome outcome = ahead.outcome;
            made = ahead.handle;
            asked.erase(found);
            ahead_.erase(ahead.self);
            return outcome;
        }
    }
    std::string name = target.name;
    nfs::client::MkdirOp op;
    op.args.where = {target.directory.view(), name.data()};
    set_mode(op.args.attributes, 0700);
    const Outcome outcome = calls_.run(op);
    made = op.object;
    return outcome;
}

// The directory at the server: made, or there already.
Outcome TreePutter::make_remote(const Target& target, FileHandle& made) {
    const Outcome outcome = ask_for(target, made);
    if (outcome.ok() && !made.empty()) return outcome;
    if (!outcome.ok() && !(outcome.rpc && outcome.status == NFS3ERR_EXIST)) return outcome;
    const Found found = calls_.look_up(target.directory, target.name);
    if (!found.outcome.ok()) return found.outcome;
    if (found.attributes.type != NF3DIR) return Outcome::failed(NFS3ERR_NOTDIR);
    made = found.handle;
    return found.outcome;
}

void TreePutter::put_directory(const Source& source, const struct stat& st, const Target& target) {
    if (levels_.size() >= options_.depth_max) {
        failed(source.path, "the tree is too deep");
        return;
    }
    Level level;
    Result<UniqueFd> fd = open_directory(source.at, source.name, source.follow_link);
    if (!fd) {
        failed(source.path, errno_text(fd.error().sys));
        return;
    }
    std::vector<std::string> directories;
    Result<std::vector<std::string>> names = names_in(fd->get(), &directories);
    if (!names) {
        failed(source.path, errno_text(names.error().sys));
        return;
    }
    level.fd = *std::move(fd);
    level.names = *std::move(names);
    level.remote = target.directory;
    level.path_size = path_.size();
    if (!target.name.empty()) {
        const Outcome outcome = make_remote(target, level.remote);
        if (!outcome.ok()) {
            failed(source.path, outcome);
            return;
        }
        directories_.push_back({level.remote, st, source.path});
        ++report_.directories;
    }
    if (levels_.size() + 1 < options_.depth_max) make_ahead(level, directories);
    levels_.push_back(std::move(level));
}

void TreePutter::walk() {
    while (!levels_.empty() && !stopped()) {
        Level& level = levels_.back();
        if (level.next == level.names.size()) {
            levels_.pop_back();
        } else {
            put_next();
        }
    }
    levels_.clear();
}

void TreePutter::put_next() {
    Level& level = levels_.back();
    const std::string name = std::move(level.names[level.next++]);
    path_.resize(level.path_size);
    path_ += "/";
    path_ += name;
    struct stat st {};
    if (::fstatat(level.fd.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
        failed(path_, errno_text(errno));
        return;
    }
    put_entry(Source{level.fd.get(), name, path_, false}, st, Target{level.remote, name});
}

void TreePutter::on_done(const PutJob& job) {
    const CopyResult& result = job.result;
    if (result.verified) ++report_.verified;
    if (job.outcome.ok() && result.trouble.empty()) {
        ++(result.skipped ? report_.skipped : report_.files);
        if (result.continued) ++report_.continued;
        return;
    }
    if (calls_.interrupted()) {
        report_.failed(job.label(), "interrupted" + job.remains(), job.remains().empty());
        return;
    }
    if (!result.trouble.empty()) {
        failed(job.label(), result.trouble);
        return;
    }
    const std::string why = calls_.explain(job.outcome) + job.remains();
    failed(job.label(), why);
    if (job.outcome.rpc) {
        const nfsstat3 status = job.outcome.status;
        hopeless_ = hopeless_ || status == NFS3ERR_NOSPC || status == NFS3ERR_DQUOT ||
                    status == NFS3ERR_ROFS;
    }
}

bool TreePutter::finish() {
    jobs_.wait_for_all();
    links_.wait_for_all();
    makes_.wait_for_all();
    for (LinkThere& link : links_there_) {
        if (stopped()) break;
        replace_link(link);
    }
    links_there_.clear();
    set_directories();
    return report_.good();
}

void TreePutter::set_directories() {
    using Pool = OpPool<nfs::client::SetattrOp>;
    Pool pool(calls_, options_.jobs, [this](Pool::Slot& slot) {
        if (!slot.op.outcome.ok()) failed(slot.label, slot.op.outcome);
    });
    // Those that are deepest come first: one that may not be passed through is in nobody's way.
    for (auto made = directories_.rbegin(); made != directories_.rend(); ++made) {
        if (calls_.interrupted() || !calls_.connected()) break;
        Pool::Slot& slot = pool.get();
        slot.object = made->handle;
        slot.label = made->path;
        slot.op.args = SETATTR3args{};
        slot.op.args.object = slot.object.view();
        set_mode(slot.op.args.new_attributes, made->attributes.st_mode);
        set_times(slot.op.args.new_attributes, made->attributes);
        pool.start(slot);
    }
    pool.wait_for_all();
    directories_.clear();
}

}  // namespace nfsrdma::tool
