#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "nfs/nfs3_types.hpp"
#include "sunrpc/clnt.hpp"

// An asynchronous NFSv3 and MOUNT v3 client over one RPC transport: one object a call, in the
// caller's memory, answered by a callback on the transport's loop. Knows no RDMA. Nothing here
// allocates per call but the results of READLINK, READDIR, READDIRPLUS and MOUNT, which libtirpc
// makes and the call's object frees.
namespace nfsrdma::nfs::client {

// A server's file handle: opaque, a value.
class FileHandle {
  public:
    // False when `fh` is empty or longer than NFS3_FHSIZE.
    bool assign(const char* data, std::uint32_t size) noexcept;
    bool assign(const nfs_fh3& fh) noexcept { return assign(fh.data.data_val, fh.data.data_len); }
    // Points into this object: for the arguments of one call.
    nfs_fh3 view() const noexcept;
    bool empty() const noexcept { return size_ == 0; }
    bool operator==(const FileHandle& other) const noexcept = default;

  private:
    std::array<char, NFS3_FHSIZE> bytes_{};
    std::uint32_t size_ = 0;
};

// What stands in an enumeration that was decoded: a peer may send any number, and C++ knows only
// those of the type.
template <class Enum>
std::int32_t raw_value(const Enum& value) noexcept {
    static_assert(sizeof(Enum) == sizeof(std::int32_t));
    std::int32_t raw = 0;
    std::memcpy(&raw, &value, sizeof raw);
    return raw;
}
// A type that is none becomes 0.
void clean_type(fattr3& attributes) noexcept;

// How a call, or a row of calls, ended.
struct Outcome {
    Result<void>
        rpc;  // no valid answer: Errc::timed_out, reconnect, closed, bad_message, refused ...
    sunrpc::RpcStatus rpc_status = sunrpc::RpcStatus::success;  // why `refused`
    nfsstat3 status = NFS3_OK;  // of a valid answer; MOUNT's codes have the same numbers
    bool ok() const noexcept { return static_cast<bool>(rpc) && status == NFS3_OK; }
    static Outcome failed(const Error& error) noexcept;
    static Outcome failed(nfsstat3 status) noexcept;
};
// For people: "no such file or directory (NFS3ERR_NOENT)".
std::string to_string(const Outcome& outcome);
const char* describe(nfsstat3 status) noexcept;

class Client;
class ResendCheck;

// One call. Not moved, not destroyed and not started again between Client::start and `done`.
class Op : public ListHook<Op> {
  public:
    using Done = void (*)(Op& op) noexcept;
    virtual ~Op();
    Op(const Op&) = delete;
    Op& operator=(const Op&) = delete;

    Done done = nullptr;  // runs once, on the loop, never from inside start()
    void* user = nullptr;
    // Whose credentials it goes with, repeats and checks included; lives until `done`. nullptr:
    // the Client's own.
    const sunrpc::AuthSys* sys = nullptr;
    Outcome outcome;
    bool pending() const noexcept { return client_ != nullptr; }
    // The call was sent more than once, and an error of it was taken for success (resend.hpp).
    bool resolved() const noexcept { return resolved_; }

  protected:
    enum class Program : std::uint8_t { nfs, mount };
    Op(Program program, std::uint32_t proc, void* args, void* res) noexcept;
    // Before sending: zeroes the results and presets their buffers.
    virtual void prepare() noexcept = 0;
    // After a valid answer with NFS3_OK: checks it; may turn `outcome` into Errc::bad_message.
    virtual void conclude() noexcept {}
    // Makes the results those of success: the first transmission had done it (resend.hpp). What is
    // known of the object; nullptr: nothing.
    virtual void resolve(const FileHandle* object, const fattr3* attributes) noexcept;
    sunrpc::Call call_;

  private:
    friend class Client;
    friend class ResendCheck;
    static void on_reply(sunrpc::Call& call, Result<void> result) noexcept;
    static void on_timer(Timer& timer) noexcept;
    void finish() noexcept;
    bool retry_later() noexcept;  // NFS3ERR_JUKEBOX: the server asks for patience

    struct OpTimer final : Timer {
        OpTimer(Fire fire_at, Op& owner) noexcept : Timer(fire_at), op(owner) {}
        Op& op;
    };
    Client* client_ = nullptr;
    Program program_;
    std::uint32_t tries_ = 0;
    // In one of these tries the call was sent more than once: the server may have done it, and
    // forgotten that it did.
    bool resent_ = false;
    bool doubtful_ = false;  // its answer waits for the check whether that is so, or is checked
    bool resolved_ = false;  // it was so
    std::uint64_t patience_ends_ns_ = 0;  // for NFS3ERR_JUKEBOX
    OpTimer timer_;
};

struct ClientCounters {
    std::uint64_t calls = 0, failed = 0, jukebox = 0;
    std::uint64_t commits = 0, rewrites = 0;  // rewrites: WRITEs that the server had forgotten
    // Errors of calls that were sent again, and were none; and those of which that was not sure.
    std::uint64_t resolved = 0, unresolved = 0;
};

// Somebody who keeps payload memory that others may want: in the list of its Client.
class PayloadHolder : public ListHook<PayloadHolder> {
  public:
    virtual std::uint32_t could_let_go() const noexcept = 0;  // payloads
    virtual bool letting_go() const noexcept = 0;
    // Answers are awaited, each of which calls Client::relieve: there will be more to let go.
    virtual bool awaits_more() const noexcept = 0;
    // Begins to. Client::relieve is called when that has ended.
    virtual void let_go() noexcept = 0;

  protected:
    PayloadHolder() = default;
    ~PayloadHolder() = default;
};

// Sizes of requests: what FSINFO allows, within what the transport carries.
struct TransferSizes {
    std::uint32_t read = 65536, write = 65536, directory = 32768;
};

class Client {
  public:
    // Both outlive the client. sys == nullptr: AUTH_NONE.
    Client(sunrpc::Xprt& xprt, const sunrpc::AuthSys* sys);
    ~Client();  // no call may be pending
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    // Answered by `op.done`, whatever happens.
    void start(Op& op) noexcept;
    // `done` runs before this returns, with Errc::closed.
    void cancel(Op& op) noexcept;
    // Calls that wait because the server asked for patience (NFS3ERR_JUKEBOX) are sent again now:
    // after the transport was closed they all end.
    void hurry() noexcept;

    // Takes over the limits of an FSINFO answer, clamped to the transport's and to whole pages
    // where they are larger than one. Errc::bad_message when the server allows nothing at all.
    Result<void> set_sizes(const FSINFO3resok& info) noexcept;
    // Smaller than what the server allows; 0 leaves a size alone.
    void limit_sizes(std::uint32_t read, std::uint32_t write) noexcept;
    const TransferSizes& sizes() const noexcept { return sizes_; }

    // The transport's, with its errors. Where that is dry, whoever keeps most for a COMMIT is asked
    // to commit, when that is worth it or nothing else will bring any.
    Result<sunrpc::Payload> get_payload(std::uint32_t bytes) noexcept;
    void add(PayloadHolder& holder) noexcept { holders_.push_back(holder); }
    void remove(PayloadHolder& holder) noexcept { holders_.erase(holder); }
    // Asks again, if somebody still wants memory: a holder has more to let go than before.
    void relieve() noexcept;
    // A holder is about to release some: whoever waits is woken, and asks again.
    void note_release() noexcept { payload_wanted_ = 0; }

    std::uint64_t timeout_ns = 60 * kNsPerSec;  // of every answer
    // For so long a call that is answered with NFS3ERR_JUKEBOX is repeated, with a new XID each
    // time, before that status is told.
    std::uint64_t jukebox_ns = 60 * kNsPerSec;
    sunrpc::Xprt& xprt() noexcept { return nfs_.xprt(); }
    Loop& loop() noexcept { return xprt().loop(); }
    ClientCounters& counters() noexcept { return counters_; }
    const sunrpc::ClntCounters& rpc_counters() const noexcept { return nfs_.counters(); }
    // Of NFS's calls, each try of them.
    void observe(const sunrpc::CallObserver& observer) noexcept { nfs_.observe(observer); }

  private:
    friend class Op;
    friend class ResendCheck;
    void send(Op& op) noexcept;
    bool doubt(Op& op) noexcept;
    sunrpc::Clnt nfs_, mount_;
    List<Op, Op> patient_;   // wait after NFS3ERR_JUKEBOX
    List<Op, Op> doubtful_;  // wait for check_
    List<PayloadHolder, PayloadHolder> holders_;
    std::uint32_t payload_wanted_ = 0;  // bytes for which somebody was told `again`
    std::unique_ptr<ResendCheck> check_;
    TransferSizes sizes_;
    ClientCounters counters_;
};

// A call of procedure Proc with its argument and result structures.
template <std::uint32_t Proc, class Args, class Res>
class ProcOp : public Op {
  public:
    ProcOp() noexcept : Op(Program::nfs, Proc, &args, &res) {}
    Args args{};
    Res res{};

  protected:
    void prepare() noexcept override { res = Res{}; }
};

class GetattrOp final : public ProcOp<NFSPROC3_GETATTR, GETATTR3args, GETATTR3res> {
  public:
    const fattr3& attributes() const noexcept { return res.GETATTR3res_u.resok.obj_attributes; }

  protected:
    void conclude() noexcept override { clean_type(res.GETATTR3res_u.resok.obj_attributes); }
};
using SetattrOp = ProcOp<NFSPROC3_SETATTR, SETATTR3args, SETATTR3res>;
using AccessOp = ProcOp<NFSPROC3_ACCESS, ACCESS3args, ACCESS3res>;
using RemoveOp = ProcOp<NFSPROC3_REMOVE, REMOVE3args, REMOVE3res>;
using RmdirOp = ProcOp<NFSPROC3_RMDIR, RMDIR3args, RMDIR3res>;
using LinkOp = ProcOp<NFSPROC3_LINK, LINK3args, LINK3res>;
using FsstatOp = ProcOp<NFSPROC3_FSSTAT, FSSTAT3args, FSSTAT3res>;
using FsinfoOp = ProcOp<NFSPROC3_FSINFO, FSINFO3args, FSINFO3res>;
using PathconfOp = ProcOp<NFSPROC3_PATHCONF, PATHCONF3args, PATHCONF3res>;
using CommitOp = ProcOp<NFSPROC3_COMMIT, COMMIT3args, COMMIT3res>;

class RenameOp final : public ProcOp<NFSPROC3_RENAME, RENAME3args, RENAME3res> {
  public:
    // What is renamed, where the caller knows it: tells, should the call be sent twice and the old
    // name be gone, whether that was this call's doing. Empty: it is not known.
    FileHandle object;
};

class NullOp final : public Op {
  public:
    NullOp() noexcept : Op(Program::nfs, NFSPROC3_NULL, nullptr, nullptr) {}

  protected:
    void prepare() noexcept override {}
};

class LookupOp final : public ProcOp<NFSPROC3_LOOKUP, LOOKUP3args, LOOKUP3res> {
  public:
    FileHandle object;                          // after success
    const fattr3* attributes() const noexcept;  // nullptr: the server gave none

  protected:
    void prepare() noexcept override;
    void conclude() noexcept override;

  private:
    std::array<char, NFS3_FHSIZE> room_{};
};

// The calls that make an object. After success `object` is empty when the server gave no handle.
template <std::uint32_t Proc, class Args, class Res>
class MakeOp final : public ProcOp<Proc, Args, Res> {
  public:
    FileHandle object;

  protected:
    void prepare() noexcept override {
        object = FileHandle{};
        this->res = Res{};
        // A link's text is the caller's own string, not payload memory.
        this->call_.args_in_payload = Proc != NFSPROC3_SYMLINK;
        made(this->res).obj.post_op_fh3_u.handle.data.data_val = room_.data();
    }
    void conclude() noexcept override {
        const post_op_fh3& obj = made(this->res).obj;
        if (obj.handle_follows == FALSE) return;
        if (!object.assign(obj.post_op_fh3_u.handle)) {
            this->outcome = Outcome::failed(Error{Errc::bad_message, 0, "empty file handle"});
        }
    }
    void resolve(const FileHandle* known, const fattr3* attributes) noexcept override {
        prepare();
        auto& ok = made(this->res);
        if (known != nullptr) {
            const nfs_fh3 handle = known->view();
            std::memcpy(room_.data(), handle.data.data_val, handle.data.data_len);
            ok.obj.handle_follows = TRUE;
            ok.obj.post_op_fh3_u.handle.data.data_len = handle.data.data_len;
        }
        if (attributes != nullptr) {
            ok.obj_attributes.attributes_follow = TRUE;
            ok.obj_attributes.post_op_attr_u.attributes = *attributes;
        }
    }

  private:
    static CREATE3resok& made(CREATE3res& res) noexcept { return res.CREATE3res_u.resok; }
    static MKDIR3resok& made(MKDIR3res& res) noexcept { return res.MKDIR3res_u.resok; }
    static SYMLINK3resok& made(SYMLINK3res& res) noexcept { return res.SYMLINK3res_u.resok; }
    static MKNOD3resok& made(MKNOD3res& res) noexcept { return res.MKNOD3res_u.resok; }
    std::array<char, NFS3_FHSIZE> room_{};
};
using CreateOp = MakeOp<NFSPROC3_CREATE, CREATE3args, CREATE3res>;
using MkdirOp = MakeOp<NFSPROC3_MKDIR, MKDIR3args, MKDIR3res>;
using MknodOp = MakeOp<NFSPROC3_MKNOD, MKNOD3args, MKNOD3res>;
using SymlinkOp = MakeOp<NFSPROC3_SYMLINK, SYMLINK3args, SYMLINK3res>;

// `room` is payload memory of the transport, or registered with it: the data goes there uncopied.
class ReadOp final : public ProcOp<NFSPROC3_READ, READ3args, READ3res> {
  public:
    std::span<std::byte> room;                   // at least args.count bytes
    std::span<std::byte> data() const noexcept;  // after success: in `room`
    bool eof() const noexcept { return res.READ3res_u.resok.eof != FALSE; }

  protected:
    void prepare() noexcept override;
    void conclude() noexcept override;
};

// args.data: payload memory of the transport, or registered with it; args.count is its length.
class WriteOp final : public ProcOp<NFSPROC3_WRITE, WRITE3args, WRITE3res> {
  public:
    void set_data(std::span<std::byte> data) noexcept;
    std::uint32_t count() const noexcept { return res.WRITE3res_u.resok.count; }

  protected:
    void conclude() noexcept override;
};

// Results that libtirpc allocates: freed with the object, or when it is started again.
template <std::uint32_t Proc, class Args, class Res, bool_t (*Xdr)(XDR*, Res*)>
class AllocatingOp : public ProcOp<Proc, Args, Res> {
  public:
    AllocatingOp() = default;
    AllocatingOp(const AllocatingOp&) = delete;
    AllocatingOp& operator=(const AllocatingOp&) = delete;
    ~AllocatingOp() override { free_results(); }
    void free_results() noexcept {
        XDR xdr{};
        xdr.x_op = XDR_FREE;
        (void)Xdr(&xdr, &this->res);
        this->res = Res{};
    }

  protected:
    void prepare() noexcept override { free_results(); }
};
using ReadlinkOp = AllocatingOp<NFSPROC3_READLINK, READLINK3args, READLINK3res, xdr_READLINK3res>;
using ReaddirOp = AllocatingOp<NFSPROC3_READDIR, READDIR3args, READDIR3res, xdr_READDIR3res>;
using ReaddirplusOp =
    AllocatingOp<NFSPROC3_READDIRPLUS, READDIRPLUS3args, READDIRPLUS3res, xdr_READDIRPLUS3res>;

// MOUNT v3 MNT: the handle of an export, or of a directory below one.
class MntOp final : public Op {
  public:
    MntOp() noexcept : Op(Program::mount, MOUNTPROC3_MNT, &args, &res) {}
    MntOp(const MntOp&) = delete;
    MntOp& operator=(const MntOp&) = delete;
    ~MntOp() override { free_results(); }
    mountargs3 args{};
    mountres3 res{};
    FileHandle root;  // after success

  protected:
    void prepare() noexcept override { free_results(); }
    void conclude() noexcept override;

  private:
    void free_results() noexcept;
};

class UmntOp final : public Op {
  public:
    UmntOp() noexcept : Op(Program::mount, MOUNTPROC3_UMNT, &args, nullptr) {}
    mountargs3 args{};

  protected:
    void prepare() noexcept override {}
};

class ExportOp final : public Op {
  public:
    ExportOp() noexcept : Op(Program::mount, MOUNTPROC3_EXPORT, nullptr, &res) {}
    ExportOp(const ExportOp&) = delete;
    ExportOp& operator=(const ExportOp&) = delete;
    ~ExportOp() override { free_results(); }
    mountexports3 res{};

  protected:
    void prepare() noexcept override { free_results(); }

  private:
    void free_results() noexcept;
};

// MOUNT v3 DUMP: who has mounted what, as far as the server remembers.
class DumpOp final : public Op {
  public:
    DumpOp() noexcept : Op(Program::mount, MOUNTPROC3_DUMP, nullptr, &res) {}
    DumpOp(const DumpOp&) = delete;
    DumpOp& operator=(const DumpOp&) = delete;
    ~DumpOp() override { free_results(); }
    mountlist3 res{};

  protected:
    void prepare() noexcept override { free_results(); }

  private:
    void free_results() noexcept;
};

// A name as it may stand in a directory: not empty, not "." or "..", without '/'. What a server
// sends is none until this says so (a name that is not must never be used as a local path).
bool is_plain_name(const char* name) noexcept;

// MNT of `path`, then FSINFO, whose sizes the client takes over.
class MountFlow {
  public:
    using Done = void (*)(MountFlow& flow) noexcept;
    explicit MountFlow(Client& client) noexcept;
    // `path` lives until `done`.
    void start(const char* path, Done done, void* user) noexcept;
    Outcome outcome;
    FileHandle root;
    FSINFO3resok info{};
    void* user = nullptr;

  private:
    static void on_mnt(Op& op) noexcept;
    static void on_fsinfo(Op& op) noexcept;
    void finish() noexcept;
    Client& client_;
    Done done_ = nullptr;
    MntOp mnt_;
    FsinfoOp fsinfo_;
};

}  // namespace nfsrdma::nfs::client
