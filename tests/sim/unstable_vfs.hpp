#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/vfs_wrap.hpp"

namespace nfsrdma::test {

// A file system that outlives its servers: what was written and not flushed is gone when one
// crashes, everything else stays. It counts how often each change of a name was asked for in one
// life of the server: names are used once, so that more than once is a call that was executed
// twice.
class UnstableVfs final : public testing::VfsWrap {
  public:
    using VfsWrap::VfsWrap;

    nfsstat3 create(const Cred& cred, const nfs::DirName& where, const nfs::CreateHow& how,
                    nfs::Node& out, nfs::Wcc& dir) noexcept override;
    nfsstat3 mkdir(const Cred& cred, const nfs::DirName& where, const nfs::SetAttr& attr,
                   nfs::Node& out, nfs::Wcc& dir) noexcept override;
    nfsstat3 symlink(const Cred& cred, const nfs::DirName& where, std::string_view text,
                     nfs::Node& out, nfs::Wcc& dir) noexcept override;
    nfsstat3 remove(const Cred& cred, const nfs::DirName& what, nfs::Wcc& dir) noexcept override;
    nfsstat3 rmdir(const Cred& cred, const nfs::DirName& what, nfs::Wcc& dir) noexcept override;
    nfsstat3 rename(const Cred& cred, const nfs::DirName& from, const nfs::DirName& to,
                    nfs::Wcc& from_dir, nfs::Wcc& to_dir) noexcept override;
    nfsstat3 link(const Cred& cred, nfs::NodeId file, const nfs::DirName& where,
                  nfs::Wcc& dir) noexcept override;
    nfsstat3 write_now(const nfs::IoFile& file, std::uint64_t offset,
                       std::span<const std::byte> from, std::uint32_t& moved) noexcept override;
    nfsstat3 sync_now(const nfs::IoFile& file) noexcept override;

    // The server is gone, and what was not flushed with it.
    void crash();
    // What is in the root by this name; empty when it is not there.
    std::vector<std::byte> content(const std::string& name);
    bool holds(const std::string& name);

    std::uint64_t executed = 0, executed_twice = 0, lost_writes = 0;

  private:
    struct Undo {
        std::uint64_t offset = 0, size = 0;  // size: of the file before
        std::vector<std::byte> bytes;        // that stood at offset
    };
    void note(const char* what, std::string_view name) noexcept;

    std::map<std::string, std::uint32_t> executions_;  // in this life of the server
    std::map<std::uint64_t, std::pair<nfs::NodeId, std::vector<Undo>>> unstable_;
};

}  // namespace nfsrdma::test
