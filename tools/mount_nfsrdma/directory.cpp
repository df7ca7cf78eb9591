#include "tools/mount_nfsrdma/directory.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sys/stat.h>

#include "tools/nfsrdma/mount_table.hpp"

namespace nfsrdma::mount {
namespace {

struct Free {
    void operator()(char* text) const noexcept { std::free(text); }  // NOLINT: realpath's malloc
};

std::string trouble(const std::string& directory, int error) {
    switch (error) {
        case ENOENT:
            return directory + ": there is no such directory; make it first";
        case ENOTCONN:
            return directory +
                   ": a mount is there whose process has ended; unmount it first (umount, or "
                   "fusermount3 -u)";
        default:
            return directory + ": " + strerrordesc_np(error);
    }
}

}  // namespace

bool settle_directory(MountOptions& options, std::string& why) {
    const std::unique_ptr<char, Free> real(::realpath(options.directory.c_str(), nullptr));
    struct stat status {};
    if (real == nullptr || ::stat(real.get(), &status) != 0) {
        why = trouble(options.directory, errno);
        return false;
    }
    if (!S_ISDIR(status.st_mode)) {
        why = options.directory + ": is no directory";
        return false;
    }
    options.directory = real.get();
    auto table = tool::read_mount_table();
    const tool::MountEntry* const there =
        table ? tool::mount_at(*table, options.directory) : nullptr;
    if (there != nullptr && there->is_ours() && there->source == options.source()) {
        why = options.source() + " is mounted at " + options.directory + " already";
        return false;
    }
    return true;
}

}  // namespace nfsrdma::mount
