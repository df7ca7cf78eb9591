#include "tools/mount_nfsrdma/ops_names.hpp"

#include <cerrno>

#include "base/assert.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

namespace nfsrdma::mount {

Mount& mount_of(fuse_req_t req) noexcept {
    return *static_cast<Mount*>(fuse_req_userdata(req));
}

int error_of_name(const Mount& mount, const std::string& name) noexcept {
    return name.size() > mount.limits.name_max ? ENAMETOOLONG : 0;
}

diropargs3 place(const Node& directory, std::string& name) noexcept {
    return {directory.handle.view(), name.data()};
}

const fattr3* told(post_op_attr& attributes) noexcept {
    if (attributes.attributes_follow == FALSE) return nullptr;
    nfs::client::clean_type(attributes.post_op_attr_u.attributes);
    return &attributes.post_op_attr_u.attributes;
}

void Changing::begin(Mount& mount, Node& node) noexcept {
    NR_ASSERT(!node_);
    mount_ = &mount;
    node_ = NodePin(mount.nodes, node);
    node.attributes.begin_change();
}

void Changing::end() noexcept {
    if (!node_) return;
    node_->attributes.end_change(mount_->order());
    node_.reset();
}

EntryJob::EntryJob(Worker& at, fuse_req_t req, Node& directory, const char* name)
    : Job(at, req), directory_(at.mount().nodes, directory), name_(name) {
    waiter_.job = this;
    waiter_.ready = on_written;
}

EntryJob::~EntryJob() {
    NR_ASSERT(!waiting_);
}

void EntryJob::start() noexcept {
    if (node_) {  // on the loop of its data now
        settle();
        return;
    }
    const int error = error_of_name(mount(), name_);
    if (error != 0) return fail(error);
    ask();
}

void EntryJob::give_up() noexcept {
    if (!waiting_) return;
    waiting_ = false;
    node_->file->stop_waiting(waiter_);
    fail(EINTR);
}

void EntryJob::found(const nfs::client::FileHandle& handle, const fattr3* attributes) noexcept {
    if (attributes == nullptr) return get_attributes(handle);
    Node* const node = mount().node_of(handle, attributes, order());
    if (node == nullptr) return fail(EIO);  // of no type that there is
    found(*node);
}

void EntryJob::found(Node& node) noexcept {
    node_ = NodePin(mount().nodes, node);
    settle();
}

void EntryJob::settle() noexcept {
    Node& node = *node_;
    if (!node.unwritten || waited_) {
        if (name_is_newer(node) && repeats_++ < kRepeatsMax) return look_up();
        return reply_entry(*directory_, name_, node);
    }
    NR_ASSERT(node.home != nullptr && node.file != nullptr);
    if (node.home != &worker()) return move_to(*node.home);
    waiting_ = !node.file->when_written(waiter_);
    if (!waiting_) on_written(waiter_);
}

// A call of ours has changed the directory since that LOOKUP was sent, and gave another the name.
bool EntryJob::name_is_newer(const Node& node) noexcept {
    if (named_at_ == 0 || !directory_->attributes.changed_since(named_at_)) return false;
    const Node* const known = mount().nodes.child(*directory_, name_);
    return known != nullptr && known != &node;
}

void EntryJob::on_written(FileState::Waiter& waiter) noexcept {
    EntryJob& job = *static_cast<Waiter&>(waiter).job;
    job.waiting_ = false;
    // Whatever is written from now on began after this request did, and the kernel knows that it
    // has it from there.
    job.waited_ = true;
    job.get_attributes(job.node_->handle);
}

void EntryJob::look_up() noexcept {
    lookup_.args.what = place(*directory_, name_);
    call<&EntryJob::looked_up>(lookup_);
}

void EntryJob::looked_up() noexcept {
    if (!lookup_.outcome.ok()) {
        mount().take(*directory_, lookup_.res.LOOKUP3res_u.resfail.dir_attributes, order());
        return fail(lookup_);
    }
    mount().take(*directory_, lookup_.res.LOOKUP3res_u.resok.dir_attributes, order());
    note_lookup();
    found(lookup_.object, lookup_.attributes());
}

void EntryJob::get_attributes(const nfs::client::FileHandle& handle) noexcept {
    handle_ = handle;
    getattr_.args.object = handle_.view();
    call<&EntryJob::got_attributes>(getattr_);
}

void EntryJob::got_attributes() noexcept {
    if (!getattr_.outcome.ok()) return fail(getattr_);
    found(handle_, &getattr_.attributes());
}

namespace {

class LookupJob final : public EntryJob {
  public:
    using EntryJob::EntryJob;

  private:
    void ask() noexcept override {
        lookup_.args.what = place(directory(), name());
        call<&LookupJob::answered>(lookup_);
    }
    void answered() noexcept {
        if (lookup_.outcome.ok()) {
            mount().take(directory(), lookup_.res.LOOKUP3res_u.resok.dir_attributes, order());
            note_lookup();
            return found(lookup_.object, lookup_.attributes());
        }
        if (!lookup_.outcome.rpc) return fail(lookup_);
        mount().take(directory(), lookup_.res.LOOKUP3res_u.resfail.dir_attributes, order());
        if (lookup_.outcome.status != NFS3ERR_NOENT) return fail(lookup_);
        mount().nodes.drop_name(directory(), name());
        reply_no_entry(directory());
    }
    nfs::client::LookupOp lookup_;
};

void on_lookup(fuse_req_t req, fuse_ino_t parent, const char* name) noexcept {
    begin<LookupJob>(req, node_at(mount_of(req), parent), name);
}

}  // namespace

void add_name_operations(fuse_lowlevel_ops& ops) noexcept {
    ops.lookup = on_lookup;
    add_make_operations(ops);
    add_remove_operations(ops);
    add_rename_operations(ops);
}

}  // namespace nfsrdma::mount
