#include <cstring>

#include "nfs/binding.hpp"
#include "nfs/client/client.hpp"
#include "nfs/server/server.hpp"
#include "nfs/vfs_mem.hpp"
#include "svcrdma/listener.hpp"
#include "tests/verbs/rdmacore/hw_world.hpp"
#include "xprtrdma/transport.hpp"

// NFS over both transports over a real device: our client and our server in one process, with the
// kernel's device between them.
namespace nfsrdma::verbs::rdmacore::test {
namespace {

constexpr std::uint32_t kMiB = 1u << 20;
constexpr std::uint32_t kAtOnce = 8;

struct Params {
    Strategy strategy;
    LoopBackend backend;
    const char* name;
};

class RpcHw : public HwTest, public ::testing::WithParamInterface<Params> {
  protected:
    void SetUp() override {
        address = device_address();
        if (!address.is_v4()) GTEST_SKIP() << "needs qemu: no RDMA device";
        LoopOptions loop_options;
        loop_options.backend = GetParam().backend;
        loop = std::move(*Loop::create(loop_options));
        Options options;
        options.strategy = GetParam().strategy;
        ASSERT_NO_FATAL_FAILURE(open(client_device, options));
        ASSERT_NO_FATAL_FAILURE(open(server_device, options));
        ASSERT_TRUE(strategy_of(*client_device) == GetParam().strategy);
        auto made = std::make_shared<nfs::VfsMem>();
        vfs = made.get();
        ASSERT_TRUE(server_.add_export("/export", made));
        server_.add_to(dispatcher_);
        svcrdma::ServerOptions server_options;
        server_options.demand.credits = 16;
        server_options.payload_runs = 16;
        auto listening =
            svcrdma::Listener::create(*server_device, address, dispatcher_, server_options);
        ASSERT_TRUE(listening) << to_string(listening.error());
        rpc_listener = std::move(*listening);
        ASSERT_NO_FATAL_FAILURE(connect_rpc());
    }
    void connect_rpc() {
        xprtrdma::TransportOptions options;
        options.demand.credits = 16;
        outcome = 0;
        auto made = xprtrdma::Transport::create(
            *client_device, rpc_listener->local(), options,
            [](void* arg, Result<void> how) noexcept {
                static_cast<RpcHw*>(arg)->outcome = how ? 1 : -1;
            },
            this);
        ASSERT_TRUE(made) << to_string(made.error());
        xprt = std::move(*made);
        ASSERT_TRUE(run_until(*loop, [&] { return outcome != 0; }));
        ASSERT_EQ(outcome, 1);
        nfs_client = std::make_unique<nfs::client::Client>(*xprt, nullptr);
    }
    void close_rpc() {
        if (xprt == nullptr) return;
        nfs_client.reset();
        xprt->close();
        EXPECT_TRUE(run_until(*loop, [&] { return xprt->idle(); }));
        xprt.reset();
    }
    void TearDown() override {
        close_rpc();
        if (rpc_listener == nullptr) return;
        rpc_listener->shut_down(0);
        EXPECT_TRUE(run_until(*loop, [&] { return rpc_listener->idle(); }));
        rpc_listener.reset();
    }
    bool run(nfs::client::Op& op) {
        bool done = false;
        op.user = &done;
        op.done = [](nfs::client::Op& o) noexcept { *static_cast<bool*>(o.user) = true; };
        nfs_client->start(op);
        EXPECT_TRUE(run_until(*loop, [&] { return done; }));
        if (!op.outcome.rpc) ADD_FAILURE() << to_string(op.outcome.rpc.error());
        return op.outcome.ok();
    }
    nfs::client::FileHandle create(char* name) {
        auto bytes =
            nfs::encode_fh(server_.handle_key(), {nfs::export_id_of("/export"), vfs->root()});
        nfs::client::CreateOp op;
        op.args.where = {nfs::to_fh3(bytes), name};
        op.args.how.mode = UNCHECKED;
        EXPECT_TRUE(run(op));
        return op.object;
    }
    sunrpc::Payload payload(std::uint32_t bytes) {
        auto got = xprt->get_payload(bytes);
        EXPECT_TRUE(got);
        return std::move(*got);
    }
    void fill(std::span<std::byte> room, std::uint32_t seed) {
        for (std::size_t i = 0; i < room.size(); ++i)
            room[i] = static_cast<std::byte>((i * 2654435761u + seed) >> 13);
    }
    bool write(const nfs::client::FileHandle& file, std::uint32_t bytes, std::uint32_t seed) {
        sunrpc::Payload room = payload(std::max(bytes, 1u));
        const auto data = room.memory().first(bytes);
        fill(data, seed);
        nfs::client::WriteOp op;
        op.args.file = file.view();
        op.args.stable = FILE_SYNC;
        op.set_data(data);
        op.args.count = bytes;
        return run(op) && op.count() == bytes;
    }
    bool read_back(const nfs::client::FileHandle& file, std::uint32_t bytes, std::uint32_t seed) {
        sunrpc::Payload room = payload(kMiB);
        std::memset(room.memory().data(), 0x5A, kMiB);
        nfs::client::ReadOp op;
        op.args = {file.view(), 0, kMiB};
        op.room = room.memory().first(kMiB);
        if (!run(op) || op.data().size() != bytes) return false;
        std::vector<std::byte> expected(bytes);
        fill(expected, seed);
        return std::equal(expected.begin(), expected.end(), op.data().begin());
    }
    svcrdma::ConnectionStats server_side() const {
        svcrdma::ConnectionStats stats;
        EXPECT_EQ(rpc_listener->connection_stats({&stats, 1}), 1u);
        return stats;
    }

    nfs::VfsMem* vfs = nullptr;
    nfs::Server server_;
    sunrpc::SvcDispatcher dispatcher_;
    std::unique_ptr<svcrdma::Listener> rpc_listener;
    std::unique_ptr<xprtrdma::Transport> xprt;
    std::unique_ptr<nfs::client::Client> nfs_client;
    int outcome = 0;
};

TEST_P(RpcHw, FilesOfEverySizeGoThereAndBack) {
    const std::uint32_t sizes[] = {0, 1, 3, 2047, 2048, 4096, 65537, kMiB - 3, kMiB};
    for (const std::uint32_t size : sizes) {
        SCOPED_TRACE(size);
        std::string name = "file" + std::to_string(size);
        const auto file = create(name.data());
        ASSERT_FALSE(file.empty());
        EXPECT_TRUE(write(file, size, size + 1));
        EXPECT_TRUE(read_back(file, size, size + 1));
    }
    EXPECT_EQ(xprt->inline_limits().send, 4096u);
}

// What the issue asks for: one key for each READ and WRITE of 1 MiB, and with windows none that we
// have to invalidate ourselves.
TEST_P(RpcHw, OneKeyARpcAndNoLocalInvalidate) {
    std::string name = "big";
    const auto file = create(name.data());
    ASSERT_TRUE(write(file, kMiB, 1));
    const xprtrdma::TransportCounters before = xprt->counters();
    const svcrdma::ConnectionStats server_before = server_side();
    constexpr std::uint32_t kRounds = 8;
    for (std::uint32_t i = 0; i < kRounds; ++i) {
        ASSERT_TRUE(write(file, kMiB, i));
        ASSERT_TRUE(read_back(file, kMiB, i));
    }
    const xprtrdma::TransportCounters& after = xprt->counters();
    const std::uint64_t rpcs = after.replies - before.replies;
    const std::uint64_t keys = after.keys_bound - before.keys_bound;
    const std::uint64_t local = after.local_invalidations - before.local_invalidations;
    const std::uint64_t remote = after.remote_invalidations - before.remote_invalidations;
    EXPECT_EQ(rpcs, std::uint64_t{2} * kRounds);
    EXPECT_EQ(keys, rpcs);
    const bool windows = GetParam().strategy == Strategy::windows;
    EXPECT_EQ(local, windows ? 0 : rpcs);
    EXPECT_EQ(remote, windows ? rpcs : 0);
    EXPECT_EQ(server_side().queue.sends_with_inv - server_before.queue.sends_with_inv, remote);
    std::printf("%s: keys_per_rpc %.2f local_inv_per_rpc %.2f remote_inv_per_rpc %.2f\n",
                GetParam().name, static_cast<double>(keys) / static_cast<double>(rpcs),
                static_cast<double>(local) / static_cast<double>(rpcs),
                static_cast<double>(remote) / static_cast<double>(rpcs));
}

// Memory of the caller's own, at no boundary: bound for each call, and given back while keys of the
// connection that has just died are still bound to it. A region under a window would stay for ever.
TEST_P(RpcHw, CallersMemoryIsBoundAndGivenBack) {
    std::vector<std::byte> memory(2 * kMiB);
    const auto out = std::span(memory).subspan(1003, 300'001);
    const auto in = std::span(memory).subspan(kMiB + 5, 300'001);
    ASSERT_TRUE(xprt->register_memory(memory));
    std::string name = "own";
    const auto file = create(name.data());
    fill(out, 9);
    nfs::client::WriteOp put;
    put.args.file = file.view();
    put.args.stable = FILE_SYNC;
    put.set_data(out);
    put.args.count = static_cast<count3>(out.size());
    const xprtrdma::TransportCounters before = xprt->counters();
    ASSERT_TRUE(run(put));
    nfs::client::ReadOp get;
    get.args = {file.view(), 0, static_cast<count3>(in.size())};
    get.room = in;
    ASSERT_TRUE(run(get));
    EXPECT_TRUE(std::equal(out.begin(), out.end(), in.begin()));
    EXPECT_EQ(xprt->counters().keys_bound - before.keys_bound, 2u);
    EXPECT_EQ(nfs_client->rpc_counters().payload_copied_bytes, 0u);
    // One is in flight when the connection ends.
    bool done = false;
    get.user = &done;
    get.done = [](nfs::client::Op& op) noexcept { *static_cast<bool*>(op.user) = true; };
    nfs_client->start(get);
    EXPECT_EQ(xprt->counters().keys_bound - before.keys_bound, 3u);
    EXPECT_EQ(xprt->deregister_memory(memory).error().code, Errc::again);
    xprt->close();
    ASSERT_TRUE(run_until(*loop, [&] { return done; }));
    ::testing::internal::CaptureStderr();
    const auto back = xprt->deregister_memory(memory);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(back) << to_string(back.error());
    EXPECT_EQ(said.find("dereg_mr"), std::string::npos) << said;
}

TEST_P(RpcHw, ManyInFlight) {
    std::string name = "many";
    const auto file = create(name.data());
    ASSERT_TRUE(write(file, kMiB, 5));
    std::array<nfs::client::ReadOp, kAtOnce> ops;
    std::array<sunrpc::Payload, kAtOnce> rooms;
    std::uint32_t left = 64, done = 0;
    std::vector<std::byte> expected(kMiB);
    fill(expected, 5);
    struct Run {
        nfs::client::Client& client;
        std::uint32_t& left;
        std::uint32_t& done;
        const std::vector<std::byte>& expected;
        std::uint32_t wrong = 0;
    } state{*nfs_client, left, done, expected};
    for (std::uint32_t i = 0; i < kAtOnce; ++i) {
        rooms[i] = payload(kMiB);
        ops[i].args = {file.view(), 0, kMiB};
        ops[i].room = rooms[i].memory().first(kMiB);
        ops[i].user = &state;
        ops[i].done = [](nfs::client::Op& op) noexcept {
            auto& s = *static_cast<Run*>(op.user);
            auto& read = static_cast<nfs::client::ReadOp&>(op);
            ++s.done;
            if (!op.outcome.ok() || !std::equal(s.expected.begin(), s.expected.end(),
                                                read.data().begin(), read.data().end()))
                ++s.wrong;
            std::memset(read.room.data(), 0, read.room.size());
            if (s.left == 0) return;
            --s.left;
            s.client.start(op);
        };
    }
    for (auto& op : ops) {
        --left;
        nfs_client->start(op);
    }
    EXPECT_TRUE(run_until(*loop, [&] { return done == 64; }));
    EXPECT_EQ(state.wrong, 0u);
    EXPECT_GE(xprt->counters().in_flight_max, 2u);
}

TEST_P(RpcHw, ConnectsAgainAfterAnEnd) {
    for (int i = 0; i < 5; ++i) {
        SCOPED_TRACE(i);
        std::string name = "again" + std::to_string(i);
        const auto file = create(name.data());
        ASSERT_TRUE(write(file, kMiB, 9));
        ASSERT_TRUE(read_back(file, kMiB, 9));
        close_rpc();
        ASSERT_TRUE(run_until(*loop, [&] { return rpc_listener->connections() == 0; }));
        ASSERT_NO_FATAL_FAILURE(connect_rpc());
    }
}

// With replies under way: every key that is still bound goes with the connection.
TEST_P(RpcHw, EndInTheMiddleOfCalls) {
    std::string name = "cut";
    const auto file = create(name.data());
    ASSERT_TRUE(write(file, kMiB, 3));
    for (int round = 0; round < 5; ++round) {
        std::array<nfs::client::ReadOp, kAtOnce> ops;
        std::array<sunrpc::Payload, kAtOnce> rooms;
        std::uint32_t done = 0;
        for (std::uint32_t i = 0; i < kAtOnce; ++i) {
            rooms[i] = payload(kMiB);
            ops[i].args = {file.view(), 0, kMiB};
            ops[i].room = rooms[i].memory().first(kMiB);
            ops[i].user = &done;
            ops[i].done = [](nfs::client::Op& op) noexcept {
                ++*static_cast<std::uint32_t*>(op.user);
            };
            nfs_client->start(ops[i]);
        }
        ASSERT_TRUE(run_until(*loop, [&] { return done > 0; }));
        xprt->close();
        ASSERT_TRUE(run_until(*loop, [&] { return done == kAtOnce; }));
        for (auto& room : rooms)
            room = {};
        close_rpc();
        ASSERT_TRUE(run_until(*loop, [&] { return rpc_listener->connections() == 0; }));
        ASSERT_NO_FATAL_FAILURE(connect_rpc());
        EXPECT_TRUE(read_back(file, kMiB, 3));
    }
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, RpcHw,
    ::testing::Values(Params{Strategy::windows, LoopBackend::automatic, "windows"},
                      Params{Strategy::register_each, LoopBackend::automatic, "register_each"},
                      Params{Strategy::windows, LoopBackend::epoll, "windows_epoll"}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
