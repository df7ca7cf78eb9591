// chmod, chown, touch, truncate: what changes attributes.
#include <functional>

#include "tools/nfsrdma/change_text.hpp"
#include "tools/nfsrdma/command_support.hpp"
#include "tools/nfsrdma/commands.hpp"
#include "tools/nfsrdma/local_file.hpp"
#include "tools/nfsrdma/put_job.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::FileHandle;
using nfs::client::Outcome;

// Fills in what is to be set on what was found.
using Change = std::function<void(const fattr3& now, sattr3& set)>;

Outcome set_attributes(Session& session, const FileHandle& object, const sattr3& attributes) {
    nfs::client::SetattrOp op;
    op.args.object = object.view();
    op.args.new_attributes = attributes;
    return session.run(op);
}

bool change(Session& session, const Url& url, const Change& how) {
    const Found found = session.walk(url, true);
    Outcome outcome = found.outcome;
    if (outcome.ok()) {
        sattr3 attributes{};
        how(found.attributes, attributes);
        outcome = set_attributes(session, found.handle, attributes);
    }
    if (!outcome.ok()) session.complain_about(url.text(), outcome);
    return outcome.ok();
}

int change_all(const Options& options, const std::vector<std::string>& paths, const Change& how) {
    std::vector<Url> urls;
    int status = kOk;
    if (!parse_urls(paths, urls)) return kUsage;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    return for_each(*session, urls, [&](const Url& url) { return change(*session, url, how); });
}

void set_size(sattr3& attributes, std::uint64_t size) {
    attributes.size.set_it = TRUE;
    attributes.size.set_size3_u.size = size;
}

// With the server's own time where none is given.
void set_both_times(sattr3& attributes, const std::optional<nfstime3>& time) {
    attributes.atime.set_it = time ? SET_TO_CLIENT_TIME : SET_TO_SERVER_TIME;
    attributes.mtime.set_it = attributes.atime.set_it;
    if (!time) return;
    attributes.atime.set_atime_u.atime = *time;
    attributes.mtime.set_mtime_u.mtime = *time;
}

// Makes an empty file where there is none; one that is there stays as it is.
Outcome make_file(Session& session, const Url& url, const sattr3& attributes) {
    const Found parent = session.walk_to_parent(url);
    if (!parent.outcome.ok()) return parent.outcome;
    std::string name = parent.name;
    nfs::client::CreateOp op;
    op.args.where = {parent.handle.view(), name.data()};
    op.args.how.mode = GUARDED;
    sattr3& own = op.args.how.createhow3_u.obj_attributes;
    own = attributes;
    set_mode(own, permitted_by_umask(0666));
    return session.run(op);
}

// touch and truncate: what is not there is made.
int make_or_change(const Options& options, const sattr3& attributes) {
    std::vector<Url> urls;
    int status = kOk;
    std::unique_ptr<Session> session = open_for(options, urls, status);
    if (session == nullptr) return status;
    for (const Url& url : urls) {
        if (session->interrupted()) break;
        const Found found = session->walk(url, true);
        Outcome outcome = found.outcome;
        const bool absent = outcome.rpc && outcome.status == NFS3ERR_NOENT;
        if (absent && options.no_create) continue;
        if (outcome.ok()) {
            outcome = set_attributes(*session, found.handle, attributes);
        } else if (absent) {
            outcome = make_file(*session, url, attributes);
        }
        if (outcome.ok()) continue;
        session->complain_about(url.text(), outcome);
        status = kFailed;
    }
    session->print_summary({}, JsonObject());
    return session->status(status);
}

std::vector<std::string> behind_first(const std::vector<std::string>& paths) {
    return {paths.begin() + 1, paths.end()};
}

}  // namespace

int run_chmod(const Options& options) {
    const std::string& mode = options.paths.front();
    if (!changed_mode(mode, 0, false)) {
        complain("", "'" + mode + "' is no mode; expected octal, or such as u+rw,go-w");
        return kUsage;
    }
    return change_all(options, behind_first(options.paths), [&](const fattr3& now, sattr3& set) {
        set_mode(set, changed_mode(mode, now.mode, now.type == NF3DIR).value_or(now.mode));
    });
}

int run_chown(const Options& options) {
    const std::optional<Owner> owner = parse_owner(options.paths.front());
    if (!owner) {
        complain("", "'" + options.paths.front() +
                         "' is no owner; expected UID, UID:GID or :GID, numbers or names of this "
                         "machine");
        return kUsage;
    }
    return change_all(options, behind_first(options.paths), [&](const fattr3&, sattr3& set) {
        if (owner->uid) {
            set.uid.set_it = TRUE;
            set.uid.set_uid3_u.uid = *owner->uid;
        }
        if (owner->gid) {
            set.gid.set_it = TRUE;
            set.gid.set_gid3_u.gid = *owner->gid;
        }
    });
}

int run_touch(const Options& options) {
    std::optional<nfstime3> time;
    if (!options.date.empty()) {
        time = parse_time(options.date);
        if (!time) {
            complain("",
                     "'" + options.date +
                         "' is no time; expected @SECONDS[.FRACTION] or YYYY-MM-DD[ HH:MM[:SS]]");
            return kUsage;
        }
    }
    sattr3 attributes{};
    set_both_times(attributes, time);
    return make_or_change(options, attributes);
}

int run_truncate(const Options& options) {
    const std::optional<std::uint64_t> size = parse_size(options.size);
    if (!size) {
        complain("",
                 "'" + options.size + "' is no size; expected a number, or such as 64K, 1M, 5G");
        return kUsage;
    }
    sattr3 attributes{};
    set_size(attributes, *size);
    return make_or_change(options, attributes);
}

}  // namespace nfsrdma::tool
