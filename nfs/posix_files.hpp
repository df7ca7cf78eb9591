#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/file_mapping.hpp"
#include "base/list.hpp"
#include "base/unique_fd.hpp"
#include "nfs/fh.hpp"

namespace nfsrdma::nfs {

// One object of an export that is open. `path_fd` is an O_PATH descriptor, which follows the object
// wherever it is moved; the others are opened at first need. Fields but `pins` change under the
// shard's lock only; a descriptor that was handed out stays open while there is a pin.
struct PosixFile : ListHook<> {
    NodeId id;
    int path_fd = -1, read_fd = -1, write_fd = -1;
    std::uint32_t pins = 0;
    std::uint32_t shard = 0;
    bool dead = false;                         // closed when the last pin goes
    std::atomic<std::uint64_t> checked_ns{0};  // when it was inside the export; any thread
    std::uint64_t bytes_read = 0;              // until it is mapped
    FileMapping mapping;                       // made once, as long as read_fd
    PosixFile* next_in_bucket = nullptr;
};

// The open objects of one export: a bounded cache, least recently used first out. Sharded by
// fileid, so that loops meet in a lock only for the same object, and only for some instructions. A
// hit allocates nothing. Any thread.
class PosixFiles {
  public:
    // At least kEachMin objects a shard. Each may hold three descriptors.
    explicit PosixFiles(std::uint32_t capacity);
    ~PosixFiles();  // nothing may be pinned
    PosixFiles(const PosixFiles&) = delete;
    PosixFiles& operator=(const PosixFiles&) = delete;

    // Pinned, or nullptr when it is not open.
    PosixFile* pin(NodeId id) noexcept;
    // Takes over `path_fd` and pins; another thread's entry wins. nullptr when everything is
    // pinned.
    PosixFile* insert(NodeId id, UniqueFd path_fd) noexcept;
    void unpin(PosixFile& file) noexcept;
    // The object is gone: its descriptors are closed as soon as nobody has it pinned.
    void drop(std::uint64_t fileid) noexcept;
    // What is open for IO, or -1. `file` is pinned.
    int io_fd(const PosixFile& file, bool write) noexcept;
    // Keeps `fd` for it unless there is one; returns the one that is kept.
    int set_io_fd(PosixFile& file, bool write, UniqueFd fd) noexcept;
    // `bytes` of its `size` are about to be read. Maps it when what was read before makes up all of
    // it; nullptr where there is no mapping, or it may not be used now.
    const FileMapping* mapping(PosixFile& file, std::uint64_t size, std::uint32_t bytes,
                               bool may_map) noexcept;
    // Closes descriptors for writing that nobody uses: a program that was written must be
    // startable.
    void close_idle_writers() noexcept;

    static constexpr std::uint32_t kShards = 8;
    // A mapping's pages are let go of one by one when the file is closed, and each costs the kernel
    // eight bytes meanwhile.
    static constexpr std::uint64_t kMappingMax = 1ull << 30;
    static constexpr std::uint64_t kMappedMax = 32ull << 30;  // all files
    // One operation pins up to four objects (the root stays pinned, too).
    static constexpr std::uint32_t kEachMin = 8;

  private:
    struct alignas(64) Shard {
        std::mutex mutex;
        std::vector<PosixFile*> buckets;
        List<PosixFile> idle;  // open and not pinned, least recently used first
        List<PosixFile> free;
    };
    static std::size_t bucket_of(const Shard& shard, std::uint64_t fileid) noexcept {
        return (fileid / kShards) % shard.buckets.size();
    }
    static PosixFile* find(Shard& shard, NodeId id) noexcept;
    static void unlink(Shard& shard, PosixFile& file) noexcept;
    // What it returns goes after the lock: a large mapping takes the kernel a while.
    [[nodiscard]] FileMapping close_fds(PosixFile& file) noexcept;
    static void pin_locked(Shard& shard, PosixFile& file) noexcept;

    std::array<Shard, kShards> shards_;
    std::vector<std::unique_ptr<PosixFile>> files_;
    std::atomic<std::uint64_t> mapped_{0};  // bytes
};

// Unpins at its end.
class PosixPin {
  public:
    PosixPin() = default;
    PosixPin(PosixFiles& files, PosixFile* file) noexcept : files_(&files), file_(file) {}
    PosixPin(PosixPin&& other) noexcept
        : files_(other.files_), file_(std::exchange(other.file_, nullptr)) {}
    PosixPin& operator=(PosixPin&& other) noexcept {
        reset();
        files_ = other.files_;
        file_ = std::exchange(other.file_, nullptr);
        return *this;
    }
    PosixPin(const PosixPin&) = delete;
    PosixPin& operator=(const PosixPin&) = delete;
    ~PosixPin() { reset(); }
    void reset() noexcept {
        if (file_ != nullptr) files_->unpin(*std::exchange(file_, nullptr));
    }
    PosixFile* release() noexcept { return std::exchange(file_, nullptr); }
    PosixFile* get() const noexcept { return file_; }
    int fd() const noexcept { return file_->path_fd; }
    explicit operator bool() const noexcept { return file_ != nullptr; }

  private:
    PosixFiles* files_ = nullptr;
    PosixFile* file_ = nullptr;
};

}  // namespace nfsrdma::nfs
