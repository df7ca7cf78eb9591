#include "tirpc/clnt_rdma.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/random.h>
#include <utility>

#include "base/clock.hpp"
#include "tirpc/clnt_errors.hpp"
#include "tirpc/error_text.hpp"

// Operation. The operations that libtirpc's macros call stand at the end; each finds its ClntRdma
// by cl_private. A call counts itself in, makes attempts of ClntCall until one is the last, and
// counts itself out.
namespace nfsrdma::tirpc {
namespace {

constexpr int kRefreshesMax = 2;  // as clnt_vc
// An XID that clnt_control set may be one that is still under way; so may as many behind it.
constexpr int kXidsMax = 2048;
// How long a one-way call waits for another one to be answered, when those have every credit.
constexpr std::uint64_t kOneWayPatienceNs = 2 * kNsPerSec;
constexpr std::int64_t kSecondsMax = 100'000'000, kMicrosMax = 1'000'000;  // as clnt_vc

bool is_time(const timeval& time) noexcept {
    return time.tv_sec >= 0 && time.tv_sec <= kSecondsMax && time.tv_usec >= 0 &&
           time.tv_usec <= kMicrosMax;
}
bool is_zero(const timeval& time) noexcept {
    return time.tv_sec == 0 && time.tv_usec == 0;
}
std::uint64_t ns_of(const timeval& time) noexcept {
    return static_cast<std::uint64_t>(time.tv_sec) * kNsPerSec +
           static_cast<std::uint64_t>(time.tv_usec) * kNsPerUs;
}

bool_t xdr_nothing(XDR* /*xdr*/, ...) noexcept {
    return TRUE;
}

std::uint64_t next_serial() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::uint32_t random_xid() noexcept {
    std::uint32_t xid = 0;
    // A client that starts anew must not reuse the XIDs of the one before.
    if (::getrandom(&xid, sizeof xid, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof xid))
        xid = static_cast<std::uint32_t>(RealClock{}.now_ns());
    return xid;
}

// No byte is ever sent by it: it has the addresses of both ends, and is never readable.
UniqueFd address_fd(const SockAddr& server) noexcept {
    UniqueFd fd(::socket(server.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd) static_cast<void>(::connect(fd.get(), server.sa(), server.sa_len()));
    return fd;
}

void free_text(char* text) noexcept {
    // clnt_tli_create may have put a literal "" there.
    if (text != nullptr && *text != 0) std::free(text);
}

template <class T>
bool get(void* info, const T& value) noexcept {
    std::memcpy(info, &value, sizeof value);
    return true;
}
template <class T>
T load(const void* info) noexcept {
    T value{};
    std::memcpy(&value, info, sizeof value);
    return value;
}

}  // namespace

// ---- calls

ClntRdma::ClntRdma(std::unique_ptr<ClntLink> link, const SockAddr& server, const Options& options)
    : link_(std::move(link)),
      share_(*link_, options),
      server_(server),
      serial_(next_serial()),
      fd_(address_fd(server)),
      xid_(random_xid()) {}

ClntRdma::~ClntRdma() {
    if (!close_fd_) static_cast<void>(fd_.release());
    free_text(client_.cl_netid);
    free_text(client_.cl_tp);
}

enum clnt_stat ClntRdma::call(CallRequest request, const timeval& timeout) noexcept {
    const Begun begun = begin(request, timeout);
    rpc_err error{};
    int refreshes = kRefreshesMax, xids = kXidsMax;
    CallNext next = CallNext::done;
    do {
        request.xid = next_xid();
        request.one_way = begun.one_way;
        request.may_refresh = refreshes > 0;
        request.deadline_ns = link_->now_ns() + begun.patience_ns;
        if (begun.one_way && !ask_for_credits(request, error)) break;
        ClntCall attempt(share_, request);
        next = attempt.run(error);
        if (next == CallNext::again) --refreshes;
        if (next == CallNext::other_xid && --xids == 0) next = CallNext::done;
    } while (next != CallNext::done);
    return end(error);
}

ClntRdma::Begun ClntRdma::begin(CallRequest& request, const timeval& timeout) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++users_;
    if (!wait_set_ && is_time(timeout)) wait_ = timeout;
    request.prog = prog_;
    request.vers = vers_;
    Begun begun;
    begun.one_way = is_zero(timeout) || is_zero(wait_);
    begun.patience_ns = begun.one_way ? kOneWayPatienceNs : ns_of(wait_);
    return begun;
}

std::uint32_t ClntRdma::next_xid() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return --xid_;
}

enum clnt_stat ClntRdma::end(const rpc_err& error) noexcept {
    note_error(serial_, error);
    const std::lock_guard<std::mutex> lock(mutex_);
    error_ = error;
    leave();
    return error.re_status;
}

// The mutex is held: this may be gone as soon as it is not.
void ClntRdma::leave() noexcept {
    if (--users_ == 0) unused_.notify_all();
}

void* ClntRdma::alloc(std::uint32_t bytes) noexcept {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++users_;
    }
    auto memory = link_->alloc(bytes);
    if (!memory) set_error_text("clnt_rdma_alloc", memory.error());
    const std::lock_guard<std::mutex> lock(mutex_);
    leave();
    return memory ? memory->data() : nullptr;
}

// One-way calls leave a credit for others, and a connection has only one until its first reply: so
// the server is made to reply once, by a call of procedure 0, whatever it says to it.
bool ClntRdma::ask_for_credits(const CallRequest& like, rpc_err& error) noexcept {
    if (link_->allows_one_way()) return true;
    AUTH* const none = authnone_create();
    CallRequest request;
    request.prog = like.prog;
    request.vers = like.vers;
    request.xdr_args = xdr_nothing;
    request.auth = none;
    request.deadline_ns = like.deadline_ns;
    request.may_refresh = false;
    request.xid = next_xid();
    error = {};
    {
        ClntCall call(share_, request);
        static_cast<void>(call.run(error));
    }
    AUTH_DESTROY(none);
    if (link_->allows_one_way()) return true;
    // Without a connection it is of no use to try again.
    if (error.re_status == RPC_CANTSEND || error.re_status == RPC_CANTRECV) return false;
    error = {};
    error.re_status = RPC_CANTSEND;
    error.re_errno = EAGAIN;
    set_error_text("one-way calls need a connection with two credits");
    return false;
}

void ClntRdma::last_error(rpc_err& error) noexcept {
    if (const rpc_err* const own = find_error(serial_); own != nullptr) {
        error = *own;
        return;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    error = error_;
}

bool ClntRdma::free_results(xdrproc_t routine, void* object) noexcept {
    if (routine == nullptr) return true;
    if (share_.zero_copy && object != nullptr) link_->take_back(routine, object);
    XDR xdr{};
    xdr.x_op = XDR_FREE;
    return routine(&xdr, object) != FALSE;
}

// ---- clnt_control

bool ClntRdma::control(unsigned request, void* info) noexcept {
    if (request >= CLRDMA_SET_REPLY_MAX) return info != nullptr && control_ours(request, info);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (request == CLSET_FD_CLOSE || request == CLSET_FD_NCLOSE) {
        close_fd_ = request == CLSET_FD_CLOSE;
        return true;
    }
    if (info == nullptr) return false;
    return control_time(request, info) || control_address(request, info) ||
           control_number(request, info);
}

bool ClntRdma::control_time(unsigned request, void* info) noexcept {
    if (request == CLGET_TIMEOUT) return get(info, wait_);
    if (request != CLSET_TIMEOUT) return false;
    const auto time = load<timeval>(info);
    if (!is_time(time)) return false;
    wait_ = time;
    return wait_set_ = true;
}

bool ClntRdma::control_address(unsigned request, void* info) noexcept {
    switch (request) {
        case CLGET_SERVER_ADDR:
            std::memcpy(info, server_.sa(), server_.sa_len());
            return true;
        case CLGET_SVC_ADDR: {
            netbuf address{};
            address.buf = const_cast<sockaddr*>(server_.sa());  // its type could write
            address.len = address.maxlen = server_.sa_len();
            return get(info, address);
        }
        case CLGET_FD:
            return fd_ && get(info, fd_.get());
        default:
            return false;
    }
}

bool ClntRdma::control_number(unsigned request, void* info) noexcept {
    switch (request) {
        case CLGET_XID:
            return get(info, xid_);
        case CLSET_XID:
            xid_ = load<std::uint32_t>(info) + 1;  // the next call counts down first
            return true;
        case CLGET_VERS:
            return get(info, vers_);
        case CLSET_VERS:
            vers_ = load<std::uint32_t>(info);
            return true;
        case CLGET_PROG:
            return get(info, prog_);
        case CLSET_PROG:
            prog_ = load<std::uint32_t>(info);
            return true;
        default:
            return false;
    }
}

bool ClntRdma::control_ours(unsigned request, void* info) noexcept {
    switch (request) {
        case CLRDMA_SET_REPLY_MAX: {
            const auto bytes = load<std::uint32_t>(info);
            if (bytes == 0 || bytes > link_->limits().max_message - kMessageOverhead) return false;
            share_.reply_max.store(bytes, std::memory_order_relaxed);
            return true;
        }
        case CLRDMA_GET_REPLY_MAX:
            return get(info, share_.reply_max.load(std::memory_order_relaxed));
        case CLRDMA_GET_STATS:
            return copy_stats(info);
        default:
            return false;
    }
}

bool ClntRdma::copy_stats(void* info) noexcept {
    const auto size = load<std::uint32_t>(info);
    if (size < sizeof(rpcrdma_stats)) return false;
    rpcrdma_stats stats{};
    stats.size = size;
    const xprtrdma::TransportCounters counters =
        link_->counters(stats.late_replies, stats.connections);
    stats.calls = counters.calls;
    stats.replies = counters.replies;
    stats.inline_calls = counters.inline_calls;
    stats.read_chunk_calls = counters.read_chunk_calls;
    stats.long_calls = counters.long_calls;
    stats.write_chunk_calls = counters.write_chunk_calls;
    stats.reply_chunk_calls = counters.reply_chunk_calls;
    stats.keys_bound = counters.keys_bound;
    stats.remote_invalidations = counters.remote_invalidations;
    stats.local_invalidations = counters.local_invalidations;
    stats.payload_copied_bytes =
        counters.payload_copied_bytes + share_.copied.load(std::memory_order_relaxed);
    std::memcpy(info, &stats, sizeof stats);
    return true;
}

// ---- begin and end, and what libtirpc's macros call

namespace {

ClntRdma& self(CLIENT* clnt) noexcept {
    return *static_cast<ClntRdma*>(static_cast<void*>(clnt->cl_private));
}

// NOLINTNEXTLINE(readability-function-size): libtirpc's parameters
enum clnt_stat op_call(CLIENT* clnt, rpcproc_t proc, xdrproc_t xdr_args, void* args,
                       xdrproc_t xdr_res, void* res, timeval timeout) {
    CallRequest request;
    request.proc = proc;
    request.xdr_args = xdr_args != nullptr ? xdr_args : xdr_nothing;
    request.args = args;
    request.xdr_res = xdr_res;
    request.res = res;
    request.auth = clnt->cl_auth;
    return self(clnt).call(request, timeout);
}

void op_abort(CLIENT* /*clnt*/) {}

void op_geterr(CLIENT* clnt, rpc_err* error) {
    if (error != nullptr) self(clnt).last_error(*error);
}

bool_t op_freeres(CLIENT* clnt, xdrproc_t routine, void* object) {
    return self(clnt).free_results(routine, object) ? TRUE : FALSE;
}

bool_t op_control(CLIENT* clnt, u_int request, void* info) {
    return self(clnt).control(request, info) ? TRUE : FALSE;
}

CLIENT::clnt_ops g_ops = {op_call, op_abort, op_geterr, op_freeres, ClntRdma::destroy, op_control};

}  // namespace

CLIENT* ClntRdma::create(std::unique_ptr<ClntLink> link, const SockAddr& server,
                         const Options& options, rpcprog_t prog, rpcvers_t vers) {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    std::unique_ptr<ClntRdma> made(new (std::nothrow) ClntRdma(std::move(link), server, options));
    if (made == nullptr) return nullptr;
    made->prog_ = static_cast<std::uint32_t>(prog);
    made->vers_ = static_cast<std::uint32_t>(vers);
    CLIENT& client = made->client_;
    client.cl_ops = &g_ops;
    client.cl_private = made.get();
    client.cl_netid = ::strdup(server.is_v6() ? "rdma6" : "rdma");
    client.cl_tp = ::strdup("-");
    client.cl_auth = authnone_create();
    if (client.cl_netid == nullptr || client.cl_tp == nullptr || client.cl_auth == nullptr)
        return nullptr;
    return &made.release()->client_;
}

ClntRdma* ClntRdma::of(CLIENT* clnt) noexcept {
    if (clnt == nullptr || clnt->cl_ops != &g_ops) return nullptr;
    return &self(clnt);
}

void ClntRdma::destroy(CLIENT* clnt) noexcept {
    const std::unique_ptr<ClntRdma> owned(&self(clnt));
    owned->link_->end_allocs();
    std::unique_lock<std::mutex> lock(owned->mutex_);
    while (owned->users_ != 0)
        owned->unused_.wait(lock);
}

}  // namespace nfsrdma::tirpc
