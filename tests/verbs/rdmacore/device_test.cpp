#include "verbs/rdmacore/device.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.hpp"
#include "tests/verbs/rdmacore/hw_world.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

TEST(SetNonblocking, ReadsReturnAtOnce) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd in(ends[0]), out(ends[1]);
    ASSERT_TRUE(set_nonblocking(in.get()));
    char byte = 0;
    EXPECT_EQ(::read(in.get(), &byte, 1), -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_FALSE(set_nonblocking(-1));
}

TEST(OpenDevice, OptionsOutOfRangeAreRefused) {
    const auto loop = std::move(*Loop::create({}));
    Options options;
    options.ack_timeout_exp = 32;
    const auto opened = open_device(*loop, options);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::invalid_argument);
}

class DeviceHw : public HwTest {
  protected:
    // Receives posted at both ends, none of which anything will come for.
    void post_receives() {
        for (End* end : {client.get(), server.get()}) {
            sge_.push_back(end->sge(0, 4096));
            RecvWr wr;
            wr.cqe = &fresh();
            wr.sgl = {&sge_.back(), 1};
            ASSERT_TRUE(end->qp->post_recv(wr));
        }
    }
    bool flushed() {
        return std::all_of(dones.begin(), dones.end(), [](const Done& done) {
            return done.count == 1 && done.last.status == WcStatus::flushed;
        });
    }
    std::deque<Sge> sge_;
};

TEST_F(DeviceHw, SaysWhatItIs) {
    EXPECT_STRNE(client_device->name(), "");
    EXPECT_GT(client_device->caps().max_send_wr, 1000u);
    EXPECT_GE(client_device->caps().max_send_sge, 3u);
    EXPECT_TRUE(client_device->caps().fast_reg);
}

TEST_F(DeviceHw, StrategyCanBeForced) {
    Options options;
    options.strategy = Strategy::register_each;
    open(client_device, options);
    EXPECT_EQ(strategy_of(*client_device), Strategy::register_each);
    EXPECT_FALSE(client_device->caps().remote_invalidate);
}

// As after a fatal event: every connection ends once, everything is flushed, nothing waits for the
// device.
TEST_F(DeviceHw, ThatIsGoneEndsItsConnections) {
    connect();
    post_receives();
    static_cast<RdmaDevice&>(*client_device).on_gone();
    ASSERT_TRUE(run_until(*loop, [&] { return client->over() && server->over() && flushed(); }));
    EXPECT_EQ(client->count(CmEventType::disconnected), 1u);
    EXPECT_EQ(client->qp->outstanding(), 0u);
    EXPECT_FALSE(client_device->create_id(*client));
}

// The real thing, for a machine that can spare its device: `rdma link delete` of the device that
// the variable names, in the middle of a connection. To be run last.
TEST_F(DeviceHw, RemovedByTheKernel) {
    const char* const name = std::getenv("NFSRDMA_TEST_REMOVE_DEVICE");
    if (name == nullptr) GTEST_SKIP() << "needs qemu: NFSRDMA_TEST_REMOVE_DEVICE is not set";
    connect();
    post_receives();
    ASSERT_EQ(std::system((std::string("rdma link delete ") + name + " &").c_str()), 0);
    ASSERT_TRUE(run_until(*loop, [&] { return client->over() && server->over() && flushed(); }));
    EXPECT_EQ(client->count(CmEventType::disconnected), 1u);
    EXPECT_EQ(server->count(CmEventType::disconnected), 1u);
    EXPECT_TRUE(static_cast<RdmaDevice&>(*client_device).gone());
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
