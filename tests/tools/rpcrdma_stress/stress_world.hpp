#pragma once
#include <functional>
#include <memory>
#include <numeric>
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

// Between the transport and the programs: a server that is alive and answers nothing.
class Gate final : public sunrpc::Service {
  public:
    explicit Gate(sunrpc::Service& next) : next_(next) {}
    std::uint32_t scratch_bytes() const noexcept override { return next_.scratch_bytes(); }
    void dispatch(sunrpc::SvcRqst& rqst) noexcept override {
        if (calls_left == 0) {
            if (unanswered) unanswered();
            return rqst.xprt->drop(rqst);
        }
        --calls_left;
        next_.dispatch(rqst);
    }
    void wake(sunrpc::SvcRqst& rqst) noexcept override { next_.wake(rqst); }
    std::uint64_t calls_left = UINT64_MAX;
    std::function<void()> unanswered;

  private:
    sunrpc::Service& next_;
};

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
        auto listening =
            svcrdma::Listener::create(*world.server, test::LoopWorld::server_address(), gate, how);
        NR_ASSERT(static_cast<bool>(listening));
        listener = *std::move(listening);
        options.connections = 2;
        options.depth = 4;
        options.ops = 2000;
        options.file_bytes = 256 << 10;
        options.mount_proto = "rdma";
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
        running = &run;
        stress::StressResult result = run.run();
        running = nullptr;
        return result;
    }
    // Every step has begun: from the last one on.
    bool at_the_end() const {
        const auto& steps = running->tally().steps;
        return std::accumulate(steps.begin(), steps.end(), std::uint64_t{0}) >= options.ops;
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
    Gate gate{dispatcher};
    std::unique_ptr<svcrdma::Listener> listener;
    stress::Options options;
    stress::Stress* running = nullptr;
};

}  // namespace nfsrdma::testing
