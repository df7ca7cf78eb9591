#include "tools/mount_nfsrdma/file_data.hpp"

#include <mutex>

#include <gtest/gtest.h>

#include "tests/support/direct_xprt.hpp"

// The parts that share a connection's memory: what moves data is tested over in-memory transports
// (tests/nfs/client), and the whole of it on a mount (tests/e2e/mount_*.sh).
namespace nfsrdma::mount {
namespace {

struct NobodyServes final : sunrpc::Service {
    std::uint32_t scratch_bytes() const noexcept override { return 0; }
    void dispatch(sunrpc::SvcRqst& rqst) noexcept override { rqst.xprt->drop(rqst); }
    void wake(sunrpc::SvcRqst&) noexcept override {}
};

// Neither what was written nor what is read ahead may take what requests are read into.
TEST(FilePools, LeaveMemoryForOthers) {
    constexpr std::uint32_t kPayload = 64 << 10;
    testing::DirectWorld world;
    NobodyServes service;
    testing::DirectOptions options;
    options.slots = 16;
    options.max_payload = kPayload;
    options.client_payload_runs = 18;
    testing::DirectXprt xprt(*world.loop, service, options);
    nfs::client::Client client(xprt, nullptr);
    FilePools pools(client, kPayload, false);
    nfs::client::FileHandle handle;
    ASSERT_TRUE(handle.assign("file", 4));
    nfs::client::WriteBehind file(pools.writes, handle, nullptr);

    struct Writer : nfs::client::WriteBehind::Write {
        int times = 0;
    };
    std::vector<std::unique_ptr<Writer>> writers;
    std::uint32_t taken = 0;
    for (std::uint64_t i = 0; i < 12; ++i) {
        auto writer = std::make_unique<Writer>();
        Result<sunrpc::Payload> payload = xprt.get_payload(kPayload);
        ASSERT_TRUE(payload);
        writer->payload = *std::move(payload);
        writer->data = writer->payload.memory();
        writer->offset = i * kPayload;
        writer->done = [](nfs::client::WriteBehind::Write& write) noexcept {
            ++static_cast<Writer&>(write).times;
        };
        if (file.write(*writer)) ++taken;
        writers.push_back(std::move(writer));
    }
    EXPECT_EQ(taken, 9u);  // of 16
    EXPECT_LE(pools.writes.held(), 9u * kPayload);
    xprt.close();
    ASSERT_TRUE(world.run_until([&] { return file.idle(); }));
    EXPECT_EQ(writers.back()->times, 1);
    EXPECT_FALSE(writers.back()->outcome.ok());
}

}  // namespace
}  // namespace nfsrdma::mount
