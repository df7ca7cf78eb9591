#pragma once
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nfs/server/server.hpp"
#include "svcrdma/listener.hpp"
#include "tests/support/loop_world.hpp"
#include "tests/support/vfs_wrap.hpp"
#include "tools/rpcrdma_stress/report.hpp"
#include "tools/rpcrdma_stress/stress.hpp"

namespace nfsrdma::testing {

// A server of `Backend`, RPC-over-RDMA and the soft device, in virtual time: what rpcrdma-stress
// finds there.
template <class Backend>
class StressWorld {
  public:
    StressWorld() : backend(std::make_shared<Backend>()) {
        EXPECT_TRUE(static_cast<bool>(server.add_export("/export", backend)));
        server.add_to(dispatcher);
        svcrdma::ServerOptions how;
        how.demand.credits = 8;
        how.payload_runs = 16;
        how.connections_max = 16;
        auto listening = svcrdma::Listener::create(*world.server, test::LoopWorld::server_address(),
                                                   dispatcher, how);
        NR_ASSERT(static_cast<bool>(listening));
        listener = *std::move(listening);
        options.connections = 2;
        options.depth = 4;
        options.ops = 2000;
        options.file_bytes = 256 << 10;
        options.cancel_rate = options.disconnect_rate = 0;
    }
    ~StressWorld() {
        listener->shut_down(0);
        EXPECT_TRUE(world.run_until([this] { return listener->idle(); }));
    }
    StressWorld(const StressWorld&) = delete;
    StressWorld& operator=(const StressWorld&) = delete;

    stress::StressResult run() {
        tool::Url url;
        url.host = "server";
        url.path = "/export";
        stress::Stress run(*world.client, test::LoopWorld::server_address(), url, options);
        return run.run();
    }
    // Names in the export's root.
    std::string left_behind() {
        struct Names final : nfs::DirSink {
            bool add(const nfs::DirEntry& entry) noexcept override {
                if (entry.name != "." && entry.name != "..") all += std::string(entry.name) + " ";
                return true;
            }
            std::string all;
        } names;
        bool eof = false;
        EXPECT_EQ(backend->readdir({}, {backend->root(), 0, false}, names, eof), NFS3_OK);
        return names.all;
    }

    test::LoopWorld world;
    std::shared_ptr<Backend> backend;
    nfs::Server server;
    sunrpc::SvcDispatcher dispatcher;
    std::unique_ptr<svcrdma::Listener> listener;
    stress::Options options;
};

}  // namespace nfsrdma::testing
