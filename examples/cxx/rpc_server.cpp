// A server of an own RPC program over RDMA: rpc_server ADDRESS[:PORT] [DEVICE]
// Serves until it is interrupted (SIGINT, SIGTERM), then tells what it did.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>
#include <string>

#include "blob_binding.hpp"
#include "example.hpp"
#include "sunrpc/svc.hpp"
#include "svcrdma/listener.hpp"

namespace {

using namespace nfsrdma::sunrpc;  // NOLINT(google-build-using-namespace): an example
using Store = std::map<std::string, std::string>;

Store& store_of(SvcCall& call) {
    return *static_cast<Store*>(call.program->context);
}

// The data lie where the device pulled them to, until the reply.
void on_put(SvcCall& call) noexcept {
    const auto& args = *static_cast<put_args*>(call.args);
    auto& res = *static_cast<put_res*>(call.res);
    store_of(call)[args.name].assign(args.data.data_val, args.data.data_len);
    res.sum = blob_sum(args.data.data_val, args.data.data_len);
    call.reply();
}

// The data are put where the device pushes them from. Memory may be short for a moment: `wake`.
void on_get(SvcCall& call) noexcept {
    auto& res = *static_cast<get_res*>(call.res);
    const auto found = store_of(call).find(static_cast<get_args*>(call.args)->name);
    if (found == store_of(call).end()) {
        res.status = ENOENT;
        return call.reply();
    }
    const std::string& data = found->second;
    auto room = call.get_result_payload(static_cast<std::uint32_t>(data.size()));
    if (!room && room.error().code == nfsrdma::Errc::again) {
        call.wake = on_get;
        return;
    }
    if (!room) return call.fail(SYSTEM_ERR);
    res.data.data_val = nfsrdma::as_chars(room->data());
    std::copy(data.begin(), data.end(), res.data.data_val);
    res.data.data_len = static_cast<u_int>(data.size());
    call.reply();
}

nfsrdma::Loop* running = nullptr;

}  // namespace

int main(int argc, char** argv) {
    auto place = Place::open(argv[1], 20050, argc > 2 ? argv[2] : nullptr, true);
    if (!place) return failed("rpc_server ADDRESS[:PORT] [DEVICE]", place.error());

    Store store;
    const auto infos = blob_procedures();
    std::array<SvcProcedure, infos.size()> procedures{};
    for (std::size_t i = 0; i < infos.size(); ++i)
        procedures[i].info = infos[i];
    procedures[BLOB_NULL].handle = [](SvcCall& call) noexcept { call.reply(); };
    procedures[BLOB_PUT].handle = on_put;
    procedures[BLOB_GET].handle = on_get;
    SvcDispatcher dispatcher;
    dispatcher.add(
        {.prog = BLOB_PROG, .vers = BLOB_VERS, .procedures = procedures, .context = &store});
    auto listener =
        nfsrdma::svcrdma::Listener::create(*place->device.device, place->address, dispatcher, {});
    if (!listener) return failed("listen", listener.error());

    running = place->loop.get();
    for (const int signal : {SIGINT, SIGTERM})
        (void)std::signal(signal, [](int) { running->stop(); });
    std::printf("listening on %s by %s\n", (*listener)->local().to_string().c_str(),
                place->device.name.c_str());
    (void)std::fflush(stdout);
    place->loop->run();
    (*listener)->shut_down(nfsrdma::kNsPerSec);
    while (!(*listener)->idle())
        (void)place->loop->run_once(nfsrdma::kNsPerMs);
    const auto& counters = (*listener)->counters();
    std::printf("%zu blobs, %llu calls, %llu replies by RDMA\n", store.size(), ull(counters.calls),
                ull(counters.write_chunk_replies));
}
