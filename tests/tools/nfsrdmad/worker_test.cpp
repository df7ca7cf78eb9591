#include "tools/nfsrdmad/worker.hpp"

#include <gtest/gtest.h>

#include "nfs/vfs_mem.hpp"
#include "verbs/softroce/group.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

// Two workers on one address, as the daemon has them: they listen, tell their counters while they
// run, and end when they are told to.
TEST(Worker, ServesTellsAndEnds) {
    std::vector<std::unique_ptr<Worker>> workers;
    std::vector<Loop*> loops;
    LoopOptions options;
    options.backend = LoopBackend::epoll;
    for (int i = 0; i < 2; ++i) {
        workers.push_back(*Worker::create(options));
        loops.push_back(&workers.back()->loop());
    }
    verbs::softroce::UdpOptions udp;
    udp.bind = *SockAddr::parse("127.31.7.9:0", 0);
    auto group = verbs::softroce::DeviceGroup::create(loops, udp, {});
    ASSERT_TRUE(static_cast<bool>(group)) << to_string(group.error());
    nfs::Server server;
    ASSERT_TRUE(static_cast<bool>(server.add_export("/x", std::make_unique<nfs::VfsMem>())));
    const SockAddr local = udp.bind.with_port(kNfsRdmaPort);
    for (std::uint32_t i = 0; i < 2; ++i) {
        const Result<void> listening =
            workers[i]->listen((*group)->device(i), local, server, pools::Registration::automatic);
        ASSERT_TRUE(static_cast<bool>(listening)) << to_string(listening.error());
        EXPECT_EQ(workers[i]->local().port(), kNfsRdmaPort);
    }
    for (auto& worker : workers)
        worker->start();
    EXPECT_EQ(workers[0]->stats().connections, 0u);
    EXPECT_FALSE(workers[0]->done());
    for (auto& worker : workers)
        worker->shut_down(kNsPerMs);
    for (auto& worker : workers) {
        worker->join();
        EXPECT_TRUE(worker->done());
        EXPECT_EQ(worker->stats().rdma.accepted, 0u);
        worker->close_listener();
    }
    group->reset();
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
