#include "devices/open.hpp"

#include <unistd.h>

#include <gtest/gtest.h>

#include "devices/memory.hpp"

namespace nfsrdma::devices {
namespace {

class OpenDevice : public ::testing::Test {
  protected:
    OpenDevice() : loop(*Loop::create({})) {}
    static Request request(const char* device, const char* address) {
        Request out;
        out.choice = *parse_choice(device);
        out.address = *SockAddr::parse(address, 20049);
        out.bind = *SockAddr::parse("127.0.0.1:0", 0);
        return out;
    }
    std::unique_ptr<Loop> loop;
};

TEST_F(OpenDevice, SoftroceIsAlwaysThere) {
    auto opened = open(*loop, request("softroce", "127.0.0.1"));
    ASSERT_TRUE(static_cast<bool>(opened)) << to_string(opened.error());
    EXPECT_EQ(opened->name, "softroce");
    EXPECT_EQ(opened->line, "softroce");
    EXPECT_TRUE(is_softroce(*opened->device));
}

// No RDMA device has a loopback address.
TEST_F(OpenDevice, AutoSaysWhyItIsSoftroce) {
    auto opened = open(*loop, request("auto", "127.0.0.1"));
    ASSERT_TRUE(static_cast<bool>(opened)) << to_string(opened.error());
    EXPECT_EQ(opened->name, "softroce");
    EXPECT_EQ(opened->line.find("softroce: "), 0u) << opened->line;
    EXPECT_EQ(opened->line.find('\n'), std::string::npos);
    EXPECT_TRUE(is_softroce(*opened->device));
}

TEST_F(OpenDevice, RdmacoreThatIsNotThereSaysWhatIs) {
    for (const char* device : {"rdmacore", "rdmacore:no_such_device"}) {
        const Request wanted = request(device, "127.0.0.1");
        auto opened = open(*loop, wanted);
        ASSERT_FALSE(static_cast<bool>(opened));
        const std::string text = explain(wanted, opened.error());
        EXPECT_NE(text.find(device), std::string::npos) << text;
        EXPECT_NE(text.find("--device softroce"), std::string::npos) << text;
    }
}

// A run without the faults that were asked for would say nothing.
TEST_F(OpenDevice, FaultsMakeAutoSoftrocesAndRdmacoreAnError) {
    Request wanted = request("auto", "127.0.0.1");
    wanted.faults.link.loss_ppm = 1000;
    auto opened = open(*loop, wanted);
    ASSERT_TRUE(static_cast<bool>(opened)) << to_string(opened.error());
    EXPECT_TRUE(is_softroce(*opened->device));
    EXPECT_NE(opened->line.find("faults"), std::string::npos) << opened->line;
    wanted.choice = *parse_choice("rdmacore:no_such_device");
    auto refused = open(*loop, wanted);
    ASSERT_FALSE(static_cast<bool>(refused));
    EXPECT_NE(explain(wanted, refused.error()).find("faults"), std::string::npos);
    Loop* const loops[] = {loop.get()};
    wanted.passive = true;
    auto set = DeviceSet::create(loops, wanted);
    ASSERT_FALSE(static_cast<bool>(set));
    EXPECT_NE(explain(wanted, set.error()).find("faults"), std::string::npos);
}

TEST_F(OpenDevice, APortThatIsTakenIsNamed) {
    Request first = request("softroce", "127.0.0.1");
    first.bind = *SockAddr::parse("127.77.1.1:4999", 0);
    auto one = open(*loop, first);
    ASSERT_TRUE(static_cast<bool>(one)) << to_string(one.error());
    auto two = open(*loop, first);
    ASSERT_FALSE(static_cast<bool>(two));
    const std::string text = explain(first, two.error());
    EXPECT_NE(text.find("127.77.1.1:4999"), std::string::npos) << text;
    EXPECT_NE(text.find("--bind"), std::string::npos) << text;
}

// Kernels answer to RoCE's port alone.
TEST_F(OpenDevice, AnAddressWithoutAPortTakesRocesPortWhereItIsFree) {
    Request wanted = request("softroce", "127.0.0.1");
    const int pid = ::getpid();  // an address of this process
    wanted.bind = SockAddr::v4(0x7f4e0001u | static_cast<std::uint32_t>(pid & 0x7fff) << 1, 0);
    auto one = open(*loop, wanted);
    ASSERT_TRUE(static_cast<bool>(one)) << to_string(one.error());
    auto two = open(*loop, wanted);
    EXPECT_TRUE(static_cast<bool>(two)) << to_string(two.error());
    wanted.bind = wanted.bind->with_port(4791);
    EXPECT_FALSE(static_cast<bool>(open(*loop, wanted)));
}

TEST_F(OpenDevice, ASetHasADeviceForEachLoop) {
    const std::unique_ptr<Loop> other = *Loop::create({});
    Loop* const loops[] = {loop.get(), other.get()};
    for (const char* device : {"softroce", "auto"}) {
        Request wanted = request(device, "127.0.0.1");
        wanted.passive = true;
        auto set = DeviceSet::create(loops, wanted);
        ASSERT_TRUE(static_cast<bool>(set)) << to_string(set.error());
        EXPECT_EQ((*set)->name(), "softroce");
        EXPECT_EQ(&(*set)->device(0).loop(), loop.get());
        EXPECT_EQ(&(*set)->device(1).loop(), other.get());
    }
    Request none = request("rdmacore:no_such_device", "127.0.0.1");
    none.passive = true;
    EXPECT_FALSE(static_cast<bool>(DeviceSet::create(loops, none)));
}

// What --device auto reckons with is what the program is going to register.
TEST(BytesToLock, AreThoseOfTheDemandAndTheRole) {
    verbs::DeviceCaps caps;
    caps.max_send_wr = caps.max_recv_wr = 16000;
    caps.max_send_sge = caps.max_recv_sge = 8;
    caps.max_fast_reg_pages = 1 << 20;
    caps.fast_reg = true;
    Request client;
    std::string who;
    const std::uint64_t plain = bytes_to_lock(client, caps, 1, who);
    EXPECT_EQ(plain, client_bytes({}, caps));
    client.demand.credits = 64;
    const std::uint64_t busy = bytes_to_lock(client, caps, 1, who);
    EXPECT_GT(busy, plain);
    EXPECT_NE(who.find("64 calls"), std::string::npos) << who;
    client.connections = 3;
    EXPECT_EQ(bytes_to_lock(client, caps, 1, who), 3 * busy);
    EXPECT_NE(who.find("3 connections"), std::string::npos) << who;

    Request server;
    server.passive = true;
    EXPECT_EQ(bytes_to_lock(server, caps, 2, who), 0u) << "a test of the device";
    server.server = nfsrdmad_options();
    const std::uint64_t one = bytes_to_lock(server, caps, 1, who);
    EXPECT_GT(one, busy);
    EXPECT_EQ(bytes_to_lock(server, caps, 2, who), 2 * one);
    EXPECT_NE(who.find("2 loops"), std::string::npos) << who;
}

}  // namespace
}  // namespace nfsrdma::devices
