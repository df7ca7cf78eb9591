#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/file_mapping.hpp"
#include "base/loop.hpp"
#include "nfs/fh.hpp"
#include "nfs/nfs3_types.hpp"

// The backend of one export, whole, as one interface. Every call says on whose behalf it is made,
// is thread-safe, and may block on the file system: only file IO is asynchronous, through the fd of
// an IoFile and the loop's FileOp. Failures are NFSv3 status codes, since the backend alone knows
// what went wrong.
namespace nfsrdma::nfs {

// Who asks. Without AUTH_SYS nobody is known.
struct Cred {
    bool known = false;
    std::uint32_t uid = 0, gid = 0;
    std::uint32_t group_count = 0;
    std::array<std::uint32_t, 16> groups{};
};

struct Time {
    std::int64_t seconds = 0;
    std::uint32_t nseconds = 0;
    bool operator==(const Time&) const = default;
};

struct Attr {
    ftype3 type = NF3REG;
    std::uint32_t mode = 0;  // permission bits, 07777
    std::uint32_t nlink = 0;
    std::uint32_t uid = 0, gid = 0;
    std::uint64_t size = 0, used = 0;  // bytes
    std::uint32_t rdev_major = 0, rdev_minor = 0;
    std::uint64_t fsid = 0, fileid = 0;
    Time atime, mtime, ctime;
};

struct SetTime {
    time_how how = DONT_CHANGE;
    Time time;  // how == SET_TO_CLIENT_TIME
};

struct SetAttr {
    std::optional<std::uint32_t> mode, uid, gid;
    std::optional<std::uint64_t> size;
    SetTime atime, mtime;
};

// An object and what it is like.
struct Node {
    NodeId id;
    Attr attr;
};

// What a change did to one object, as far as it is known; also filled in when the change failed.
struct Wcc {
    std::optional<Attr> before, after;
};

// A name in a directory. The name is one that check_name (nfs/server) let pass: no '/', no NUL, not
// empty.
struct DirName {
    NodeId dir;
    std::string_view name;
};

struct CreateHow {
    createmode3 mode = UNCHECKED;
    SetAttr attr;                // UNCHECKED, GUARDED
    std::uint64_t verifier = 0;  // EXCLUSIVE
};

struct DirEntry {
    std::string_view name;
    std::uint64_t fileid = 0;
    std::uint64_t cookie = 0;    // readdir goes on behind this entry when given it; never 0
    const Node* node = nullptr;  // when asked for and to be had
};

// Takes entries until it says false: that one was not taken.
class DirSink {
  public:
    virtual bool add(const DirEntry& entry) noexcept = 0;

  protected:
    ~DirSink() = default;
};

struct ReadDir {
    NodeId dir;
    std::uint64_t cookie = 0;  // 0: from the beginning
    bool want_nodes = false;
};

struct StatFs {
    std::uint64_t total_bytes = 0, free_bytes = 0, available_bytes = 0;
    std::uint64_t total_files = 0, free_files = 0, available_files = 0;
    std::uint32_t link_max = 0, name_max = 0;
    std::uint64_t max_file_bytes = 0;
};

// A regular file pinned for IO. Without an fd the backend is memory: read_now and write_now.
struct IoFile {
    int fd = -1;
    bool in_line = false;  // FileOp::in_line
    NodeId id;
    void* pin = nullptr;  // the backend's own
};

enum class IoUse : std::uint8_t {
    read,
    write,
    sync,  // whichever descriptor there is
};

class Vfs {
  public:
    virtual ~Vfs() = default;

    virtual NodeId root() const noexcept = 0;
    virtual nfsstat3 getattr(const Cred& cred, NodeId node, Attr& out) noexcept = 0;
    // With a guard: NFS3ERR_NOT_SYNC when it is not the ctime.
    virtual nfsstat3 setattr(const Cred& cred, NodeId node, const SetAttr& set, const Time* guard,
                             Wcc& wcc) noexcept = 0;
    // "." and ".." too; the root is its own parent.
    virtual nfsstat3 lookup(const Cred& cred, const DirName& what, Node& out) noexcept = 0;
    // `granted`: those of the ACCESS3 bits in `wanted` that the caller has.
    virtual nfsstat3 access(const Cred& cred, NodeId node, std::uint32_t wanted,
                            std::uint32_t& granted) noexcept = 0;
    // `room` takes the text without a terminator; NFS3ERR_INVAL when it is no link.
    virtual nfsstat3 readlink(const Cred& cred, NodeId node, std::span<char> room,
                              std::uint32_t& length) noexcept = 0;

    virtual nfsstat3 create(const Cred& cred, const DirName& where, const CreateHow& how, Node& out,
                            Wcc& dir) noexcept = 0;
    virtual nfsstat3 mkdir(const Cred& cred, const DirName& where, const SetAttr& attr, Node& out,
                           Wcc& dir) noexcept = 0;
    virtual nfsstat3 symlink(const Cred& cred, const DirName& where, std::string_view text,
                             Node& out, Wcc& dir) noexcept = 0;
    // `like`: type, mode and rdev.
    virtual nfsstat3 mknod(const Cred& cred, const DirName& where, const Attr& like, Node& out,
                           Wcc& dir) noexcept = 0;
    virtual nfsstat3 remove(const Cred& cred, const DirName& what, Wcc& dir) noexcept = 0;
    virtual nfsstat3 rmdir(const Cred& cred, const DirName& what, Wcc& dir) noexcept = 0;
    virtual nfsstat3 rename(const Cred& cred, const DirName& from, const DirName& to, Wcc& from_dir,
                            Wcc& to_dir) noexcept = 0;
    virtual nfsstat3 link(const Cred& cred, NodeId file, const DirName& where,
                          Wcc& dir) noexcept = 0;
    // `eof`: the sink took the last entry.
    virtual nfsstat3 readdir(const Cred& cred, const ReadDir& what, DirSink& sink,
                             bool& eof) noexcept = 0;
    virtual nfsstat3 statfs(const Cred& cred, NodeId node, StatFs& out) noexcept = 0;

    // Pins a regular file for IO (NFS3ERR_ISDIR, NFS3ERR_INVAL for others); close_io gives it back,
    // on any thread.
    virtual nfsstat3 open_io(const Cred& cred, NodeId node, IoUse use, IoFile& out) noexcept = 0;
    virtual void close_io(IoFile& file) noexcept = 0;
    virtual nfsstat3 io_attr(const IoFile& file, Attr& out) noexcept = 0;
    // Tells that `bytes` of an IoFile with an fd and attributes `attr` are about to be read; what
    // it has for FileOp::mapping, which lives until close_io.
    virtual const FileMapping* mapping(const IoFile& /*file*/, const Attr& /*attr*/,
                                       std::uint32_t /*bytes*/) noexcept {
        return nullptr;
    }
    // IO of an IoFile without an fd. Short reads at the end of the file; `moved` in bytes.
    virtual nfsstat3 read_now(const IoFile& file, std::uint64_t offset, std::span<std::byte> into,
                              std::uint32_t& moved) noexcept = 0;
    virtual nfsstat3 write_now(const IoFile& file, std::uint64_t offset,
                               std::span<const std::byte> from, std::uint32_t& moved) noexcept = 0;

    // Whether calls for this caller may have to wait, for storage or to learn who the caller is.
    // Then they belong off the loop.
    virtual bool blocks(const Cred& /*cred*/) const noexcept { return false; }
    // open_io where it has nothing to wait for; nullopt: it may have, and nothing was done.
    virtual std::optional<nfsstat3> open_io_at_once(const Cred& cred, NodeId node, IoUse use,
                                                    IoFile& out) noexcept {
        if (blocks(cred)) return std::nullopt;
        return open_io(cred, node, use, out);
    }

    // Whether io_attr of an open file may have to wait: the file system asks another machine.
    virtual bool io_attr_blocks() const noexcept { return false; }
    // Flushes a file without an fd.
    virtual nfsstat3 sync_now(const IoFile& /*file*/) noexcept { return NFS3_OK; }

    // For FileOp::personality of a write for this caller; the loop's thread.
    virtual std::uint16_t personality(Loop& /*loop*/, const Cred& /*cred*/) noexcept { return 0; }

    // Called every second or so by one thread: closes what need not be open.
    virtual void tidy() noexcept {}
};

}  // namespace nfsrdma::nfs
