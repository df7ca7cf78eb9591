#include "tools/mount_nfsrdma/job.hpp"

#include <cerrno>
#include <linux/fuse.h>

#include "base/assert.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

namespace nfsrdma::mount {
namespace {

// Whose system calls change nothing: they may fail with EINTR, and a program that has set itself an
// alarm gets away from a server that does not answer.
bool only_looks(std::uint32_t opcode) noexcept {
    switch (opcode) {
        case FUSE_LOOKUP:
        case FUSE_GETATTR:
        case FUSE_READLINK:
        case FUSE_ACCESS:
        case FUSE_STATFS:
        case FUSE_OPENDIR:
        case FUSE_READDIR:
        case FUSE_READDIRPLUS:
        case FUSE_READ:
            return true;
        default:
            return false;
    }
}

}  // namespace

int errno_of(nfsstat3 status) noexcept {
    switch (nfs::client::raw_value(status)) {
        case NFS3ERR_NAMETOOLONG:
            return ENAMETOOLONG;
        case NFS3ERR_NOTEMPTY:
            return ENOTEMPTY;
        case NFS3ERR_DQUOT:
            return EDQUOT;
        case NFS3ERR_STALE:
        case NFS3ERR_BADHANDLE:
            return ESTALE;
        case NFS3ERR_REMOTE:
            return EREMOTE;
        case NFS3ERR_NOTSUPP:
            return EOPNOTSUPP;
        case NFS3ERR_BADTYPE:
            return EINVAL;
        case NFS3_OK:
        case NFS3ERR_PERM:
        case NFS3ERR_NOENT:
        case NFS3ERR_IO:
        case NFS3ERR_NXIO:
        case NFS3ERR_ACCES:
        case NFS3ERR_EXIST:
        case NFS3ERR_XDEV:
        case NFS3ERR_NODEV:
        case NFS3ERR_NOTDIR:
        case NFS3ERR_ISDIR:
        case NFS3ERR_INVAL:
        case NFS3ERR_FBIG:
        case NFS3ERR_NOSPC:
        case NFS3ERR_ROFS:
        case NFS3ERR_MLINK:
            return status;  // the numbers are those of errno(3)
        default:
            return EIO;
    }
}

Job::Job(Worker& at, fuse_req_t request)
    : worker_(&at),
      req_(request),
      caller_(at.mount().callers.of(request, at.mount().now_ns())),
      move_task_(on_moved, *this) {
    thread_ = fuse_req_ctx(request)->pid;
    const Channel* const reading = at.mount().reading;
    only_fatal_ = reading == nullptr || !only_looks(reading->opcode());
    fuse_req_interrupt_func(req_, on_interrupt, this);
}

Job::Job(Worker& at, Caller who)
    : worker_(&at), req_(nullptr), caller_(std::move(who)), move_task_(on_moved, *this) {}

Job::~Job() {
    NR_ASSERT(req_ == nullptr && under_way_ == nullptr);
}

Mount& Job::mount() noexcept {
    return worker_->mount();
}

void Job::give_up() noexcept {}

void Job::send(nfs::client::Op& op, nfs::client::Op::Done done, const Caller& who) noexcept {
    NR_ASSERT(under_way_ == nullptr);
    called_as_ = who;
    op.sys = called_as_.get();
    op.user = this;
    op.done = done;
    under_way_ = &op;
    order_ = mount().next_order();
    worker_->client().start(op);
}

int Job::errno_of(const nfs::client::Outcome& outcome) const noexcept {
    if (outcome.rpc) return mount::errno_of(outcome.status);
    if (interrupted_) return EINTR;
    const Errc code = outcome.rpc.error().code;
    const bool gone = code == Errc::timed_out || code == Errc::reconnect;
    if (gone && worker_->mount().options.patience == Patience::softerr) return ETIMEDOUT;
    if (code == Errc::refused && outcome.rpc_status == sunrpc::RpcStatus::auth_error) return EACCES;
    return EIO;
}

// A signal (libfuse calls from inside of the request's own reading, or of Job::Job).
void Job::on_interrupt(fuse_req_t /*req*/, void* job) noexcept {
    Job& self = *static_cast<Job*>(job);
    if (self.interrupt_asked_) return;
    self.interrupt_asked_ = true;
    self.interrupted_at_ns_ = self.mount().now_ns();
    self.worker_->note_interrupt();
}

fuse_req_t Job::take_request() noexcept {
    NR_ASSERT(req_ != nullptr);
    fuse_req_interrupt_func(req_, nullptr, nullptr);
    return std::exchange(req_, nullptr);
}

void Job::finish() noexcept {
    NR_ASSERT(req_ == nullptr);
    worker_->end(*this);
}

void Job::fail(int error) noexcept {
    (void)fuse_reply_err(take_request(), error);
    finish();
}

fuse_entry_param Job::entry_of(Node& directory, Node& node) noexcept {
    fuse_entry_param entry{};
    entry.ino = node.ino;
    entry.generation = node.generation;
    entry.attr = mount().stat_of(node);
    entry.attr_timeout = mount().attribute_seconds(node);
    entry.entry_timeout = mount().name_seconds(directory);
    return entry;
}

// The kernel may answer this request again before the reply has returned: what it may ask then is
// kept back by the lock.
void Job::reply_entry(Node& directory, const std::string& name, Node& node) noexcept {
    mount().nodes.set_name(directory, name, node);
    const fuse_entry_param entry = entry_of(directory, node);
    ++node.lookups;
    if (fuse_reply_entry(take_request(), &entry) != 0) mount().nodes.forget(node, 1);
    finish();
}

void Job::reply_no_entry(Node& directory) noexcept {
    fuse_entry_param entry{};
    entry.entry_timeout = mount().negative_seconds(directory);
    if (entry.entry_timeout <= 0) {
        fail(ENOENT);
        return;
    }
    (void)fuse_reply_entry(take_request(), &entry);
    finish();
}

void Job::reply_create(Node& directory, const std::string& name, Node& node,
                       const fuse_file_info& info) noexcept {
    mount().nodes.set_name(directory, name, node);
    const fuse_entry_param entry = entry_of(directory, node);
    ++node.lookups;
    if (fuse_reply_create(take_request(), &entry, &info) != 0) mount().nodes.forget(node, 1);
    finish();
}

void Job::reply_attr(Node& node) noexcept {
    const struct stat attributes = mount().stat_of(node);
    (void)fuse_reply_attr(take_request(), &attributes, mount().attribute_seconds(node));
    finish();
}

void Job::reply_open(const fuse_file_info& info) noexcept {
    (void)fuse_reply_open(take_request(), &info);
    finish();
}

void Job::reply_text(const char* text) noexcept {
    (void)fuse_reply_readlink(take_request(), text);
    finish();
}

void Job::reply_buffer(const char* bytes, std::size_t size) noexcept {
    (void)fuse_reply_buf(take_request(), bytes, size);
    finish();
}

void Job::reply_write(std::size_t size) noexcept {
    (void)fuse_reply_write(take_request(), size);
    finish();
}

void Job::reply_statfs(const struct statvfs& numbers) noexcept {
    (void)fuse_reply_statfs(take_request(), &numbers);
    finish();
}

void Job::move_to(Worker& at) noexcept {
    NR_ASSERT(under_way_ == nullptr && &at != worker_);
    at.adopt(worker_->take(*this));
    worker_ = &at;
    if (interrupt_asked_) at.note_interrupt();  // the timer that was to ask is of the other loop
    at.loop().post(move_task_);
}

void Job::on_moved(Task& task) noexcept {
    Job& job = static_cast<MoveTask&>(task).job;
    const std::lock_guard guard(job.mount().lock);
    job.start();
}

Worker& worker_of(fuse_req_t req) noexcept {
    return static_cast<Mount*>(fuse_req_userdata(req))->reading->worker();
}

void add_job(Worker& worker, std::unique_ptr<Job> job) noexcept {
    worker.adopt(std::move(job));
}

Node& node_at(Mount& mount, fuse_ino_t ino) noexcept {
    Node* const node = mount.nodes.at(ino);
    NR_ASSERT(node != nullptr);
    return *node;
}

}  // namespace nfsrdma::mount
