#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "nfs/handle_journal.hpp"
#include "nfs/handle_open.hpp"
#include "nfs/identity.hpp"
#include "nfs/posix_files.hpp"
#include "nfs/posix_handles.hpp"
#include "nfs/vfs.hpp"

namespace nfsrdma::nfs {

struct VfsPosixOptions {
    std::uint64_t fsid = 1;
    std::uint32_t open_files = 1024;  // objects kept open; each holds up to three descriptors
    // Who callers act as; outlives the backend. nullptr: all as this process.
    Identity* identity = nullptr;
    // Open by the kernel's handles where that works (CAP_DAC_READ_SEARCH, and a file system that
    // has them); else, and without, by the places where objects were seen.
    bool kernel_handles = true;
    // Directory in which places outlive the process (HandleJournal, a file for each export id and
    // root). Empty: nowhere. Not used with the kernel's handles.
    std::string state_dir;
    std::size_t places_max = PosixHandles::kCapacity;
    // Files of memory that are read again and again are mapped, where FileMapping::allow() said
    // yes.
    bool map_files = false;
    // For so long an open object is taken to be inside the export still; directories in which
    // something is changed are looked at each time.
    std::uint64_t recheck_ns = 100 * kNsPerMs;
};

// A directory tree of the local file system. Runs as the caller where the process may (Identity),
// else as the process. Handles are opened by the kernel or, without privilege, through
// PosixHandles.
//
// Nothing leaves the tree: only single names are ever given to the kernel, relative to the
// descriptor of a directory that lies inside, none is followed when it is a symbolic link, an
// object of another mount is refused with NFS3ERR_XDEV, and what was moved out is stale (Subtree).
class VfsPosix final : public Vfs {
  public:
    // Errc::system: no such directory, not a directory, not readable; no /proc/self/fd.
    static Result<std::unique_ptr<VfsPosix>> create(const std::string& path,
                                                    const VfsPosixOptions& options);
    ~VfsPosix() override;
    VfsPosix(const VfsPosix&) = delete;
    VfsPosix& operator=(const VfsPosix&) = delete;

    NodeId root() const noexcept override { return root_; }
    nfsstat3 getattr(const Cred& cred, NodeId node, Attr& out) noexcept override;
    nfsstat3 setattr(const Cred& cred, NodeId node, const SetAttr& set, const Time* guard,
                     Wcc& wcc) noexcept override;
    nfsstat3 lookup(const Cred& cred, const DirName& what, Node& out) noexcept override;
    nfsstat3 access(const Cred& cred, NodeId node, std::uint32_t wanted,
                    std::uint32_t& granted) noexcept override;
    nfsstat3 readlink(const Cred& cred, NodeId node, std::span<char> room,
                      std::uint32_t& length) noexcept override;
    nfsstat3 create(const Cred& cred, const DirName& where, const CreateHow& how, Node& out,
                    Wcc& dir) noexcept override;
    nfsstat3 mkdir(const Cred& cred, const DirName& where, const SetAttr& attr, Node& out,
                   Wcc& dir) noexcept override;
    nfsstat3 symlink(const Cred& cred, const DirName& where, std::string_view text, Node& out,
                     Wcc& dir) noexcept override;
    nfsstat3 mknod(const Cred& cred, const DirName& where, const Attr& like, Node& out,
                   Wcc& dir) noexcept override;
    nfsstat3 remove(const Cred& cred, const DirName& what, Wcc& dir) noexcept override;
    nfsstat3 rmdir(const Cred& cred, const DirName& what, Wcc& dir) noexcept override;
    nfsstat3 rename(const Cred& cred, const DirName& from, const DirName& to, Wcc& from_dir,
                    Wcc& to_dir) noexcept override;
    nfsstat3 link(const Cred& cred, NodeId file, const DirName& where, Wcc& dir) noexcept override;
    nfsstat3 readdir(const Cred& cred, const ReadDir& what, DirSink& sink,
                     bool& eof) noexcept override;
    nfsstat3 statfs(const Cred& cred, NodeId node, StatFs& out) noexcept override;
    nfsstat3 open_io(const Cred& cred, NodeId node, IoUse use, IoFile& out) noexcept override;
    void close_io(IoFile& file) noexcept override;
    nfsstat3 io_attr(const IoFile& file, Attr& out) noexcept override;
    const FileMapping* mapping(const IoFile& file, const Attr& attr,
                               std::uint32_t bytes) noexcept override;
    nfsstat3 read_now(const IoFile& file, std::uint64_t offset, std::span<std::byte> into,
                      std::uint32_t& moved) noexcept override;
    nfsstat3 write_now(const IoFile& file, std::uint64_t offset, std::span<const std::byte> from,
                       std::uint32_t& moved) noexcept override;

    bool blocks(const Cred& cred) const noexcept override {
        return !in_memory_ || (identity_ != nullptr && !identity_->is_quick(cred));
    }
    bool io_attr_blocks() const noexcept override { return !is_local_; }
    std::optional<nfsstat3> open_io_at_once(const Cred& cred, NodeId node, IoUse use,
                                            IoFile& out) noexcept override;

    std::uint16_t personality(Loop& loop, const Cred& cred) noexcept override {
        return identity_ == nullptr ? std::uint16_t{0} : identity_->personality(loop, cred);
    }

    void tidy() noexcept override;

    // Files answer from memory (tmpfs, ramfs): FileOp::in_line.
    bool in_memory() const noexcept { return in_memory_; }
    const PosixHandles& handles() const noexcept { return handles_; }
    // What a handle is opened by that is not open: "the kernel's handles", "the state directory" or
    // "memory".
    const char* handles_by() const noexcept;
    bool survives_restart() const noexcept { return by_kernel_ || journal_ != nullptr; }

  private:
    struct Dir;
    VfsPosix(UniqueFd root_fd, const VfsPosixOptions& options);
    Result<void> start();

    // vfs_posix_find.cpp
    nfsstat3 resolve(NodeId node, PosixPin& out, std::uint32_t depth = 0) noexcept;
    nfsstat3 open_at(const PosixPin& dir, const char* name, NodeId expected,
                     PosixPin& out) noexcept;
    nfsstat3 stat_at(int fd, const char* name, Attr& out, std::uint64_t& birth) const noexcept;
    nfsstat3 stat_fd(int fd, Attr& out) const noexcept;  // NFS3ERR_STALE when it is removed
    nfsstat3 stat_name(int dir_fd, const char* name, Node& out) const noexcept;
    nfsstat3 node_of_fd(int fd, Node& out) const noexcept;
    nfsstat3 open_by_kernel(NodeId id, PosixPin& out) noexcept;
    nfsstat3 keep(NodeId node, UniqueFd fd, PosixPin& out) noexcept;
    // What is open already, and inside.
    bool pin_open(NodeId node, PosixPin& out) noexcept;
    // `now`: as of this moment, not of some time ago.
    bool is_inside(PosixFile& file, bool now) noexcept;
    nfsstat3 lookup_parent(const PosixPin& dir, NodeId id, Node& out) noexcept;
    void learn(NodeId node, NodeId dir, std::string_view name, bool more = false) noexcept;

    // vfs_posix.cpp
    nfsstat3 list(const Cred& cred, const ReadDir& what, DirSink& sink, bool& eof) noexcept;
    bool offer_entry(const PosixPin& dir, const Node& self, bool want_node, DirEntry entry,
                     DirSink& sink) noexcept;
    // The directory that a change is made in: pinned, known to be one, its attributes taken before.
    // From here on the thread acts for the caller.
    nfsstat3 enter(const Cred& cred, const DirName& where, Dir& dir, Wcc& wcc) noexcept;
    void leave(const Dir& dir, Wcc& wcc) noexcept;

    // Finding is this process's work, and the rest is done as the caller: what may have become
    // itself in between becomes the caller again before it goes on.
    nfsstat3 act_as(const Cred& cred) noexcept {
        return identity_ == nullptr ? NFS3_OK : identity_->become(cred);
    }
    void act_as_self() noexcept {
        if (identity_ != nullptr) identity_->become_self();
    }
    bool switches() const noexcept { return identity_ != nullptr && identity_->switches(); }

    // vfs_posix_change.cpp
    nfsstat3 create_new(const Cred& cred, Dir& dir, const CreateHow& how, Node& out) noexcept;
    nfsstat3 create_existing(const Cred& cred, Dir& dir, const CreateHow& how, Node& out) noexcept;
    nfsstat3 finish_new(const Cred& cred, Dir& dir, const SetAttr& attr, Node& out) noexcept;
    nfsstat3 apply(const Cred& cred, PosixFile& file, ftype3 type, const SetAttr& set) noexcept;
    nfsstat3 apply_size(const Cred& cred, PosixFile& file, ftype3 type,
                        std::uint64_t size) noexcept;
    void forget_name(const Node& node, const Dir& dir) noexcept;
    nfsstat3 make_special(Dir& dir, const Attr& like) noexcept;
    nfsstat3 remove_name(const Cred& cred, const DirName& what, int flags, Wcc& wcc) noexcept;

    // vfs_posix_io.cpp
    nfsstat3 io_fd(const Cred& cred, PosixFile& file, IoUse use, int& out) noexcept;
    int cached_io_fd(const PosixFile& file, IoUse use) noexcept;
    nfsstat3 may_use(const Cred& cred, const PosixFile& file, IoUse use) noexcept;
    bool has_right(const Cred& cred, const PosixFile& file, const Attr& attr, IoUse use) noexcept;
    void drop_set_id(const PosixFile& file, std::uint32_t mode) noexcept;
    UniqueFd open_as_caller(const Cred& cred, PosixFile& file, const Attr& attr,
                            IoUse use) noexcept;
    UniqueFd open_as_owner(PosixFile& file, int flags) noexcept;

    const UniqueFd root_fd_;
    const VfsPosixOptions options_;
    Identity* const identity_;
    NodeId root_;
    std::uint32_t dev_major_ = 0, dev_minor_ = 0;
    std::uint64_t mount_id_ = 0;  // 0: the kernel does not say
    bool in_memory_ = false;
    bool is_local_ = false;     // what is open is described without asking another machine
    bool has_handles_ = false;  // the file system has handles, and so generations
    bool by_kernel_ = false;    // handles are opened by the kernel
    std::uint32_t umask_ = 0;
    std::mutex owner_mutex_;  // see open_as_owner
    PosixHandles handles_;
    std::unique_ptr<HandleJournal> journal_;
    std::unique_ptr<Subtree> subtree_;
    PosixFiles files_;
    PosixPin root_pin_;  // keeps the root open; goes before files_
};

}  // namespace nfsrdma::nfs
