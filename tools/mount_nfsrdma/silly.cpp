#include "tools/mount_nfsrdma/silly.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstdio>

#include "base/assert.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

namespace nfsrdma::mount {

std::string hidden_name(std::uint64_t fileid, std::uint32_t counter) {
    char text[40];
    (void)std::snprintf(text, sizeof text, ".nfs%016" PRIx64 "%08" PRIx32, fileid, counter);
    return text;
}

bool is_hidden_as(const Node& node, const Node& directory, std::string_view name) noexcept {
    return node.silly_parent == &directory && node.silly_name == name;
}

bool must_hide(const Node& node) noexcept {
    // What is hidden already outlives its other names.
    return node.opens != 0 && !node.is_dir() && (node.silly_name.empty() || node.silly_in_doubt);
}

bool may_be_going(const Node& node) noexcept {
    return node.removals != 0 || node.silly_going;
}

void Removing::begin(Mount& mount, Node& node) noexcept {
    node_ = NodePin(mount.nodes, node);
    ++node.removals;
}

void Removing::end() noexcept {
    if (!node_) return;
    --node_->removals;
    node_.reset();
}

namespace {

// Removes a hidden name of a node: that which it waits under, or one that it needs no more. Nobody
// waits for it but the rmdir of its directory.
class RemovalJob final : public Job {
  public:
    RemovalJob(Worker& at, Node& node, Node& directory, std::string name, Caller who)
        : Job(at, std::move(who)),
          node_(at.mount().nodes, node),
          directory_(at.mount().nodes, directory),
          name_(std::move(name)) {}

    void start() noexcept override {
        if (is_its_name()) node_->silly_going = true;
        ++directory_->silly_removals;
        remove_.args.object = place(*directory_, name_);
        changing_.begin(mount(), *directory_);
        call<&RemovalJob::removed>(remove_);
    }

  private:
    // Not when somebody has given it an ordinary name meanwhile.
    bool is_its_name() const noexcept { return is_hidden_as(*node_, *directory_, name_); }
    void removed() noexcept {
        if (is_its_name()) node_->silly_going = false;
        --directory_->silly_removals;
        const bool ok = remove_.outcome.ok();
        if (remove_.outcome.rpc) {
            mount().take(*directory_,
                         ok ? remove_.res.REMOVE3res_u.resok.dir_wcc
                            : remove_.res.REMOVE3res_u.resfail.dir_wcc,
                         order());
        } else {
            directory_->attributes.expire();
        }
        changing_.end();
        const nfsstat3 status = remove_.outcome.status;
        const bool gone = status == NFS3_OK || status == NFS3ERR_NOENT || status == NFS3ERR_STALE;
        if (remove_.outcome.rpc && gone) {
            tell_kernel();
            if (is_its_name()) reveal(mount(), *node_);
        }
        finish();
    }
    // The kernel has not asked for this: it believes what it had.
    void tell_kernel() noexcept {
        if (mount().nodes.child(*directory_, name_) != nullptr) {
            mount().nodes.drop_name(*directory_, name_);
            mount().expire_names(*directory_);
        }
        node_->attributes.expire();
        directory_->invalidate_attributes = true;
        mount().notifier.add(*directory_);
    }

    NodePin node_, directory_;
    std::string name_;
    nfs::client::RemoveOp remove_;
    Changing changing_;
};

void begin_removal(Worker& at, Node& node, Node& directory, std::string name, const Caller& who) {
    auto made = std::make_unique<RemovalJob>(at, node, directory, std::move(name), who);
    RemovalJob& job = *made;
    add_job(at, std::move(made));
    job.start();
}

// What another server, or another file system, may say of a link that a rename gets around.
bool may_be_moved(nfsstat3 status) noexcept {
    switch (nfs::client::raw_value(status)) {
        case NFS3ERR_PERM:
        case NFS3ERR_ACCES:
        case NFS3ERR_INVAL:
        case NFS3ERR_MLINK:
        case NFS3ERR_NOTSUPP:
            return true;
        default:
            return false;
    }
}

}  // namespace

void finish_silly(Mount& /*mount*/, Worker& at, Node& node) noexcept {
    if (node.silly_name.empty() || node.silly_going) return;
    begin_removal(at, node, *node.silly_parent, node.silly_name, node.silly_caller);
}

void reveal(Mount& mount, Node& node) noexcept {
    node.silly_name.clear();
    node.silly_in_doubt = false;
    node.silly_caller.reset();
    --node.silly_parent->silly_children;
    mount.nodes.unpin(*std::exchange(node.silly_parent, nullptr));
    mount.nodes.unpin(node);
}

void HidingJob::hide(Node& directory, std::string& name, Node& victim, Way way) noexcept {
    NR_ASSERT(way != Way::none && must_hide(victim));
    directory_ = &directory;
    directory_pin_ = NodePin(mount().nodes, directory);
    victim_ = NodePin(mount().nodes, victim);
    name_ = &name;
    wanted_ = way;
    try_next();
}

void HidingJob::try_next() noexcept {
    if (++tries_ > kTriesMax) return not_hidden(EBUSY);
    hidden_ = hidden_name(victim_->attributes.now().fileid, ++mount().silly_names);
    if (wanted_ == Way::move) {
        lookup_.args.what = place(*directory_, hidden_);
        return call<&HidingJob::looked_up>(lookup_);
    }
    link_.args.file = victim_->handle.view();
    link_.args.link = place(*directory_, hidden_);
    changing_directory_.begin(mount(), *directory_);
    changing_victim_.begin(mount(), *victim_);
    call<&HidingJob::linked>(link_);
}

void HidingJob::linked() noexcept {
    const bool ok = link_.outcome.ok();
    victim_->attributes.expire();
    if (link_.outcome.rpc) {
        mount().take(
            *directory_,
            ok ? link_.res.LINK3res_u.resok.linkdir_wcc : link_.res.LINK3res_u.resfail.linkdir_wcc,
            order());
    } else {
        directory_->attributes.expire();
    }
    changing_directory_.end();
    changing_victim_.end();
    if (ok) {
        done_ = Way::link;
        return hidden();
    }
    if (link_.outcome.rpc && link_.outcome.status == NFS3ERR_EXIST) return try_next();
    if (!link_.outcome.rpc) {
        done_ = Way::link;
        keep_hidden(true);
    }
    if (!link_.outcome.rpc || !may_be_moved(link_.outcome.status))
        return not_hidden(errno_of(link_));
    wanted_ = Way::move;
    try_next();
}

// A rename takes the place of what is there: so nothing may be.
void HidingJob::looked_up() noexcept {
    if (lookup_.outcome.ok()) return try_next();
    if (!lookup_.outcome.rpc || lookup_.outcome.status != NFS3ERR_NOENT)
        return not_hidden(errno_of(lookup_));
    rename(*name_, hidden_);
    call<&HidingJob::moved>(rename_);
}

void HidingJob::rename(std::string& from, std::string& to) noexcept {
    rename_.args.from = place(*directory_, from);
    rename_.args.to = place(*directory_, to);
    rename_.object = victim_->handle;
    changing_directory_.begin(mount(), *directory_);
    changing_victim_.begin(mount(), *victim_);
}

void HidingJob::take_rename() noexcept {
    victim_->attributes.expire();
    if (rename_.outcome.rpc) {
        const bool ok = rename_.outcome.ok();
        mount().take(*directory_,
                     ok ? rename_.res.RENAME3res_u.resok.todir_wcc
                        : rename_.res.RENAME3res_u.resfail.todir_wcc,
                     order());
    } else {
        directory_->attributes.expire();
    }
    changing_directory_.end();
    changing_victim_.end();
}

void HidingJob::moved() noexcept {
    take_rename();
    if (!rename_.outcome.rpc) {
        done_ = Way::move;
        keep_hidden(true);
    }
    if (!rename_.outcome.ok()) return not_hidden(errno_of(rename_));
    done_ = Way::move;
    hidden();
}

// One of two hidden names is enough, and it is the one that is certain.
bool HidingJob::keep_one(Node& victim, bool in_doubt) noexcept {
    if (victim.silly_name.empty()) return true;
    if (!victim.silly_in_doubt) {
        begin_removal(worker(), victim, *directory_, hidden_, caller());
        return false;
    }
    // Rather a name too many at the server than the loss of what is open.
    if (in_doubt) return false;
    const NodePin parent(mount().nodes, *victim.silly_parent);
    const std::string name = victim.silly_name;
    const Caller who = victim.silly_caller;
    reveal(mount(), victim);
    begin_removal(worker(), victim, *parent, name, who);
    return true;
}

void HidingJob::keep_hidden(bool in_doubt) noexcept {
    NR_ASSERT(done_ != Way::none);
    Node& victim = *victim_;
    if (!keep_one(victim, in_doubt)) return;
    victim.silly_in_doubt = in_doubt;
    mount().nodes.pin(victim);
    mount().nodes.pin(*directory_);
    victim.silly_name = std::move(hidden_);
    victim.silly_parent = directory_;
    ++directory_->silly_children;
    victim.silly_caller = caller();
    // It was closed meanwhile.
    if (victim.opens == 0) finish_silly(mount(), worker(), victim);
}

void HidingJob::undo() noexcept {
    NR_ASSERT(done_ != Way::none);
    if (done_ == Way::move) {
        rename(hidden_, *name_);
        return call<&HidingJob::moved_back>(rename_);
    }
    remove_.args.object = place(*directory_, hidden_);
    changing_directory_.begin(mount(), *directory_);
    changing_victim_.begin(mount(), *victim_);
    call<&HidingJob::unlinked>(remove_);
}

void HidingJob::moved_back() noexcept {
    take_rename();
    if (!rename_.outcome.ok()) keep_hidden(!rename_.outcome.rpc);
    undone();
}

void HidingJob::unlinked() noexcept {
    const bool ok = remove_.outcome.ok();
    victim_->attributes.expire();
    if (remove_.outcome.rpc) {
        mount().take(
            *directory_,
            ok ? remove_.res.REMOVE3res_u.resok.dir_wcc : remove_.res.REMOVE3res_u.resfail.dir_wcc,
            order());
    } else {
        directory_->attributes.expire();
    }
    changing_directory_.end();
    changing_victim_.end();
    const bool gone = remove_.outcome.rpc && remove_.outcome.status == NFS3ERR_NOENT;
    if (!ok && !gone) keep_hidden(!remove_.outcome.rpc);
    undone();
}

}  // namespace nfsrdma::mount
