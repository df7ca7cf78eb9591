// mkdir, rm, mv, ln: what changes names.
#include <deque>
#include <list>

#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/local_file.hpp"
#include "tools/nfsrdma/op_pool.hpp"
#include "tools/nfsrdma/put_job.hpp"
#include "tools/nfsrdma/text.hpp"
#include "tools/nfsrdma/tree_walk.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::FileHandle;
using nfs::client::Outcome;

Outcome make_directory(Session& session, const FileHandle& parent, std::string name,
                       FileHandle& made) {
    nfs::client::MkdirOp op;
    op.args.where = {parent.view(), name.data()};
    set_mode(op.args.attributes, permitted_by_umask(0777));
    const Outcome outcome = session.run(op);
    made = op.object;
    return outcome;
}

// Every directory of the path that is not there yet.
Outcome make_path(Session& session, const Url& url) {
    Url part = url;
    const std::string path = normal_path(url.path);
    Outcome outcome;
    for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        part.path = path.substr(0, end);
        // What lies above the export is no business of ours.
        if (part.path.size() > session.export_path().size()) {
            Found found = session.walk(part, true);
            if (found.outcome.rpc && found.outcome.status == NFS3ERR_NOENT) {
                const Found parent = session.walk_to_parent(part);
                FileHandle made;
                outcome = parent.outcome.ok()
                              ? make_directory(session, parent.handle, parent.name, made)
                              : parent.outcome;
                // Somebody else may have been faster.
                if (outcome.rpc && outcome.status == NFS3ERR_EXIST) outcome = Outcome{};
            } else {
                outcome = found.outcome;
                if (outcome.ok() && found.attributes.type != NF3DIR)
                    outcome = Outcome::failed(NFS3ERR_NOTDIR);
            }
            if (!outcome.ok()) return outcome;
        }
        if (end == std::string::npos) return outcome;
    }
}

// Removes trees, with many calls in flight: a directory as soon as all that was in it is gone.
class Remover final : public TreeVisitor {
  public:
    Remover(Session& session, std::uint32_t jobs)
        : session_(session),
          files_(session, jobs,
                 [this](FilePool::Slot& slot) {
                     told(slot.label, slot.op.outcome);
                     child_is_gone(static_cast<Directory*>(slot.about));
                 }),
          folders_(session, jobs, [this](FolderPool::Slot& slot) { on_folder(slot); }) {}
    // The directory itself is removed in `parent`.
    bool remove(const Entry& directory, const FileHandle& parent, const std::string& path) {
        root_parent_ = parent;
        walk_tree(session_, *this, directory, path, WalkOptions{});
        while (true) {
            drain();
            const auto idle = [this] { return files_.idle() && folders_.idle(); };
            if (ready_.empty() && idle()) break;
            session_.wait_until([&] { return !ready_.empty() || idle(); });
        }
        return good_ && !session_.interrupted() && session_.connected();
    }

  private:
    using FilePool = OpPool<nfs::client::RemoveOp>;
    using FolderPool = OpPool<nfs::client::RmdirOp>;
    struct Directory {
        Directory* above = nullptr;
        FileHandle parent;
        std::string name, path;
        std::size_t children = 0;  // that are not gone yet
        bool left = false;         // the walk is through with it
        std::list<Directory>::iterator self;
    };
    bool enter(const Entry& directory, const std::string& path) override {
        Directory& made = directories_.emplace_back();
        made.self = std::prev(directories_.end());
        made.above = inside_.empty() ? nullptr : inside_.back();
        made.name = directory.name;
        made.path = path;
        if (made.above != nullptr) ++made.above->children;
        inside_.push_back(&made);
        return true;
    }
    bool listed(const std::vector<Entry>& /*entries*/, const std::string& /*path*/) override {
        return true;
    }
    void leaf(const Entry& entry, const FileHandle& parent, const std::string& path) override {
        FilePool::Slot& slot = files_.get();
        slot.object = parent;
        slot.name = entry.name;
        slot.label = path;
        slot.about = inside_.back();
        slot.op.args.object = {slot.object.view(), slot.name.data()};
        ++inside_.back()->children;
        files_.start(slot);
    }
    void leave(const Entry& /*directory*/, const FileHandle& parent,
               const std::string& /*path*/) override {
        Directory& directory = *inside_.back();
        inside_.pop_back();
        directory.parent = parent.empty() ? root_parent_ : parent;
        directory.left = true;
        if (directory.children == 0) ready_.push_back(&directory);
        drain();
    }
    void drain() {
        while (!ready_.empty()) {
            FolderPool::Slot& slot = folders_.get();
            Directory& directory = *ready_.front();
            ready_.pop_front();
            slot.about = &directory;
            slot.op.args.object = {directory.parent.view(), directory.name.data()};
            folders_.start(slot);
        }
    }
    void on_folder(FolderPool::Slot& slot) {
        Directory& directory = *static_cast<Directory*>(slot.about);
        const Outcome& outcome = slot.op.outcome;
        // Something in it could not be removed, and that has been said.
        const bool follows = !good_ && outcome.rpc && outcome.status == NFS3ERR_NOTEMPTY;
        if (!follows) told(directory.path, outcome);
        Directory* const above = directory.above;
        directories_.erase(directory.self);
        if (above != nullptr) child_is_gone(above);
    }
    void child_is_gone(Directory* directory) {
        if (--directory->children == 0 && directory->left) ready_.push_back(directory);
    }
    void failed(const std::string& path, const std::string& why) override {
        good_ = false;
        if (!session_.interrupted()) complain(path, why);
    }
    void told(const std::string& path, const Outcome& outcome) {
        // Meanwhile another may have been faster.
        if (outcome.ok() || (outcome.rpc && outcome.status == NFS3ERR_NOENT)) return;
        good_ = false;
        session_.complain_about(path, outcome);
    }
    bool stopped() const override { return false; }

    Session& session_;
    FileHandle root_parent_;
    std::list<Directory> directories_;
    std::vector<Directory*> inside_;  // of these the walk is
    std::deque<Directory*> ready_;    // nothing is left in them
    bool good_ = true;
    FilePool files_;
    FolderPool folders_;
};

bool remove_one(Session& session, const Options& options, const Url& url) {
    const Found parent = session.walk_to_parent(url);
    Found found;
    found.outcome = parent.outcome;
    if (parent.outcome.ok()) found = session.look_up(parent.handle, parent.name);
    if (!found.outcome.ok()) {
        if (options.force && found.outcome.rpc && found.outcome.status == NFS3ERR_NOENT)
            return true;
        session.complain_about(url.text(), found.outcome);
        return false;
    }
    std::string name = parent.name;
    if (found.attributes.type != NF3DIR) {
        nfs::client::RemoveOp op;
        op.args.object = {parent.handle.view(), name.data()};
        const Outcome outcome = session.run(op);
        if (!outcome.ok()) session.complain_about(url.text(), outcome);
        return outcome.ok();
    }
    if (!options.recursive) {
        complain(url.text(), "is a directory; rm -r removes it with all that is in it");
        return false;
    }
    const Entry directory{name, found.attributes, found.handle, true, false};
    return Remover(session, options.jobs).remove(directory, parent.handle, url.text());
}

bool move_one(Session& session, const Url& url, const Url& target) {
    const Found from = session.walk_to_parent(url);
    if (!from.outcome.ok()) {
        session.complain_about(url.text(), from.outcome);
        return false;
    }
    const Found to = destination(session, target, from.name);
    if (!to.outcome.ok()) {
        session.complain_about(target.text(), to.outcome);
        return false;
    }
    // Should the call be sent twice, its handle tells whether the first one did it.
    const Found object = session.look_up(from.handle, from.name);
    if (!object.outcome.ok()) {
        session.complain_about(url.text(), object.outcome);
        return false;
    }
    std::string old_name = from.name, new_name = to.name;
    nfs::client::RenameOp op;
    op.object = object.handle;
    op.args.from = {from.handle.view(), old_name.data()};
    op.args.to = {to.handle.view(), new_name.data()};
    const Outcome outcome = session.run(op);
    if (!outcome.ok()) session.complain_about(url.text(), outcome);
    return outcome.ok();
}

}  // namespace

int run_mkdir(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    for (const Url& url : urls) {
        Outcome outcome;
        if (options.parents) {
            outcome = make_path(*session, url);
        } else {
            const Found parent = session->walk_to_parent(url);
            FileHandle made;
            outcome = parent.outcome.ok()
                          ? make_directory(*session, parent.handle, parent.name, made)
                          : parent.outcome;
        }
        if (outcome.ok()) continue;
        session->complain_about(url.text(), outcome);
        status = kFailed;
    }
    session->print_summary({}, JsonObject());
    return session->status(status);
}

int run_rm(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    return for_each(*session, urls,
                    [&](const Url& url) { return remove_one(*session, options, url); });
}

int run_mv(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    const Url to = urls.back();
    urls.pop_back();
    if (urls.size() > 1) {
        const Found found = session->walk(to, true);
        if (!found.outcome.ok() || found.attributes.type != NF3DIR) {
            session->complain_about(
                to.text(), found.outcome.ok() ? Outcome::failed(NFS3ERR_NOTDIR) : found.outcome);
            return session->status(kFailed);
        }
    }
    return for_each(*session, urls, [&](const Url& url) { return move_one(*session, url, to); });
}

int run_ln(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    if (options.symbolic) {
        // The first argument is the link's text, as it is.
        if (!parse_urls({options.paths.at(1)}, urls)) return kUsage;
    } else if (!parse_urls(options.paths, urls)) {
        return kUsage;
    }
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    const Url& where = urls.back();
    std::string text = options.paths.at(0);
    const std::string own_name = last_component(options.symbolic ? text : urls.front().path);
    const Found to = destination(*session, where, own_name);
    if (!to.outcome.ok()) {
        session->complain_about(where.text(), to.outcome);
        return session->status(kFailed);
    }
    std::string name = to.name;
    Outcome outcome;
    if (options.symbolic) {
        nfs::client::SymlinkOp op;
        op.args.where = {to.handle.view(), name.data()};
        op.args.symlink.symlink_data = text.data();
        set_mode(op.args.symlink.symlink_attributes, 0777);
        outcome = session->run(op);
    } else {
        const Found from = session->walk(urls.front(), false);
        if (!from.outcome.ok()) {
            session->complain_about(urls.front().text(), from.outcome);
            return session->status(kFailed);
        }
        nfs::client::LinkOp op;
        op.args.file = from.handle.view();
        op.args.link = {to.handle.view(), name.data()};
        outcome = session->run(op);
    }
    if (!outcome.ok()) {
        session->complain_about(where.text(), outcome);
        return session->status(kFailed);
    }
    session->print_summary({}, JsonObject());
    return session->status(kOk);
}

}  // namespace nfsrdma::tool
