#include "nfs/server/dir_reply.hpp"

namespace nfsrdma::nfs {
namespace {

class Sink final : public DirSink {
  public:
    // `dir_limit`: bytes of names, fileids and cookies (dircount); the first entry is let in
    // whatever it says.
    Sink(std::uint32_t limit, std::uint32_t dir_limit) noexcept
        : left_(limit), dir_left_(dir_limit) {}
    bool add(const DirEntry& entry) noexcept override {
        constexpr std::uint32_t kFlags = 8;  // attributes_follow, handle_follows
        constexpr std::uint32_t kNode = kFattr3Bytes + 4 + kFhBytesMax;
        const std::uint32_t dir_bytes = kEntry3Bytes + name_pad(entry.name);
        const std::uint32_t bytes = dir_bytes + kFlags + (entry.node == nullptr ? 0 : kNode);
        if (bytes > left_ || (dir_bytes > dir_left_ && !reply.empty())) return false;
        left_ -= bytes;
        dir_left_ -= std::min(dir_left_, dir_bytes);
        entryplus3 out{};
        out.fileid = entry.fileid;
        out.cookie = entry.cookie;
        if (entry.node != nullptr) {
            out.name_attributes = to_post_op(entry.node->attr);
            out.name_handle.handle_follows = TRUE;
        }
        reply.add(out, entry.name);
        ids_.push_back(entry.node == nullptr ? NodeId{} : entry.node->id);
        return true;
    }
    entryplus3* link(const Found& dir) {
        handles_.resize(ids_.size());
        for (std::size_t i = 0; i < ids_.size(); ++i) {
            if (reply[i].name_handle.handle_follows == FALSE) continue;
            handles_[i] = fh_of(dir, ids_[i]);
            reply[i].name_handle.post_op_fh3_u.handle = to_fh3(handles_[i]);
        }
        return reply.link();
    }
    DirReply<entryplus3> reply;

  private:
    std::uint32_t left_, dir_left_;
    std::vector<NodeId> ids_;
    std::vector<FhBytes> handles_;
};

}  // namespace

// RFC 1813 s3.3.17. The cookie verifier: see READDIR.
void on_readdirplus(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<READDIRPLUS3args>(call);
    auto& res = res_of<READDIRPLUS3res>(call);
    const std::uint32_t limit = dir_reply_limit(call, args.maxcount);
    Found dir;
    Sink sink(limit < kDirListBytes ? 0 : limit - kDirListBytes, args.dircount);
    bool eof = false;
    res.status = find(call, args.dir, dir);
    if (res.status == NFS3_OK && limit < kDirListBytes) res.status = NFS3ERR_TOOSMALL;
    if (res.status == NFS3_OK) {
        res.status = dir.vfs().readdir(dir.cred, {dir.id, args.cookie, true}, sink, eof);
    }
    if (res.status == NFS3_OK && sink.reply.empty() && !eof) res.status = NFS3ERR_TOOSMALL;
    const post_op_attr attr = to_post_op(attr_of(dir));
    if (res.status == NFS3_OK) {
        res.READDIRPLUS3res_u.resok.dir_attributes = attr;
        res.READDIRPLUS3res_u.resok.reply.entries = sink.link(dir);
        res.READDIRPLUS3res_u.resok.reply.eof = eof ? TRUE : FALSE;
    } else {
        res.READDIRPLUS3res_u.resfail.dir_attributes = attr;
    }
    call.reply();
}

}  // namespace nfsrdma::nfs
