#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "nfs/fh.hpp"

// How objects are opened so that nothing leads out of an export: by one name beneath a directory,
// or by the kernel's handle and then a look at where that is. All of it with the process's own
// identity unless said otherwise. Any thread.
namespace nfsrdma::nfs {

// "/proc/self/fd/7": the one way to open, or change, exactly the object of an O_PATH descriptor.
struct ProcPath {
    explicit ProcPath(int fd) noexcept;
    const char* c_str() const noexcept { return text; }
    char text[32];
};

// The kernel's handle of an object: of `name` in the directory `fd`, or of `fd` itself when the
// name is empty. Needs no privilege. Returns 0 or errno (EOPNOTSUPP: the file system has none).
// `hash` is of all of it; `out` stays empty when it is longer than KernelHandle::kMax.
int kernel_handle(int fd, const char* name, KernelHandle& out, std::uint64_t& hash) noexcept;

// O_PATH, whatever kind of object it is. Needs CAP_DAC_READ_SEARCH. `mount_fd`: any object of the
// mount. None: errno is EPERM without the privilege, ESTALE when the object is gone.
UniqueFd open_kernel_handle(int mount_fd, const KernelHandle& handle) noexcept;

// One name in a directory, O_PATH: links are not followed and mount points not entered. None:
// errno. Where the kernel is too old for openat2, or a sandbox refuses it, mount points are
// entered: the caller looks at what it got.
UniqueFd open_beneath(int dir_fd, const char* name) noexcept;

// The part of a file system that is exported: tells whether an open object lies inside.
class Subtree {
  public:
    enum class Answer : std::uint8_t {
        inside,
        outside,  // or gone, as far as it goes by the name that it was opened by
        // No directory, and without a name that this mount shows: opened by its handle when the
        // kernel had forgotten the name, or moved out of a bind mount.
        unknown,
    };

    // Errc::system. `root_fd` outlives this.
    static Result<std::unique_ptr<Subtree>> create(int root_fd);

    // The whole file system: everything on it is inside.
    bool is_whole() const noexcept { return whole_; }
    // `fd` is of the root's mount and device. True of the moment: who may rename directories on the
    // server may move it out right after.
    Answer where(int fd) const noexcept;

  private:
    explicit Subtree(int root_fd) noexcept : root_fd_(root_fd) {}
    Result<void> start();
    bool leads_to(const char* relative, int fd) const noexcept;
    bool is_below(int fd) const noexcept;
    std::string root_path() const;

    const int root_fd_;
    std::uint64_t root_ino_ = 0;
    std::uint32_t dev_major_ = 0, dev_minor_ = 0;
    bool whole_ = false;
    mutable std::mutex mutex_;
    mutable std::string root_path_;  // as of late
};

// The fourth field of mountinfo(5) for the mount `id`: the directory of the file system that is
// mounted there; empty when it is not listed. `mountinfo`: the file's text.
std::string mounted_directory(std::string_view mountinfo, std::uint64_t id);

}  // namespace nfsrdma::nfs
