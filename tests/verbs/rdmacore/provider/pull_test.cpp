#include "pools/io.hpp"
#include "pools/provision.hpp"
#include "tests/verbs/rdmacore/provider/provider_world.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

// A server's connection on an iWARP device without windows: the memory that an RDMA READ fills must
// be remotely writable, and its key goes over the wire with the READ.
class PullOnIwarp : public ProviderTest {
  protected:
    void SetUp() override {
        provider.reset();
        provider.device.node_type = IBV_NODE_RNIC;
        provider.device.transport_type = IBV_TRANSPORT_IWARP;
        open();
        ASSERT_TRUE(device->caps().read_sink_needs_key);
        ASSERT_EQ(device->strategy(), Strategy::register_each);
        make_ends();
        auto provision = pools::Provision::for_server({.credits = 2}, device->caps());
        ASSERT_TRUE(provision) << to_string(provision.error());
        arena = std::move(
            *pools::Arena::create(*pd, std::size_t{1} << 20, pools::Registration::automatic));
        auto made = pools::Io::create(*pd, *arena,
                                      {.keys = provision->keys,
                                       .pages_per_key = provision->pages_per_key,
                                       .transfers = provision->transfers,
                                       .send_sges = 4});
        ASSERT_TRUE(made) << to_string(made.error());
        io = std::move(*made);
        io->set_qp(qp.get());
    }
    void TearDown() override {
        if (qp != nullptr) qp->set_error();
        if (cq != nullptr) poll();
        if (io != nullptr) io->on_disconnect();
        io.reset();
        arena.reset();
        ProviderTest::TearDown();
    }
    std::unique_ptr<pools::Arena> arena;
    std::unique_ptr<pools::Io> io;
};

TEST_F(PullOnIwarp, SinkIsARegionOfItsOwnForAsLongAsTheReadLasts) {
    const std::span<std::byte> run = *arena->carve(100000);
    const pools::RemoteRun from{0x1234, 100000, 0x5000};
    auto pull = io->pull({&from, 1}, {&run, 1});
    ASSERT_TRUE(pull) << to_string(pull.error());
    EXPECT_EQ(provider.regions, 2u) << "the arena's, and the sink's";
    EXPECT_NE(provider.last_access & IBV_ACCESS_REMOTE_WRITE, 0u);
    const std::uint32_t lkey = provider.mrs.back().lkey;
    bool done = false, good = false;
    struct Seen {
        bool* done;
        bool* good;
    } seen{&done, &good};
    (*pull)->user = &seen;
    (*pull)->done = [](pools::Transfer& transfer, bool ok) noexcept {
        auto& told = *static_cast<Seen*>(transfer.user);
        *told.done = true;
        *told.good = ok;
    };
    io->post_pull(**pull);
    // The key is there already: the READ, and what tells of its end behind it.
    ASSERT_EQ(fake().opcodes, (std::vector<ibv_wr_opcode>{IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE}));
    ASSERT_EQ(fake().sges[0].size(), 1u);
    EXPECT_EQ(fake().sges[0][0].lkey, lkey);
    EXPECT_EQ(fake().sges[0][0].addr, address_of(run.data()));
    EXPECT_EQ(fake().sges[0][0].length, 100000u);
    EXPECT_NE(fake().wrs[1].send_flags & IBV_SEND_FENCE, 0u);
    EXPECT_TRUE(fake().sges[1].empty());
    EXPECT_FALSE(done);
    fake().sends.erase(fake().sends.begin());  // the READ is not signaled
    provider.end_send(fake());
    poll();
    EXPECT_TRUE(done && good);
    EXPECT_EQ(provider.regions, 1u) << "the peer knows its key";
    pull->reset();
    EXPECT_TRUE(io->full());
}

TEST_F(PullOnIwarp, RepliesGoOutOfTheArenaAsEverywhere) {
    const std::span<std::byte> run = *arena->carve(5000);
    const pools::RemoteRun to{0x1234, 5000, 0x5000};
    auto push = io->push({&to, 1}, {&run, 1});
    ASSERT_TRUE(push) << to_string(push.error());
    EXPECT_EQ((*push)->slots(), 1u);
    EXPECT_EQ(provider.regions, 1u);
}

// It ends with the connection, whatever the peer still sends.
TEST_F(PullOnIwarp, SinkIsGoneWhenTheConnectionFails) {
    const std::span<std::byte> run = *arena->carve(5000);
    const pools::RemoteRun from{0x1234, 5000, 0x5000};
    auto pull = io->pull({&from, 1}, {&run, 1});
    ASSERT_TRUE(pull);
    bool told = false;
    (*pull)->user = &told;
    (*pull)->done = [](pools::Transfer& transfer, bool ok) noexcept {
        *static_cast<bool*>(transfer.user) = !ok;
    };
    io->post_pull(**pull);
    qp->abandon();
    EXPECT_EQ(provider.regions, 1u);
    poll();
    EXPECT_TRUE(told);
    pull->reset();
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
