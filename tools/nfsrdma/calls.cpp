#include "tools/nfsrdma/calls.hpp"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::FileHandle;
using nfs::client::Outcome;

constexpr std::uint64_t kForeverNs = 365ull * 24 * 3600 * kNsPerSec;
constexpr int kListingsMax = 4;  // of a directory that changes faster than it can be read

}  // namespace

// What MOUNT knows tells where in the path the export ends; where it tells nothing, the path is
// tried from its end on.
bool Calls::mount(const std::string& wanted) {
    const std::string path = normal_path(wanted);
    std::vector<std::string> exports;
    Outcome outcome;
    if (find_export(path, exports, outcome)) {
        if (try_mount(export_, outcome)) return true;
        notice_interrupt(outcome);
        if (!interrupted_) {
            std::string why = "cannot mount '" + export_ + "': " + explain_mount(outcome);
            if (outcome.rpc && outcome.status == NFS3ERR_ACCES)
                why += "; nfsrdma showmount tells to whom it is exported";
            complain(server_.server(), why);
        }
        export_.clear();
        return false;
    }
    notice_interrupt(outcome);
    if (interrupted_) return false;
    const std::string trouble = mounts_.trouble();
    if (!trouble.empty()) {
        complain(server_.server(), "cannot ask what is exported: " + trouble);
        return false;
    }
    if (exports.empty() && mount_by_trying(path, outcome)) return true;
    notice_interrupt(outcome);
    if (interrupted_) return false;
    std::string known;
    for (const std::string& name : exports)
        known += " " + name;
    complain(server_.server(),
             "'" + path + "' is not exported: " +
                 (known.empty() ? explain_mount(outcome) : "the exports are" + known));
    return false;
}

bool Calls::mount_by_trying(const std::string& path, Outcome& outcome) {
    for (std::string tried = path;;) {
        if (try_mount(tried, outcome)) return true;
        if (!outcome.rpc || tried == "/") return false;
        tried = normal_path(tried.substr(0, tried.rfind('/')));
    }
}

std::string Calls::explain_mount(const Outcome& outcome) const {
    const std::string trouble = mounts_.trouble();
    return outcome.rpc || trouble.empty() ? explain(outcome) : trouble;
}

void Calls::complain_about_mount(const Outcome& outcome) {
    notice_interrupt(outcome);
    if (!interrupted_) complain(server_.server(), explain_mount(outcome));
}

// A call beside the connection was given up because a signal came, which the loop has not seen yet.
void Calls::notice_interrupt(const Outcome& outcome) {
    if (!outcome.rpc && outcome.rpc.error().code == Errc::closed && mounts_.by_socket()) {
        sleep(kNsPerSec);
    }
}

std::string Calls::explain(const Outcome& outcome) const {
    std::string text = to_string(outcome);
    if (!outcome.rpc) {
        const Error& error = outcome.rpc.error();
        if (error.code == Errc::reconnect) {
            text += "; what was asked for last may or may not have been done";
        } else if (error.code == Errc::refused &&
                   outcome.rpc_status == sunrpc::RpcStatus::auth_error && !identity_.empty()) {
            text += "; the call was made as " + identity_;
        }
        return text;
    }
    const bool forbidden = outcome.status == NFS3ERR_ACCES || outcome.status == NFS3ERR_PERM;
    if (forbidden && !identity_.empty()) text += "; the call was made as " + identity_;
    return text;
}

void Calls::complain_about(const std::string& place, const Outcome& outcome) const {
    if (!interrupted_) complain(place, explain(outcome));
}

bool Calls::find_export(const std::string& path, std::vector<std::string>& exports,
                        Outcome& outcome) {
    std::vector<nfs::client::ExportedDirectory> entries;
    outcome = mounts_.exports(entries);
    if (!outcome.ok()) return false;
    for (const nfs::client::ExportedDirectory& entry : entries) {
        if (entry.path.empty()) continue;
        const std::string name = normal_path(entry.path);
        exports.push_back(name);
        if (is_path_prefix(name, path) && name.size() > export_.size()) export_ = name;
    }
    return !export_.empty();
}

bool Calls::try_mount(const std::string& path, Outcome& outcome) {
    FileHandle root;
    outcome = mounts_.mnt(path, root);
    if (!outcome.ok()) return false;
    nfs::client::FsinfoOp fsinfo;
    fsinfo.args.fsroot = root.view();
    outcome = run(fsinfo);
    if (outcome.ok()) outcome.rpc = client_->set_sizes(fsinfo.res.FSINFO3res_u.resok);
    if (!outcome.ok()) return false;
    root_ = root;
    export_ = path;
    return true;
}

void Calls::wait_until(const std::function<bool()>& finished) {
    const auto ask = [](void* arg) { return (*static_cast<const std::function<bool()>*>(arg))(); };
    std::function<bool()> copy = finished;
    loop().run_until(ask, &copy, kForeverNs);
}

void Calls::wait_or_leave(const std::function<bool()>& finished) {
    wait_until([&] { return finished() || interrupted_; });
    const auto ask = [](void* arg) { return (*static_cast<const std::function<bool()>*>(arg))(); };
    std::function<bool()> copy = finished;
    if (!interrupted_ || loop().run_until(ask, &copy, kNsPerSec)) {
        wait_until(finished);
        return;
    }
    complain("", "interrupted");
    (void)std::fflush(nullptr);
    ::_exit(status(kFailed));
}

void Calls::sleep(std::uint64_t ns) {
    (void)loop().run_until([](void* arg) { return static_cast<Calls*>(arg)->interrupted_; }, this,
                           ns);
}

Outcome Calls::run(nfs::client::Op& op) {
    bool finished = false;
    op.user = &finished;
    op.done = [](nfs::client::Op& o) noexcept { *static_cast<bool*>(o.user) = true; };
    client_->start(op);
    wait_until([&] { return finished; });
    return op.outcome;
}

bool Calls::holds(const Url& url) const {
    if (!url.same_server(server_)) {
        complain(url.text(),
                 "is on another server than " + server_.server() + "; one command, one server");
        return false;
    }
    if (!is_path_prefix(export_, normal_path(url.path))) {
        complain(url.text(), "is not in the export '" + export_ + "' of the other path");
        return false;
    }
    return true;
}

std::string Calls::below_export(const Url& url) const {
    const std::string path = normal_path(url.path);
    return export_ == "/" ? path : path.substr(export_.size());
}

Found Calls::walk(const nfs::client::PathWalk::Options& options) {
    nfs::client::PathWalk walk(*client_);
    bool finished = false;
    walk.user = &finished;
    walk.done = [](nfs::client::PathWalk& w) noexcept { *static_cast<bool*>(w.user) = true; };
    walk.start(options);
    wait_until([&] { return finished; });
    return {walk.outcome, walk.object, walk.attributes, walk.last_name()};
}

Found Calls::walk(const Url& url, bool follow_last) {
    nfs::client::PathWalk::Options options;
    options.root = root_;
    options.path = below_export(url);
    // As in every file system, a slash behind a link asks for what it leads to.
    options.follow_last = follow_last || url.ends_in_slash();
    return walk(options);
}

Found Calls::walk_to_parent(const Url& url) {
    nfs::client::PathWalk::Options options;
    options.root = root_;
    options.path = below_export(url);
    options.parent_only = true;
    return walk(options);
}

Found Calls::look_up(const FileHandle& directory, const std::string& name) {
    std::string copy = name;
    nfs::client::LookupOp lookup;
    lookup.args.what = {directory.view(), copy.data()};
    Found found;
    found.outcome = run(lookup);
    if (!found.outcome.ok()) return found;
    found.handle = lookup.object;
    if (lookup.attributes() != nullptr) {
        found.attributes = *lookup.attributes();
        return found;
    }
    nfs::client::GetattrOp getattr;
    getattr.args.object = found.handle.view();
    found.outcome = run(getattr);
    if (found.outcome.ok()) found.attributes = getattr.res.GETATTR3res_u.resok.obj_attributes;
    return found;
}

Outcome Calls::list(const FileHandle& directory, std::vector<Entry>& entries,
                    const ListOptions& options) {
    Outcome outcome;
    for (int tries = 0; tries < kListingsMax; ++tries) {
        entries.clear();
        outcome = list_once(directory, entries, options);
        if (!outcome.rpc || outcome.status != NFS3ERR_BAD_COOKIE) break;
    }
    // Stable: of two with one name the first that was sent stays in front.
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.name < b.name; });
    if (!options.names_only) complete(directory, entries);
    // What was renamed meanwhile may be told of twice.
    const auto last = std::unique(
        entries.begin(), entries.end(),
        [](const Entry& a, const Entry& b) { return a.name == b.name && a.handle == b.handle; });
    entries.erase(last, entries.end());
    for (std::size_t i = 1; i < entries.size(); ++i)
        entries[i].repeated = entries[i].name == entries[i - 1].name;
    return outcome;
}

Outcome Calls::list_once(const FileHandle& directory, std::vector<Entry>& entries,
                         const ListOptions& options) {
    struct Listing {
        std::vector<Entry>& entries;
        bool dots;
        bool finished = false;
    } listing{entries, options.dots};
    nfs::client::DirReader reader(*client_);
    reader.user = &listing;
    reader.on_entry = [](nfs::client::DirReader& r, const nfs::client::DirEntry& from) noexcept {
        Listing& self = *static_cast<Listing*>(r.user);
        const std::string_view name = from.name;
        if (!self.dots && (name == "." || name == "..")) return true;
        Entry& entry = self.entries.emplace_back();
        entry.name = name;
        entry.handle = from.handle;
        if (from.attributes != nullptr) entry.attributes = *from.attributes;
        entry.known = from.attributes != nullptr && !from.handle.empty();
        return true;
    };
    reader.done = [](nfs::client::DirReader& r) noexcept {
        static_cast<Listing*>(r.user)->finished = true;
    };
    using What = nfs::client::DirReader::What;
    reader.start(directory, options.names_only ? What::names : What::everything);
    wait_until([&] { return listing.finished; });
    return reader.outcome;
}

void Calls::complete(const FileHandle& directory, std::vector<Entry>& entries) {
    for (Entry& entry : entries) {
        const bool dot = entry.name == "." || entry.name == "..";
        if (entry.known || (!dot && !nfs::client::is_plain_name(entry.name.c_str()))) continue;
        if (interrupted_ || !connected()) return;
        Found found = look_up(directory, entry.name);
        if (!found.outcome.ok()) continue;  // gone meanwhile, or not for us
        entry.handle = found.handle;
        entry.attributes = found.attributes;
        entry.known = true;
    }
}

}  // namespace nfsrdma::tool
