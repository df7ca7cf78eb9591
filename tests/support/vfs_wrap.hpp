#pragma once
#include "nfs/vfs.hpp"
#include "nfs/vfs_mem.hpp"

namespace nfsrdma::testing {

// A tree in memory of which a test overrides what is to go wrong.
class VfsWrap : public nfs::Vfs {
  public:
    using Cred = nfs::Cred;
    using NodeId = nfs::NodeId;
    explicit VfsWrap(const nfs::VfsMemOptions& options = {}) : mem(options) {}

    NodeId root() const noexcept override { return mem.root(); }
    nfsstat3 getattr(const Cred& cred, NodeId node, nfs::Attr& out) noexcept override {
        return mem.getattr(cred, node, out);
    }
    nfsstat3 setattr(const Cred& cred, NodeId node, const nfs::SetAttr& set, const nfs::Time* guard,
                     nfs::Wcc& wcc) noexcept override {
        return mem.setattr(cred, node, set, guard, wcc);
    }
    nfsstat3 lookup(const Cred& cred, const nfs::DirName& what, nfs::Node& out) noexcept override {
        return mem.lookup(cred, what, out);
    }
    nfsstat3 access(const Cred& cred, NodeId node, std::uint32_t wanted,
                    std::uint32_t& granted) noexcept override {
        return mem.access(cred, node, wanted, granted);
    }
    nfsstat3 readlink(const Cred& cred, NodeId node, std::span<char> room,
                      std::uint32_t& length) noexcept override {
        return mem.readlink(cred, node, room, length);
    }
    nfsstat3 create(const Cred& cred, const nfs::DirName& where, const nfs::CreateHow& how,
                    nfs::Node& out, nfs::Wcc& dir) noexcept override {
        return mem.create(cred, where, how, out, dir);
    }
    nfsstat3 mkdir(const Cred& cred, const nfs::DirName& where, const nfs::SetAttr& attr,
                   nfs::Node& out, nfs::Wcc& dir) noexcept override {
        return mem.mkdir(cred, where, attr, out, dir);
    }
    nfsstat3 symlink(const Cred& cred, const nfs::DirName& where, std::string_view text,
                     nfs::Node& out, nfs::Wcc& dir) noexcept override {
        return mem.symlink(cred, where, text, out, dir);
    }
    nfsstat3 mknod(const Cred& cred, const nfs::DirName& where, const nfs::Attr& like,
                   nfs::Node& out, nfs::Wcc& dir) noexcept override {
        return mem.mknod(cred, where, like, out, dir);
    }
    nfsstat3 remove(const Cred& cred, const nfs::DirName& what, nfs::Wcc& dir) noexcept override {
        return mem.remove(cred, what, dir);
    }
    nfsstat3 rmdir(const Cred& cred, const nfs::DirName& what, nfs::Wcc& dir) noexcept override {
        return mem.rmdir(cred, what, dir);
    }
    nfsstat3 rename(const Cred& cred, const nfs::DirName& from, const nfs::DirName& to,
                    nfs::Wcc& from_dir, nfs::Wcc& to_dir) noexcept override {
        return mem.rename(cred, from, to, from_dir, to_dir);
    }
    nfsstat3 link(const Cred& cred, NodeId file, const nfs::DirName& where,
                  nfs::Wcc& dir) noexcept override {
        return mem.link(cred, file, where, dir);
    }
    nfsstat3 readdir(const Cred& cred, const nfs::ReadDir& what, nfs::DirSink& sink,
                     bool& eof) noexcept override {
        return mem.readdir(cred, what, sink, eof);
    }
    nfsstat3 statfs(const Cred& cred, NodeId node, nfs::StatFs& out) noexcept override {
        return mem.statfs(cred, node, out);
    }
    nfsstat3 open_io(const Cred& cred, NodeId node, nfs::IoUse use,
                     nfs::IoFile& out) noexcept override {
        return mem.open_io(cred, node, use, out);
    }
    void close_io(nfs::IoFile& file) noexcept override { mem.close_io(file); }
    nfsstat3 io_attr(const nfs::IoFile& file, nfs::Attr& out) noexcept override {
        return mem.io_attr(file, out);
    }
    nfsstat3 read_now(const nfs::IoFile& file, std::uint64_t offset, std::span<std::byte> into,
                      std::uint32_t& moved) noexcept override {
        return mem.read_now(file, offset, into, moved);
    }
    nfsstat3 write_now(const nfs::IoFile& file, std::uint64_t offset,
                       std::span<const std::byte> from, std::uint32_t& moved) noexcept override {
        return mem.write_now(file, offset, from, moved);
    }
    nfsstat3 sync_now(const nfs::IoFile& file) noexcept override { return mem.sync_now(file); }

    nfs::VfsMem mem;
};

}  // namespace nfsrdma::testing
