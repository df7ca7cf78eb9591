#include "verbs/rdmacore/find.hpp"

#include <sys/resource.h>

#include "tests/verbs/rdmacore/hw_world.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

TEST(FindDevice, UnknownNamesAndAddressesAreUnsupported) {
    for (const char* name : {"no_such_device0", "192.0.2.77", "2001:db8::77"}) {
        const auto found = find_device(name);
        ASSERT_FALSE(found) << name;
        EXPECT_EQ(found.error().code, Errc::unsupported) << name;
    }
}

TEST(FindDevice, MachineWithoutADeviceSaysHowToGetOne) {
    if (!list_devices().empty()) return;  // this one has
    const auto loop = std::move(*Loop::create({}));
    const auto opened = open_device(*loop, {});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Errc::unsupported);
    EXPECT_NE(to_string(opened.error()).find("rdma link add"), std::string::npos);
}

TEST(Memlock, LimitIsTheProcesss) {
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    const MemlockLimit seen = memlock_limit();
    EXPECT_EQ(seen.soft, limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur);
    EXPECT_LE(seen.soft, seen.hard);
}

class FindHw : public HwTest {};

TEST_F(FindHw, ListSaysWhatThereIs) {
    const auto devices = list_devices();
    ASSERT_FALSE(devices.empty());
    const DeviceInfo& device = devices.front();
    EXPECT_TRUE(device.error.empty());
    EXPECT_FALSE(device.name.empty());
    EXPECT_NE(device.strategy, Strategy::automatic);
    EXPECT_EQ(device.strategy == Strategy::windows, device.windows_2b);
    EXPECT_GT(device.caps.max_send_wr, 0u);
    ASSERT_FALSE(device.ports.empty());
    EXPECT_FALSE(device.ports.front().state.empty());
    EXPECT_GE(device.ports.front().active_mtu, 256u);
    ASSERT_FALSE(device.ports.front().gids.empty());
    if (device.family == "rxe") {
        EXPECT_EQ(device.transport, Transport::roce);
        EXPECT_FALSE(device.quirks.empty());
        EXPECT_EQ(device.ports.front().gids.front().type.rfind("RoCE", 0), 0u);
        EXPECT_FALSE(device.ports.front().gids.front().netdev.empty());
    }
}

TEST_F(FindHw, ByNameAndByAddress) {
    Options options;
    options.device = client_device->name();
    EXPECT_TRUE(open_device(*loop, options));
    options.device = address.address_to_string();
    auto by_address = open_device(*loop, options);
    ASSERT_TRUE(by_address) << to_string(by_address.error());
    EXPECT_STREQ((*by_address)->name(), client_device->name());
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
