#include "nfs/posix_files.hpp"

#include <algorithm>
#include <unistd.h>

namespace nfsrdma::nfs {
namespace {

void close_fd(int& fd) noexcept {
    if (fd >= 0) ::close(std::exchange(fd, -1));
}

}  // namespace

PosixFiles::PosixFiles(std::uint32_t capacity) {
    const std::uint32_t each = std::max(capacity / kShards, kEachMin);
    files_.reserve(std::size_t{each} * kShards);
    for (std::uint32_t i = 0; i < kShards; ++i) {
        shards_[i].buckets.resize(2 * std::size_t{each});
        for (std::uint32_t k = 0; k < each; ++k) {
            files_.push_back(std::make_unique<PosixFile>());
            files_.back()->shard = i;
            shards_[i].free.push_back(*files_.back());
        }
    }
}

PosixFiles::~PosixFiles() {
    for (Shard& shard : shards_) {
        shard.idle.clear();
        shard.free.clear();
    }
    for (const auto& file : files_) {
        NR_ASSERT(file->pins == 0);
        (void)close_fds(*file);
    }
}

FileMapping PosixFiles::close_fds(PosixFile& file) noexcept {
    mapped_ -= file.mapping.size();
    file.bytes_read = 0;
    close_fd(file.path_fd);
    close_fd(file.read_fd);
    close_fd(file.write_fd);
    return std::exchange(file.mapping, FileMapping());
}

PosixFile* PosixFiles::find(Shard& shard, NodeId id) noexcept {
    PosixFile* at = shard.buckets[bucket_of(shard, id.fileid)];
    while (at != nullptr && at->id != id)
        at = at->next_in_bucket;
    return at;
}

void PosixFiles::unlink(Shard& shard, PosixFile& file) noexcept {
    PosixFile** at = &shard.buckets[bucket_of(shard, file.id.fileid)];
    while (*at != &file)
        at = &(*at)->next_in_bucket;
    *at = file.next_in_bucket;
    file.next_in_bucket = nullptr;
}

void PosixFiles::pin_locked(Shard& shard, PosixFile& file) noexcept {
    if (file.pins++ == 0) shard.idle.erase(file);
}

PosixFile* PosixFiles::pin(NodeId id) noexcept {
    Shard& shard = shards_[id.fileid % kShards];
    const std::lock_guard lock(shard.mutex);
    PosixFile* file = find(shard, id);
    if (file != nullptr) pin_locked(shard, *file);
    return file;
}

PosixFile* PosixFiles::insert(NodeId id, UniqueFd path_fd) noexcept {
    FileMapping gone;
    Shard& shard = shards_[id.fileid % kShards];
    const std::lock_guard lock(shard.mutex);
    if (PosixFile* other = find(shard, id); other != nullptr) {
        pin_locked(shard, *other);
        return other;
    }
    if (shard.free.empty()) {
        if (shard.idle.empty()) return nullptr;
        PosixFile& old = shard.idle.pop_front();
        unlink(shard, old);
        gone = close_fds(old);
        shard.free.push_back(old);
    }
    PosixFile& file = shard.free.pop_front();
    file.id = id;
    file.path_fd = path_fd.release();
    file.pins = 1;
    file.checked_ns.store(0, std::memory_order_relaxed);
    PosixFile*& bucket = shard.buckets[bucket_of(shard, id.fileid)];
    file.next_in_bucket = std::exchange(bucket, &file);
    return &file;
}

void PosixFiles::unpin(PosixFile& file) noexcept {
    FileMapping gone;
    Shard& shard = shards_[file.shard];
    const std::lock_guard lock(shard.mutex);
    NR_ASSERT(file.pins > 0);
    if (--file.pins > 0) return;
    if (!file.dead) {
        shard.idle.push_back(file);
        return;
    }
    gone = close_fds(file);
    file.dead = false;
    shard.free.push_back(file);
}

void PosixFiles::drop(std::uint64_t fileid) noexcept {
    FileMapping gone;
    Shard& shard = shards_[fileid % kShards];
    const std::lock_guard lock(shard.mutex);
    PosixFile* at = shard.buckets[bucket_of(shard, fileid)];
    while (at != nullptr) {
        PosixFile& file = *std::exchange(at, at->next_in_bucket);
        if (file.id.fileid != fileid) continue;
        unlink(shard, file);
        if (file.pins > 0) {
            file.dead = true;
            continue;
        }
        shard.idle.erase(file);
        gone = close_fds(file);
        shard.free.push_back(file);
    }
}

int PosixFiles::io_fd(const PosixFile& file, bool write) noexcept {
    Shard& shard = shards_[file.shard];
    const std::lock_guard lock(shard.mutex);
    return write ? file.write_fd : file.read_fd;
}

int PosixFiles::set_io_fd(PosixFile& file, bool write, UniqueFd fd) noexcept {
    Shard& shard = shards_[file.shard];
    const std::lock_guard lock(shard.mutex);
    int& slot = write ? file.write_fd : file.read_fd;
    if (slot < 0) slot = fd.release();
    return slot;
}

const FileMapping* PosixFiles::mapping(PosixFile& file, std::uint64_t size, std::uint32_t bytes,
                                       bool may_map) noexcept {
    Shard& shard = shards_[file.shard];
    const std::lock_guard lock(shard.mutex);
    if (!may_map) return nullptr;
    if (file.mapping) return &file.mapping;
    if (size > kMappingMax) return nullptr;
    if (file.bytes_read < size) {
        file.bytes_read += bytes;
        return nullptr;
    }
    file.bytes_read = 0;  // the next try, if this one fails, comes a file's length later
    if (mapped_.load() + size > kMappedMax) return nullptr;
    file.mapping = FileMapping::map(file.read_fd, size);
    mapped_ += file.mapping.size();
    return file.mapping ? &file.mapping : nullptr;
}

void PosixFiles::close_idle_writers() noexcept {
    for (Shard& shard : shards_) {
        const std::lock_guard lock(shard.mutex);
        for (PosixFile& file : shard.idle)
            close_fd(file.write_fd);
    }
}

}  // namespace nfsrdma::nfs
