#include <algorithm>
#include <cerrno>

#include "tools/mount_nfsrdma/ops_attributes.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

namespace nfsrdma::mount {
namespace {

constexpr std::uint32_t kModeBits = 07777, kSetIdBits = 06000;

bool has(int what, int flag) noexcept {
    return (what & flag) != 0;
}

// Seconds are 32 bits without a sign (RFC 1813 s2.5); what is before or after becomes the nearest,
// as Linux does it.
nfstime3 to_nfstime3(const timespec& time) noexcept {
    const std::int64_t second = time.tv_sec;
    if (second < 0) return {};
    if (second > UINT32_MAX) return {UINT32_MAX, 0};
    return {static_cast<std::uint32_t>(second), static_cast<std::uint32_t>(time.tv_nsec)};
}

class SetattrJob final : public ObjectJob {
  public:
    SetattrJob(Worker& at, fuse_req_t request, fuse_ino_t ino, const struct stat& to, int what)
        : ObjectJob(at, request, ino), what_(to_sattr3(to, what)) {}

    // Data on its way goes first: it would set another time, take away the set-user-ID bit, or make
    // a file longer that has just become shorter.
    void start() noexcept override {
        if (!(what_.size.set_it != FALSE ? settle_durably() : settle())) return;
        Node& node = *node_;
        if (may_not_set_mode()) {
            what_.mode.set_it = FALSE;
            if (!changes_any(what_)) {
                reply_without_set_id();
                return;
            }
        }
        if (!changes_any(what_)) {
            reply_attributes(node.attributes.fresh(mount().now_ns()));
            return;
        }
        op_.args.object = node.handle.view();
        op_.args.new_attributes = what_;
        drop_ahead();
        node.attributes.begin_change();
        call<&SetattrJob::answered>(op_);
    }

  private:
    void answered() noexcept {
        Node& node = *node_;
        const bool ok = op_.outcome.ok();
        bool told = false;
        if (op_.outcome.rpc) {
            const SETATTR3res& res = op_.res;
            const wcc_data& wcc =
                ok ? res.SETATTR3res_u.resok.obj_wcc : res.SETATTR3res_u.resfail.obj_wcc;
            told = wcc.after.attributes_follow != FALSE;
            mount().take(node, wcc, order());
        } else {
            node.attributes.expire();  // done or not
        }
        node.attributes.end_change(mount().order());
        drop_ahead();
        if (!ok) {
            fail(op_);
            return;
        }
        reply_attributes(told);
    }
    // The kernel itself takes the set-ID bits from a file that another than its owner writes to or
    // truncates, in that one's name, unless it is told in INIT that the server does
    // (FUSE_HANDLE_KILLPRIV, which libfuse 3.14 forgets). The server does, and lets none but the
    // owner change a mode.
    bool may_not_set_mode() noexcept {
        if (what_.mode.set_it == FALSE || !mount().options.default_permissions) return false;
        const fattr3& now = node_->attributes.now();
        return takes_set_id(now.mode, what_.mode.set_mode3_u.mode) && caller()->uid != 0 &&
               caller()->uid != now.uid;
    }
    void reply_without_set_id() noexcept {
        Node& node = *node_;
        struct stat shown = to_stat(node.attributes.now(), mount().limits.write);
        shown.st_mode &= ~kSetIdBits;
        node.attributes.expire();
        (void)fuse_reply_attr(take_request(), &shown, 0);
        finish();
    }
    // Of a file whose end moves: before the call and after, for what was read meanwhile.
    void drop_ahead() noexcept {
        if (what_.size.set_it != FALSE && node_->file != nullptr) node_->file->drop_ahead();
    }
    sattr3 what_;
    nfs::client::SetattrOp op_;
};

}  // namespace

sattr3 to_sattr3(const struct stat& to, int what) noexcept {
    sattr3 out{};
    if (has(what, FUSE_SET_ATTR_MODE)) {
        out.mode.set_it = TRUE;
        out.mode.set_mode3_u.mode = to.st_mode & kModeBits;
    }
    if (has(what, FUSE_SET_ATTR_UID)) {
        out.uid.set_it = TRUE;
        out.uid.set_uid3_u.uid = to.st_uid;
    }
    if (has(what, FUSE_SET_ATTR_GID)) {
        out.gid.set_it = TRUE;
        out.gid.set_gid3_u.gid = to.st_gid;
    }
    if (has(what, FUSE_SET_ATTR_SIZE)) {
        out.size.set_it = TRUE;
        out.size.set_size3_u.size = static_cast<std::uint64_t>(to.st_size);
    }
    if (has(what, FUSE_SET_ATTR_ATIME_NOW)) {
        out.atime.set_it = SET_TO_SERVER_TIME;
    } else if (has(what, FUSE_SET_ATTR_ATIME)) {
        out.atime.set_it = SET_TO_CLIENT_TIME;
        out.atime.set_atime_u.atime = to_nfstime3(to.st_atim);
    }
    if (has(what, FUSE_SET_ATTR_MTIME_NOW)) {
        out.mtime.set_it = SET_TO_SERVER_TIME;
    } else if (has(what, FUSE_SET_ATTR_MTIME)) {
        out.mtime.set_it = SET_TO_CLIENT_TIME;
        out.mtime.set_mtime_u.mtime = to_nfstime3(to.st_mtim);
    }
    return out;
}

bool takes_set_id(std::uint32_t from, std::uint32_t to) noexcept {
    const std::uint32_t changed = (from ^ to) & kModeBits;
    return changed != 0 && (changed & ~kSetIdBits) == 0 && (to & changed) == 0;
}

bool changes_any(const sattr3& what) noexcept {
    return what.mode.set_it != FALSE || what.uid.set_it != FALSE || what.gid.set_it != FALSE ||
           what.size.set_it != FALSE || what.atime.set_it != DONT_CHANGE ||
           what.mtime.set_it != DONT_CHANGE;
}

void on_setattr(fuse_req_t req, fuse_ino_t ino, struct stat* to, int what,
                fuse_file_info* /*info*/) {
    const Mount& mount = worker_of(req).mount();
    const bool size = has(what, FUSE_SET_ATTR_SIZE);
    if (size &&
        (to->st_size < 0 || static_cast<std::uint64_t>(to->st_size) > mount.limits.file_max)) {
        (void)fuse_reply_err(req, to->st_size < 0 ? EINVAL : EFBIG);
        return;
    }
    begin<SetattrJob>(req, ino, *to, what);
}

}  // namespace nfsrdma::mount
