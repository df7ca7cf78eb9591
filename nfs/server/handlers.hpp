#pragma once
#include "sunrpc/svc.hpp"

// The 22 procedures of NFSv3 (RFC 1813 s3.3), each in its file. They run on the loop of the call's
// connection.
namespace nfsrdma::nfs {

void on_null(sunrpc::SvcCall& call) noexcept;
void on_getattr(sunrpc::SvcCall& call) noexcept;
void on_setattr(sunrpc::SvcCall& call) noexcept;
void on_lookup(sunrpc::SvcCall& call) noexcept;
void on_access(sunrpc::SvcCall& call) noexcept;
void on_readlink(sunrpc::SvcCall& call) noexcept;
void on_read(sunrpc::SvcCall& call) noexcept;
void on_write(sunrpc::SvcCall& call) noexcept;
void on_create(sunrpc::SvcCall& call) noexcept;
void on_mkdir(sunrpc::SvcCall& call) noexcept;
void on_symlink(sunrpc::SvcCall& call) noexcept;
void on_mknod(sunrpc::SvcCall& call) noexcept;
void on_remove(sunrpc::SvcCall& call) noexcept;
void on_rmdir(sunrpc::SvcCall& call) noexcept;
void on_rename(sunrpc::SvcCall& call) noexcept;
void on_link(sunrpc::SvcCall& call) noexcept;
void on_readdir(sunrpc::SvcCall& call) noexcept;
void on_readdirplus(sunrpc::SvcCall& call) noexcept;
void on_fsstat(sunrpc::SvcCall& call) noexcept;
void on_fsinfo(sunrpc::SvcCall& call) noexcept;
void on_pathconf(sunrpc::SvcCall& call) noexcept;
void on_commit(sunrpc::SvcCall& call) noexcept;

}  // namespace nfsrdma::nfs
