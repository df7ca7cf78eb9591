#include <cerrno>

#include "tools/mount_nfsrdma/ops_names.hpp"
#include "tools/mount_nfsrdma/silly.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

namespace nfsrdma::mount {
namespace {

class RenameJob final : public HidingJob {
  public:
    RenameJob(Worker& at, fuse_req_t req, Node& from, const char* name, Node& to,
              const char* new_name)
        : HidingJob(at, req),
          from_(at.mount().nodes, from),
          to_(at.mount().nodes, to),
          name_(name),
          new_name_(new_name) {}

    void start() noexcept override {
        int error = error_of_name(mount(), name_);
        if (error == 0) error = error_of_name(mount(), new_name_);
        if (error != 0) return fail(error);
        Node* const source = mount().nodes.child(*from_, name_);
        Node* const target = mount().nodes.child(*to_, new_name_);
        if (source != nullptr) source_ = NodePin(mount().nodes, *source);
        if (target == nullptr || target == source) return rename();
        target_ = NodePin(mount().nodes, *target);
        if (target->opens != 0 && is_hidden_as(*target, *to_, new_name_)) return fail(EBUSY);
        // A directory does not take the place of a file: the server says so.
        const bool replaces = source == nullptr || !source->is_dir();
        if (!replaces || !must_hide(*target)) return rename();
        hide(*to_, new_name_, *target, Way::link);
    }

  private:
    void hidden() noexcept override { rename(); }
    void not_hidden(int error) noexcept override { fail(error); }

    void rename() noexcept {
        rename_.args.from = place(*from_, name_);
        rename_.args.to = place(*to_, new_name_);
        if (source_) {
            rename_.object = source_->handle;
            changing_source_.begin(mount(), *source_);
        }
        if (target_) changing_target_.begin(mount(), *target_);
        if (target_ && way() == Way::none) removing_.begin(mount(), *target_);
        changing_from_.begin(mount(), *from_);
        if (to_.get() != from_.get()) changing_to_.begin(mount(), *to_);  // once for each
        call<&RenameJob::renamed>(rename_);
    }

    void renamed() noexcept {
        take_answer();
        const nfs::client::Outcome& outcome = rename_.outcome;
        if (outcome.ok()) {
            mount().nodes.move_name(*from_, name_, *to_, new_name_);
            // Somebody has found the hidden name, and saved the file. If it is being removed right
            // now, that will find that it is gone.
            if (source_ && is_hidden_as(*source_, *from_, name_) && !source_->silly_going)
                reveal(mount(), *source_);
        }
        // Where it is not known whether it was done, the file stays hidden until it is closed.
        if (way() != Way::none && (outcome.ok() || !outcome.rpc)) keep_hidden();
        if (way() != Way::none && outcome.rpc && !outcome.ok()) return undo();
        fail(rename_);
    }
    void undone() noexcept override { fail(rename_); }

    void take_answer() noexcept {
        if (source_) source_->attributes.expire();
        if (target_) target_->attributes.expire();
        if (rename_.outcome.rpc) {
            const bool ok = rename_.outcome.ok();
            const wcc_data& of_from = ok ? rename_.res.RENAME3res_u.resok.fromdir_wcc
                                         : rename_.res.RENAME3res_u.resfail.fromdir_wcc;
            const wcc_data& of_to = ok ? rename_.res.RENAME3res_u.resok.todir_wcc
                                       : rename_.res.RENAME3res_u.resfail.todir_wcc;
            mount().take(*from_, of_from, order());
            mount().take(*to_, of_to, order());
        } else {
            from_->attributes.expire();
            to_->attributes.expire();
        }
        changing_source_.end();
        changing_target_.end();
        removing_.end();
        changing_from_.end();
        changing_to_.end();
    }

    NodePin from_, to_, source_, target_;
    std::string name_, new_name_;
    nfs::client::RenameOp rename_;
    Changing changing_source_, changing_target_, changing_from_, changing_to_;
    Removing removing_;
};

void on_rename(fuse_req_t req, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
               const char* new_name, unsigned int flags) noexcept {
    if (flags != 0) {  // NFSv3 has neither RENAME_NOREPLACE nor RENAME_EXCHANGE
        (void)fuse_reply_err(req, EINVAL);
        return;
    }
    Mount& mount = mount_of(req);
    begin<RenameJob>(req, node_at(mount, parent), name, node_at(mount, new_parent), new_name);
}

}  // namespace

void add_rename_operations(fuse_lowlevel_ops& ops) noexcept {
    ops.rename = on_rename;
}

}  // namespace nfsrdma::mount
