#include "tools/mount_nfsrdma/ops_attributes.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/statvfs.h>
#include <utility>

#include "tools/mount_nfsrdma/access_cache.hpp"
#include "tools/mount_nfsrdma/ops.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

namespace nfsrdma::mount {
namespace {

// What statfs(2) counts in: what programs multiply by is never larger than what is free.
constexpr std::uint32_t kBlock = 4096;

class GetattrJob final : public ObjectJob {
  public:
    using ObjectJob::ObjectJob;
    void start() noexcept override {
        if (settle()) reply_attributes(node_->attributes.fresh(mount().now_ns()));
    }
};

class AccessJob final : public ObjectJob {
  public:
    AccessJob(Worker& at, fuse_req_t request, fuse_ino_t ino, int mask)
        : ObjectJob(at, request, ino), mask_(mask) {}
    void start() noexcept override {
        Node& node = *node_;
        if (node.access != nullptr) {
            const auto rights =
                node.access->find(caller(), node.attributes.now().ctime, mount().now_ns());
            if (rights) {
                conclude(*rights);
                return;
            }
        }
        op_.args.object = node.handle.view();
        op_.args.access = access_rights(node.type());
        call<&AccessJob::answered>(op_);
    }

  private:
    void answered() noexcept {
        Node& node = *node_;
        const bool ok = op_.outcome.ok();
        const ACCESS3resok& granted = op_.res.ACCESS3res_u.resok;
        if (ok) {
            mount().take(node, granted.obj_attributes, order());
        } else if (op_.outcome.rpc) {
            mount().take(node, op_.res.ACCESS3res_u.resfail.obj_attributes, order());
        }
        if (!ok) {
            fail(op_);
            return;
        }
        if (node.access == nullptr) node.access = std::make_unique<AccessCache>();
        node.access->note(caller(), node.attributes.now().ctime, granted.access,
                          mount().now_ns() + node.attributes.timeout_ns());
        conclude(granted.access);
    }
    void conclude(std::uint32_t rights) noexcept {
        fail(may_access(node_->type(), rights, mask_) ? 0 : EACCES);
    }
    const int mask_;
    nfs::client::AccessOp op_;
};

// Decodes the text into memory of its own, zeroed before, so that its end is seen.
class LinkTextOp final
    : public nfs::client::ProcOp<NFSPROC3_READLINK, READLINK3args, READLINK3res> {
  public:
    const std::array<char, NFS3_PATH_MAX + 1>& text() const noexcept { return text_; }

  protected:
    void prepare() noexcept override {
        text_ = {};
        res = READLINK3res{};
        res.READLINK3res_u.resok.data = text_.data();
    }

  private:
    std::array<char, NFS3_PATH_MAX + 1> text_{};
};

class ReadlinkJob final : public ObjectJob {
  public:
    using ObjectJob::ObjectJob;
    void start() noexcept override {
        op_.args.symlink = node_->handle.view();
        call<&ReadlinkJob::answered>(op_);
    }

  private:
    void answered() noexcept {
        const bool ok = op_.outcome.ok();
        if (op_.outcome.rpc) {
            const READLINK3res& res = op_.res;
            mount().take(*node_,
                         ok ? res.READLINK3res_u.resok.symlink_attributes
                            : res.READLINK3res_u.resfail.symlink_attributes,
                         order());
        }
        if (!ok) {
            fail(op_);
        } else if (!is_whole_text(op_.text())) {
            fail(EIO);
        } else {
            reply_text(op_.text().data());
        }
    }
    LinkTextOp op_;
};

class StatfsJob final : public ObjectJob {
  public:
    using ObjectJob::ObjectJob;
    void start() noexcept override {
        op_.args.fsroot = node_->handle.view();
        call<&StatfsJob::answered>(op_);
    }

  private:
    void answered() noexcept {
        if (!op_.outcome.ok()) {
            fail(op_);
            return;
        }
        const FSSTAT3resok& told = op_.res.FSSTAT3res_u.resok;
        mount().take(*node_, told.obj_attributes, order());
        reply_statfs(to_statvfs(told, mount().limits.name_max));
    }
    nfs::client::FsstatOp op_;
};

void on_getattr(fuse_req_t req, fuse_ino_t ino, fuse_file_info* /*info*/) {
    begin<GetattrJob>(req, ino);
}

void on_access(fuse_req_t req, fuse_ino_t ino, int mask) {
    // F_OK: the name was found, or there would be no object to ask about.
    if (mask == 0) {
        (void)fuse_reply_err(req, 0);
        return;
    }
    begin<AccessJob>(req, ino, mask);
}

void on_readlink(fuse_req_t req, fuse_ino_t ino) {
    begin<ReadlinkJob>(req, ino);
}

void on_statfs(fuse_req_t req, fuse_ino_t ino) {
    begin<StatfsJob>(req, ino == 0 ? fuse_ino_t{FUSE_ROOT_ID} : ino);
}

}  // namespace

struct statvfs to_statvfs(const FSSTAT3resok& told, std::uint32_t name_max) noexcept {
    struct statvfs out {};
    out.f_bsize = out.f_frsize = kBlock;
    out.f_blocks = told.tbytes / kBlock;
    out.f_bfree = told.fbytes / kBlock;
    out.f_bavail = told.abytes / kBlock;
    out.f_files = told.tfiles;
    out.f_ffree = told.ffiles;
    out.f_favail = told.afiles;
    out.f_namemax = name_max;
    return out;
}

bool is_whole_text(std::span<const char> room) noexcept {
    const auto end = std::find(room.begin(), room.end(), '\0');
    return end != room.begin() && std::all_of(end, room.end(), [](char c) { return c == '\0'; });
}

ObjectJob::ObjectJob(Worker& at, fuse_req_t request, fuse_ino_t ino)
    : Job(at, request), node_(mount().nodes, node_at(mount(), ino)) {
    waiter_.job = this;
    waiter_.ready = [](FileState::Waiter& waiter) noexcept {
        ObjectJob& job = *static_cast<Waiter&>(waiter).job;
        job.waiting_ = false;
        job.start();
    };
}

// What is written while it waits is somebody else's to wait for.
bool ObjectJob::settle() noexcept {
    if (settled_ || !node_->unwritten) return true;
    if (&worker() != node_->home) {
        move_to(*node_->home);
        return false;
    }
    settled_ = true;
    waiting_ = !node_->file->when_written(waiter_);
    return !waiting_;
}

bool ObjectJob::settle_durably() noexcept {
    if (settled_ || node_->file == nullptr || node_->file->durable()) return true;
    if (&worker() != node_->home) {
        move_to(*node_->home);
        return false;
    }
    settled_ = true;
    waiting_ = !node_->file->when_durable(waiter_);
    return !waiting_;
}

void ObjectJob::give_up() noexcept {
    if (!waiting_) return;
    waiting_ = false;
    node_->file->stop_waiting(waiter_);
    fail(EINTR);
}

void ObjectJob::reply_attributes(bool known) noexcept {
    if (known) {
        reply_attr(*node_);
        return;
    }
    getattr_.args.object = node_->handle.view();
    call<&ObjectJob::asked_attributes>(getattr_);
}

void ObjectJob::asked_attributes() noexcept {
    if (!getattr_.outcome.ok()) {
        fail(getattr_);
        return;
    }
    mount().take(*node_, getattr_.attributes(), order());
    if (!node_->attributes.known()) {
        fail(EIO);  // a type that there is not
        return;
    }
    reply_attr(*node_);
}

void add_attribute_operations(fuse_lowlevel_ops& ops) noexcept {
    ops.getattr = on_getattr;
    ops.setattr = on_setattr;
    ops.access = on_access;
    ops.readlink = on_readlink;
    ops.statfs = on_statfs;
    // Without functions for extended attributes libfuse answers ENOSYS, and the kernel asks no
    // more.
}

}  // namespace nfsrdma::mount
