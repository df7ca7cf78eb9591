#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "nfs/client/client.hpp"
#include "nfs/client/read_dir.hpp"
#include "tools/rpcrdma_bench/nfs_load.hpp"

namespace nfsrdma::bench {

// An export as a program sees it that makes one call after the other. Each call is false when it
// failed, after a line on stderr.
class NfsSession {
  public:
    explicit NfsSession(NfsLoad& load);
    bool mount(const std::string& path);
    bool getattr();  // of the root
    bool lookup(const char* name);
    bool create(const char* name);
    bool write(std::uint32_t bytes);  // FILE_SYNC, to what was created last
    bool remove(const char* name);
    // Entries of a directory below the root, with attributes; 0 after a failure.
    std::uint64_t list(const char* name);

  private:
    bool wait(nfs::client::Op& op, const char* what);

    NfsLoad& load_;
    nfs::client::Client client_;
    nfs::client::FileHandle root_, made_;
    nfs::client::GetattrOp getattr_;
    nfs::client::LookupOp lookup_;
    nfs::client::CreateOp create_;
    nfs::client::WriteOp write_;
    nfs::client::RemoveOp remove_;
    nfs::client::DirReader reader_;
    sunrpc::Payload payload_;
};

}  // namespace nfsrdma::bench
