#include "nfs/client/resend.hpp"

#include <cstring>

namespace nfsrdma::nfs::client {
namespace {

constexpr std::uint32_t kPermissions = 0777;  // the rest a server may take from the directory

template <class Args>
const Args& args_of(const sunrpc::Call& call) noexcept {
    return *static_cast<const Args*>(call.args);
}

bool same_permissions(const set_mode3& asked, const fattr3& there) noexcept {
    if (asked.set_it == FALSE) return true;
    return (asked.set_mode3_u.mode & kPermissions) == (there.mode & kPermissions);
}
bool same_owner(const sattr3& asked, const fattr3& there) noexcept {
    if (asked.uid.set_it != FALSE && asked.uid.set_uid3_u.uid != there.uid) return false;
    return asked.gid.set_it == FALSE || asked.gid.set_gid3_u.gid == there.gid;
}
bool same_time(const nfstime3& a, const nfstime3& b) noexcept {
    // A file system may keep less than nanoseconds.
    return a.seconds == b.seconds;
}
bool same_attributes(const sattr3& asked, const fattr3& there) noexcept {
    if (!same_permissions(asked.mode, there) || !same_owner(asked, there)) return false;
    if (asked.size.set_it != FALSE && asked.size.set_size3_u.size != there.size) return false;
    if (asked.atime.set_it == SET_TO_CLIENT_TIME &&
        !same_time(asked.atime.set_atime_u.atime, there.atime))
        return false;
    return asked.mtime.set_it != SET_TO_CLIENT_TIME ||
           same_time(asked.mtime.set_mtime_u.mtime, there.mtime);
}

bool is_as_asked(const CREATE3args& args, const fattr3& there) noexcept {
    const sattr3& asked = args.how.createhow3_u.obj_attributes;
    const std::uint64_t size = asked.size.set_it != FALSE ? asked.size.set_size3_u.size : 0;
    return there.type == NF3REG && there.size == size && same_permissions(asked.mode, there) &&
           same_owner(asked, there);
}

bool is_as_asked(const MKNOD3args& args, const fattr3& there) noexcept {
    if (there.type != args.what.type) return false;
    if (there.type == NF3CHR || there.type == NF3BLK) {
        const devicedata3& device = args.what.mknoddata3_u.device;
        return device.spec.specdata1 == there.rdev.specdata1 &&
               device.spec.specdata2 == there.rdev.specdata2 &&
               same_permissions(device.dev_attributes.mode, there) &&
               same_owner(device.dev_attributes, there);
    }
    const sattr3& asked = args.what.mknoddata3_u.pipe_attributes;
    return same_permissions(asked.mode, there) && same_owner(asked, there);
}

}  // namespace

Doubt doubt_of(const sunrpc::Call& call, nfsstat3 status) noexcept {
    switch (call.proc_number) {
        case NFSPROC3_REMOVE:
        case NFSPROC3_RMDIR:
            return status == NFS3ERR_NOENT ? Doubt::was_done : Doubt::none;
        case NFSPROC3_RENAME:
            return status == NFS3ERR_NOENT ? Doubt::look : Doubt::none;
        case NFSPROC3_CREATE: {
            const bool guarded = args_of<CREATE3args>(call).how.mode == GUARDED;
            return guarded && status == NFS3ERR_EXIST ? Doubt::look : Doubt::none;
        }
        case NFSPROC3_MKDIR:
        case NFSPROC3_MKNOD:
        case NFSPROC3_SYMLINK:
        case NFSPROC3_LINK:
            return status == NFS3ERR_EXIST ? Doubt::look : Doubt::none;
        case NFSPROC3_SETATTR:
            return status == NFS3ERR_NOT_SYNC ? Doubt::look : Doubt::none;
        default:
            return Doubt::none;
    }
}

bool is_as_asked(const sunrpc::Call& call, const fattr3& there) noexcept {
    switch (call.proc_number) {
        case NFSPROC3_CREATE:
            return is_as_asked(args_of<CREATE3args>(call), there);
        case NFSPROC3_MKNOD:
            return is_as_asked(args_of<MKNOD3args>(call), there);
        case NFSPROC3_MKDIR: {
            const sattr3& asked = args_of<MKDIR3args>(call).attributes;
            return there.type == NF3DIR && same_permissions(asked.mode, there) &&
                   same_owner(asked, there);
        }
        case NFSPROC3_SETATTR:
            return same_attributes(args_of<SETATTR3args>(call).new_attributes, there);
        default:
            return false;
    }
}

ResendCheck::ResendCheck(Client& client) noexcept : client_(client) {
    lookup_.user = getattr_.user = readlink_.user = this;
    lookup_.done = on_lookup;
    getattr_.done = on_getattr;
    readlink_.done = on_readlink;
}

void ResendCheck::go_on() noexcept {
    const bool busy =
        subject_ != nullptr || lookup_.pending() || getattr_.pending() || readlink_.pending();
    if (busy || client_.doubtful_.empty()) return;
    begin(client_.doubtful_.pop_front());
}

void ResendCheck::drop() noexcept {
    NR_ASSERT(subject_ != nullptr);
    subject_ = nullptr;
    for (Op* op :
         {static_cast<Op*>(&lookup_), static_cast<Op*>(&getattr_), static_cast<Op*>(&readlink_)}) {
        if (op->pending()) client_.cancel(*op);
    }
    go_on();
}

void ResendCheck::begin(Op& subject) noexcept {
    subject_ = &subject;
    comparing_ = has_attributes_ = false;
    expected_ = FileHandle{};
    lookup_.sys = getattr_.sys = readlink_.sys = subject.sys;  // what it may see, no more
    const sunrpc::Call& call = subject.call_;
    switch (call.proc_number) {
        case NFSPROC3_CREATE:
            look_up(args_of<CREATE3args>(call).where);
            break;
        case NFSPROC3_MKDIR:
            look_up(args_of<MKDIR3args>(call).where);
            break;
        case NFSPROC3_MKNOD:
            look_up(args_of<MKNOD3args>(call).where);
            break;
        case NFSPROC3_SYMLINK:
            look_up(args_of<SYMLINK3args>(call).where);
            break;
        case NFSPROC3_LINK:
            static_cast<void>(expected_.assign(args_of<LINK3args>(call).file));
            look_up(args_of<LINK3args>(call).link);
            break;
        case NFSPROC3_RENAME:
            expected_ = static_cast<const RenameOp&>(subject).object;
            look_up(args_of<RENAME3args>(call).to);
            break;
        default:
            NR_ASSERT(call.proc_number == NFSPROC3_SETATTR);
            get_attributes(args_of<SETATTR3args>(call).object);
            break;
    }
}

void ResendCheck::look_up(const diropargs3& where) noexcept {
    lookup_.args.what = where;
    client_.start(lookup_);
}

void ResendCheck::get_attributes(const nfs_fh3& object) noexcept {
    getattr_.args.object = object;
    client_.start(getattr_);
}

// Whether to look at the answer. Where nothing is there, or may not be seen, the first answer
// holds.
bool ResendCheck::answered(Op& op) noexcept {
    if (subject_ == nullptr) return false;
    if (op.outcome.ok()) return true;
    if (!op.outcome.rpc) subject_->outcome = op.outcome;
    settle(false);
    return false;
}

void ResendCheck::on_lookup(Op& op) noexcept {
    ResendCheck& self = *static_cast<ResendCheck*>(op.user);
    if (!self.answered(op)) return;
    const fattr3* const attributes = self.lookup_.attributes();
    if (attributes == nullptr) {
        self.get_attributes(self.lookup_.object.view());
        return;
    }
    self.attributes_ = *attributes;
    self.has_attributes_ = true;
    self.found();
}

void ResendCheck::on_getattr(Op& op) noexcept {
    ResendCheck& self = *static_cast<ResendCheck*>(op.user);
    if (!self.answered(op)) return;
    if (self.comparing_) {
        const fattr3& expected = self.getattr_.attributes();
        self.settle(expected.fsid == self.attributes_.fsid &&
                    expected.fileid == self.attributes_.fileid);
        return;
    }
    self.attributes_ = self.getattr_.attributes();
    self.has_attributes_ = true;
    self.found();
}

// `attributes_` are those of what is at the place in question.
void ResendCheck::found() noexcept {
    const sunrpc::Call& call = subject_->call_;
    if (call.proc_number == NFSPROC3_LINK || call.proc_number == NFSPROC3_RENAME) {
        if (expected_.empty() || expected_ == lookup_.object) {
            settle(true);
            return;
        }
        // A handle may tell of the directory as well.
        comparing_ = true;
        get_attributes(expected_.view());
        return;
    }
    if (call.proc_number != NFSPROC3_SYMLINK) {
        settle(is_as_asked(call, attributes_));
        return;
    }
    if (attributes_.type != NF3LNK) {
        settle(false);
        return;
    }
    readlink_.args.symlink = lookup_.object.view();
    client_.start(readlink_);
}

void ResendCheck::on_readlink(Op& op) noexcept {
    ResendCheck& self = *static_cast<ResendCheck*>(op.user);
    if (self.answered(op)) {
        const char* const text = self.readlink_.res.READLINK3res_u.resok.data;
        const char* const asked = args_of<SYMLINK3args>(self.subject_->call_).symlink.symlink_data;
        self.settle(text != nullptr && asked != nullptr && std::strcmp(text, asked) == 0);
    }
    self.readlink_.free_results();
}

void ResendCheck::settle(bool was_done) noexcept {
    Op& op = *std::exchange(subject_, nullptr);
    if (was_done) {
        const bool made = op.call_.proc_number != NFSPROC3_SETATTR;
        op.resolve(made ? &lookup_.object : nullptr, has_attributes_ ? &attributes_ : nullptr);
        op.outcome.status = NFS3_OK;
        op.resolved_ = true;
        ++client_.counters_.resolved;
    } else {
        ++client_.counters_.unresolved;
    }
    op.doubtful_ = false;
    Client& client = client_;
    op.finish();
    client.check_->go_on();
}

}  // namespace nfsrdma::nfs::client
