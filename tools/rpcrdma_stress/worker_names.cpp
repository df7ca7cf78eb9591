#include <cstring>
#include <utility>

#include "base/prng.hpp"
#include "nfs/status.hpp"
#include "tools/rpcrdma_stress/worker.hpp"

// What has which name: CREATE, REMOVE, RENAME, LINK, SYMLINK, READLINK, MKDIR, RMDIR, MKNOD.
namespace nfsrdma::stress {
namespace {

constexpr std::uint32_t kFileMode = 0644, kDirMode = 0755;
constexpr std::size_t kNamesMax = 3;
constexpr std::uint32_t kLinkTextMax = 1023;

sattr3 with_mode(std::uint32_t mode) {
    sattr3 attributes{};
    attributes.mode.set_it = TRUE;
    attributes.mode.set_mode3_u.mode = mode;
    return attributes;
}

}  // namespace

// The step's file is there, made now if need be.
void Worker::with_file(Next next) {
    if (files_[plan_.slot]) return next();
    make_file(std::move(next));
}

void Worker::make_file(Next next) {
    Object object;
    object.mode = kFileMode;
    object.names = {new_name(plan_.variant >> 8, 'f')};
    const auto mode = static_cast<createmode3>(plan_.variant % 3);
    const Name& name = object.names.front();
    object.model = FileModel(index_, file_serial(serial_));
    create_.args.where = at(name, name_);
    create_.args.how = {};
    create_.args.how.mode = mode;
    if (mode == EXCLUSIVE) {
        std::memcpy(create_.args.how.createhow3_u.verf, &serial_, sizeof serial_);
        create_.args.how.createhow3_u.verf[7] = static_cast<char>(index_);
    } else {
        create_.args.how.createhow3_u.obj_attributes = with_mode(kFileMode);
    }
    static constexpr const char* kModes[] = {"UNCHECKED", "GUARDED", "EXCLUSIVE"};
    issue(create_, std::string("CREATE ") + kModes[mode] + " " + place(name),
          [this, object = std::move(object), mode, next = std::move(next)](bool sure) mutable {
              if (!sure) return sweep(object.names, false, [this] { step_done(); });
              if (!expect(create_, {NFS3_OK})) return;
              made_file(std::move(object), mode == EXCLUSIVE, std::move(next));
          });
}

void Worker::made_file(Object object, bool exclusive, Next next) {
    const CREATE3resok& ok = create_.res.CREATE3res_u.resok;
    object.handle = create_.object;
    if (object.handle.empty()) {
        field_.trouble("the server gives no handles with CREATE");
        return;
    }
    if (!exclusive && !require(check_attributes(ok.obj_attributes, object))) return;
    const std::size_t slot = plan_.slot;
    add(std::move(object), files_[slot]);
    if (!exclusive) return next();
    // Only now are the attributes ours (RFC 1813 s3.3.8).
    setattr_.args = {};
    setattr_.args.object = files_[slot]->handle.view();
    setattr_.args.new_attributes = with_mode(kFileMode);
    setattr_call("SETATTR mode of the new " + place(*files_[slot]), std::move(next));
}

void Worker::add(Object object, std::optional<Object>& slot) {
    const Name& name = object.names.front();
    dirs_.at(name.dir).certain.insert(name.text);
    slot = std::move(object);
}

void Worker::forget(const Name& name) {
    dirs_.at(name.dir).certain.erase(name.text);
}

void Worker::create() {
    if (!files_[plan_.slot]) return make_file([this] { step_done(); });
    const std::uint32_t way = plan_.variant / 3 % 3;
    if (way < 2) return create_again(way == 0 ? GUARDED : UNCHECKED);
    remove_name(files_[plan_.slot], 0, [this] {
        if (files_[plan_.slot]) return step_done();
        make_file([this] { step_done(); });
    });
}

// Of a name that is there: refused, or cut to nothing.
void Worker::create_again(createmode3 how) {
    Object& file = *files_[plan_.slot];
    create_.args.where = at(file.names.front(), name_);
    create_.args.how = {};
    create_.args.how.mode = how;
    sattr3& attributes = create_.args.how.createhow3_u.obj_attributes;
    attributes.size.set_it = TRUE;
    issue(
        create_,
        std::string(how == GUARDED ? "CREATE GUARDED again " : "CREATE UNCHECKED again, size 0, ") +
            place(file),
        [this, how](bool sure) {
            std::optional<Object>& slot = files_[plan_.slot];
            if (!sure) return settle(slot, false);  // later it may make the name anew
            if (!expect(create_, {how == GUARDED ? NFS3ERR_EXIST : NFS3_OK})) return;
            if (how == GUARDED) return step_done();
            slot->model.set_size(0);
            if (!create_.object.empty() && !(create_.object == slot->handle) &&
                !require("another handle than before"))
                return;
            const CREATE3resok& ok = create_.res.CREATE3res_u.resok;
            if (require(check_attributes(ok.obj_attributes, *slot))) step_done();
        });
}

void Worker::remove() {
    if (files_[plan_.slot])
        return remove_name(files_[plan_.slot], plan_.variant >> 4, [this] { step_done(); });
    const Name absent{plan_.variant % 2, "never-there"};
    remove_.args.object = at(absent, name_);
    issue(remove_, "REMOVE " + place(absent), [this](bool sure) {
        if (!sure || expect(remove_, {NFS3ERR_NOENT})) step_done();
    });
}

void Worker::remove_name(std::optional<Object>& slot, std::size_t which, Next next) {
    const Name name = slot->names[which % slot->names.size()];
    remove_.args.object = at(name, name_);
    issue(remove_, "REMOVE " + place(name), [this, &slot, name, next = std::move(next)](bool sure) {
        if (!sure) return settle(slot, false);
        if (!expect(remove_, {NFS3_OK})) return;
        forget(name);
        std::erase(slot->names, name);
        if (!slot->names.empty()) return next();
        const Object gone = *std::exchange(slot, std::nullopt);
        if (plan_.variant % 5 != 0 || gone.type != NF3REG) return next();
        check_removed(gone.handle, gone.fileid);
    });
}

// The handle of what is gone leads nowhere, or to what has no name; never to something else.
void Worker::check_removed(const nfs::client::FileHandle& handle, std::uint64_t fileid) {
    removed_ = handle;
    getattr_.args.object = removed_.view();
    issue(getattr_, "GETATTR of the handle of the removed file", [this, fileid](bool sure) {
        if (!sure) return step_done();
        if (!expect(getattr_, {NFS3ERR_STALE, NFS3ERR_BADHANDLE, NFS3_OK})) return;
        if (getattr_.outcome.status != NFS3_OK) return step_done();
        const fattr3& attributes = getattr_.attributes();
        const bool other = fileid != 0 && attributes.fileid != fileid;
        if (require(other || attributes.nlink != 0
                        ? "the handle leads to fileid " + std::to_string(attributes.fileid) +
                              " with nlink " + std::to_string(attributes.nlink) +
                              "; the removed file was fileid " + std::to_string(fileid)
                        : ""))
            step_done();
    });
}

// To a new name, or over another file.
void Worker::rename() {
    std::optional<Object>& slot = files_[plan_.slot];
    std::optional<Object>& other = files_[(plan_.slot + 1) % files_.size()];
    const bool replace = plan_.variant % 4 == 0 && files_.size() > 1 && other;
    const Name from = slot->names[plan_.variant / 4 % slot->names.size()];
    const Name to = replace ? other->names.back() : new_name(plan_.variant >> 9, 'r');
    rename_.args.from = at(from, name_);
    rename_.args.to = at(to, other_name_);
    issue(rename_, "RENAME " + place(from) + " " + place(to),
          [this, &slot, &other, from, to, replace](bool sure) {
              if (sure) {
                  if (!expect(rename_, {NFS3_OK})) return;
                  std::optional<Object> none;
                  renamed(from, to, replace ? other : none);
                  return step_done();
              }
              std::vector<Name> names = slot->names;
              names.push_back(to);
              slot.reset();
              ++field_.tally().files_given_up;
              if (replace) {
                  for (const Name& name : other->names) {
                      if (!(name == to)) names.push_back(name);
                  }
                  other.reset();
                  ++field_.tally().files_given_up;
              }
              sweep(std::move(names), false, [this] { step_done(); });
          });
}

void Worker::renamed(const Name& from, const Name& to, std::optional<Object>& replaced) {
    if (replaced) {
        std::erase(replaced->names, to);
        if (replaced->names.empty()) replaced.reset();
    }
    Object& file = *files_[plan_.slot];
    forget(from);
    std::erase(file.names, from);
    file.names.push_back(to);
    dirs_.at(to.dir).certain.insert(to.text);
}

void Worker::link() {
    Object& file = *files_[plan_.slot];
    if (file.names.size() >= kNamesMax)
        return remove_name(files_[plan_.slot], plan_.variant, [this] { step_done(); });
    const Name name = new_name(plan_.variant >> 9, 'l');
    link_.args.file = file.handle.view();
    link_.args.link = at(name, name_);
    issue(link_, "LINK " + place(file) + " " + place(name), [this, name](bool sure) {
        std::optional<Object>& slot = files_[plan_.slot];
        if (!sure) {
            slot->names.push_back(name);
            return settle(slot, false);
        }
        if (!expect(link_, {NFS3_OK})) return;
        slot->names.push_back(name);
        dirs_.at(name.dir).certain.insert(name.text);
        if (require(check_attributes(link_.res.LINK3res_u.resok.file_attributes, *slot)))
            step_done();
    });
}

void Worker::symlink() {
    if (symlink_ && plan_.variant % 3 == 0)
        return remove_name(symlink_, 0, [this] { step_done(); });
    if (symlink_) return readlink();
    Object object;
    object.type = NF3LNK;
    object.names = {new_name(plan_.variant >> 9, 's')};
    Prng prng(plan_.step * kWorkersMax + index_);
    object.text.resize(prng.between(1, prng.between(1, kLinkTextMax)));
    for (char& c : object.text)
        c = static_cast<char>('a' + prng.below(26));
    text_ = object.text;
    const Name& name = object.names.front();
    make_symlink_.args.where = at(name, name_);
    make_symlink_.args.symlink = {};
    make_symlink_.args.symlink.symlink_data = text_.data();
    issue(make_symlink_,
          "SYMLINK " + place(name) + " of " + std::to_string(text_.size()) + " bytes",
          [this, object](bool sure) mutable {
              if (!sure) return sweep(object.names, false, [this] { step_done(); });
              if (!expect(make_symlink_, {NFS3_OK})) return;
              object.handle = make_symlink_.object;
              const SYMLINK3resok& ok = make_symlink_.res.SYMLINK3res_u.resok;
              if (!require(check_attributes(ok.obj_attributes, object))) return;
              add(std::move(object), symlink_);
              readlink();
          });
}

void Worker::readlink() {
    if (symlink_->handle.empty()) return step_done();
    readlink_.args.symlink = symlink_->handle.view();
    issue(readlink_, "READLINK " + place(*symlink_), [this](bool sure) {
        if (!sure) return step_done();
        if (!expect(readlink_, {NFS3_OK})) return;
        const READLINK3resok& ok = readlink_.res.READLINK3res_u.resok;
        const std::string got = ok.data == nullptr ? "" : ok.data;
        if (!require(got == symlink_->text
                         ? ""
                         : "expected the text \"" + symlink_->text + "\", got \"" + got + "\""))
            return;
        if (require(check_attributes(ok.symlink_attributes, *symlink_))) step_done();
    });
}

void Worker::mkdir() {
    if (subdir_ && plan_.variant % 2 == 0) {
        const Name name = subdir_->names.front();
        rmdir_.args.object = at(name, name_);
        issue(rmdir_, "RMDIR " + place(name), [this, name](bool sure) {
            if (!sure) return settle(subdir_, false);
            if (!expect(rmdir_, {NFS3_OK})) return;
            forget(name);
            subdir_.reset();
            step_done();
        });
        return;
    }
    const bool again = subdir_.has_value();
    Object object;
    object.type = NF3DIR;
    object.mode = kDirMode;
    object.names = {again ? subdir_->names.front() : new_name(plan_.variant >> 9, 'd')};
    const Name& name = object.names.front();
    mkdir_.args.where = at(name, name_);
    mkdir_.args.attributes = with_mode(kDirMode);
    issue(mkdir_, "MKDIR " + place(name), [this, object, again](bool sure) mutable {
        if (!sure && again) return settle(subdir_, false);
        if (!sure) return sweep(object.names, true, [this] { step_done(); });
        if (!expect(mkdir_, {again ? NFS3ERR_EXIST : NFS3_OK})) return;
        if (again) return step_done();
        object.handle = mkdir_.object;
        if (!require(check_attributes(mkdir_.res.MKDIR3res_u.resok.obj_attributes, object))) return;
        add(std::move(object), subdir_);
        step_done();
    });
}

void Worker::mknod() {
    if (fifo_) return remove_name(fifo_, 0, [this] { step_done(); });
    Object object;
    object.type = NF3FIFO;
    object.mode = kFileMode;
    object.names = {new_name(plan_.variant >> 9, 'p')};
    const Name& name = object.names.front();
    mknod_.args.where = at(name, name_);
    mknod_.args.what = {};
    mknod_.args.what.type = NF3FIFO;
    mknod_.args.what.mknoddata3_u.pipe_attributes = with_mode(kFileMode);
    issue(mknod_, "MKNOD " + place(name), [this, object](bool sure) mutable {
        if (!sure) return sweep(object.names, false, [this] { step_done(); });
        if (!expect(mknod_, {NFS3_OK, NFS3ERR_NOTSUPP})) return;
        if (mknod_.outcome.status == NFS3ERR_NOTSUPP) return step_done();
        object.handle = mknod_.object;
        if (!require(check_attributes(mknod_.res.MKNOD3res_u.resok.obj_attributes, object))) return;
        add(std::move(object), fifo_);
        step_done();
    });
}

}  // namespace nfsrdma::stress
