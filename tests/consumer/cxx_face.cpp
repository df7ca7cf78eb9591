// The C++ face from outside of the tree: an RPC program of two procedures, its server and its
// client on two softroce devices of one event loop. Usage: cxx_face ADDRESS; ADDRESS is one of this
// machine.
#include <cstdio>
#include <nfsrdma/devices/open.hpp>
#include <nfsrdma/nfs/client/client.hpp>
#include <nfsrdma/sunrpc/clnt.hpp>
#include <nfsrdma/sunrpc/svc.hpp>
#include <nfsrdma/sunrpc/xdr_proc.hpp>
#include <nfsrdma/svcrdma/listener.hpp>
#include <nfsrdma/xprtrdma/transport.hpp>
#include <string>

namespace nfsrdma {
namespace {

constexpr std::uint32_t kProg = 0x20000778, kVers = 1, kSquare = 1;

std::uint32_t small(const void*) {
    return 64;
}

const sunrpc::ProcInfo kSquareInfo = {.name = "SQUARE",
                                      .xdr_args = sunrpc::xdr_proc<u_int, xdr_u_int>,
                                      .xdr_res = sunrpc::xdr_proc<u_int, xdr_u_int>,
                                      .args_size = sizeof(u_int),
                                      .res_size = sizeof(u_int),
                                      .args_max = small,
                                      .reply_max = small};

void square(sunrpc::SvcCall& call) noexcept {
    const u_int value = *static_cast<const u_int*>(call.args);
    *static_cast<u_int*>(call.res) = value * value;
    call.reply();
}

// An entry without a name is PROC_UNAVAIL.
const sunrpc::SvcProcedure kProcedures[] = {{}, {.info = kSquareInfo, .handle = square}};

struct State {
    bool connected = false, done = false;
    Errc failure{};
};

template <class Condition>
bool run(Loop& loop, Condition condition) {
    auto finished = [](void* arg) { return (*static_cast<Condition*>(arg))(); };
    return loop.run_until(finished, &condition, 30 * kNsPerSec);
}

Result<std::unique_ptr<verbs::Device>> open_device(Loop& loop, const SockAddr& address,
                                                   bool passive) {
    devices::Request request;
    request.address = address;
    request.passive = passive;
    auto opened = devices::open(loop, request);
    if (!opened) return opened.error();
    return std::move(opened->device);
}

Result<u_int> squared(Loop& loop, sunrpc::Xprt& xprt, u_int value) {
    sunrpc::Clnt clnt(xprt, kProg, kVers, nullptr);
    u_int answer = 0;
    Result<void> outcome;
    State state;
    struct Context {
        State& state;
        Result<void>& outcome;
    } context{state, outcome};
    sunrpc::Call call;
    call.proc = &kSquareInfo;
    call.proc_number = kSquare;
    call.args = &value;
    call.res = &answer;
    call.user = &context;
    call.done = [](sunrpc::Call& ended, Result<void> result) noexcept {
        auto& told = *static_cast<Context*>(ended.user);
        told.outcome = result;
        told.state.done = true;
    };
    NR_TRY(clnt.call(call));
    if (!run(loop, [&] { return state.done; })) return Error{Errc::timed_out, 0, "call"};
    NR_TRY(outcome);
    return answer;
}

Result<void> both(const char* address) {
    NR_TRY_ASSIGN(const SockAddr host, SockAddr::parse(address, 0));
    NR_TRY_ASSIGN(std::unique_ptr<Loop> loop, Loop::create({}));
    NR_TRY_ASSIGN(auto server_device, open_device(*loop, host, true));
    sunrpc::SvcDispatcher service;
    service.add({.prog = kProg,
                 .vers = kVers,
                 .procedures = kProcedures,
                 .args_bytes = sizeof(u_int),
                 .res_bytes = sizeof(u_int)});
    svcrdma::ServerOptions options;
    NR_TRY_ASSIGN(auto listener, svcrdma::Listener::create(*server_device, host, service, options));

    NR_TRY_ASSIGN(auto client_device, open_device(*loop, listener->local(), false));
    State state;
    auto connected = [](void* arg, Result<void> outcome) noexcept {
        auto& told = *static_cast<State*>(arg);
        told.done = true;
        told.connected = static_cast<bool>(outcome);
        if (!outcome) told.failure = outcome.error().code;
    };
    NR_TRY_ASSIGN(auto transport, xprtrdma::Transport::create(*client_device, listener->local(), {},
                                                              connected, &state));
    run(*loop, [&] { return state.done; });
    Result<u_int> answer = Error{state.failure, 0, "connect"};
    if (state.connected) answer = squared(*loop, *transport, 12);
    transport->close();
    listener->shut_down(kNsPerSec);
    if (!run(*loop, [&] { return transport->idle() && listener->idle(); })) {
        return Error{Errc::timed_out, 0, "close"};
    }
    if (!answer) return answer.error();
    if (*answer != 144) return Error{Errc::bad_message, 0, "another answer came"};
    return {};
}

}  // namespace
}  // namespace nfsrdma

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    if (nfsrdma::Result<void> outcome = nfsrdma::both(argv[1]); !outcome) {
        (void)std::fprintf(stderr, "cxx_face: %s\n", to_string(outcome.error()).c_str());
        return 1;
    }
    std::puts("cxx_face: ok");
    return 0;
}
