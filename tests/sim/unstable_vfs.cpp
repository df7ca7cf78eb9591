#include "tests/sim/unstable_vfs.hpp"

namespace nfsrdma::test {

void UnstableVfs::note(const char* what, std::string_view name) noexcept {
    ++executed;
    if (++executions_[std::string(what) + ' ' + std::string(name)] > 1) ++executed_twice;
}

nfsstat3 UnstableVfs::create(const Cred& cred, const nfs::DirName& where, const nfs::CreateHow& how,
                             nfs::Node& out, nfs::Wcc& dir) noexcept {
    note("create", where.name);
    return mem.create(cred, where, how, out, dir);
}

nfsstat3 UnstableVfs::mkdir(const Cred& cred, const nfs::DirName& where, const nfs::SetAttr& attr,
                            nfs::Node& out, nfs::Wcc& dir) noexcept {
    note("mkdir", where.name);
    return mem.mkdir(cred, where, attr, out, dir);
}

nfsstat3 UnstableVfs::symlink(const Cred& cred, const nfs::DirName& where, std::string_view text,
                              nfs::Node& out, nfs::Wcc& dir) noexcept {
    note("symlink", where.name);
    return mem.symlink(cred, where, text, out, dir);
}

nfsstat3 UnstableVfs::remove(const Cred& cred, const nfs::DirName& what, nfs::Wcc& dir) noexcept {
    note("remove", what.name);
    return mem.remove(cred, what, dir);
}

nfsstat3 UnstableVfs::rmdir(const Cred& cred, const nfs::DirName& what, nfs::Wcc& dir) noexcept {
    note("rmdir", what.name);
    return mem.rmdir(cred, what, dir);
}

nfsstat3 UnstableVfs::rename(const Cred& cred, const nfs::DirName& from, const nfs::DirName& to,
                             nfs::Wcc& from_dir, nfs::Wcc& to_dir) noexcept {
    note("rename", from.name);
    return mem.rename(cred, from, to, from_dir, to_dir);
}

nfsstat3 UnstableVfs::link(const Cred& cred, nfs::NodeId file, const nfs::DirName& where,
                           nfs::Wcc& dir) noexcept {
    note("link", where.name);
    return mem.link(cred, file, where, dir);
}

nfsstat3 UnstableVfs::write_now(const nfs::IoFile& file, std::uint64_t offset,
                                std::span<const std::byte> from, std::uint32_t& moved) noexcept {
    nfs::Attr before;
    Undo undo;
    undo.offset = offset;
    if (mem.io_attr(file, before) == NFS3_OK) {
        undo.size = before.size;
        undo.bytes.resize(from.size());
        std::uint32_t had = 0;
        (void)mem.read_now(file, offset, undo.bytes, had);
        undo.bytes.resize(had);
    }
    const nfsstat3 status = mem.write_now(file, offset, from, moved);
    if (status != NFS3_OK) return status;
    auto& [node, undos] = unstable_[file.id.fileid];
    node = file.id;
    undos.push_back(std::move(undo));
    return status;
}

nfsstat3 UnstableVfs::sync_now(const nfs::IoFile& file) noexcept {
    unstable_.erase(file.id.fileid);
    return mem.sync_now(file);
}

void UnstableVfs::crash() {
    executions_.clear();
    for (auto& [fileid, entry] : unstable_) {
        auto& [node, undos] = entry;
        nfs::IoFile file;
        if (mem.open_io({}, node, nfs::IoUse::write, file) != NFS3_OK) continue;  // removed
        for (auto undo = undos.rbegin(); undo != undos.rend(); ++undo, ++lost_writes) {
            std::uint32_t moved = 0;
            (void)mem.write_now(file, undo->offset, undo->bytes, moved);
            nfs::SetAttr size;
            size.size = undo->size;
            nfs::Wcc wcc;
            (void)mem.setattr({}, node, size, nullptr, wcc);
        }
        mem.close_io(file);
    }
    unstable_.clear();
}

std::vector<std::byte> UnstableVfs::content(const std::string& name) {
    nfs::Node node;
    nfs::IoFile file;
    if (mem.lookup({}, {mem.root(), name}, node) != NFS3_OK ||
        mem.open_io({}, node.id, nfs::IoUse::read, file) != NFS3_OK)
        return {};
    std::vector<std::byte> bytes(node.attr.size);
    std::uint32_t moved = 0;
    (void)mem.read_now(file, 0, bytes, moved);
    bytes.resize(moved);
    mem.close_io(file);
    return bytes;
}

bool UnstableVfs::holds(const std::string& name) {
    nfs::Node node;
    return mem.lookup({}, {mem.root(), name}, node) == NFS3_OK;
}

}  // namespace nfsrdma::test
