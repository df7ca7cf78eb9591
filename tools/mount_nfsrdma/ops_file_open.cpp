#include <cerrno>
#include <fcntl.h>
#include <utility>

#include "base/bytes.hpp"
#include "tools/mount_nfsrdma/access_cache.hpp"
#include "tools/mount_nfsrdma/ops_file.hpp"
#include "tools/mount_nfsrdma/ops_names.hpp"
#include "tools/mount_nfsrdma/silly.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

// open, create, release.
namespace nfsrdma::mount {
namespace {

// The kernel opens it to execute it (its __FMODE_EXEC, which no header tells).
constexpr int kOpenToExecute = 0x20;

// Where the data of a node is moved; that of `at`, when it has no place yet.
Worker& home_of(const Node& node, Worker& at) noexcept {
    return node.file != nullptr ? *node.home : at;
}

// Whether one may open a node, by the server's word, which also tells how the node is now: an open
// file shows what was there when it was opened (close-to-open).
class Permission {
  public:
    nfs::client::AccessOp op;
    // The server's earlier word holds, where that is to be believed (nocto).
    static bool is_known(Mount& mount, const Node& node, const Caller& who, int flags) noexcept {
        if (mount.options.cto || node.access == nullptr) return false;
        if (!node.attributes.fresh(mount.now_ns())) return false;
        const auto rights = node.access->find(who, node.attributes.now().ctime, mount.now_ns());
        return rights && rights_wanted(flags).granted(*rights);
    }
    void ask(const Node& node) noexcept {
        op.args.object = node.handle.view();
        op.args.access = access_rights(NF3REG);
    }
    // 0, or an errno; `failure` is that of the call itself.
    int answer(Mount& mount, Node& node, const Caller& who, int flags, std::uint64_t order,
               int failure) noexcept {
        const bool ok = op.outcome.ok();
        if (op.outcome.rpc) {
            mount.take(node,
                       ok ? op.res.ACCESS3res_u.resok.obj_attributes
                          : op.res.ACCESS3res_u.resfail.obj_attributes,
                       order);
        }
        if (!ok) return failure;
        const std::uint32_t rights = op.res.ACCESS3res_u.resok.access;
        if (node.access == nullptr) node.access = std::make_unique<AccessCache>();
        node.access->note(who, node.attributes.now().ctime, rights,
                          mount.now_ns() + node.attributes.timeout_ns());
        return rights_wanted(flags).granted(rights) ? 0 : EACCES;
    }
};

class OpenJob final : public Job {
  public:
    OpenJob(Worker& at, fuse_req_t request, fuse_ino_t ino, const fuse_file_info& info)
        : Job(at, request),
          node_(mount().nodes, node_at(mount(), ino)),
          info_(info),
          timer_(on_look, *this) {
        ++node_->opens;  // an unlink that comes meanwhile hides it
    }
    void start() noexcept override {
        if (granted_) return opened();
        // One that came before has not seen this open. Once it is known what became of it, the
        // server tells whether the file is there, and if not the kernel looks its name up once
        // more.
        if (may_be_going(*node_)) return look_later();
        if (Permission::is_known(mount(), *node_, caller(), info_.flags)) return opened();
        permission_.ask(*node_);
        call<&OpenJob::asked>(permission_.op);
    }
    void give_up() noexcept override {
        if (!timer_.armed()) return;
        worker().loop().disarm(timer_);
        give_back(EINTR);
    }

  private:
    static constexpr std::uint64_t kLookNs = kNsPerMs;
    void look_later() noexcept { worker().loop().arm(timer_, worker().loop().now_ns() + kLookNs); }
    static void on_look(Timer& timer) noexcept {
        OpenJob& job = static_cast<LookTimer&>(timer).job;
        const std::lock_guard guard(job.mount().lock);
        job.start();
    }
    void asked() noexcept {
        const int error = permission_.answer(mount(), *node_, caller(), info_.flags, order(),
                                             errno_of(permission_.op));
        if (error != 0) return give_back(error);
        const bool told =
            permission_.op.res.ACCESS3res_u.resok.obj_attributes.attributes_follow != FALSE;
        if (told) return opened();
        getattr_.args.object = node_->handle.view();
        call<&OpenJob::got_attributes>(getattr_);
    }
    void got_attributes() noexcept {
        if (!getattr_.outcome.ok()) return give_back(errno_of(getattr_));
        mount().take(*node_, getattr_.attributes(), order());
        opened();
    }
    void opened() noexcept {
        granted_ = true;
        if (&worker() != &home_of(*node_, worker())) return move_to(*node_->home);
        // What is asked of it after the open is what there was at the open.
        if (std::exchange(node_->attributes_stale, false)) mount().notifier.tell_attributes(*node_);
        open_node(mount(), worker(), *node_, caller(), info_);
        reply_open(info_);
    }
    void give_back(int error) noexcept {
        close_node(mount(), worker(), *node_);
        fail(error);
    }
    struct LookTimer final : Timer {
        LookTimer(Fire go, OpenJob& owner) noexcept : Timer(go), job(owner) {}
        OpenJob& job;
    };
    NodePin node_;
    fuse_file_info info_;
    bool granted_ = false;  // what is left is done on the loop of its data
    Permission permission_;
    nfs::client::GetattrOp getattr_;
    LookTimer timer_;
};

// O_CREAT of a name that the kernel believes not to be there. Another client may have made it
// meanwhile: then, without O_EXCL, it is opened.
class CreateJob final : public Job {
  public:
    CreateJob(Worker& at, fuse_req_t request, Node& directory, const char* name, mode_t mode,
              const fuse_file_info& info)
        : Job(at, request),
          directory_(mount().nodes, directory),
          name_(name),
          mode_(mode),
          info_(info) {
        waiter_.job = this;
        waiter_.ready = [](FileState::Waiter& waiter) noexcept {
            CreateJob& job = *static_cast<Waiter&>(waiter).job;
            job.waiting_ = false;
            job.truncate();
        };
    }
    void start() noexcept override {
        if (granted_) return reply();
        if (truncating_) return truncate();
        const int error = error_of_name(mount(), name_);
        if (error != 0) return fail(error);
        create_.args.where = place(*directory_, name_);
        create_.args.how.mode = GUARDED;
        sattr3& attributes = create_.args.how.createhow3_u.obj_attributes;
        attributes.mode.set_it = TRUE;
        attributes.mode.set_mode3_u.mode = mode_ & 07777;
        changing_.begin(mount(), *directory_);
        call<&CreateJob::created>(create_);
    }
    void give_up() noexcept override {
        if (!waiting_) return;
        waiting_ = false;
        node_->file->stop_waiting(waiter_);
        fail(EINTR);
    }

  private:
    struct Waiter final : FileState::Waiter {
        CreateJob* job = nullptr;
    };
    void created() noexcept {
        const bool ok = create_.outcome.ok();
        if (create_.outcome.rpc) {
            mount().take(*directory_,
                         ok ? create_.res.CREATE3res_u.resok.dir_wcc
                            : create_.res.CREATE3res_u.resfail.dir_wcc,
                         order());
        } else {
            directory_->attributes.expire();
        }
        changing_.end();
        const bool there = create_.outcome.rpc && create_.outcome.status == NFS3ERR_EXIST;
        if (there && (info_.flags & O_EXCL) == 0) {
            existing_ = true;
            return look_up();
        }
        if (!ok) return fail(create_);
        if (create_.object.empty()) return look_up();
        have(create_.object, told(create_.res.CREATE3res_u.resok.obj_attributes));
    }
    void look_up() noexcept {
        lookup_.args.what = place(*directory_, name_);
        call<&CreateJob::looked_up>(lookup_);
    }
    void looked_up() noexcept {
        if (!lookup_.outcome.ok()) return fail(lookup_);
        have(lookup_.object, lookup_.attributes());
    }
    void have(const nfs::client::FileHandle& handle, const fattr3* attributes) noexcept {
        Node* const node = mount().node_of(handle, attributes, order());
        if (node != nullptr) return with(*node);
        scratch_handle() = handle;
        getattr_.args.object = scratch_handle().view();
        call<&CreateJob::got_attributes>(getattr_);
    }
    void got_attributes() noexcept {
        if (!getattr_.outcome.ok()) return fail(getattr_);
        Node* const node = mount().node_of(scratch_handle(), &getattr_.attributes(), order());
        if (node == nullptr) return fail(EIO);
        with(*node);
    }
    void with(Node& node) noexcept {
        node_ = NodePin(mount().nodes, node);
        if (!existing_) return opened();
        // What is no file is opened, if at all, in another way: the kernel looks once more.
        if (node.type() != NF3REG) return fail(node.is_dir() ? EISDIR : ESTALE);
        permission_.ask(node);
        call<&CreateJob::asked>(permission_.op);
    }
    void asked() noexcept {
        const int error = permission_.answer(mount(), *node_, caller(), info_.flags, order(),
                                             errno_of(permission_.op));
        if (error != 0) return fail(error);
        // The kernel believes that it was made just now, and empty.
        if ((info_.flags & O_TRUNC) == 0) return opened();
        truncating_ = true;
        truncate();
    }
    // What is on its way, or might have to be written anew, would make it longer again.
    void truncate() noexcept {
        if (!settled_ && node_->file != nullptr && !node_->file->durable()) {
            if (node_->home != &worker()) return move_to(*node_->home);
            settled_ = true;
            waiting_ = !node_->file->when_durable(waiter_);
            if (waiting_) return;
        }
        setattr_.args.object = node_->handle.view();
        setattr_.args.new_attributes.size.set_it = TRUE;
        node_->attributes.begin_change();
        call<&CreateJob::truncated>(setattr_);
    }
    void truncated() noexcept {
        const bool ok = setattr_.outcome.ok();
        if (setattr_.outcome.rpc) {
            mount().take(*node_,
                         ok ? setattr_.res.SETATTR3res_u.resok.obj_wcc
                            : setattr_.res.SETATTR3res_u.resfail.obj_wcc,
                         order());
        } else {
            node_->attributes.expire();
        }
        node_->attributes.end_change(mount().order());
        if (node_->file != nullptr) node_->file->drop_ahead();
        if (!ok) return fail(setattr_);
        opened();
    }
    void opened() noexcept {
        ++node_->opens;
        granted_ = true;
        reply();
    }
    void reply() noexcept {
        if (&worker() != &home_of(*node_, worker())) return move_to(*node_->home);
        open_node(mount(), worker(), *node_, caller(), info_);
        reply_create(*directory_, name_, *node_, info_);
    }
    NodePin directory_, node_;
    std::string name_;
    const mode_t mode_;
    fuse_file_info info_;
    bool existing_ = false, granted_ = false;
    bool truncating_ = false, settled_ = false, waiting_ = false;
    Waiter waiter_;
    Changing changing_;
    Permission permission_;
    nfs::client::CreateOp create_;
    nfs::client::LookupOp lookup_;
    nfs::client::GetattrOp getattr_;
    nfs::client::SetattrOp setattr_;
};

class ReleaseJob final : public FileJob {
  public:
    ReleaseJob(Worker& at, fuse_req_t request, const fuse_file_info& info)
        : FileJob(at, request, info), node_(mount().nodes, node()) {}
    void start() noexcept override {
        if (!at_home()) return;
        --node_->opens;
        data().close(file());  // and both are gone, perhaps
        if (node_->opens == 0) finish_silly(mount(), worker(), *node_);
        fail(0);
    }

  private:
    NodePin node_;
};

void on_open(fuse_req_t req, fuse_ino_t ino, fuse_file_info* info) noexcept {
    begin<OpenJob>(req, ino, *info);
}

void on_create(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode,
               fuse_file_info* info) noexcept {
    begin<CreateJob>(req, node_at(mount_of(req), parent), name, mode, *info);
}

void on_release(fuse_req_t req, fuse_ino_t /*ino*/, fuse_file_info* info) noexcept {
    begin<ReleaseJob>(req, *info);
}

}  // namespace

RightsWanted rights_wanted(int flags) noexcept {
    RightsWanted wanted;
    const int mode = flags & O_ACCMODE;
    if ((flags & kOpenToExecute) != 0) {
        wanted.one_of = ACCESS3_EXECUTE;
    } else if (mode != O_WRONLY) {
        wanted.all = ACCESS3_READ;
    }
    if (mode != O_RDONLY) wanted.all |= ACCESS3_MODIFY;
    return wanted;
}

void open_node(Mount& mount, Worker& at, Node& node, const Caller& who, fuse_file_info& info) {
    OpenFile& file = FileData::of(mount, node, at).open(who, info.flags);
    info.fh = address_of(&file);
    // Pages that are of another content go now; what comes later is told by the notifier.
    info.keep_cache = node.data_valid ? 1 : 0;
    node.data_valid = node.data_told = true;
    // There is nothing to wait for when it is closed.
    info.noflush = is_writable(info.flags) ? 0 : 1;
}

void close_node(Mount& mount, Worker& at, Node& node) noexcept {
    if (--node.opens == 0) finish_silly(mount, at, node);
}

void add_open_operations(fuse_lowlevel_ops& ops) noexcept {
    ops.open = on_open;
    ops.create = on_create;
    ops.release = on_release;
}

}  // namespace nfsrdma::mount
