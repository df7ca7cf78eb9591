// mkdir, rm, mv, ln: what changes names.
#include <sys/stat.h>

#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/put_job.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::FileHandle;
using nfs::client::Outcome;

std::uint32_t permitted_by_umask(std::uint32_t mode) {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return mode & ~static_cast<std::uint32_t>(mask);
}

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

// Removes trees: the entries of one directory with many calls in flight, then the directory.
class Remover {
  public:
    Remover(Session& session, const Url& url, std::uint32_t jobs) : session_(session), url_(url) {
        for (std::uint32_t i = 0; i < std::max(jobs, 1u); ++i) {
            Job& job = *jobs_.emplace_back(std::make_unique<Job>());
            job.remover = this;
            job.op.user = &job;
            job.op.done = on_removed;
        }
    }
    bool remove_tree(const FileHandle& directory, const std::string& below, std::uint32_t depth) {
        if (depth > kTreeDepthMax) {
            complain(url_.text() + below, "the tree is too deep");
            return false;
        }
        std::vector<Entry> entries;
        Outcome outcome = session_.list(directory, entries);
        bool good = outcome.ok();
        if (!good) complain(url_, below, outcome);
        for (Entry& entry : entries) {
            if (session_.interrupted() || !session_.connected()) return false;
            const std::string path = below + "/" + entry.name;
            if (!nfs::client::is_plain_name(entry.name.c_str())) {
                complain(url_.text() + path, "the server sent a name that is none");
                good = false;
            } else if (entry.known && entry.attributes.type == NF3DIR) {
                good = remove_directory(directory, entry, path, depth) && good;
            } else {
                remove_file(directory, entry.name, path);
            }
        }
        session_.wait_until([this] { return busy_ == 0; });
        return good && !failed_;
    }

  private:
    struct Job {
        Remover* remover = nullptr;
        nfs::client::RemoveOp op;
        std::string name, path;
        bool busy = false;
    };
    bool remove_directory(const FileHandle& parent, Entry& entry, const std::string& path,
                          std::uint32_t depth) {
        if (!remove_tree(entry.handle, path, depth + 1)) return false;
        nfs::client::RmdirOp op;
        op.args.object = {parent.view(), entry.name.data()};
        const Outcome outcome = session_.run(op);
        if (!outcome.ok()) complain(url_, path, outcome);
        return outcome.ok();
    }
    void remove_file(const FileHandle& parent, const std::string& name, const std::string& path) {
        session_.wait_until([this] { return busy_ < jobs_.size(); });
        for (auto& job : jobs_) {
            if (job->busy) continue;
            job->busy = true;
            ++busy_;
            job->name = name;
            job->path = path;
            job->op.args.object = {parent.view(), job->name.data()};
            session_.client().start(job->op);
            return;
        }
    }
    static void on_removed(nfs::client::Op& op) noexcept {
        Job& job = *static_cast<Job*>(op.user);
        Remover& self = *job.remover;
        job.busy = false;
        --self.busy_;
        const bool gone =
            op.outcome.rpc && op.outcome.status == NFS3ERR_NOENT;  // meanwhile, by another
        if (op.outcome.ok() || gone) return;
        self.failed_ = true;
        complain(self.url_, job.path, op.outcome);
    }
    Session& session_;
    const Url& url_;
    std::vector<std::unique_ptr<Job>> jobs_;
    std::size_t busy_ = 0;
    bool failed_ = false;
};

bool remove_one(Session& session, const Options& options, const Url& url) {
    const Found parent = session.walk_to_parent(url);
    Found found;
    found.outcome = parent.outcome;
    if (parent.outcome.ok()) found = session.look_up(parent.handle, parent.name);
    if (!found.outcome.ok()) {
        if (options.force && found.outcome.rpc && found.outcome.status == NFS3ERR_NOENT)
            return true;
        complain(url, found.outcome);
        return false;
    }
    std::string name = parent.name;
    if (found.attributes.type != NF3DIR) {
        nfs::client::RemoveOp op;
        op.args.object = {parent.handle.view(), name.data()};
        const Outcome outcome = session.run(op);
        if (!outcome.ok()) complain(url, outcome);
        return outcome.ok();
    }
    if (!options.recursive) {
        complain(url.text(), "is a directory; rm -r removes it with all that is in it");
        return false;
    }
    Remover remover(session, url, options.jobs);
    if (!remover.remove_tree(found.handle, "", 0)) return false;
    nfs::client::RmdirOp op;
    op.args.object = {parent.handle.view(), name.data()};
    const Outcome outcome = session.run(op);
    if (!outcome.ok()) complain(url, outcome);
    return outcome.ok();
}

// Where a name goes: into `to` when that is a directory, else to be `to` itself.
Found destination(Session& session, const Url& to, const std::string& name) {
    Found found = session.walk(to, true);
    if (found.outcome.ok() && found.attributes.type == NF3DIR) {
        found.name = name;
        return found;
    }
    return session.walk_to_parent(to);
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
        complain(url, outcome);
        status = kFailed;
    }
    session->print_stats(0, 0);
    return status;
}

int run_rm(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    for (const Url& url : urls) {
        if (!remove_one(*session, options, url)) status = kFailed;
    }
    session->print_stats(0, 0);
    return status;
}

int run_mv(const Options& options) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    const Found from = session->walk_to_parent(urls.at(0));
    Found to;
    to.outcome = from.outcome;
    if (from.outcome.ok()) to = destination(*session, urls.at(1), from.name);
    if (!to.outcome.ok()) {
        complain(from.outcome.ok() ? urls.at(1) : urls.at(0), to.outcome);
        return kFailed;
    }
    std::string old_name = from.name, new_name = to.name;
    nfs::client::RenameOp op;
    op.args.from = {from.handle.view(), old_name.data()};
    op.args.to = {to.handle.view(), new_name.data()};
    if (const Outcome outcome = session->run(op); !outcome.ok()) {
        complain(urls.at(0), outcome);
        return kFailed;
    }
    session->print_stats(0, 0);
    return kOk;
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
        complain(where, to.outcome);
        return kFailed;
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
            complain(urls.front(), from.outcome);
            return kFailed;
        }
        nfs::client::LinkOp op;
        op.args.file = from.handle.view();
        op.args.link = {to.handle.view(), name.data()};
        outcome = session->run(op);
    }
    if (!outcome.ok()) {
        complain(where, outcome);
        return kFailed;
    }
    session->print_stats(0, 0);
    return kOk;
}

}  // namespace nfsrdma::tool
