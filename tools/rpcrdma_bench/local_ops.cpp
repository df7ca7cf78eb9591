#include "tools/rpcrdma_bench/local_ops.hpp"

#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace nfsrdma::bench {

Result<LocalOps> LocalOps::open(const std::string& folder, const std::string& file) {
    LocalOps ops;
    ops.folder_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (ops.folder_)
        ops.file_.reset(::openat(ops.folder_.get(), file.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!ops.file_ || ::fstat(ops.file_.get(), &status) != 0)
        return Error{Errc::system, errno, "open the export"};
    ops.file_bytes_ = static_cast<std::uint64_t>(status.st_size);
    return ops;
}

bool LocalOps::read_random(std::uint32_t bytes) {
    const std::uint64_t offset = prng_.below(file_bytes_ / bytes) * bytes;
    return ::pread(file_.get(), buffer_.data(), bytes, static_cast<off_t>(offset)) ==
           ssize_t{bytes};
}

bool LocalOps::getattr() {
    struct stat status {};
    return ::fstat(folder_.get(), &status) == 0;
}

bool LocalOps::lookup(const char* name) {
    struct stat status {};
    return ::fstatat(folder_.get(), name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

bool LocalOps::create(const char* name) {
    made_.reset(::openat(folder_.get(), name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    return static_cast<bool>(made_);
}

bool LocalOps::write(std::uint32_t bytes) {
    return ::pwrite(made_.get(), buffer_.data(), bytes, 0) == ssize_t{bytes} &&
           ::fsync(made_.get()) == 0;
}

bool LocalOps::remove(const char* name) {
    made_.reset();
    return ::unlinkat(folder_.get(), name, 0) == 0;
}

std::uint64_t LocalOps::list(const char* name) {
    UniqueFd fd(::openat(folder_.get(), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return 0;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::fdopendir(fd.release()), ::closedir);
    std::uint64_t entries = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this function's own
    while (const dirent* entry = ::readdir(folder.get())) {
        struct stat status {};
        if (::fstatat(::dirfd(folder.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            return 0;
        ++entries;
    }
    return entries;
}

}  // namespace nfsrdma::bench
