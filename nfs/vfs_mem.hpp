#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "nfs/vfs.hpp"

namespace nfsrdma::nfs {

struct VfsMemOptions {
    std::uint64_t fsid = 1;
    std::uint64_t capacity_bytes = 1ull << 30;  // of file data; NFS3ERR_NOSPC beyond
    std::uint64_t max_file_bytes = 1ull << 30;  // NFS3ERR_FBIG beyond
    std::uint64_t max_nodes = 1u << 20;         // NFS3ERR_NOSPC beyond
};

// What a Vfs is asked for, for the injection of faults. FSSTAT, FSINFO and PATHCONF are all statfs;
// READ is open_io and read_now, and so on.
enum class MemCall : std::uint8_t {
    getattr,
    setattr,
    lookup,
    access,
    readlink,
    create,
    mkdir,
    symlink,
    mknod,
    remove,
    rmdir,
    rename,
    link,
    readdir,
    statfs,
    open_io,
    read_now,
    write_now,
    sync_now,
};
inline constexpr std::size_t kMemCalls = 19;

// What becomes of a call: it takes `delay_ns` of real time, and then fails with `status`, or is
// done when that is NFS3_OK. A failed change changes nothing, and tells of its directory as a real
// one does.
struct MemFault {
    nfsstat3 status = NFS3_OK;
    std::uint64_t delay_ns = 0;
    std::uint32_t calls = ~0u;  // so many, and then none
};

// A tree in memory, for tests, simulation and bench: a real file system in its answers, without
// permissions. One lock; its time is a counter, so that runs repeat. Faults are injected by call,
// so that every answer of RFC 1813 can be provoked, and storage that is slow.
class VfsMem final : public Vfs {
  public:
    explicit VfsMem(const VfsMemOptions& options = {});
    ~VfsMem() override;
    VfsMem(const VfsMem&) = delete;
    VfsMem& operator=(const VfsMem&) = delete;

    NodeId root() const noexcept override;
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
    nfsstat3 sync_now(const IoFile& file) noexcept override;
    // While a delay is injected.
    bool blocks(const Cred& /*cred*/) const noexcept override {
        return slow_.load(std::memory_order_acquire);
    }

    // Any thread. Replaces what was injected for this call before.
    void inject(MemCall call, const MemFault& fault);
    void heal();  // no more faults
    // How often it was called, faults among them.
    std::uint64_t count(MemCall call) const;

  private:
    struct Child {
        std::string name;
        std::uint64_t fileid = 0;
    };
    // One object. Directories keep their entries by cookie, which is the order of their creation.
    struct Object {
        Attr attr;
        std::uint64_t generation = 0;
        std::uint64_t verifier = 0;  // of an exclusive create; has_verifier until SETATTR
        bool has_verifier = false;
        std::vector<std::byte> data;
        std::string text;  // of a symbolic link
        std::uint64_t parent = 0;
        std::map<std::uint64_t, Child> children;
        std::unordered_map<std::string, std::uint64_t> cookies;
    };

    // Counts the call, and waits as long as its fault says; NFS3_OK: it is to be done.
    nfsstat3 fault(MemCall call) noexcept;

    // All of the following: with the lock held.
    Object* find(NodeId id) noexcept;
    nfsstat3 find_dir(NodeId id, Object*& out) noexcept;
    Object* child_of(Object& dir, std::string_view name) noexcept;
    Time tick() noexcept;
    void touch(Object& object) noexcept;  // mtime and ctime
    Node node_of(const Object& object) const noexcept;
    nfsstat3 make(const DirName& where, const Attr& like, Object*& out, Object*& dir, Wcc& wcc,
                  nfsstat3 injected) noexcept;
    void add_child(Object& dir, std::string_view name, std::uint64_t fileid);
    void drop_child(Object& dir, const std::string& name);
    void unref(Object& object);
    nfsstat3 resize(Object& object, std::uint64_t size) noexcept;
    void apply(Object& object, const SetAttr& set) noexcept;
    nfsstat3 check_replace(Object& what, Object& target) noexcept;
    bool is_under(std::uint64_t fileid, std::uint64_t ancestor) noexcept;

    const VfsMemOptions options_;
    std::mutex mutex_;
    std::uint64_t time_ = 0;
    std::uint64_t next_fileid_ = 1;
    std::uint64_t next_cookie_ = 3;  // 1 and 2 are "." and ".."
    std::uint64_t used_bytes_ = 0;
    NodeId root_;
    std::unordered_map<std::uint64_t, std::unique_ptr<Object>> objects_;

    mutable std::mutex faults_mutex_;
    std::array<MemFault, kMemCalls> faults_{};
    std::array<std::uint64_t, kMemCalls> counts_{};
    std::atomic<bool> slow_{false};
};

}  // namespace nfsrdma::nfs
