#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "nfs/client/read_ahead.hpp"
#include "nfs/client/write_behind.hpp"
#include "tools/mount_nfsrdma/file_state.hpp"
#include "tools/mount_nfsrdma/mount.hpp"
#include "tools/mount_nfsrdma/node.hpp"

namespace nfsrdma::mount {

// What the files of one loop have in common: its connection's payload memory, of which a part is
// for what was written, a part for what is read ahead, and the rest for what is asked for now.
struct FilePools {
    // `payload`: bytes of the memory of one request.
    FilePools(nfs::client::Client& client, std::uint32_t payload, bool no_ac);
    nfs::client::WriteBudget writes;
    nfs::client::ReadPool reads;
};

class FileData;

// One open file: what the kernel's file handle is.
class OpenFile {
  public:
    OpenFile(FileData& of, Caller opener, int how);
    FileData& data;
    const Caller who;          // its reads and writes go as whoever opened it
    const int flags;           // O_*
    std::uint64_t error_seen;  // WriteBehind::error_seq, as far as it was told
    nfs::client::ReadAhead ahead;
};

// FileState of a node, from its first open to its last close, or until what was written is at the
// server. All with Mount::lock held, and, where nothing else is said, on the home loop.
class FileData final : public FileState, public nfs::client::DataObserver {
  public:
    FileData(Mount& mount, Node& node, Worker& home);
    ~FileData() override;
    FileData(const FileData&) = delete;
    FileData& operator=(const FileData&) = delete;
    // The node's; made, with `at` as its home, when it has none.
    static FileData& of(Mount& mount, Node& node, Worker& at);

    Worker& home() noexcept { return home_; }
    Node& node() noexcept { return node_; }
    nfs::client::WriteBehind& writes() noexcept { return writes_; }
    OpenFile& open(const Caller& who, int flags);
    // What is not durable when the last one goes, becomes so. May end this object.
    void close(OpenFile& file) noexcept;
    // A write was taken, or was done.
    void took(std::uint64_t offset, std::uint64_t size) noexcept;
    // A read of this range has to wait for writes that are not at the server yet.
    bool must_wait(std::uint64_t offset, std::uint64_t size) const noexcept;
    // Any loop: nothing was written that is not durable, and nothing waits to be.
    bool clean() const noexcept { return !writes_.dirty() && !writes_.unwritten(); }

    // FileState
    bool when_written(Waiter& waiter) noexcept override;
    bool durable() const noexcept override { return clean(); }
    bool when_durable(Waiter& waiter) noexcept override;
    void stop_waiting(Waiter& waiter) noexcept override;
    void drop_ahead() noexcept override;

    // DataObserver
    void lock() noexcept override { mount_.lock.lock(); }
    void unlock() noexcept override { mount_.lock.unlock(); }
    std::uint64_t change_sent() noexcept override;
    void range_answered(std::uint64_t offset, std::uint64_t size) noexcept override;
    void change_answered(std::uint64_t number, const wcc_data* told) noexcept override;
    std::uint64_t read_sent() noexcept override { return mount_.next_order(); }
    void read_answered(std::uint64_t number, const post_op_attr* told) noexcept override;
    void progressed() noexcept override;

  private:
    static void on_settled(Task& task) noexcept;
    static void on_written(nfs::client::WriteBehind::Waiter& waiter) noexcept;
    void maybe_end() noexcept;

    struct SettledTask final : Task {
        SettledTask(Run go, FileData& owner) noexcept : Task(go), data(owner) {}
        FileData& data;
    };
    Mount& mount_;
    Node& node_;
    Worker& home_;
    nfs::client::WriteBehind writes_;
    std::vector<std::unique_ptr<OpenFile>> files_;
    std::uint64_t end_at_server_ = 0;  // while something is unwritten: at least so far
    NodePin pin_;                      // while something is not durable
    std::uint64_t failures_ = 0;       // WriteBehind::error_seq, as far as it was acted upon
    nfs::client::WriteBehind::Waiter closing_;  // since the last one went
    bool settled_ready_ = false;
    SettledTask settled_task_;
};

}  // namespace nfsrdma::mount
