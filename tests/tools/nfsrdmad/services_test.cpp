#include "tools/nfsrdmad/services.hpp"

#include <gtest/gtest.h>

#include "nfs/vfs_mem.hpp"
#include "tools/nfsrdmad/metrics.hpp"
#include "tools/nfsrdmad/rpcbind.hpp"
#include "tools/nfsrdmad/tirpc_mount.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

TEST(Services, ABudgetBelowTheLeastIsRefused) {
    nfs::Server server;
    ServiceOptions options;
    options.memory_bytes = 1 << 20;
    Services services(options, server, 1);
    auto worker = *Worker::create({});
    EXPECT_FALSE(services.prepare(*worker));
}

TEST(Services, MoreLoopsShareOneBudget) {
    nfs::Server server;
    ServiceOptions options;
    options.memory_bytes = 64 << 20;
    auto worker = *Worker::create({});
    EXPECT_TRUE(Services(options, server, 1).prepare(*worker));
    EXPECT_TRUE(Services(options, server, 2).prepare(*worker));
    EXPECT_FALSE(Services(options, server, 16).prepare(*worker));
}

TEST(Services, MountIsServedWhereItIsAskedFor) {
    nfs::Server server;
    ServiceOptions options;
    options.mountd_port = 0;
    Services services(options, server, 1);
    EXPECT_TRUE(services.start({}, *SockAddr::parse("127.0.0.1:20049", 0)));
    // libtirpc has room for one in a process: it is there.
    services.stop();
    EXPECT_TRUE(services.start({}, *SockAddr::parse("127.0.0.1:20049", 0)));
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
