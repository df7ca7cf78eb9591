#include <cerrno>

#include "tools/mount_nfsrdma/ops_file.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

// flush (close) and fsync.
namespace nfsrdma::mount {
namespace {

using nfs::client::WriteBehind;

// Until all that was written is durable; tells what went wrong, once per open file.
class SyncJob final : public FileJob {
  public:
    SyncJob(Worker& at, fuse_req_t request, const fuse_file_info& info)
        : FileJob(at, request, info) {
        waiter_.job = this;
        waiter_.done = [](WriteBehind::Waiter& waiter) noexcept {
            SyncJob& job = *static_cast<Waiter&>(waiter).job;
            job.waiting_ = false;
            job.conclude();
        };
    }
    void start() noexcept override {
        if (data().clean()) return conclude();
        if (!at_home()) return;
        waiting_ = !data().writes().sync(waiter_);
        if (!waiting_) conclude();
    }
    void give_up() noexcept override {
        if (!waiting_) return;
        waiting_ = false;
        data().writes().stop_waiting(waiter_);
        fail(EINTR);
    }

  private:
    struct Waiter final : WriteBehind::Waiter {
        SyncJob* job = nullptr;
    };
    void conclude() noexcept {
        const std::uint64_t now = data().writes().error_seq();
        if (std::exchange(file().error_seen, now) == now) return fail(0);
        fail(errno_of(data().writes().error()));
    }
    bool waiting_ = false;
    Waiter waiter_;
};

void on_flush(fuse_req_t req, fuse_ino_t /*ino*/, fuse_file_info* info) noexcept {
    begin<SyncJob>(req, *info);
}

void on_fsync(fuse_req_t req, fuse_ino_t /*ino*/, int /*datasync*/, fuse_file_info* info) noexcept {
    begin<SyncJob>(req, *info);
}

}  // namespace

void add_sync_operations(fuse_lowlevel_ops& ops) noexcept {
    ops.flush = on_flush;
    ops.fsync = on_fsync;
}

}  // namespace nfsrdma::mount
