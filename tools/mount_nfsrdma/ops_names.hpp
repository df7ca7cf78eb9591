#pragma once
#include <cstdint>
#include <string>

#include "tools/mount_nfsrdma/file_state.hpp"
#include "tools/mount_nfsrdma/job.hpp"
#include "tools/mount_nfsrdma/ops.hpp"

// What the jobs that deal with names in directories have in common. All with Mount::lock held.
namespace nfsrdma::mount {

// The groups of add_name_operations: mkdir, mknod, symlink, link; unlink, rmdir; rename.
void add_make_operations(fuse_lowlevel_ops& ops) noexcept;
void add_remove_operations(fuse_lowlevel_ops& ops) noexcept;
void add_rename_operations(fuse_lowlevel_ops& ops) noexcept;

Mount& mount_of(fuse_req_t req) noexcept;
// 0, or ENAMETOOLONG.
int error_of_name(const Mount& mount, const std::string& name) noexcept;
// Points into both.
diropargs3 place(const Node& directory, std::string& name) noexcept;
// None told: nullptr. A type that is none becomes 0.
const fattr3* told(post_op_attr& attributes) noexcept;

// A call of ours changes one node: attributes.hpp. Pins it, from begin to its own end.
class Changing {
  public:
    Changing() = default;
    ~Changing() { end(); }
    Changing(const Changing&) = delete;
    Changing& operator=(const Changing&) = delete;
    void begin(Mount& mount, Node& node) noexcept;
    void end() noexcept;  // once or more

  private:
    Mount* mount_ = nullptr;
    NodePin node_;
};

// A request that is answered with an entry: LOOKUP, and whatever makes a name. Attributes that an
// answer did not have are asked for. While data of a file is on its way to the server, what the
// server says of it is old: then it is waited for, where that data is, and asked again.
class EntryJob : public Job {
  public:
    EntryJob(Worker& at, fuse_req_t req, Node& directory, const char* name);
    ~EntryJob() override;
    EntryJob(const EntryJob&) = delete;
    EntryJob& operator=(const EntryJob&) = delete;
    void start() noexcept final;
    void give_up() noexcept final;

  protected:
    virtual void ask() noexcept = 0;  // sends the first call
    Node& directory() noexcept { return *directory_; }
    std::string& name() noexcept { return name_; }

    // Each goes on until the reply.
    void found(const nfs::client::FileHandle& handle, const fattr3* attributes) noexcept;
    void found(Node& node) noexcept;  // with attributes of now
    void look_up() noexcept;
    // The answer at hand is of a LOOKUP of the name: it may be older than what the name is now.
    void note_lookup() noexcept { named_at_ = order(); }

  private:
    static constexpr std::uint32_t kRepeatsMax = 3;  // of a LOOKUP that crossed a change
    struct Waiter final : FileState::Waiter {
        EntryJob* job = nullptr;
    };
    void looked_up() noexcept;
    void got_attributes() noexcept;
    void get_attributes(const nfs::client::FileHandle& handle) noexcept;
    void settle() noexcept;
    bool name_is_newer(const Node& node) noexcept;
    static void on_written(FileState::Waiter& waiter) noexcept;

    NodePin directory_, node_;
    std::string name_;
    nfs::client::FileHandle handle_;
    nfs::client::LookupOp lookup_;
    nfs::client::GetattrOp getattr_;
    Waiter waiter_;
    bool waiting_ = false, waited_ = false;
    std::uint64_t named_at_ = 0;  // order of the LOOKUP that told; 0: none did
    std::uint32_t repeats_ = 0;
};

}  // namespace nfsrdma::mount
