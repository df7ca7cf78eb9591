#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
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
};

// A directory tree of the local file system. Runs as the caller where the process may (Identity),
// else as the process: without any privilege handles are opened through PosixHandles.
//
// Nothing leaves the tree: only single names are ever given to the kernel, relative to the
// descriptor of a directory that belongs to it, none is followed when it is a symbolic link, ".."
// is answered from the handle database, and an object on another file system (a mount point) is
// refused with NFS3ERR_XDEV.
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
    nfsstat3 read_now(const IoFile& file, std::uint64_t offset, std::span<std::byte> into,
                      std::uint32_t& moved) noexcept override;
    nfsstat3 write_now(const IoFile& file, std::uint64_t offset, std::span<const std::byte> from,
                       std::uint32_t& moved) noexcept override;

    bool blocks(const Cred& cred) const noexcept override {
        return !in_memory_ || (identity_ != nullptr && !identity_->is_quick(cred));
    }
    std::optional<nfsstat3> open_io_at_once(const Cred& cred, NodeId node, IoUse use,
                                            IoFile& out) noexcept override;

    void tidy() noexcept override { files_.close_idle_writers(); }

    // Files answer from memory (tmpfs, ramfs): FileOp::in_line.
    bool in_memory() const noexcept { return in_memory_; }
    const PosixHandles& handles() const noexcept { return handles_; }

  private:
    struct Dir;
    VfsPosix(UniqueFd root_fd, const VfsPosixOptions& options);
    Result<void> start();

    // vfs_posix.cpp: finding objects.
    nfsstat3 resolve(NodeId node, PosixPin& out, std::uint32_t depth = 0) noexcept;
    nfsstat3 open_at(const PosixPin& dir, const char* name, NodeId expected,
                     PosixPin& out) noexcept;
    nfsstat3 stat_at(int fd, const char* name, Attr& out, std::uint64_t& birth) const noexcept;
    nfsstat3 stat_fd(int fd, Attr& out) const noexcept;  // NFS3ERR_STALE when it is removed
    nfsstat3 stat_name(int dir_fd, const char* name, Node& out) const noexcept;
    nfsstat3 node_of_fd(int fd, Node& out) const noexcept;
    nfsstat3 generation(int fd, const char* name, std::uint64_t birth,
                        std::uint64_t& out) const noexcept;
    nfsstat3 lookup_parent(NodeId dir, Node& out) noexcept;
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
    bool in_memory_ = false;
    bool has_handles_ = false;  // the file system has handles, and so generations
    std::uint32_t umask_ = 0;
    std::mutex owner_mutex_;  // see open_as_owner
    PosixHandles handles_;
    PosixFiles files_;
    PosixPin root_pin_;  // keeps the root open; goes before files_
};

// "/proc/self/fd/7": the one way to open, or change, exactly the object of an O_PATH descriptor.
struct ProcPath {
    explicit ProcPath(int fd) noexcept;
    const char* c_str() const noexcept { return text; }
    char text[32];
};

}  // namespace nfsrdma::nfs
