#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "nfs/client/client.hpp"
#include "tools/mount_nfsrdma/caller.hpp"
#include "tools/mount_nfsrdma/fuse3.hpp"
#include "tools/mount_nfsrdma/mount.hpp"

// One request of the kernel that is under way.
//
// Operation. A FUSE callback makes a Job with begin<>(), whose start() runs at once. It sends calls
// with call<&Stage>(op), one at a time, and Stage runs with the answer; it ends with exactly one
// reply, after which nothing of it may be used. All of its functions run on the thread of its
// worker with Mount::lock held.
//
// Ownership. (1) A job is its worker's, from begin to the turn of the loop after its reply. (2) Its
// ops are its members. (3) The request is libfuse's, and gone with the reply.
//
// Errors. Failures of calls become errno by errno_of. A signal (FUSE_INTERRUPT) cancels, after
// kGraceNs, the call that is under way, which then fails with EINTR: any signal where the system
// call only looks, one that ends the process where it changes something (fate.hpp).
namespace nfsrdma::mount {

// RFC 1813 s2.6; 0: success.
int errno_of(nfsstat3 status) noexcept;

class Job : public ListHook<Job> {
  public:
    static constexpr std::uint64_t kGraceNs = 300 * kNsPerMs;
    Job(Worker& at, fuse_req_t request);
    // For what no request waits for: ends by finish() alone.
    Job(Worker& at, Caller who);
    virtual ~Job();
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    virtual void start() noexcept = 0;

    Mount& mount() noexcept;
    Worker& worker() noexcept { return *worker_; }
    const Caller& caller() const noexcept { return caller_; }
    // A signal came: the worker's timer asks, and cancels when that has lasted.
    bool interrupted() const noexcept { return interrupted_; }
    // Whether none but a signal that ends its process ends it early.
    bool only_fatal() const noexcept { return only_fatal_; }
    // What waits for something else than a call of its own gives that up, and fails with EINTR.
    virtual void give_up() noexcept;

  protected:
    // Sends `op` as the caller; `Next`, a member function of the job, runs with the answer.
    template <auto Next, class OpType>
    void call(OpType& op) noexcept {
        send(op, &Job::answered<Next>, caller_);
    }
    template <auto Next, class OpType>
    void call_as(OpType& op, const Caller& who) noexcept {
        send(op, &Job::answered<Next>, who);
    }
    // When the call that was answered last was sent: for Mount::take.
    std::uint64_t order() const noexcept { return order_; }
    int errno_of(const nfs::client::Outcome& outcome) const noexcept;
    int errno_of(const nfs::client::Op& op) const noexcept { return errno_of(op.outcome); }

    // Each ends the job.
    void fail(int error) noexcept;  // 0: success without anything to tell
    void fail(const nfs::client::Op& op) noexcept { fail(errno_of(op)); }
    // The kernel counts a lookup of `node` from now on, by this name of `directory`.
    void reply_entry(Node& directory, const std::string& name, Node& node) noexcept;
    void reply_no_entry(Node& directory) noexcept;  // there is none, for a while
    // As reply_entry, and it is open.
    void reply_create(Node& directory, const std::string& name, Node& node,
                      const fuse_file_info& info) noexcept;
    void reply_attr(Node& node) noexcept;
    void reply_open(const fuse_file_info& info) noexcept;
    void reply_text(const char* text) noexcept;  // READLINK
    void reply_buffer(const char* bytes, std::size_t size) noexcept;
    void reply_write(std::size_t size) noexcept;
    void reply_statfs(const struct statvfs& numbers) noexcept;
    // For what answers by itself: the request, with no more interrupts, and finish() afterwards.
    fuse_req_t take_request() noexcept;
    void finish() noexcept;
    // Goes on at `at`, where start() runs next (data is moved on a file's own loop).
    void move_to(Worker& at) noexcept;

    nfs::client::FileHandle& scratch_handle() noexcept { return scratch_; }

  private:
    friend class Worker;
    template <auto Next>
    static void answered(nfs::client::Op& op) noexcept {
        Job& job = *static_cast<Job*>(op.user);
        const std::lock_guard guard(job.mount().lock);
        job.under_way_ = nullptr;
        next_of(Next, job);
    }
    template <class J>
    static void next_of(void (J::*next)() noexcept, Job& job) noexcept {
        (static_cast<J&>(job).*next)();
    }
    void send(nfs::client::Op& op, nfs::client::Op::Done done, const Caller& who) noexcept;
    static void on_interrupt(fuse_req_t req, void* job) noexcept;
    static void on_moved(Task& task) noexcept;
    fuse_entry_param entry_of(Node& directory, Node& node) noexcept;

    struct MoveTask final : Task {
        MoveTask(Run go, Job& moved) noexcept : Task(go), job(moved) {}
        Job& job;
    };
    Worker* worker_;
    fuse_req_t req_;
    Caller caller_, called_as_;
    nfs::client::Op* under_way_ = nullptr;
    std::uint64_t order_ = 0;
    std::uint64_t interrupted_at_ns_ = 0;
    bool interrupt_asked_ = false, interrupted_ = false;
    bool only_fatal_ = true;
    std::int32_t thread_ = 0;  // that waits for it; 0: none, or of another pid namespace
    MoveTask move_task_;
    nfs::client::FileHandle scratch_;
};

// From inside of a FUSE callback: makes the job and starts it.
Worker& worker_of(fuse_req_t req) noexcept;
void add_job(Worker& worker, std::unique_ptr<Job> job) noexcept;
template <class J, class... Arguments>
void begin(fuse_req_t req, Arguments&&... arguments) noexcept {
    Worker& worker = worker_of(req);
    auto made = std::make_unique<J>(worker, req, std::forward<Arguments>(arguments)...);
    J& job = *made;
    add_job(worker, std::move(made));
    job.start();
}

// The node that the kernel calls so.
Node& node_at(Mount& mount, fuse_ino_t ino) noexcept;

}  // namespace nfsrdma::mount
