#include "nfs/client/client.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "base/bytes.hpp"
#include "nfs/binding.hpp"
#include "nfs/client/resend.hpp"
#include "nfs/status.hpp"

namespace nfsrdma::nfs::client {
namespace {

constexpr std::uint64_t kJukeboxFirstNs = 100 * kNsPerMs;  // doubles with every try
constexpr std::uint32_t kJukeboxDoublings = 5;             // up to 3.2 s
constexpr std::uint32_t kPage = 4096;
constexpr std::int32_t kStatusMax = 16383;  // what the type's largest enumerator makes room for
constexpr std::uint32_t kDirectoryMax = 64 << 10;
constexpr std::uint32_t kReplySlack = 1024;  // RPC header and what READDIRPLUS does not count

Error bad(const char* what) noexcept {
    return Error{Errc::bad_message, 0, what};
}

// What the server allows, within what the transport carries, in whole pages where it is more than
// one.
std::uint32_t clamp_size(std::uint32_t allowed, std::uint32_t most) noexcept {
    const std::uint32_t size = std::min(allowed, most);
    return size > kPage ? align_down(size, kPage) : size;
}

}  // namespace

bool FileHandle::assign(const char* data, std::uint32_t size) noexcept {
    if (data == nullptr || size == 0 || size > bytes_.size()) return false;
    bytes_ = {};  // so that equal handles compare equal
    std::memcpy(bytes_.data(), data, size);
    size_ = size;
    return true;
}

nfs_fh3 FileHandle::view() const noexcept {
    nfs_fh3 fh{};
    fh.data.data_len = size_;
    // Arguments are only read, though their C type could be written.
    fh.data.data_val = as_chars(bytes_at(address_of(bytes_.data())));
    return fh;
}

void clean_type(fattr3& attributes) noexcept {
    const std::int32_t type = raw_value(attributes.type);
    if (type < NF3REG || type > NF3FIFO) attributes.type = static_cast<ftype3>(0);
}

Outcome Outcome::failed(const Error& error) noexcept {
    Outcome outcome;
    outcome.rpc = error;
    return outcome;
}
Outcome Outcome::failed(nfsstat3 status) noexcept {
    Outcome outcome;
    outcome.status = status;
    return outcome;
}

const char* describe(nfsstat3 status) noexcept {
    switch (status) {
        case NFS3_OK:
            return "success";
        case NFS3ERR_PERM:
            return "operation not permitted";
        case NFS3ERR_NOENT:
            return "no such file or directory";
        case NFS3ERR_IO:
            return "input/output error at the server";
        case NFS3ERR_NXIO:
            return "no such device or address";
        case NFS3ERR_ACCES:
            return "permission denied";
        case NFS3ERR_EXIST:
            return "file exists";
        case NFS3ERR_XDEV:
            return "not on the same file system";
        case NFS3ERR_NODEV:
            return "no such device";
        case NFS3ERR_NOTDIR:
            return "not a directory";
        case NFS3ERR_ISDIR:
            return "is a directory";
        case NFS3ERR_INVAL:
            return "invalid argument";
        case NFS3ERR_FBIG:
            return "file too large for the server";
        case NFS3ERR_NOSPC:
            return "no space left at the server";
        case NFS3ERR_ROFS:
            return "read-only export";
        case NFS3ERR_MLINK:
            return "too many links";
        case NFS3ERR_NAMETOOLONG:
            return "name too long";
        case NFS3ERR_NOTEMPTY:
            return "directory not empty";
        case NFS3ERR_DQUOT:
            return "disk quota exceeded";
        case NFS3ERR_STALE:
            return "stale file handle";
        case NFS3ERR_REMOTE:
            return "too many levels of remote";
        case NFS3ERR_BADHANDLE:
            return "bad file handle";
        case NFS3ERR_NOT_SYNC:
            return "changed meanwhile";
        case NFS3ERR_BAD_COOKIE:
            return "the directory changed while it was read";
        case NFS3ERR_NOTSUPP:
            return "not supported by the server";
        case NFS3ERR_TOOSMALL:
            return "buffer too small";
        case NFS3ERR_SERVERFAULT:
            return "server fault";
        case NFS3ERR_BADTYPE:
            return "file type not supported by the server";
        case NFS3ERR_JUKEBOX:
            return "the server is still busy with it; try again later";
    }
    return "unknown error of the server";
}

std::string to_string(const Outcome& outcome) {
    if (!outcome.rpc) {
        const Error& error = outcome.rpc.error();
        switch (error.code) {
            case Errc::refused:
                return sunrpc::to_string(outcome.rpc_status);
            case Errc::timed_out:
                return "the server did not answer in time";
            case Errc::reconnect:
                return "the connection was lost";
            case Errc::closed:
                return "stopped";
            case Errc::bad_message:
                return std::string("the server's answer makes no sense (") + error.what + ")";
            case Errc::again:
            case Errc::too_big:
            case Errc::unsupported:
            case Errc::invalid_argument:
                return nfsrdma::to_string(error);
            case Errc::system:
                return std::string(error.what) + ": " + std::generic_category().message(error.sys);
        }
    }
    return std::string(describe(outcome.status)) + " (" + nfs::to_string(outcome.status) + ")";
}

Op::Op(Program program, std::uint32_t proc, void* args, void* res) noexcept
    : program_(program), timer_(on_timer, *this) {
    call_.proc = &(program == Program::nfs ? nfs3_procs() : mount3_procs())[proc];
    call_.proc_number = proc;
    call_.args = args;
    call_.res = res;
    call_.user = this;
    call_.done = on_reply;
}

Op::~Op() {
    NR_ASSERT(!pending());
}

void Op::on_reply(sunrpc::Call& call, Result<void> result) noexcept {
    Op& op = *static_cast<Op*>(call.user);
    if (call.resends != 0) op.resent_ = true;
    op.outcome.rpc = result;
    op.outcome.rpc_status = call.status;
    op.outcome.status = NFS3_OK;
    const bool has_status = op.program_ == Program::nfs ? call.proc_number != NFSPROC3_NULL
                                                        : call.proc_number == MOUNTPROC3_MNT;
    if (result && has_status) {
        // Every result is a union, and its first word the status.
        std::int32_t status = 0;
        std::memcpy(&status, call.res, sizeof status);
        if (status < 0 || status > kStatusMax) {
            op.outcome.rpc = bad("status of the answer");
        } else {
            op.outcome.status = static_cast<nfsstat3>(status);
        }
        if (op.retry_later()) return;
        if (op.client_->doubt(op)) return;
    }
    op.finish();
}

// All results are unions whose first word is the status; where nothing is made, those of failure
// have the same shape as those of success.
void Op::resolve(const FileHandle* /*object*/, const fattr3* /*attributes*/) noexcept {
    const std::int32_t good = NFS3_OK;
    std::memcpy(call_.res, &good, sizeof good);
}

bool Op::retry_later() noexcept {
    if (outcome.status != NFS3ERR_JUKEBOX) return false;
    Loop& loop = client_->loop();
    const std::uint64_t now = loop.now_ns();
    if (tries_ == 0) patience_ends_ns_ = now + client_->jukebox_ns;
    const std::uint64_t again = now + (kJukeboxFirstNs << std::min(tries_, kJukeboxDoublings));
    if (again > patience_ends_ns_) return false;
    ++tries_;
    ++client_->counters_.jukebox;
    client_->patient_.push_back(*this);
    loop.arm(timer_, again);
    return true;
}

void Op::on_timer(Timer& timer) noexcept {
    Op& op = static_cast<OpTimer&>(timer).op;
    if (op.outcome.rpc && op.outcome.status == NFS3ERR_JUKEBOX) {
        op.client_->patient_.erase(op);
        op.client_->send(op);
    } else {
        op.finish();
    }
}

void Op::finish() noexcept {
    if (outcome.ok()) conclude();
    if (!outcome.ok()) ++client_->counters_.failed;
    client_ = nullptr;
    done(*this);
}

Client::Client(sunrpc::Xprt& xprt, const sunrpc::AuthSys* sys)
    : nfs_(xprt, NFS3_PROGRAM, NFS_V3, sys),
      mount_(xprt, MOUNT3_PROGRAM, MOUNT_V3, sys),
      check_(std::make_unique<ResendCheck>(*this)) {
    limit_sizes(0, 0);
}

Client::~Client() {
    NR_ASSERT(holders_.empty() && doubtful_.empty());
}

Result<sunrpc::Payload> Client::get_payload(std::uint32_t bytes) noexcept {
    Result<sunrpc::Payload> payload = xprt().get_payload(bytes);
    if (payload) {
        // Who wanted more may still wait.
        if (bytes >= payload_wanted_) payload_wanted_ = 0;
    } else if (payload.error().code == Errc::again) {
        payload_wanted_ = std::max(payload_wanted_, bytes);
        relieve();
    }
    return payload;
}

// One at a time, and not for little while more is being written: what a server makes durable costs
// it by the COMMIT. What is let go wakes whoever waits.
void Client::relieve() noexcept {
    if (payload_wanted_ == 0) return;
    PayloadHolder* most = nullptr;
    std::uint32_t could_let_go = 0;
    bool awaits_more = false;
    for (PayloadHolder& holder : holders_) {
        if (holder.letting_go()) return;
        const std::uint32_t kept = holder.could_let_go();
        could_let_go += kept;
        awaits_more = awaits_more || holder.awaits_more();
        if (kept != 0 && (most == nullptr || kept > most->could_let_go())) most = &holder;
    }
    if (most == nullptr) return;
    if (awaits_more && could_let_go < xprt().limits().slots / 2) return;
    most->let_go();
}

// Whether the answer waits for a check: the call was sent twice, and what it says may come of that.
bool Client::doubt(Op& op) noexcept {
    if (!op.resent_ || op.program_ != Op::Program::nfs) return false;
    switch (doubt_of(op.call_, op.outcome.status)) {
        case Doubt::none:
            return false;
        case Doubt::was_done:
            op.resolve(nullptr, nullptr);
            op.outcome.status = NFS3_OK;
            op.resolved_ = true;
            ++counters_.resolved;
            return false;
        case Doubt::look:
            break;
    }
    op.doubtful_ = true;
    doubtful_.push_back(op);
    check_->go_on();
    return true;
}

void Client::start(Op& op) noexcept {
    NR_ASSERT(!op.pending() && op.done != nullptr);
    op.client_ = this;
    op.tries_ = 0;
    op.resent_ = op.doubtful_ = op.resolved_ = false;
    send(op);
}

void Client::send(Op& op) noexcept {
    ++counters_.calls;
    op.outcome = Outcome{};
    op.call_.timeout_ns = timeout_ns;
    op.call_.sys = op.sys;
    op.prepare();
    const Result<void> sent = (op.program_ == Op::Program::nfs ? nfs_ : mount_).call(op.call_);
    if (sent) return;
    op.outcome.rpc = sent;
    loop().arm(op.timer_, loop().now_ns());
}

void Client::cancel(Op& op) noexcept {
    NR_ASSERT(op.client_ == this);
    if (op.doubtful_) {
        if (op.linked()) {
            doubtful_.erase(op);
        } else {
            check_->drop();
        }
        op.outcome = Outcome::failed(Error{Errc::closed, 0, "cancelled"});
        op.finish();
        return;
    }
    if (!op.timer_.armed()) {
        op.call_.clnt->cancel(op.call_);
        return;
    }
    loop().disarm(op.timer_);
    if (op.outcome.rpc) patient_.erase(op);
    op.outcome = Outcome::failed(Error{Errc::closed, 0, "cancelled"});
    op.finish();
}

void Client::hurry() noexcept {
    const std::uint64_t now = loop().now_ns();
    for (Op& op : patient_)
        loop().arm(op.timer_, now);
}

Result<void> Client::set_sizes(const FSINFO3resok& info) noexcept {
    if (info.rtmax == 0 || info.wtmax == 0) return bad("FSINFO allows no transfer");
    const std::uint32_t most = std::min<std::uint32_t>(xprt().limits().max_payload, NFS3_DATA_MAX);
    sizes_.read = clamp_size(info.rtmax, most);
    sizes_.write = clamp_size(info.wtmax, most);
    // dtpref is a preference, and the larger the reply, the fewer round trips: what the server
    // cannot fill it does not.
    sizes_.directory = std::max(info.dtpref, sizes_.directory);
    limit_sizes(0, 0);
    return {};
}

void Client::limit_sizes(std::uint32_t read, std::uint32_t write) noexcept {
    const sunrpc::XprtLimits& limits = xprt().limits();
    if (read != 0) sizes_.read = std::min(sizes_.read, read);
    if (write != 0) sizes_.write = std::min(sizes_.write, write);
    sizes_.read = clamp_size(sizes_.read, limits.max_payload);
    sizes_.write = clamp_size(sizes_.write, limits.max_payload);
    const std::uint32_t room =
        limits.max_message > 2 * kReplySlack ? limits.max_message - kReplySlack : kReplySlack;
    sizes_.directory = std::min({sizes_.directory, room, kDirectoryMax});
}

const fattr3* LookupOp::attributes() const noexcept {
    const post_op_attr& attr = res.LOOKUP3res_u.resok.obj_attributes;
    return attr.attributes_follow != FALSE ? &attr.post_op_attr_u.attributes : nullptr;
}

void LookupOp::prepare() noexcept {
    object = FileHandle{};
    res = LOOKUP3res{};
    res.LOOKUP3res_u.resok.object.data.data_val = room_.data();
}

void LookupOp::conclude() noexcept {
    clean_type(res.LOOKUP3res_u.resok.obj_attributes.post_op_attr_u.attributes);
    if (!object.assign(res.LOOKUP3res_u.resok.object))
        outcome = Outcome::failed(bad("empty file handle"));
}

std::span<std::byte> ReadOp::data() const noexcept {
    return room.first(res.READ3res_u.resok.count);
}

void ReadOp::prepare() noexcept {
    NR_ASSERT(args.count <= room.size());
    res = READ3res{};
    call_.result_room = room.first(args.count);
}

void ReadOp::conclude() noexcept {
    const READ3resok& ok = res.READ3res_u.resok;
    // The transport has compared the data's length with the bytes placed; `count` is a third number
    // (RFC 1813 s3.3.6).
    if (ok.count != ok.data.data_len) outcome = Outcome::failed(bad("READ count and data length"));
    if (ok.count > args.count)
        outcome = Outcome::failed(bad("READ returned more than was asked for"));
}

void WriteOp::set_data(std::span<std::byte> data) noexcept {
    args.count = args.data.data_len = narrow<std::uint32_t>(data.size());
    args.data.data_val = as_chars(data.data());
}

void WriteOp::conclude() noexcept {
    if (count() > args.count) outcome = Outcome::failed(bad("WRITE wrote more than was sent"));
}

void MntOp::conclude() noexcept {
    const fhandle3& handle = res.mountres3_u.mountinfo.fhandle;
    if (!root.assign(handle.fhandle3_val, handle.fhandle3_len))
        outcome = Outcome::failed(bad("empty root handle"));
}

void MntOp::free_results() noexcept {
    XDR xdr{};
    xdr.x_op = XDR_FREE;
    (void)xdr_mountres3(&xdr, &res);
    res = mountres3{};
}

void ExportOp::free_results() noexcept {
    XDR xdr{};
    xdr.x_op = XDR_FREE;
    (void)xdr_mountexports3(&xdr, &res);
    res = mountexports3{};
}

void DumpOp::free_results() noexcept {
    XDR xdr{};
    xdr.x_op = XDR_FREE;
    (void)xdr_mountlist3(&xdr, &res);
    res = mountlist3{};
}

bool is_plain_name(const char* name) noexcept {
    if (name == nullptr || *name == '\0' || std::strchr(name, '/') != nullptr) return false;
    return std::strcmp(name, ".") != 0 && std::strcmp(name, "..") != 0;
}

MountFlow::MountFlow(Client& client) noexcept : client_(client) {
    mnt_.user = fsinfo_.user = this;
    mnt_.done = on_mnt;
    fsinfo_.done = on_fsinfo;
}

void MountFlow::start(const char* path, Done done, void* its_user) noexcept {
    done_ = done;
    user = its_user;
    mnt_.args.dirpath = as_chars(bytes_at(address_of(path)));
    client_.start(mnt_);
}

void MountFlow::on_mnt(Op& op) noexcept {
    MountFlow& flow = *static_cast<MountFlow*>(op.user);
    flow.outcome = op.outcome;
    if (!op.outcome.ok()) {
        flow.finish();
        return;
    }
    flow.root = flow.mnt_.root;
    flow.fsinfo_.args.fsroot = flow.root.view();
    flow.client_.start(flow.fsinfo_);
}

void MountFlow::on_fsinfo(Op& op) noexcept {
    MountFlow& flow = *static_cast<MountFlow*>(op.user);
    flow.outcome = op.outcome;
    if (op.outcome.ok()) {
        flow.info = flow.fsinfo_.res.FSINFO3res_u.resok;
        flow.outcome.rpc = flow.client_.set_sizes(flow.info);
    }
    flow.finish();
}

void MountFlow::finish() noexcept {
    done_(*this);
}

}  // namespace nfsrdma::nfs::client
