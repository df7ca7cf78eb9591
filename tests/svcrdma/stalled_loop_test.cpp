#include <array>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "sunrpc/clnt.hpp"
#include "sunrpc/svc.hpp"
#include "sunrpc/xdr_proc.hpp"
#include "svcrdma/listener.hpp"
#include "verbs/softroce/group.hpp"
#include "xprtrdma/transport.hpp"

// A server of two loops behind one port, of which one stands still while a call waits for it,
// longer than its client is patient (docs/faults.md).
namespace nfsrdma::svcrdma {
namespace {

using verbs::softroce::create_device;
using verbs::softroce::create_udp_wire;
using verbs::softroce::DeviceGroup;

// Queue pair 1, which answers for all ports, is on loop 1 of two.
constexpr std::uint32_t kLoops = 2, kStalled = 0, kProg = 0x20000555, kVers = 1;
const SockAddr kServer = SockAddr::v4(0x7F2B0301, 0), kClient = SockAddr::v4(0x7F2B0302, 0);

struct ServerLoop {
    std::unique_ptr<Loop> loop;
    sunrpc::SvcDispatcher dispatcher;
    std::array<sunrpc::SvcProcedure, 1> table;
    std::unique_ptr<Listener> listener;
    std::thread thread;
    std::uint32_t index = 0;
    std::atomic<std::uint32_t> executed{0};
};

// Answers with its loop's number.
void handle(sunrpc::SvcCall& call) noexcept {
    auto& self = *static_cast<ServerLoop*>(call.program->context);
    ++self.executed;
    *static_cast<u_int*>(call.res) = self.index;
    call.reply();
}

sunrpc::SvcProcedure procedure() {
    sunrpc::SvcProcedure proc;
    proc.info.name = "ONCE";
    proc.info.xdr_args = sunrpc::xdr_proc<u_int, xdr_u_int>;
    proc.info.xdr_res = proc.info.xdr_args;
    proc.info.args_size = proc.info.res_size = sizeof(u_int);
    proc.info.args_max = proc.info.reply_max = [](const void*) -> std::uint32_t { return 4; };
    proc.handle = handle;
    proc.once = true;
    return proc;
}

// Keeps the loop that runs it from going on until told.
struct Stall final : Task {
    Stall() noexcept
        : Task([](Task& task) noexcept {
              auto& self = static_cast<Stall&>(task);
              self.begun = true;
              while (!self.over)
                  std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }) {}
    std::atomic<bool> begun{false}, over{false};
};

class StalledLoop : public ::testing::Test {
  protected:
    StalledLoop() {
        std::array<Loop*, kLoops> loops{};
        for (std::uint32_t i = 0; i < kLoops; ++i) {
            servers_[i].loop = std::move(*Loop::create({}));
            loops[i] = servers_[i].loop.get();
        }
        group_ = std::move(*DeviceGroup::create(loops, {.bind = kServer}, {}));
        for (std::uint32_t i = 0; i < kLoops; ++i) {
            ServerLoop& server = servers_[i];
            server.index = i;
            server.table = {procedure()};
            server.dispatcher.add({.prog = kProg,
                                   .vers = kVers,
                                   .procedures = server.table,
                                   .args_bytes = sizeof(u_int),
                                   .res_bytes = sizeof(u_int),
                                   .context = &server});
            server.dispatcher.set_reply_cache(&cache_);
            ServerOptions options;
            options.demand.credits = 4;
            options.payload_runs = 2;
            server.listener = std::move(*Listener::create(
                group_->device(i), kServer.with_port(20049), server.dispatcher, options));
        }
        for (ServerLoop& server : servers_)
            server.thread = std::thread([loop = server.loop.get()] { loop->run(); });
        client_loop_ = std::move(*Loop::create({}));
        verbs::softroce::SoftOptions soft;
        soft.peer_port = group_->local().port();
        client_device_ = std::move(
            *create_device(*client_loop_, std::move(*create_udp_wire({.bind = kClient})), soft));
    }
    ~StalledLoop() override {
        for (ServerLoop& server : servers_) {
            server.loop->stop();
            server.thread.join();
            server.listener->shut_down(0);
        }
        // One after the other on this thread: what they say to each other comes all the same.
        for (int turns = 0; turns < 10000; ++turns) {
            bool idle = true;
            for (ServerLoop& server : servers_) {
                server.loop->run_once(100 * kNsPerUs);
                idle = idle && server.listener->idle();
            }
            if (idle) break;
        }
        for (ServerLoop& server : servers_)
            server.listener.reset();
    }
    template <class F>
    bool run_until(F finished) {
        return client_loop_->run_until([](void* arg) { return (*static_cast<F*>(arg))(); },
                                       &finished, 30 * kNsPerSec);
    }
    std::unique_ptr<xprtrdma::Transport> connect() {
        xprtrdma::TransportOptions options;
        options.demand.credits = 4;
        options.recovery.on = true;
        int outcome = 0;
        auto made = xprtrdma::Transport::create(
            *client_device_, kServer.with_port(20049), options,
            [](void* arg, Result<void> how) noexcept { *static_cast<int*>(arg) = how ? 1 : -1; },
            &outcome);
        EXPECT_TRUE(run_until([&] { return outcome != 0; }));
        EXPECT_EQ(outcome, 1);
        return *std::move(made);
    }
    void disconnect(std::unique_ptr<xprtrdma::Transport>& xprt) {
        xprt->close();
        EXPECT_TRUE(run_until([&] { return xprt->idle(); }));
        xprt.reset();
    }

    struct OneCall {
        sunrpc::Call call;
        u_int args = 0, res = 99;
        int answers = 0;
        bool ok = false;
    };
    static void start(sunrpc::Clnt& clnt, OneCall& one, const sunrpc::ProcInfo& info) {
        one.call.proc = &info;
        one.call.args = &one.args;
        one.call.res = &one.res;
        one.call.user = &one;
        one.call.done = [](sunrpc::Call& call, Result<void> result) noexcept {
            auto& self = *static_cast<OneCall*>(call.user);
            ++self.answers;
            self.ok = static_cast<bool>(result);
        };
        EXPECT_TRUE(clnt.call(one.call));
    }

    sunrpc::ReplyCache cache_{{}};
    std::array<ServerLoop, kLoops> servers_;
    std::unique_ptr<DeviceGroup> group_;
    std::unique_ptr<Loop> client_loop_;
    std::unique_ptr<verbs::Device> client_device_;
};

TEST_F(StalledLoop, TheCallIsExecutedOnceThoughItsClientReconnects) {
    const sunrpc::SvcProcedure proc = procedure();
    std::array<std::unique_ptr<xprtrdma::Transport>, kLoops> xprts;
    xprtrdma::Transport* stalled = nullptr;
    for (auto& xprt : xprts) {
        xprt = connect();
        sunrpc::Clnt clnt(*xprt, kProg, kVers, nullptr);
        OneCall first;
        start(clnt, first, proc.info);
        ASSERT_TRUE(run_until([&] { return first.answers == 1; }));
        ASSERT_TRUE(first.ok);
        if (first.res == kStalled) stalled = xprt.get();
    }
    ASSERT_NE(stalled, nullptr) << "connections are given to the loops in turn";
    const std::uint32_t before = servers_[0].executed + servers_[1].executed;
    Stall stall;
    servers_[kStalled].loop->post(stall);
    ASSERT_TRUE(run_until([&] { return stall.begun.load(); }));
    {
        sunrpc::Clnt clnt(*stalled, kProg, kVers, nullptr);
        OneCall call;
        start(clnt, call, proc.info);
        // The other loop's device says that nobody listens at the port that is asked: another
        // process, for all that the client can know.
        ASSERT_TRUE(run_until([&] { return stalled->counters().probes_told > 0; }));
        EXPECT_EQ(call.answers, 0);
        stall.over = true;
        EXPECT_TRUE(run_until([&] { return call.answers > 0 && stalled->connected(); }));
        EXPECT_TRUE(call.ok);
        EXPECT_GE(stalled->counters().reconnects, 1u);
        EXPECT_GE(call.call.resends, 1u);
        // Both copies have been taken by then, or never will be.
        OneCall last;
        start(clnt, last, proc.info);
        EXPECT_TRUE(run_until([&] { return last.answers > 0; }));
        EXPECT_EQ(call.answers, 1);
        EXPECT_EQ(servers_[0].executed + servers_[1].executed, before + 2);
    }
    for (auto& xprt : xprts)
        disconnect(xprt);
}

}  // namespace
}  // namespace nfsrdma::svcrdma
