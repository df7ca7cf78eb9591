#pragma once
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <rpc/rpc.h>

#include "base/bytes.hpp"
#include "base/loop.hpp"
#include "sunrpc/rpc_msg.hpp"
#include "sunrpc/xdr_stream.hpp"
#include "svcrdma/listener.hpp"
#include "testprog.h"
#include "tirpc/options.hpp"
#include "tirpc/tirpc_rdma.h"
#include "tirpc/ulb.hpp"
#include "verbs/softroce/softroce.hpp"
#include "verbs/softroce/udp_wire.hpp"

// A server of tests/tirpc/testprog.x below the transport, on a thread of its own, that does what a
// test tells it to: so that a CLIENT meets what a well-behaved server would never do.
namespace nfsrdma::tirpc::test {

// A program of our own: other tests have their table for TESTPROG.
inline constexpr std::uint32_t kProg = TESTPROG + 1, kVers = TESTVERS;
inline constexpr std::uint32_t kGss = 6;

// Each XDR routine of rpcgen with the type that libtirpc calls it by.
template <class T>
xdrproc_t routine(bool_t (*typed)(XDR*, T*)) noexcept {
    return std::bit_cast<xdrproc_t>(typed);
}
inline xdrproc_t void_routine() noexcept {
    return std::bit_cast<xdrproc_t>(&xdr_void);
}

inline std::uint32_t read_max(const void* args) {
    return static_cast<const rargs*>(args)->count;
}
inline std::uint32_t link_max(const void* /*args*/) {
    return 9000;  // of xdr_wrapstring
}
inline std::string pattern(std::uint32_t bytes, char seed = 'a') {
    std::string made(bytes, 0);
    for (std::uint32_t i = 0; i < bytes; ++i)
        made[i] = static_cast<char>(seed + static_cast<char>(i % 61));
    return made;
}

inline std::uint32_t echo_max(const void* args) {
    return static_cast<const blob*>(args)->blob_len;
}
inline std::uint32_t small_reply(const void* /*args*/) {
    return 256;
}

// Once in a process.
inline void register_table() {
    static const std::array<rpcrdma_proc, 6> procs = {{
        {T_ADD, RPCRDMA_NO_DDP, RPCRDMA_NO_DDP, nullptr, small_reply},
        {T_WRITE, RPCRDMA_DDP_IN_PLACE(wargs, data.data_val), RPCRDMA_NO_DDP, nullptr, small_reply},
        {T_READ, RPCRDMA_NO_DDP, RPCRDMA_DDP_IN_PLACE(rres, rres_u.resok.data.data_val), read_max,
         small_reply},
        {T_LINK,
         RPCRDMA_DDP_STRING(largs, path, 4096),
         {0, 0, 9000, nullptr},
         link_max,
         small_reply},
        {T_SLEEPMS, RPCRDMA_NO_DDP, RPCRDMA_NO_DDP, nullptr, small_reply},
        {T_ECHO, RPCRDMA_DDP_IN_PLACE(blob, blob_val), RPCRDMA_DDP_IN_PLACE(blob, blob_val),
         echo_max, small_reply},
    }};
    const rpcrdma_ulb ulb RPCRDMA_ULB(kProg, kVers, procs.size(), procs.data());
    ASSERT_EQ(rpcrdma_ulb_register(&ulb), 0);
}

// What the server does to one call, in place of what it would do.
enum class Trick : std::uint8_t {
    none,
    drop,           // it never answers
    auth_error,     // MSG_DENIED, AUTH_REJECTEDCRED
    system_err,     // accepted, SYSTEM_ERR
    prog_mismatch,  // accepted, versions 7 to 9
    short_header,   // eight bytes
    long_claim,     // results that begin with a length of 4 MiB, and end there
    short_results,  // a header, and results that end early
    inline_item,    // READ: the item in the message, though there is room for it
    longer_inline,  // READ: the same, with 64 bytes more than were asked for
    error_arm,      // READ: status 5
    shorthand,      // a verifier of AUTH_SHORT that stands for the credential from now on
    verifier,       // a verifier of AUTH_SHORT with a body of 400 bytes
};

class Server final : public sunrpc::Service {
  public:
    Server() : Server(0, *SockAddr::parse("127.0.7.1", 0)) {}
    // At the ports of one that was there before.
    Server(std::uint16_t udp_port, const SockAddr& address,
           svcrdma::ServerOptions options = server_options(*check_options(nullptr))) {
        options.connections_max = 64;
        auto loop = Loop::create({.backend = LoopBackend::epoll});
        EXPECT_TRUE(loop);
        loop_ = *std::move(loop);
        verbs::softroce::UdpOptions udp;
        udp.bind = address.with_port(udp_port);
        udp.bind_patience_ms = 10000;
        auto wire = verbs::softroce::create_udp_wire(udp);
        EXPECT_TRUE(wire);
        udp_port_ = (*wire)->port();
        auto device = verbs::softroce::create_device(*loop_, *std::move(wire), {});
        EXPECT_TRUE(device);
        device_ = *std::move(device);
        auto listener = svcrdma::Listener::create(*device_, address, *this, options);
        EXPECT_TRUE(listener);
        listener_ = *std::move(listener);
        address_ = listener_->local();
        thread_ = std::thread([this] { loop_->run(); });
    }
    ~Server() override { stop(); }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    void stop() {
        if (!thread_.joinable()) return;
        loop_->stop();
        thread_.join();
        for (Delayed& each : delayed_) {
            if (!each.armed()) continue;
            loop_->disarm(each);
            each.now(each);
        }
        listener_->shut_down(0);
        const auto idle = [](void* listener) {
            return static_cast<svcrdma::Listener*>(listener)->idle();
        };
        EXPECT_TRUE(loop_->run_until(idle, listener_.get(), 30 * kNsPerSec));
        listener_ = nullptr;
        device_ = nullptr;
    }

    rpcrdma_opts opts() const {
        rpcrdma_opts made = RPCRDMA_OPTS_INIT;
        made.bind = "127.0.7.2";
        made.peer_udp_port = udp_port_;
        made.port = address_.port();
        return made;
    }
    const SockAddr& address() const { return address_; }
    std::uint16_t udp_port() const { return udp_port_; }
    CLIENT* connect(const rpcrdma_opts& with) const {
        CLIENT* const made =
            clnt_rdma_create(address_.address_to_string().c_str(), kProg, kVers, &with);
        EXPECT_NE(made, nullptr) << rpcrdma_strerror();
        return made;
    }
    CLIENT* connect() const { return connect(opts()); }

    // What it has not answered yet it never will.
    void forget_calls() { forgets_.store(true); }

    // Of the next call, once; the tricks of calls after that may be set before.
    void play(std::vector<Trick> tricks) {
        const std::lock_guard<std::mutex> lock(mutex_);
        tricks_ = std::move(tricks);
        next_trick_ = 0;
    }

    // What T_WRITE brought: a sum of its data, and its trailer.
    struct Written {
        std::uint32_t sum = 0, trailer = 0;
    };
    std::vector<Written> written() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return written_;
    }
    static std::uint32_t sum_of(const char* data, std::uint32_t bytes) {
        std::uint32_t sum = 0;
        for (std::uint32_t i = 0; i < bytes; ++i)
            sum = sum * 31 + static_cast<unsigned char>(data[i]);
        return sum;
    }

    std::atomic<std::uint32_t> calls{0}, answered{0};
    std::atomic<std::uint32_t> last_xid{0}, last_flavor{0}, last_uid{0};
    std::atomic<std::uint32_t> last_payload{0};  // bytes of the item that came by RDMA
    std::atomic<std::uint32_t> last_call_bytes{0};

  private:
    // sunrpc::Service
    std::uint32_t scratch_bytes() const noexcept override { return 64; }
    void wake(sunrpc::SvcRqst& rqst) noexcept override { dispatch(rqst); }

    struct Delayed : Timer {
        Delayed() noexcept
            : Timer([](Timer& timer) noexcept { now(static_cast<Delayed&>(timer)); }) {}
        static void now(Delayed& self) noexcept {
            sunrpc::SvcRqst* const rqst = std::exchange(self.rqst, nullptr);
            if (self.home->forgets_.load()) return rqst->xprt->drop(*rqst);
            self.home->answered.fetch_add(1);
            rqst->xprt->reply(*rqst);
        }
        sunrpc::SvcRqst* rqst = nullptr;
        Server* home = nullptr;
    };

    Trick take_trick() noexcept {
        const std::lock_guard<std::mutex> lock(mutex_);
        return next_trick_ < tricks_.size() ? tricks_[next_trick_++] : Trick::none;
    }

    void answer(sunrpc::SvcRqst& rqst, std::uint32_t delay_ms) noexcept {
        for (Delayed& each : delayed_) {
            if (delay_ms == 0 || each.rqst != nullptr) continue;
            each.rqst = &rqst;
            each.home = this;
            return loop_->arm(each, loop_->now_ns() + delay_ms * kNsPerMs);
        }
        answered.fetch_add(1);
        rqst.xprt->reply(rqst);
    }

    void dispatch(sunrpc::SvcRqst& rqst) noexcept override {
        sunrpc::CallHeader header;
        const sunrpc::CallFault fault = sunrpc::decode_call(rqst.arg.head, header);
        size_gss(rqst.arg.head, header);
        const Trick trick = take_trick();  // so that whoever saw it counted may play others
        last_xid.store(header.xid);
        last_flavor.store(static_cast<std::uint32_t>(header.flavor));
        last_uid.store(header.sys.uid);
        last_payload.store(static_cast<std::uint32_t>(rqst.arg.payload.size()));
        last_call_bytes.store(rqst.arg.length());
        calls.fetch_add(1);
        if (trick == Trick::drop || fault == sunrpc::CallFault::drop) return rqst.xprt->drop(rqst);
        if (begin_trick(rqst, header.xid, trick)) return answer(rqst, 0);
        std::uint32_t delay = 0;
        if (!serve(rqst, header, trick, delay)) {
            sunrpc::ReplyHeader reply;
            reply.xid = header.xid;
            reply.accept = sunrpc::AcceptStat::garbage_args;
            finish_header(rqst, reply);
        }
        answer(rqst, delay);
    }

    static void finish_header(sunrpc::SvcRqst& rqst, const sunrpc::ReplyHeader& reply) noexcept {
        auto used = sunrpc::encode_reply(rqst.res_room, reply);
        rqst.res = {};
        rqst.res.head = rqst.res_room.first(*used);
    }

    // What decode_call does not know: how long a header of RPCSEC_GSS is, whose verifier is empty.
    static void size_gss(std::span<const std::byte> head, sunrpc::CallHeader& header) noexcept {
        constexpr std::size_t kFlavor = 24, kCredential = 28, kProcedure = 20;
        if (head.size() < 64 || load_be32(head.data() + kFlavor) != kGss) return;
        header.flavor = sunrpc::AuthFlavor::gss;
        header.proc = load_be32(head.data() + kProcedure);
        header.size = 32 + load_be32(head.data() + kCredential) + 8;
    }

    // True: the reply is that of the trick.
    static bool begin_trick(sunrpc::SvcRqst& rqst, std::uint32_t xid, Trick trick) noexcept {
        sunrpc::ReplyHeader reply;
        reply.xid = xid;
        if (trick == Trick::auth_error) {
            reply.accepted = false;
            reply.reject = sunrpc::RejectStat::auth_error;
            reply.auth = sunrpc::AuthStat::rejected_cred;
        } else if (trick == Trick::system_err) {
            reply.accept = sunrpc::AcceptStat::system_err;
        } else if (trick == Trick::prog_mismatch) {
            reply.accept = sunrpc::AcceptStat::prog_mismatch;
            reply.low = 7;
            reply.high = 9;
        } else if (trick != Trick::short_header && trick != Trick::short_results &&
                   trick != Trick::long_claim) {
            return false;
        }
        finish_header(rqst, reply);
        if (trick == Trick::long_claim) {
            store_be32(rqst.res_room.data() + rqst.res.head.size(), MAXIO);
            rqst.res.head = rqst.res_room.first(rqst.res.head.size() + 4);
        }
        if (trick == Trick::short_header) rqst.res.head = rqst.res.head.first(8);
        return true;
    }

    static std::uint32_t write_header(std::span<std::byte> room, std::uint32_t xid,
                                      Trick trick) noexcept {
        constexpr std::uint32_t kBody = 400, kShort = 16, kShorthand = 2;
        const bool shorthand = trick == Trick::shorthand;
        const std::uint32_t body = trick == Trick::verifier ? kBody : shorthand ? kShort : 0;
        const std::array<std::uint32_t, 5> words = {xid, 1, 0, body != 0 ? kShorthand : 0u, body};
        std::byte* at = room.data();
        for (const std::uint32_t word : words) {
            store_be32(at, word);
            at += 4;
        }
        std::memset(at, 'v', body);
        if (shorthand) {  // a credential as an item
            store_be32(at, kShorthand);
            store_be32(at + 4, kShort - 8);
        }
        store_be32(at + body, 0);
        return static_cast<std::uint32_t>(words.size() * 4 + body + 4);
    }

    template <class Args, class Res>
    bool run(sunrpc::SvcRqst& rqst, const sunrpc::CallHeader& header, Trick trick,
             bool_t (*xdr_args)(XDR*, Args*), bool_t (*xdr_res)(XDR*, Res*),
             const std::function<void(Args&, Res&)>& body) {
        const rpcrdma_proc* const proc = find_binding(kProg, kVers)->proc(header.proc);
        Args args{};
        Res res{};
        sunrpc::XdrDecodeStream in(rqst.arg, rqst.payload_position);
        in.skip(header.size);
        if (proc != nullptr) in.set_item_copied(ddp_item(proc->arg), &args);
        bool ok = xdr_args(in.xdr(), &args) != FALSE && !in.failed();
        if (ok) {
            body(args, res);
            sunrpc::XdrEncodeStream out(rqst.res_room,
                                        write_header(rqst.res_room, header.xid, trick));
            const bool placed = proc != nullptr && rqst.result_room != 0 &&
                                trick != Trick::inline_item && trick != Trick::longer_inline;
            if (placed) out.set_item(ddp_item(proc->res), &res);
            ok = xdr_res(out.xdr(), &res) != FALSE && !out.failed();
            rqst.res = out.message();
            if (ok && !rqst.res.payload.empty()) place(rqst);
        }
        XDR xdr{};
        xdr.x_op = XDR_FREE;
        xdr_args(&xdr, &args);
        xdr_res(&xdr, &res);
        return ok;
    }

    // The item into memory of the transport.
    static void place(sunrpc::SvcRqst& rqst) {
        const std::span<std::byte> item = rqst.res.payload;
        auto memory = rqst.xprt->get_result_payload(rqst, static_cast<std::uint32_t>(item.size()));
        ASSERT_TRUE(memory);
        std::memcpy(memory->data(), item.data(), item.size());
        rqst.res.payload = *memory;
        rqst.result_is_ddp = true;
    }

    static char* filled(std::uint32_t bytes, char seed) {
        char* const memory = static_cast<char*>(std::malloc(bytes + 1));
        for (std::uint32_t i = 0; i < bytes; ++i)
            memory[i] = static_cast<char>(seed + static_cast<char>(i % 61));
        memory[bytes] = 0;
        return memory;
    }

    bool serve(sunrpc::SvcRqst& rqst, const sunrpc::CallHeader& header, Trick trick,
               std::uint32_t& delay) {
        switch (header.proc) {
            case T_ADD:
                return run<addargs, int>(rqst, header, trick, xdr_addargs, xdr_int,
                                         [](addargs& a, int& r) { r = a.a + a.b; });
            case T_SLEEPMS:
                return run<int, int>(rqst, header, trick, xdr_int, xdr_int,
                                     [&delay](int& a, int& r) {
                                         delay = static_cast<std::uint32_t>(a);
                                         r = a;
                                     });
            case T_WRITE:
                return run<wargs, wres>(rqst, header, trick, xdr_wargs, xdr_wres,
                                        [this](wargs& a, wres& r) { write(a, r); });
            case T_READ:
                return run<rargs, rres>(rqst, header, trick, xdr_rargs, xdr_rres,
                                        [trick](rargs& a, rres& r) { read(a, r, trick); });
            case T_LINK:
                return run<largs, char*>(rqst, header, trick, xdr_largs, xdr_wrapstring,
                                         [](largs& a, char*& r) { r = ::strdup(a.path); });
            case T_ECHO:
            case T_LONG:
                return run<blob, blob>(rqst, header, trick, xdr_blob, xdr_blob,
                                       [](blob& a, blob& r) { std::swap(a, r); });
            default: {
                const std::uint32_t used = write_header(rqst.res_room, header.xid, trick);
                rqst.res = {};
                rqst.res.head = rqst.res_room.first(used);
                return true;
            }
        }
    }

    // Tells of the data what a client can check: how much, and a sum.
    void write(const wargs& args, wres& res) {
        res.status = ST_OK;
        res.wres_u.resok.count = args.data.data_len;
        const std::uint32_t sum = sum_of(args.data.data_val, args.data.data_len);
        const std::lock_guard<std::mutex> lock(mutex_);
        written_.push_back({sum, args.trailer});
        store_be32(as_bytes(&res.wres_u.resok.verf[0]), sum);
        store_be32(as_bytes(&res.wres_u.resok.verf[4]), args.trailer);
    }

    static void read(const rargs& args, rres& res, Trick trick) {
        if (trick == Trick::error_arm) {
            res.status = ST_ERR;
            return;
        }
        const std::uint32_t bytes = args.count + (trick == Trick::longer_inline ? 64 : 0);
        res.status = ST_OK;
        res.rres_u.resok.count = bytes;
        res.rres_u.resok.data.data_len = bytes;
        res.rres_u.resok.data.data_val = filled(bytes, static_cast<char>(args.offset));
    }

    std::unique_ptr<Loop> loop_;
    std::unique_ptr<verbs::Device> device_;
    std::unique_ptr<svcrdma::Listener> listener_;
    SockAddr address_;
    std::uint16_t udp_port_ = 0;
    std::thread thread_;
    std::array<Delayed, 64> delayed_;
    std::mutex mutex_;  // guards the three that follow
    std::vector<Trick> tricks_;
    std::size_t next_trick_ = 0;
    std::vector<Written> written_;
    std::atomic<bool> forgets_{false};
};

// A CLIENT with its AUTH, and calls by it.
class Client {
  public:
    explicit Client(CLIENT* made) : clnt(made) {}
    ~Client() { reset(); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    void reset() {
        if (clnt == nullptr) return;
        AUTH_DESTROY(clnt->cl_auth);
        CLNT_DESTROY(clnt);
        clnt = nullptr;
    }
    template <class Args, class Res>
    clnt_stat call(rpcproc_t proc, bool_t (*xdr_args)(XDR*, Args*), Args* args,
                   bool_t (*xdr_res)(XDR*, Res*), Res* res, timeval wait = {20, 0}) const {
        return CLNT_CALL(clnt, proc, routine(xdr_args), as_caddr(args), routine(xdr_res),
                         as_caddr(res), wait);
    }
    clnt_stat null(timeval wait = {20, 0}) const {
        return CLNT_CALL(clnt, T_NULL, void_routine(), nullptr, void_routine(), nullptr, wait);
    }
    clnt_stat add(int a, int b, int& sum, timeval wait = {20, 0}) const {
        addargs args{a, b};
        return call(T_ADD, xdr_addargs, &args, xdr_int, &sum, wait);
    }
    clnt_stat sleep(int ms, timeval wait) const {
        int slept = 0;
        return call(T_SLEEPMS, xdr_int, &ms, xdr_int, &slept, wait);
    }
    rpcrdma_stats stats() const {
        rpcrdma_stats made{};
        made.size = sizeof made;
        EXPECT_TRUE(clnt_control(clnt, CLRDMA_GET_STATS, as_caddr(&made)));
        return made;
    }
    rpc_err error() const {
        rpc_err made{};
        CLNT_GETERR(clnt, &made);
        return made;
    }
    template <class T>
    static char* as_caddr(T* object) {
        return static_cast<char*>(static_cast<void*>(object));
    }

    CLIENT* clnt;
};

}  // namespace nfsrdma::tirpc::test
