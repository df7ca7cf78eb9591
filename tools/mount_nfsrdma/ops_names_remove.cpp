#include <algorithm>
#include <cerrno>

#include "tools/mount_nfsrdma/ops_names.hpp"
#include "tools/mount_nfsrdma/silly.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

// What takes a name away: REMOVE, RMDIR.
namespace nfsrdma::mount {
namespace {

class UnlinkJob final : public HidingJob {
  public:
    UnlinkJob(Worker& at, fuse_req_t req, Node& directory, const char* name)
        : HidingJob(at, req), directory_(at.mount().nodes, directory), name_(name) {}

    void start() noexcept override {
        const int error = error_of_name(mount(), name_);
        if (error != 0) return fail(error);
        Node* const child = mount().nodes.child(*directory_, name_);
        if (child != nullptr) {
            if (child->opens != 0 && is_hidden_as(*child, *directory_, name_)) return fail(EBUSY);
            if (must_hide(*child)) return hide(*directory_, name_, *child, Way::move);
            child_ = NodePin(mount().nodes, *child);
            changing_child_.begin(mount(), *child);
            removing_.begin(mount(), *child);
        }
        remove_.args.object = place(*directory_, name_);
        changing_directory_.begin(mount(), *directory_);
        call<&UnlinkJob::removed>(remove_);
    }

  private:
    void hidden() noexcept override {
        mount().nodes.drop_name(*directory_, name_);
        keep_hidden();
        fail(0);
    }
    void not_hidden(int error) noexcept override {
        if (error == ENOENT) mount().nodes.drop_name(*directory_, name_);
        fail(error);
    }
    void removed() noexcept {
        const bool ok = remove_.outcome.ok();
        if (child_) child_->attributes.expire();
        if (remove_.outcome.rpc) {
            mount().take(*directory_,
                         ok ? remove_.res.REMOVE3res_u.resok.dir_wcc
                            : remove_.res.REMOVE3res_u.resfail.dir_wcc,
                         order());
            if (ok || remove_.outcome.status == NFS3ERR_NOENT)
                mount().nodes.drop_name(*directory_, name_);
        } else {
            directory_->attributes.expire();
        }
        changing_directory_.end();
        changing_child_.end();
        removing_.end();
        fail(remove_);
    }

    NodePin directory_, child_;
    std::string name_;
    nfs::client::RemoveOp remove_;
    Changing changing_directory_, changing_child_;
    Removing removing_;
};

class RmdirJob final : public Job {
  public:
    RmdirJob(Worker& at, fuse_req_t req, Node& directory, const char* name)
        : Job(at, req),
          directory_(at.mount().nodes, directory),
          name_(name),
          timer_(on_look, *this) {}

    void start() noexcept override {
        const int error = error_of_name(mount(), name_);
        if (error != 0) return fail(error);
        Node* const child = mount().nodes.child(*directory_, name_);
        if (child != nullptr) child_ = NodePin(mount().nodes, *child);
        look();
    }
    void give_up() noexcept override {
        if (!timer_.armed()) return;
        worker().loop().disarm(timer_);
        fail(EINTR);
    }

  private:
    static constexpr std::uint64_t kFirstPauseNs = kNsPerMs, kPauseMaxNs = 20 * kNsPerMs;
    static constexpr std::uint64_t kPatienceNs = 2 * kNsPerSec;

    // Hidden names whose removal the last close has begun do not count: close(2) does not wait for
    // it, so that rmdir(2) has to.
    void look() noexcept {
        if (child_ && child_->silly_removals != 0) return look_later();
        had_hidden_ = child_ && child_->silly_children != 0;
        rmdir_.args.object = place(*directory_, name_);
        changing_.begin(mount(), *directory_);
        call<&RmdirJob::removed>(rmdir_);
    }
    static void on_look(Timer& timer) noexcept {
        RmdirJob& job = static_cast<LookTimer&>(timer).job;
        const std::lock_guard guard(job.mount().lock);
        job.look();
    }
    void removed() noexcept {
        const bool ok = rmdir_.outcome.ok();
        if (child_) child_->attributes.expire();
        if (rmdir_.outcome.rpc) {
            mount().take(
                *directory_,
                ok ? rmdir_.res.RMDIR3res_u.resok.dir_wcc : rmdir_.res.RMDIR3res_u.resfail.dir_wcc,
                order());
            if (ok || rmdir_.outcome.status == NFS3ERR_NOENT)
                mount().nodes.drop_name(*directory_, name_);
        } else {
            directory_->attributes.expire();
        }
        changing_.end();
        const bool not_empty = rmdir_.outcome.rpc && rmdir_.outcome.status == NFS3ERR_NOTEMPTY;
        if (not_empty && child_ && may_become_empty()) return look_later();
        fail(rmdir_);
    }
    // close(2) does not wait for the kernel's word of it: that may be on its way, or be read by
    // another loop.
    bool may_become_empty() noexcept {
        if (child_->silly_removals != 0) return true;
        if (!had_hidden_) return false;
        const std::uint64_t now = worker().loop().now_ns();
        if (until_ns_ == 0) until_ns_ = now + kPatienceNs;
        return now < until_ns_;
    }
    void look_later() noexcept {
        worker().loop().arm(timer_, worker().loop().now_ns() + pause_ns_);
        pause_ns_ = std::min(pause_ns_ * 2, kPauseMaxNs);
    }

    struct LookTimer final : Timer {
        LookTimer(Fire go, RmdirJob& owner) noexcept : Timer(go), job(owner) {}
        RmdirJob& job;
    };
    NodePin directory_, child_;
    std::string name_;
    nfs::client::RmdirOp rmdir_;
    Changing changing_;
    std::uint64_t pause_ns_ = kFirstPauseNs;
    std::uint64_t until_ns_ = 0;  // since it was not empty for the first time
    bool had_hidden_ = false;     // when it was asked last
    LookTimer timer_;
};

void on_unlink(fuse_req_t req, fuse_ino_t parent, const char* name) noexcept {
    begin<UnlinkJob>(req, node_at(mount_of(req), parent), name);
}

void on_rmdir(fuse_req_t req, fuse_ino_t parent, const char* name) noexcept {
    begin<RmdirJob>(req, node_at(mount_of(req), parent), name);
}

}  // namespace

void add_remove_operations(fuse_lowlevel_ops& ops) noexcept {
    ops.unlink = on_unlink;
    ops.rmdir = on_rmdir;
}

}  // namespace nfsrdma::mount
