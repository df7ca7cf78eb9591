#include "tools/rpcrdma_bench/nfs_session.hpp"

#include <cstdio>

namespace nfsrdma::bench {
namespace {

const sunrpc::AuthSys& credentials() {
    static const sunrpc::AuthSys sys = [] {
        bool truncated = false;
        return sunrpc::AuthSys::of_process(truncated);
    }();
    return sys;
}

bool said(const nfs::client::Outcome& outcome, const char* what) {
    if (outcome.ok()) return true;
    (void)std::fprintf(stderr, "rpcrdma-bench: %s: %s\n", what, to_string(outcome).c_str());
    return false;
}

// The arguments are read before the call returns; the types of rpcgen know no const.
diropargs3 where(const nfs::client::FileHandle& dir, const char* name) {
    return {dir.view(), const_cast<char*>(name)};
}

}  // namespace

NfsSession::NfsSession(NfsLoad& load)
    : load_(load), client_(load.xprt(), &credentials()), reader_(client_) {}

bool NfsSession::wait(nfs::client::Op& op, const char* what) {
    op.done = [](nfs::client::Op&) noexcept {};
    client_.start(op);
    load_.xprt().loop().run_until(
        [](void* o) { return !static_cast<nfs::client::Op*>(o)->pending(); }, &op, 70 * kNsPerSec);
    return said(op.outcome, what);
}

bool NfsSession::mount(const std::string& path) {
    nfs::client::MntOp mnt;
    std::string where_to = path;
    mnt.args.dirpath = where_to.data();
    if (!wait(mnt, "MNT")) return false;
    root_ = mnt.root;
    return true;
}

bool NfsSession::getattr() {
    getattr_.args.object = root_.view();
    return wait(getattr_, "GETATTR");
}

bool NfsSession::lookup(const char* name) {
    lookup_.args.what = where(root_, name);
    return wait(lookup_, "LOOKUP");
}

bool NfsSession::create(const char* name) {
    create_.args.where = where(root_, name);
    create_.args.how.mode = UNCHECKED;
    sattr3& attributes = create_.args.how.createhow3_u.obj_attributes;
    attributes = {};
    attributes.mode.set_it = TRUE;
    attributes.mode.set_mode3_u.mode = 0644;
    if (!wait(create_, "CREATE")) return false;
    made_ = create_.object;
    return true;
}

bool NfsSession::write(std::uint32_t bytes) {
    if (!payload_) {
        auto got = load_.xprt().get_payload(bytes);
        if (!got) return said(nfs::client::Outcome::failed(got.error()), "memory for WRITE");
        payload_ = *std::move(got);
    }
    write_.args.file = made_.view();
    write_.args.offset = 0;
    write_.args.stable = FILE_SYNC;
    write_.set_data(payload_.memory().first(bytes));
    return wait(write_, "WRITE");
}

bool NfsSession::remove(const char* name) {
    remove_.args.object = where(root_, name);
    return wait(remove_, "REMOVE");
}

std::uint64_t NfsSession::list(const char* name) {
    if (!lookup(name)) return 0;
    bool over = false;
    reader_.user = &over;
    reader_.on_entry = [](nfs::client::DirReader&, const nfs::client::DirEntry& entry) noexcept {
        return entry.name != nullptr;
    };
    reader_.done = [](nfs::client::DirReader& reader) noexcept {
        *static_cast<bool*>(reader.user) = true;
    };
    reader_.start(lookup_.object);
    load_.xprt().loop().run_until([](void* flag) { return *static_cast<bool*>(flag); }, &over,
                                  70 * kNsPerSec);
    return said(reader_.outcome, "READDIRPLUS") ? reader_.entries() : 0;
}

}  // namespace nfsrdma::bench
