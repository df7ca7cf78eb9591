#include "devices/rdma.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::devices {
namespace {

// Whatever this machine has.
TEST(RdmaSeam, EveryDeviceHasAName) {
    const auto devices = list_rdma_devices();
    for (const verbs::rdmacore::DeviceInfo& device : devices)
        EXPECT_NE(device.name, "");
    if (!built_with_rdmacore()) {
        EXPECT_TRUE(devices.empty());
    }
}

TEST(RdmaSeam, NamesAreForPeople) {
    EXPECT_STREQ(name_of(verbs::rdmacore::Transport::iwarp), "iWARP");
    EXPECT_STREQ(name_of(verbs::rdmacore::Strategy::windows), "memory windows");
}

TEST(RdmaSeam, ADeviceThatIsNotThere) {
    auto loop = Loop::create({});
    ASSERT_TRUE(static_cast<bool>(loop));
    verbs::rdmacore::Options options;
    options.device = "no_such_device";
    auto one = open_rdma_device(**loop, options);
    ASSERT_FALSE(static_cast<bool>(one));
    EXPECT_EQ(one.error().code, Errc::unsupported);
    Loop* const loops[] = {loop->get()};
    auto set = RdmaDevices::create(loops, options);
    ASSERT_FALSE(static_cast<bool>(set));
    EXPECT_EQ(set.error().code, Errc::unsupported);
}

}  // namespace
}  // namespace nfsrdma::devices
