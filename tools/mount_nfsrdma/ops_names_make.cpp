#include <cerrno>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "tools/mount_nfsrdma/ops_names.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

// What makes a name: MKDIR, MKNOD, CREATE of a file that is not opened, SYMLINK, LINK.
namespace nfsrdma::mount {
namespace {

sattr3 with_mode(mode_t mode) noexcept {
    sattr3 attributes{};
    attributes.mode.set_it = TRUE;
    // The umask is applied by the kernel, what a directory hands down by the server.
    attributes.mode.set_mode3_u.mode = mode & 07777;
    return attributes;
}

// The results of the four calls have the same shape under different names.
auto& made(CREATE3res& res) noexcept {
    return res.CREATE3res_u;
}
auto& made(MKDIR3res& res) noexcept {
    return res.MKDIR3res_u;
}
auto& made(MKNOD3res& res) noexcept {
    return res.MKNOD3res_u;
}
auto& made(SYMLINK3res& res) noexcept {
    return res.SYMLINK3res_u;
}

template <class OpType>
class MakeJob final : public EntryJob {
  public:
    // `prepare` gives the arguments other than the name.
    template <class Prepare>
    MakeJob(Worker& at, fuse_req_t req, Node& directory, const char* name, const Prepare& prepare)
        : EntryJob(at, req, directory, name) {
        prepare(op_.args);
    }
    MakeJob(Worker& at, fuse_req_t req, Node& directory, const char* name, const char* text)
        : EntryJob(at, req, directory, name), text_(text) {
        op_.args.symlink.symlink_attributes = with_mode(0777);
        op_.args.symlink.symlink_data = text_.data();
    }

  private:
    void ask() noexcept override {
        op_.args.where = place(directory(), name());
        changing_.begin(mount(), directory());
        this->template call<&MakeJob::answered>(op_);
    }
    void answered() noexcept {
        if (!op_.outcome.ok()) {
            if (op_.outcome.rpc) {
                mount().take(directory(), made(op_.res).resfail.dir_wcc, order());
            } else {
                directory().attributes.expire();
            }
            changing_.end();
            return fail(op_);
        }
        auto& ok = made(op_.res).resok;
        mount().take(directory(), ok.dir_wcc, order());
        changing_.end();
        if (op_.object.empty()) return look_up();
        found(op_.object, told(ok.obj_attributes));
    }

    OpType op_;
    std::string text_;
    Changing changing_;
};

// Another name of a node.
class LinkJob final : public EntryJob {
  public:
    LinkJob(Worker& at, fuse_req_t req, Node& subject, Node& directory, const char* name)
        : EntryJob(at, req, directory, name), subject_(at.mount().nodes, subject) {}

  private:
    void ask() noexcept override {
        link_.args.file = subject_->handle.view();
        link_.args.link = place(directory(), name());
        changing_directory_.begin(mount(), directory());
        changing_subject_.begin(mount(), *subject_);
        call<&LinkJob::answered>(link_);
    }
    void answered() noexcept {
        const bool ok = link_.outcome.ok();
        const fattr3* attributes = nullptr;
        // Whatever is known of its ctime and links is old.
        subject_->attributes.expire();
        if (link_.outcome.rpc) {
            post_op_attr& of_subject = ok ? link_.res.LINK3res_u.resok.file_attributes
                                          : link_.res.LINK3res_u.resfail.file_attributes;
            attributes = told(of_subject);
            mount().take(*subject_, of_subject, order());
            mount().take(directory(),
                         ok ? link_.res.LINK3res_u.resok.linkdir_wcc
                            : link_.res.LINK3res_u.resfail.linkdir_wcc,
                         order());
        } else {
            directory().attributes.expire();
        }
        changing_directory_.end();
        changing_subject_.end();
        if (!ok) return fail(link_);
        found(subject_->handle, attributes);
    }

    NodePin subject_;
    nfs::client::LinkOp link_;
    Changing changing_directory_, changing_subject_;
};

void on_mkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode) noexcept {
    begin<MakeJob<nfs::client::MkdirOp>>(
        req, node_at(mount_of(req), parent), name,
        [mode](MKDIR3args& args) { args.attributes = with_mode(mode); });
}

void on_symlink(fuse_req_t req, const char* text, fuse_ino_t parent, const char* name) noexcept {
    begin<MakeJob<nfs::client::SymlinkOp>>(req, node_at(mount_of(req), parent), name, text);
}

void make_file(fuse_req_t req, Node& directory, const char* name, mode_t mode) noexcept {
    begin<MakeJob<nfs::client::CreateOp>>(req, directory, name, [mode](CREATE3args& args) {
        args.how.mode = GUARDED;
        args.how.createhow3_u.obj_attributes = with_mode(mode);
    });
}

void make_special(fuse_req_t req, Node& directory, const char* name, mode_t mode, ftype3 type,
                  dev_t device) noexcept {
    begin<MakeJob<nfs::client::MknodOp>>(req, directory, name, [=](MKNOD3args& args) {
        args.what.type = type;
        if (type == NF3CHR || type == NF3BLK) {
            devicedata3& data = args.what.mknoddata3_u.device;
            data.dev_attributes = with_mode(mode);
            data.spec = specdata3{major(device), minor(device)};
        } else {
            args.what.mknoddata3_u.pipe_attributes = with_mode(mode);
        }
    });
}

void on_mknod(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode,
              dev_t device) noexcept {
    Node& directory = node_at(mount_of(req), parent);
    switch (mode & S_IFMT) {
        case 0:
        case S_IFREG:
            return make_file(req, directory, name, mode);
        case S_IFCHR:
            return make_special(req, directory, name, mode, NF3CHR, device);
        case S_IFBLK:
            return make_special(req, directory, name, mode, NF3BLK, device);
        case S_IFSOCK:
            return make_special(req, directory, name, mode, NF3SOCK, 0);
        case S_IFIFO:
            return make_special(req, directory, name, mode, NF3FIFO, 0);
        default:
            (void)fuse_reply_err(req, EINVAL);
    }
}

void on_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char* name) noexcept {
    Mount& mount = mount_of(req);
    begin<LinkJob>(req, node_at(mount, ino), node_at(mount, parent), name);
}

}  // namespace

void add_make_operations(fuse_lowlevel_ops& ops) noexcept {
    ops.mkdir = on_mkdir;
    ops.mknod = on_mknod;
    ops.symlink = on_symlink;
    ops.link = on_link;
}

}  // namespace nfsrdma::mount
