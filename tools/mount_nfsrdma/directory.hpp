#pragma once
#include <string>

#include "tools/mount_nfsrdma/options.hpp"

namespace nfsrdma::mount {

// Looks at the directory to mount at, and makes its name absolute and free of symbolic links.
// False: `why` says what is wrong and what to do.
bool settle_directory(MountOptions& options, std::string& why);

}  // namespace nfsrdma::mount
