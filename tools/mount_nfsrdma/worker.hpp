#pragma once
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/loop.hpp"
#include "nfs/client/client.hpp"
#include "tools/mount_nfsrdma/channel.hpp"
#include "tools/mount_nfsrdma/job.hpp"
#include "tools/mount_nfsrdma/stats.hpp"
#include "tools/nfsrdma/connections.hpp"
#include "verbs/device.hpp"

namespace nfsrdma::mount {

struct FilePools;

// One loop of a mount: its thread, device, connection, NFS client, its part of /dev/fuse, and the
// jobs that it works on.
class Worker {
  public:
    // Connects, on the calling thread. Otherwise nullptr, and `why` says what is wrong and what to
    // do; `again`: it may go well later (nobody listens, no answer).
    static std::unique_ptr<Worker> open(const MountOptions& options, const SockAddr& server,
                                        std::string& why, bool& again);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    void join(Mount& mount, std::uint32_t index) noexcept;
    // Serves what the kernel asks on `fd`, from the next turn of its loop on. Any thread, once.
    void serve(int fd, fuse_session* session) noexcept;
    // Until the mount ends. On the thread that is to serve.
    void run() noexcept;
    // Any thread: ends run().
    void stop() noexcept { loop_->stop(); }
    // After run(): cancels what is under way and closes the connection. It is at its end when the
    // loop has run until idle().
    void hang_up() noexcept;
    bool idle() const noexcept;
    // Both, waiting within `patience_ns` until everything is home. False: it is not.
    bool close(std::uint64_t patience_ns) noexcept;

    Mount& mount() noexcept { return *mount_; }
    Loop& loop() noexcept { return *loop_; }
    nfs::client::Client& client() noexcept { return *client_; }
    tool::Connections& connections() noexcept { return *connections_; }
    Channel& channel() noexcept { return channel_; }
    LoopStats& stats() noexcept { return stats_; }
    FilePools& files();  // made when it is first asked for: the client's sizes are known then
    std::uint32_t index() const noexcept { return index_; }
    // A call that waits for its answer, before the mount is served or after.
    nfs::client::Outcome wait_for(nfs::client::Op& op, std::uint64_t timeout_ns) noexcept;

    // Under Mount::lock, on this worker's thread.
    void adopt(std::unique_ptr<Job> job) noexcept;
    void end(Job& job) noexcept;  // destroyed in the next turn
    std::unique_ptr<Job> take(Job& job) noexcept;
    std::uint32_t jobs() const noexcept { return jobs_.size(); }
    // Under Mount::lock, any thread: one of its jobs was interrupted.
    void note_interrupt() noexcept;
    // Of its jobs, those whose threads are to die are interrupted, while nothing is read that would
    // tell so. On its thread, without the lock.
    void look_for_dying() noexcept;

  private:
    Worker();
    bool connect(const MountOptions& options, const SockAddr& server, std::string& why,
                 bool& again);
    bool open_device(const MountOptions& options, const SockAddr& server, std::string& why);
    static void on_call(void* arg, const sunrpc::Call& call, const Result<void>& result) noexcept;
    static void on_serve(Task& task) noexcept;
    static void on_bury(Task& task) noexcept;
    static void on_look(Task& task) noexcept;
    static void on_grace(Timer& timer) noexcept;
    void look_at_interrupts() noexcept;
    void give_up(const std::vector<Job*>& due) noexcept;

    struct WorkerTask final : Task {
        WorkerTask(Run go, Worker& owner) noexcept : Task(go), worker(owner) {}
        Worker& worker;
    };
    struct WorkerTimer final : Timer {
        WorkerTimer(Fire go, Worker& owner) noexcept : Timer(go), worker(owner) {}
        Worker& worker;
    };
    Mount* mount_ = nullptr;
    std::uint32_t index_ = 0;
    std::unique_ptr<Loop> loop_;
    std::unique_ptr<verbs::Device> device_;
    std::unique_ptr<tool::Connections> connections_;
    std::unique_ptr<nfs::client::Client> client_;
    std::unique_ptr<FilePools> files_;
    Channel channel_;
    LoopStats stats_;
    List<Job, Job> jobs_, buried_;
    WorkerTask serve_task_, bury_task_, look_task_;
    WorkerTimer grace_timer_;
    bool look_posted_ = false, bury_ready_ = false;
    int serve_fd_ = -1;
    fuse_session* session_ = nullptr;
};

}  // namespace nfsrdma::mount
