#include <algorithm>
#include <cstring>
#include <utility>

#include "nfs/status.hpp"
#include "tools/rpcrdma_stress/worker.hpp"

// What only looks: GETATTR, LOOKUP, ACCESS, READDIR, READDIRPLUS, the file system; and SETATTR.
namespace nfsrdma::stress {
namespace {

constexpr std::uint32_t kReadWriteOwner = 0600;
constexpr std::uint32_t kListingsMax = 8;
constexpr std::uint32_t kListLeast = 1024;
constexpr std::uint32_t kSecondsMax = 2'000'000'000;

}  // namespace

void Worker::getattr() {
    getattr_.args.object = files_[plan_.slot]->handle.view();
    issue(getattr_, "GETATTR " + place(*files_[plan_.slot]), [this](bool sure) {
        if (!sure) return step_done();
        if (!expect(getattr_, {NFS3_OK})) return;
        if (require(check_attributes(getattr_.attributes(), *files_[plan_.slot]))) step_done();
    });
}

// args.object and the attributes are set.
void Worker::setattr_call(std::string what, Next applied) {
    issue(setattr_, std::move(what), [this, applied = std::move(applied)](bool sure) {
        std::optional<Object>& slot = files_[plan_.slot];
        if (!sure) return settle(slot, false);
        if (!expect(setattr_, {NFS3_OK})) return;
        applied();
    });
}

void Worker::set_size() {
    Object& file = *files_[plan_.slot];
    // About as often larger as smaller than what is there.
    const std::uint64_t size = plan_.variant % 2 == 0 ? plan_.length : plan_.offset;
    setattr_.args = {};
    setattr_.args.object = file.handle.view();
    setattr_.args.new_attributes.size.set_it = TRUE;
    setattr_.args.new_attributes.size.set_size3_u.size = size;
    setattr_call("SETATTR size " + std::to_string(size) + " " + place(file), [this, size] {
        Object& changed = *files_[plan_.slot];
        changed.model.set_size(size);
        const wcc_data& wcc = setattr_.res.SETATTR3res_u.resok.obj_wcc;
        if (require(check_attributes(wcc.after, changed))) step_done();
    });
}

void Worker::set_mode() {
    Object& file = *files_[plan_.slot];
    const std::uint32_t mode = (plan_.variant >> 8 & 0777) | kReadWriteOwner;
    setattr_.args = {};
    setattr_.args.object = file.handle.view();
    setattr_.args.new_attributes.mode.set_it = TRUE;
    setattr_.args.new_attributes.mode.set_mode3_u.mode = mode;
    const bool guarded = plan_.variant % 8 == 0;
    if (guarded) {  // by a time that never was
        setattr_.args.guard.check = TRUE;
        setattr_.args.guard.sattrguard3_u.obj_ctime = {1, 1};
        issue(setattr_, "SETATTR guarded by a wrong ctime " + place(file), [this](bool sure) {
            if (!sure || expect(setattr_, {NFS3ERR_NOT_SYNC})) step_done();
        });
        return;
    }
    setattr_call("SETATTR mode " + place(file), [this, mode] {
        Object& changed = *files_[plan_.slot];
        changed.mode = mode;
        const wcc_data& wcc = setattr_.res.SETATTR3res_u.resok.obj_wcc;
        if (require(check_attributes(wcc.after, changed))) step_done();
    });
}

void Worker::set_time() {
    Object& file = *files_[plan_.slot];
    const std::uint32_t seconds = plan_.variant % kSecondsMax;
    setattr_.args = {};
    setattr_.args.object = file.handle.view();
    set_mtime& mtime = setattr_.args.new_attributes.mtime;
    mtime.set_it = SET_TO_CLIENT_TIME;
    mtime.set_mtime_u.mtime = {seconds, 0};
    setattr_call("SETATTR mtime " + place(file), [this, seconds] {
        Object& changed = *files_[plan_.slot];
        const post_op_attr& after = setattr_.res.SETATTR3res_u.resok.obj_wcc.after;
        if (!require(check_attributes(after, changed))) return;
        if (after.attributes_follow == FALSE) return step_done();
        const std::uint32_t got = after.post_op_attr_u.attributes.mtime.seconds;
        if (require(got == seconds ? ""
                                   : "mtime: expected " + std::to_string(seconds) + ", got " +
                                         std::to_string(got)))
            step_done();
    });
}

void Worker::lookup() {
    const Object& file = *files_[plan_.slot];
    const Name name = file.names[plan_.variant % file.names.size()];
    lookup_.args.what = at(name, name_);
    issue(lookup_, "LOOKUP " + place(name), [this](bool sure) {
        if (!sure) return step_done();
        if (!expect(lookup_, {NFS3_OK})) return;
        Object& found = *files_[plan_.slot];
        if (!require(lookup_.object == found.handle ? "" : "another handle than before")) return;
        const fattr3* attributes = lookup_.attributes();
        if (attributes == nullptr || require(check_attributes(*attributes, found))) step_done();
    });
}

void Worker::lookup_absent() {
    const Name absent{plan_.variant % 2, "never-there"};
    lookup_.args.what = at(absent, name_);
    issue(lookup_, "LOOKUP " + place(absent), [this](bool sure) {
        if (!sure || expect(lookup_, {NFS3ERR_NOENT})) step_done();
    });
}

void Worker::access() {
    access_.args.object = files_[plan_.slot]->handle.view();
    access_.args.access = ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND;
    issue(access_, "ACCESS " + place(*files_[plan_.slot]), [this](bool sure) {
        if (!sure) return step_done();
        if (!expect(access_, {NFS3_OK})) return;
        const ACCESS3resok& ok = access_.res.ACCESS3res_u.resok;
        if ((ok.access & ~access_.args.access) != 0 && !require("granted what was not asked for"))
            return;
        if (require(check_attributes(ok.obj_attributes, *files_[plan_.slot]))) step_done();
    });
}

void Worker::list(bool plus) {
    if (!range_done_) range_done_ = [this] { step_done(); };
    plus_ = plus;
    listings_ = cuts_ = 0;
    seen_.clear();
    cookie_ = 0;
    cookie_verifier_ = {};
    list_next();
}

void Worker::list_next() {
    const std::uint32_t dir = plan_.variant % 2;
    const std::uint32_t most =
        connection_->up() ? connection_->client().sizes().directory : kListLeast;
    const std::uint32_t wide = kListLeast << (plan_.variant >> 8) % 6;
    const std::uint32_t size = std::clamp(wide, kListLeast, std::max(most, kListLeast));
    const std::string what = std::string(plus_ ? "READDIRPLUS w" : "READDIR w") +
                             std::to_string(index_) + (dir == 0 ? "" : "/sub") + " cookie " +
                             std::to_string(cookie_) + " of " + std::to_string(size) + " bytes";
    const auto then = [this](nfs::client::Op& op, bool sure) {
        if (!sure && !verifying_) return std::exchange(range_done_, nullptr)();
        if (!sure) {
            if (again_while_verifying()) list_next();
            return;
        }
        if (!expect(op, {NFS3_OK, NFS3ERR_BAD_COOKIE, NFS3ERR_NOT_SYNC})) return;
        if (op.outcome.status != NFS3_OK) {  // it changed: from the beginning
            if (++listings_ > kListingsMax && !require("the listing never ends")) return;
            seen_.clear();
            cookie_ = 0;
            cookie_verifier_ = {};
            return list_next();
        }
        const bool more = plus_ ? take_page(readdirplus_.res.READDIRPLUS3res_u.resok)
                                : take_page(readdir_.res.READDIR3res_u.resok);
        if (more) list_next();
    };
    if (plus_) {
        readdirplus_.args.dir = dirs_.at(dir).handle.view();
        readdirplus_.args.cookie = cookie_;
        std::copy(cookie_verifier_.begin(), cookie_verifier_.end(), readdirplus_.args.cookieverf);
        readdirplus_.args.dircount = readdirplus_.args.maxcount = size;
        issue(readdirplus_, what, [this, then](bool sure) { then(readdirplus_, sure); });
    } else {
        readdir_.args.dir = dirs_.at(dir).handle.view();
        readdir_.args.cookie = cookie_;
        std::copy(cookie_verifier_.begin(), cookie_verifier_.end(), readdir_.args.cookieverf);
        readdir_.args.count = size;
        issue(readdir_, what, [this, then](bool sure) { then(readdir_, sure); });
    }
}

namespace {

const post_op_attr* attributes_of(const entryplus3& entry) {
    return &entry.name_attributes;
}
const post_op_attr* attributes_of(const entry3& /*entry*/) {
    return nullptr;
}
const post_op_fh3* handle_of(const entryplus3& entry) {
    return &entry.name_handle;
}
const post_op_fh3* handle_of(const entry3& /*entry*/) {
    return nullptr;
}

}  // namespace

// Whether there is another page to ask for.
template <class Ok>
bool Worker::take_page(const Ok& ok) {
    const std::uint64_t before = cookie_;
    bool any = false;
    for (const auto* entry = ok.reply.entries; entry != nullptr; entry = entry->nextentry) {
        any = true;
        cookie_ = entry->cookie;
        if (!listed(entry->fileid, entry->name, attributes_of(*entry), handle_of(*entry)))
            return false;
    }
    std::copy(std::begin(ok.cookieverf), std::end(ok.cookieverf), cookie_verifier_.begin());
    if (ok.reply.eof != FALSE) {
        list_end();
        return false;
    }
    return require(any && cookie_ != before ? "" : "neither an entry nor the end");
}

bool Worker::listed(std::uint64_t fileid, const char* name, const post_op_attr* attributes,
                    const post_op_fh3* handle) {
    const std::string text = name == nullptr ? "" : name;
    const std::uint32_t dir = plan_.variant % 2;
    if (text == "." || text == "..") return true;
    if (dir == 0 && text == "sub") return true;
    Directory& directory = dirs_.at(dir);
    if (++seen_[text] > 1) return require("the name \"" + text + "\" was told twice");
    if (directory.certain.count(text) == 0) {
        if (directory.maybe.count(text) != 0) return true;
        return require("a name that is not there: \"" + text + "\"");
    }
    const auto has_it = [&](const std::optional<Object>& object) {
        const Name wanted{dir, text};
        return object &&
               std::find(object->names.begin(), object->names.end(), wanted) != object->names.end();
    };
    std::optional<Object>* object = nullptr;
    for (std::optional<Object>& file : files_) {
        if (has_it(file)) object = &file;
    }
    for (std::optional<Object>* other : {&symlink_, &subdir_, &fifo_}) {
        if (has_it(*other)) object = other;
    }
    if (object == nullptr) return true;
    const std::uint64_t expected = (*object)->fileid;
    if (expected != 0 && fileid != expected) {
        return require("fileid of \"" + text + "\": expected " + std::to_string(expected) +
                       ", got " + std::to_string(fileid));
    }
    if (attributes != nullptr) {
        const std::string problem = check_attributes(*attributes, **object);
        if (!problem.empty()) return require("\"" + text + "\": " + problem);
    }
    if (handle == nullptr || handle->handle_follows == FALSE || (*object)->handle.empty())
        return true;
    nfs::client::FileHandle got;
    return require(got.assign(handle->post_op_fh3_u.handle) && got == (*object)->handle
                       ? ""
                       : "another handle of \"" + text + "\" than before");
}

void Worker::list_end() {
    for (const std::string& name : dirs_.at(plan_.variant % 2).certain) {
        if (seen_.count(name) == 0 && !require("the name \"" + name + "\" is missing")) return;
    }
    std::exchange(range_done_, nullptr)();
}

void Worker::file_system() {
    const nfs_fh3 fh = dirs_[0].handle.view();
    const auto then = [this](const nfs::client::Op& op, bool sure) {
        if (!sure || expect(op, {NFS3_OK})) step_done();
    };
    if (plan_.kind == Kind::fsstat) {
        fsstat_.args.fsroot = fh;
        issue(fsstat_, "FSSTAT", [this, then](bool sure) { then(fsstat_, sure); });
    } else if (plan_.kind == Kind::fsinfo) {
        fsinfo_.args.fsroot = fh;
        issue(fsinfo_, "FSINFO", [this, then](bool sure) { then(fsinfo_, sure); });
    } else {
        pathconf_.args.object = fh;
        issue(pathconf_, "PATHCONF", [this, then](bool sure) { then(pathconf_, sure); });
    }
}

}  // namespace nfsrdma::stress
