#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <rpc/rpc.h>

#include "base/bytes.hpp"
#include "devices/open.hpp"
#include "testprog.h"
#include "tirpc/options.hpp"
#include "tirpc/svc_listener.hpp"
#include "tirpc/tirpc_rdma.h"
#include "xprtrdma/transport.hpp"

// A server of tests/tirpc/testprog.x on a thread of its own, and clients that speak RPC by the
// byte.
namespace nfsrdma::tirpc::svc_test {

// rpcgen's XDR routines as libtirpc calls them.
template <class T>
struct ArgumentOf;
template <class T>
struct ArgumentOf<bool_t (*)(XDR*, T*)> {
    using Type = T;
};
template <auto Xdr>
bool_t routine(XDR* xdr, ...) {
    va_list list;
    va_start(list, xdr);
    auto* const object = va_arg(list, typename ArgumentOf<decltype(Xdr)>::Type*);
    va_end(list);
    return Xdr(xdr, object);
}
inline bool_t nothing(XDR* /*xdr*/, ...) {
    return TRUE;
}

inline std::vector<char> pattern(std::size_t bytes, std::uint32_t seed) {
    std::vector<char> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        data[i] = static_cast<char>((i * 131 + seed * 17 + (i >> 8)) & 0xff);
    return data;
}

// An address of this process alone, so that tests may run beside each other on the standard UDP
// port; `which` of 0 to 15.
inline std::string own_address(unsigned which = 0) {
    const auto pid = static_cast<unsigned>(::getpid());
    return "127." + std::to_string(64 + which * 4 + (pid >> 16 & 3)) + "." +
           std::to_string(pid >> 8 & 255) + "." + std::to_string(pid & 255);
}

inline rpcrdma_opts make_opts(std::uint32_t flags = 0) {
    rpcrdma_opts opts{};
    opts.size = sizeof opts;
    opts.flags = flags;
    return opts;
}

// What the dispatch routine saw and is to do; one server at a time uses it.
struct Seen {
    std::atomic<std::uint32_t> calls{0}, running{0}, running_max{0};
    std::atomic<bool> alloc{false};  // results by svc_rdma_alloc
    std::atomic<bool> args_in_place{false};
    std::atomic<std::uint32_t> flavor{0};
    std::atomic<SVCXPRT*> listener{nullptr};
    using OnClose = std::function<void(svc_req*, SVCXPRT*)>;
    void set_on_close(OnClose what) {
        const std::lock_guard<std::mutex> lock(mutex);
        on_close = std::move(what);
    }
    OnClose get_on_close() {
        const std::lock_guard<std::mutex> lock(mutex);
        return on_close;
    }
    void set_caller(std::string text) {
        const std::lock_guard<std::mutex> lock(mutex);
        caller = std::move(text);
    }
    std::string get_caller() {
        const std::lock_guard<std::mutex> lock(mutex);
        return caller;
    }
    std::mutex mutex;
    std::string caller;  // of the last T_WHO
    OnClose on_close;    // T_CLOSE
};
inline Seen& seen() {
    static Seen all;
    return all;
}

inline char* room_for(SVCXPRT* xprt, u_int bytes, std::vector<char>& own) {
    void* const memory = seen().alloc ? svc_rdma_alloc(xprt, bytes) : nullptr;
    if (memory != nullptr) return static_cast<char*>(memory);
    own.resize(bytes + 1);
    return own.data();
}

template <auto Xdr, class Args>
bool get(SVCXPRT* xprt, Args& args) {
    std::memset(static_cast<void*>(&args), 0, sizeof args);
    if (svc_getargs(xprt, routine<Xdr>, &args) != FALSE) return true;
    svcerr_decode(xprt);
    return false;
}
// As rpcgen's dispatch routine does it.
template <auto Xdr, class Res>
void send(SVCXPRT* xprt, Res& res) {
    if (svc_sendreply(xprt, routine<Xdr>, &res) == FALSE) svcerr_systemerr(xprt);
}

inline void serve_data(svc_req* rqst, SVCXPRT* xprt) {
    static thread_local std::vector<char> own;
    switch (rqst->rq_proc) {
        case T_WRITE: {
            wargs args;
            if (!get<xdr_wargs>(xprt, args)) return;
            wres res{};
            res.wres_u.resok.count = args.data.data_len;
            std::uint32_t sum = 0;
            for (u_int i = 0; i < args.data.data_len; ++i)
                sum = sum * 31 + static_cast<unsigned char>(args.data.data_val[i]);
            store_be32(as_bytes(res.wres_u.resok.verf), sum);
            store_be32(as_bytes(res.wres_u.resok.verf) + 4, args.trailer);
            send<xdr_wres>(xprt, res);
            svc_freeargs(xprt, routine<xdr_wargs>, &args);
            return;
        }
        case T_READ: {
            rargs args;
            if (!get<xdr_rargs>(xprt, args)) return;
            rres res{};
            const auto bytes = static_cast<u_int>(args.offset == 0 ? args.count : args.offset);
            char* const data = room_for(xprt, bytes, own);
            const std::vector<char> wanted = pattern(bytes, args.count);
            std::memcpy(data, wanted.data(), bytes);
            res.rres_u.resok.count = bytes;
            res.rres_u.resok.eof = TRUE;
            res.rres_u.resok.data.data_len = bytes;
            res.rres_u.resok.data.data_val = data;
            send<xdr_rres>(xprt, res);
            std::memset(data, 0x5a, seen().alloc ? 0 : bytes);  // it is ours again
            svc_freeargs(xprt, routine<xdr_rargs>, &args);
            return;
        }
        default: {
            blob args;
            if (!get<xdr_blob>(xprt, args)) return;
            send<xdr_blob>(xprt, args);
            // Arguments stay until they are freed, whether answered or not.
            if (args.blob_len != 0) {
                const char first = args.blob_val[0];
                seen().args_in_place = args.blob_val[args.blob_len - 1] != 0 || first != 0;
            }
            svc_freeargs(xprt, routine<xdr_blob>, &args);
            return;
        }
    }
}

inline void serve_who(svc_req* rqst, SVCXPRT* xprt) {
    whoami res{};
    res.flavor = static_cast<u_int>(rqst->rq_cred.oa_flavor);
    std::array<char, 8> none{};
    res.machine = none.data();
    std::vector<u_int> gids;
    if (rqst->rq_cred.oa_flavor == AUTH_SYS) {
        const auto* const sys = static_cast<const authunix_parms*>(rqst->rq_clntcred);
        res.uid = sys->aup_uid;
        res.gid = sys->aup_gid;
        gids.assign(sys->aup_gids, sys->aup_gids + sys->aup_len);
        res.gids.gids_len = static_cast<u_int>(gids.size());
        res.gids.gids_val = gids.data();
        res.machine = sys->aup_machname;
    }
    const netbuf* const caller = svc_getrpccaller(xprt);
    seen().set_caller(
        SockAddr::from(static_cast<const sockaddr*>(caller->buf)).address_to_string());
    send<xdr_whoami>(xprt, res);
}

inline void serve_other(svc_req* rqst, SVCXPRT* xprt) {
    switch (rqst->rq_proc) {
        case T_ADD: {
            addargs args;
            if (!get<xdr_addargs>(xprt, args)) return;
            int sum = args.a + args.b;
            send<xdr_int>(xprt, sum);
            return;
        }
        case T_SLEEPMS: {
            int args = 0;
            if (!get<xdr_int>(xprt, args)) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(args));
            send<xdr_int>(xprt, args);
            return;
        }
        case T_SYSERR: {  // results that cannot be encoded
            std::vector<char> data(MAXIO + 1);
            blob res{MAXIO + 1, data.data()};
            send<xdr_blob>(xprt, res);
            return;
        }
        case T_DECODE:
            return svcerr_decode(xprt);
        case T_CLOSE:
            seen().get_on_close()(rqst, xprt);
            return;
        case T_LINK: {
            largs args;
            if (!get<xdr_largs>(xprt, args)) return;
            char* path = args.path;
            send<xdr_wrapstring>(xprt, path);
            svc_freeargs(xprt, routine<xdr_largs>, &args);
            return;
        }
        default:
            return svcerr_noproc(xprt);
    }
}

inline void dispatch(svc_req* rqst, SVCXPRT* xprt) {
    Seen& s = seen();
    ++s.calls;
    s.flavor = static_cast<std::uint32_t>(rqst->rq_cred.oa_flavor);
    const std::uint32_t now = ++s.running;
    if (now > s.running_max) s.running_max = now;
    switch (rqst->rq_proc) {
        case T_NULL:
            svc_sendreply(xprt, nothing, nullptr);
            break;
        case T_WRITE:
        case T_READ:
        case T_ECHO:
        case T_LONG:
            serve_data(rqst, xprt);
            break;
        case T_WHO:
            serve_who(rqst, xprt);
            break;
        default:
            serve_other(rqst, xprt);
            break;
    }
    --s.running;
}

// Items as the program's table has them; T_LONG has none.
inline void register_table() {
    static const std::array<rpcrdma_proc, 4> procs{
        {{T_WRITE, RPCRDMA_DDP_IN_PLACE(wargs, data.data_val), RPCRDMA_NO_DDP, nullptr, nullptr},
         {T_READ, RPCRDMA_NO_DDP, RPCRDMA_DDP_IN_PLACE(rres, rres_u.resok.data.data_val), nullptr,
          nullptr},
         {T_LINK,
          {static_cast<std::int32_t>(offsetof(largs, path)), 0, 4096, nullptr},
          {0, 0, 4096, nullptr},
          nullptr,
          nullptr},
         {T_ECHO, RPCRDMA_DDP_IN_PLACE(blob, blob_val), RPCRDMA_DDP_IN_PLACE(blob, blob_val),
          nullptr, nullptr}}};
    const rpcrdma_ulb ulb RPCRDMA_ULB(TESTPROG, TESTVERS, procs.size(), procs.data());
    EXPECT_EQ(rpcrdma_ulb_register(&ulb), 0);
}

enum class LoopKind { run, poll, select };

// The listener, and threads that serve it. Made, registered, served and destroyed by its first
// thread.
class Server {
  public:
    explicit Server(const rpcrdma_opts& opts = make_opts(), LoopKind kind = LoopKind::poll,
                    unsigned threads = 1, unsigned which = 0) {
        register_table();
        address_ = own_address(which);
        std::atomic<bool> ready{false};
        first_ = std::thread([&, this, kind, threads] {
            rpcrdma_opts mine = opts;
            xprt_ = svc_rdma_create((address_ + ":0").c_str(), &mine);
            if (xprt_ == nullptr) ADD_FAILURE() << rpcrdma_strerror();
            if (xprt_ != nullptr) begin();
            ready = true;
            ready.notify_one();
            if (xprt_ == nullptr) return;
            std::vector<std::thread> others;
            for (unsigned i = 1; i < threads; ++i)
                others.emplace_back([this, kind] { loop(kind); });
            loop(kind);
            for (std::thread& other : others)
                other.join();
            if (at_end) at_end();
            told_.wait(false);  // no svc_rdma_wake beside svc_destroy
            SVCXPRT* const listener = seen().listener.exchange(nullptr);
            if (listener != nullptr) svc_destroy(listener);
            svc_unreg(TESTPROG, TESTVERS);
        });
        ready.wait(false);
        if (xprt_ != nullptr) port = xprt_->xp_port;
    }
    ~Server() { stop(); }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    void stop() {
        if (!first_.joinable()) return;
        stopping_ = true;
        SVCXPRT* const listener = seen().listener;
        if (listener != nullptr) svc_rdma_wake(listener);
        told_ = true;
        told_.notify_one();
        first_.join();
    }
    SvcListener& listener() { return *SvcListener::of(*xprt_); }
    SockAddr address() const { return *SockAddr::parse(address_, port); }
    SVCXPRT* xprt() { return xprt_; }
    rpcrdma_stats stats() {
        rpcrdma_stats out{};
        out.size = sizeof out;
        EXPECT_NE(SVC_CONTROL(xprt_, SVCRDMA_GET_STATS, &out), FALSE);
        return out;
    }

    std::uint16_t port = 0;
    std::function<void()> at_end;

  private:
    void begin() {
        seen().listener = xprt_;
        EXPECT_NE(svc_reg(xprt_, TESTPROG, TESTVERS, dispatch, nullptr), FALSE);
    }
    void loop(LoopKind kind) {
        switch (kind) {
            case LoopKind::run:
                svc_run();
                return;
            case LoopKind::poll:
                while (!stopping_ && svc_pollfd != nullptr) {
                    std::vector<pollfd> fds(svc_pollfd, svc_pollfd + svc_max_pollfd);
                    const int count = ::poll(fds.data(), fds.size(), 1000);
                    if (count > 0) svc_getreq_poll(fds.data(), count);
                }
                return;
            case LoopKind::select:
                while (!stopping_) {
                    fd_set fds = svc_fdset;
                    timeval wait{1, 0};
                    if (::select(svc_maxfd + 1, &fds, nullptr, nullptr, &wait) > 0)
                        svc_getreqset(&fds);
                }
                return;
        }
    }

    std::string address_;
    SVCXPRT* xprt_ = nullptr;
    std::atomic<bool> stopping_{false}, told_{false};
    std::thread first_;
};

struct Reply {
    bool answered = false;  // false: the connection ended, or an RDMA error came
    std::vector<std::byte> head;
    std::vector<char> payload;  // what was placed
};

struct Sent {
    std::vector<std::byte> head, tail;  // around the payload
    std::vector<char> payload;
    std::uint32_t result_room = 0, reply_max = 512;
};

// A client with a loop of its own, driven by who calls.
class Client {
  public:
    explicit Client(const SockAddr& server, const rpcrdma_opts* opts = nullptr) {
        LoopOptions loop_options;
        loop_options.backend = LoopBackend::epoll;
        loop_ = *Loop::create(loop_options);
        const Options options = *check_options(opts);
        auto opened = devices::open(*loop_, client_request(options, server));
        NR_ASSERT(static_cast<bool>(opened));
        device_ = std::move(opened->device);
        xprtrdma::TransportOptions transport_opts = transport_options(options);
        transport_opts.min_chunk_bytes = 1;  // what is apart goes by chunk
        transport_ = *xprtrdma::Transport::create(
            *device_, server, transport_opts,
            [](void* self, Result<void> outcome) noexcept {
                static_cast<Client*>(self)->connected_ = static_cast<bool>(outcome);
                static_cast<Client*>(self)->told_ = true;
            },
            this);
        of_this_thread().push_back(this);
        until([this] { return told_; });
    }
    ~Client() {
        transport_->close();
        until([this] { return transport_->idle(); });
        auto& all = of_this_thread();
        all.erase(std::find(all.begin(), all.end(), this));
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    bool connected() const { return connected_ && transport_->connected(); }
    // Drives this one, and now and then the others of this thread, whose servers wait for answers
    // of their devices.
    bool until(const std::function<bool()>& done, std::uint64_t limit_ns = 30 * kNsPerSec) {
        constexpr std::uint64_t kTurnNs = 5 * kNsPerMs;
        const std::uint64_t limit = loop_->now_ns() + limit_ns;
        for (;;) {
            const std::uint64_t now = loop_->now_ns();
            const std::uint64_t left = limit - std::min(limit, now);
            const bool came = loop_->run_until(
                [](void* arg) { return (*static_cast<const std::function<bool()>*>(arg))(); },
                const_cast<std::function<bool()>*>(&done),  // NOLINT: a void* of C
                std::min(left, kTurnNs));
            if (came || left <= kTurnNs) return came;
            for (Client* const other : of_this_thread()) {
                if (other != this) other->loop_->run_once(0);
            }
        }
    }
    const xprtrdma::TransportCounters& counters() { return transport_->counters(); }
    Loop& loop() { return *loop_; }
    xprtrdma::Transport& transport() { return *transport_; }

    // A call in flight.
    struct Flight {
        sunrpc::Rqst* rqst = nullptr;
        sunrpc::Payload payload, room;
        bool done = false, ok = false;
    };
    bool send(Flight& flight, const Sent& sent) {
        const auto bytes = static_cast<std::uint32_t>(sent.head.size() + sent.tail.size());
        sunrpc::Rqst* rqst = nullptr;
        until([&] {
            auto got = transport_->get_rqst(bytes);
            if (got) rqst = *got;
            return got || got.error().code != Errc::again;
        });
        if (rqst == nullptr) return false;
        flight.rqst = rqst;
        std::memcpy(rqst->head_room.data(), sent.head.data(), sent.head.size());
        rqst->call.head = rqst->head_room.first(sent.head.size());
        if (!sent.tail.empty())
            std::memcpy(rqst->head_room.data() + sent.head.size(), sent.tail.data(),
                        sent.tail.size());
        rqst->call.tail = rqst->head_room.subspan(sent.head.size(), sent.tail.size());
        if (!sent.payload.empty()) {
            flight.payload =
                *transport_->get_payload(static_cast<std::uint32_t>(sent.payload.size()));
            std::memcpy(flight.payload.memory().data(), sent.payload.data(), sent.payload.size());
            rqst->call.payload = flight.payload.memory().first(sent.payload.size());
        }
        if (sent.result_room != 0) {
            flight.room = *transport_->get_payload(sent.result_room);
            rqst->result_room = flight.room.memory().first(sent.result_room);
        }
        rqst->ddp_allowed = true;
        rqst->reply_max = sent.reply_max;
        rqst->xid = load_be32(sent.head.data());
        rqst->user = &flight;
        rqst->complete = [](sunrpc::Rqst& r, Result<void> result) noexcept {
            static_cast<Flight*>(r.user)->done = true;
            static_cast<Flight*>(r.user)->ok = static_cast<bool>(result);
        };
        return static_cast<bool>(transport_->send(*rqst));
    }
    Reply wait(Flight& flight, std::uint64_t limit_ns = 20 * kNsPerSec) {
        Reply reply;
        const bool came = until([&] { return flight.done; }, limit_ns);
        reply.answered = came && flight.ok;
        if (reply.answered) {
            reply.head.assign(flight.rqst->reply.head.begin(), flight.rqst->reply.head.end());
            const char* const placed = as_chars(flight.rqst->reply.payload.data());
            reply.payload.assign(placed, placed + flight.rqst->reply.payload.size());
        }
        transport_->put_rqst(*flight.rqst);
        return reply;
    }
    Reply call(const Sent& sent) {
        Flight flight;
        if (!send(flight, sent)) return {};
        return wait(flight);
    }

  private:
    static std::vector<Client*>& of_this_thread() {
        static thread_local std::vector<Client*> all;
        return all;
    }

    std::unique_ptr<Loop> loop_;
    std::unique_ptr<verbs::Device> device_;
    std::unique_ptr<xprtrdma::Transport> transport_;
    bool connected_ = false, told_ = false;
};

// RPC messages by libtirpc's own routines.
class Message {
  public:
    explicit Message(std::uint32_t proc, std::uint32_t vers = TESTVERS,
                     std::uint32_t prog = TESTPROG) {
        static std::atomic<std::uint32_t> next{1};
        xid = next++;
        for (const std::uint32_t word : {xid, 0u, 2u, prog, vers, proc})
            put(word);
        for (int i = 0; i < 4; ++i)
            put(0);  // AUTH_NONE, both
    }
    Message& put(std::uint32_t word) {
        bytes.resize(bytes.size() + 4);
        store_be32(&bytes[bytes.size() - 4], word);
        return *this;
    }
    Message& put_opaque(const std::vector<char>& data) {
        put(static_cast<std::uint32_t>(data.size()));
        const std::size_t at = bytes.size();
        bytes.resize(at + align_up(data.size(), std::size_t{4}));
        if (!data.empty()) std::memcpy(&bytes[at], data.data(), data.size());
        return *this;
    }
    Sent sent() const { return {bytes, {}, {}, 0, 512}; }
    std::uint32_t xid = 0;
    std::vector<std::byte> bytes;
};

// The words of a reply behind its XID: REPLY, MSG_ACCEPTED, verifier, accept_stat: results at 24.
inline std::uint32_t word(const Reply& reply, std::size_t index) {
    return reply.head.size() >= index * 4 + 4 ? load_be32(&reply.head[index * 4]) : 0xdeadbeef;
}
inline bool is_success(const Reply& reply) {
    return reply.answered && word(reply, 1) == 1 && word(reply, 2) == 0 && word(reply, 5) == 0;
}
// 0xff: denied, or no reply.
inline std::uint32_t accept_stat(const Reply& reply) {
    return reply.answered && word(reply, 2) == 0 ? word(reply, 5) : 0xff;
}

}  // namespace nfsrdma::tirpc::svc_test
