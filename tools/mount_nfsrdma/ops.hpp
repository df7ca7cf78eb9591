#pragma once
#include "tools/mount_nfsrdma/fuse3.hpp"

// The callbacks of libfuse, by group. Each runs with Mount::lock held, on the thread of the worker
// that read the request (Mount::reading).
namespace nfsrdma::mount {

// All of them.
const fuse_lowlevel_ops& operations() noexcept;

// ops_names.cpp: lookup, forget, create's names, mkdir, mknod, symlink, link, unlink, rmdir, rename
void add_name_operations(fuse_lowlevel_ops& ops) noexcept;
// ops_attributes.cpp: getattr, setattr, access, readlink, statfs, xattrs
void add_attribute_operations(fuse_lowlevel_ops& ops) noexcept;
// ops_dir.cpp: opendir, readdir, readdirplus, releasedir, fsyncdir
void add_directory_operations(fuse_lowlevel_ops& ops) noexcept;
// ops_file.cpp: open, create, read, write, flush, fsync, release, lseek, fallocate
void add_file_operations(fuse_lowlevel_ops& ops) noexcept;

}  // namespace nfsrdma::mount
