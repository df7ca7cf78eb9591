#include "tools/rpcrdma_ping/endpoint.hpp"

#include <gtest/gtest.h>

#include "tests/verbs/softroce/cm_world.hpp"
#include "tools/rpcrdma_ping/ping_client.hpp"
#include "tools/rpcrdma_ping/ping_server.hpp"

// rping's protocol in virtual time: our client and server, and peers that break it.
namespace nfsrdma::ping {
namespace {

namespace soft = verbs::softroce;
using soft::test::kHostA;
using soft::test::kHostB;
using soft::test::run_for;
using soft::test::run_until;
using soft::test::SimWorld;

TEST(Advert, IsThreeBigEndianNumbers) {
    std::array<std::byte, Advert::kBytes> bytes;
    encode({0x0102030405060708, 0x11121314, 0x21222324}, bytes);
    EXPECT_EQ(bytes[0], std::byte{0x01});
    EXPECT_EQ(bytes[8], std::byte{0x11});
    EXPECT_EQ(bytes[15], std::byte{0x24});
    const Advert back = decode(bytes);
    EXPECT_EQ(back.address, 0x0102030405060708u);
    EXPECT_EQ(back.key, 0x11121314u);
    EXPECT_EQ(back.size, 0x21222324u);
}

class PingTest : public ::testing::Test {
  protected:
    explicit PingTest(const soft::LoopFaults& faults = {})
        : world_(3, faults), a_(world_.make_device(kHostA)), b_(world_.make_device(kHostB)) {
        auto made = PingServer::create(*b_, kHostB.with_port(kDefaultPort));
        EXPECT_TRUE(made);
        server_ = std::move(*made);
    }
    std::unique_ptr<PingClient> connect(const ClientOptions& options) {
        auto client = PingClient::create(*a_, kHostB.with_port(kDefaultPort), options);
        EXPECT_TRUE(client) << to_string(client.error());
        return std::move(*client);
    }
    Loop& loop() { return world_.loop(); }

    SimWorld world_;
    std::unique_ptr<soft::SoftDevice> a_, b_;
    std::unique_ptr<PingServer> server_;
};

TEST_F(PingTest, EverySizeComesBackUnchanged) {
    for (const std::uint32_t size : {kSizeMin, 64u, 4095u, 4096u, 4097u, 65'536u, kSizeMax}) {
        ClientOptions options;
        options.size = size;
        options.count = 5;
        auto client = connect(options);
        ASSERT_TRUE(run_until(
            loop(), [&] { return client->over(); }, 60 * kNsPerSec));
        EXPECT_FALSE(client->failed());
        EXPECT_EQ(client->pings(), 5u);
        EXPECT_EQ(client->round_trips().count, 5u);
        run_for(loop(), kNsPerSec);
        EXPECT_EQ(server_->reap(), 1u);
    }
    EXPECT_FALSE(server_->any_failed());
}

TEST_F(PingTest, LossAndReorderingOnlyTakeTime) {
    soft::LoopFaults faults;
    faults.loss_ppm = 20'000;
    faults.dup_ppm = 20'000;
    faults.reorder_ppm = 50'000;
    world_.net.set_faults(faults);
    ClientOptions options;
    options.size = 50'000;
    options.count = 20;
    auto client = connect(options);
    ASSERT_TRUE(run_until(
        loop(), [&] { return client->over(); }, 600 * kNsPerSec));
    EXPECT_FALSE(client->failed());
    EXPECT_EQ(client->pings(), 20u);
}

TEST_F(PingTest, StopEndsAfterThePingUnderWay) {
    auto client = connect({});
    ASSERT_TRUE(run_until(loop(), [&] { return client->pings() >= 3; }));
    client->stop();
    ASSERT_TRUE(run_until(loop(), [&] { return client->over(); }));
    EXPECT_FALSE(client->failed());
}

TEST_F(PingTest, EitherSideMayVanishInTheMiddle) {
    auto client = connect({});
    ASSERT_TRUE(run_until(loop(), [&] { return client->pings() >= 1; }));
    client.reset();
    run_for(loop(), kNsPerSec);
    EXPECT_EQ(server_->reap(), 1u);
    auto second = connect({});
    ASSERT_TRUE(run_until(loop(), [&] { return second->pings() >= 1; }));
    server_.reset();
    ASSERT_TRUE(run_until(loop(), [&] { return second->over(); }));
}

TEST_F(PingTest, NobodyThere) {
    server_.reset();
    auto client = connect({});
    ASSERT_TRUE(run_until(loop(), [&] { return client->over(); }));
    ASSERT_TRUE(client->failed());
    EXPECT_EQ(client->failed()->code, Errc::refused);
}

// A client that sends what it likes.
class RawClient final : public verbs::CmHandler {
  public:
    RawClient(verbs::Device& device, std::span<const std::byte> message)
        : device_(device), memory_(message.begin(), message.end()) {
        cq_ = std::move(*device.create_cq(16));
        pd_ = std::move(*device.alloc_pd());
        device.loop().add(*cq_);
        mr_ = std::move(*pd_->register_memory(memory_, verbs::Access::local_write));
        id_ = std::move(*device.create_id(*this));
        EXPECT_TRUE(id_->create_qp(*pd_, *cq_, verbs::QpOptions{8, 8, 1, 1}));
        EXPECT_TRUE(id_->connect(kHostB.with_port(kDefaultPort), {}));
    }
    ~RawClient() {
        id_->qp()->set_error();
        while (cq_->poll() > 0) {
        }
        id_.reset();
        device_.loop().remove(*cq_);
    }
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;
    void on_cm_event(verbs::CmId&, const verbs::CmEvent& event) noexcept override {
        over = event.type != verbs::CmEventType::established;
        if (!over) send();
    }
    void send() {
        sge_ = {address_of(memory_.data()), static_cast<std::uint32_t>(memory_.size()),
                mr_->lkey()};
        wr_.sgl = {&sge_, 1};
        cqe_.done = [](verbs::Cqe&, const verbs::Wc&) noexcept {};
        wr_.cqe = &cqe_;
        verbs::WrChain chain;
        chain.push_back(wr_);
        EXPECT_TRUE(id_->qp()->post_send(chain));
    }
    bool over = false;

  private:
    verbs::Device& device_;
    std::vector<std::byte> memory_;
    std::unique_ptr<verbs::CompletionQueue> cq_;
    std::unique_ptr<verbs::ProtectionDomain> pd_;
    std::unique_ptr<verbs::Mr> mr_;
    std::unique_ptr<verbs::CmId> id_;
    verbs::Sge sge_;
    verbs::SendWr wr_;
    verbs::Cqe cqe_;
};

TEST_F(PingTest, ABrokenClientLosesItsConnectionOnly) {
    auto good = connect({});
    std::array<std::byte, Advert::kBytes> advert;
    const std::vector<Advert> adverts{
        {0, 0, 0},                  // nothing to read
        {0, 0, kSizeMax + 1},       // more than the server has room for
        {0, 0, ~0u},                //
        {0x1000, 0xDEADBEEF, 64},   // a key that nobody bound
        {~std::uint64_t{0}, 1, 64}  // an address that wraps
    };
    std::uint32_t broken = 0;
    for (const Advert& one : adverts) {
        encode(one, advert);
        RawClient client(*a_, advert);
        ASSERT_TRUE(run_until(
            loop(), [&] { return client.over; }, kNsPerSec))
            << broken;
        ++broken;
    }
    for (const std::size_t size : {1u, 15u}) {
        RawClient client(*a_, std::span(advert).first(size));
        ASSERT_TRUE(run_until(loop(), [&] { return client.over; })) << size;
        ++broken;
    }
    run_for(loop(), kNsPerMs);
    EXPECT_EQ(server_->reap(), broken);
    const std::uint64_t before = good->pings();
    ASSERT_TRUE(run_until(loop(), [&] { return good->pings() > before + 2; }));
    EXPECT_FALSE(good->failed());
}

}  // namespace
}  // namespace nfsrdma::ping
