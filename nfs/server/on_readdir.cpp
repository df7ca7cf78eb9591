#include "nfs/server/dir_reply.hpp"

namespace nfsrdma::nfs {
namespace {

class Sink final : public DirSink {
  public:
    explicit Sink(std::uint32_t limit) noexcept : left_(limit) {}
    bool add(const DirEntry& entry) noexcept override {
        const std::uint32_t bytes = kEntry3Bytes + name_pad(entry.name);
        if (bytes > left_) return false;
        left_ -= bytes;
        entry3 out{};
        out.fileid = entry.fileid;
        out.cookie = entry.cookie;
        reply.add(out, entry.name);
        return true;
    }
    DirReply<entry3> reply;

  private:
    std::uint32_t left_;
};

}  // namespace

// RFC 1813 s3.3.16. The cookie verifier is always zero: a cookie stays good while its directory
// changes, and a listing goes on behind it.
void on_readdir(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<READDIR3args>(call);
    auto& res = res_of<READDIR3res>(call);
    const std::uint32_t limit = dir_reply_limit(call, args.count);
    Found dir;
    Sink sink(limit < kDirListBytes ? 0 : limit - kDirListBytes);
    bool eof = false;
    res.status = find(call, args.dir, dir);
    if (res.status == NFS3_OK && limit < kDirListBytes) res.status = NFS3ERR_TOOSMALL;
    if (res.status == NFS3_OK) {
        res.status = dir.vfs().readdir(dir.cred, {dir.id, args.cookie, false}, sink, eof);
    }
    if (res.status == NFS3_OK && sink.reply.empty() && !eof) res.status = NFS3ERR_TOOSMALL;
    const post_op_attr attr = to_post_op(attr_of(dir));
    if (res.status == NFS3_OK) {
        res.READDIR3res_u.resok.dir_attributes = attr;
        res.READDIR3res_u.resok.reply.entries = sink.reply.link();
        res.READDIR3res_u.resok.reply.eof = eof ? TRUE : FALSE;
    } else {
        res.READDIR3res_u.resfail.dir_attributes = attr;
    }
    call.reply();
}

}  // namespace nfsrdma::nfs
