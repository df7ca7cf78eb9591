#pragma once
#include <cstring>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "nfs/binding.hpp"
#include "nfs/server/server.hpp"
#include "nfs/vfs_mem.hpp"
#include "sunrpc/clnt.hpp"
#include "svcrdma/listener.hpp"
#include "tests/support/loop_world.hpp"
#include "xprtrdma/transport.hpp"

// An NFS server over memory and a client of it, with RPC-over-RDMA and the soft device between
// them, in virtual time.
namespace nfsrdma::testing {

class RdmaNfs {
  public:
    explicit RdmaNfs(const nfs::VfsMemOptions& mem = {}) {
        nfs::ExportRules read_only = nfs::ExportRules::open();
        for (nfs::ClientRule& rule : read_only.clients)
            rule.options.read_only = true;
        auto first = std::make_shared<nfs::VfsMem>(mem);
        auto second = std::make_shared<nfs::VfsMem>();
        vfs = first.get();
        other_vfs = second.get();
        EXPECT_TRUE(static_cast<bool>(server.add_export("/export", first)));
        EXPECT_TRUE(static_cast<bool>(server.add_export("/other", second)));
        EXPECT_TRUE(static_cast<bool>(server.add_export("/read_only", first, read_only)));
        server.add_to(dispatcher);
        svcrdma::ServerOptions options;
        options.demand.credits = 8;
        options.demand.max_payload = 1 << 20;
        options.payload_runs = 4;
        options.connections_max = 4;
        auto listening = svcrdma::Listener::create(*world.server, test::LoopWorld::server_address(),
                                                   dispatcher, options);
        NR_ASSERT(static_cast<bool>(listening));
        listener = *std::move(listening);
        connect();
    }
    ~RdmaNfs() {
        clnt.reset();
        xprt->close();
        EXPECT_TRUE(world.run_until([this] { return xprt->idle(); }));
        xprt.reset();
        listener->shut_down(0);
        EXPECT_TRUE(world.run_until([this] { return listener->idle(); }));
    }
    RdmaNfs(const RdmaNfs&) = delete;
    RdmaNfs& operator=(const RdmaNfs&) = delete;

    nfs::FhBytes handle(const char* exported, nfs::NodeId id) const {
        return nfs::encode_fh(server.handle_key(), {nfs::export_id_of(exported), id});
    }
    // Whatever the answer, it is decoded into `res`, which is the caller's to xdr_free.
    void call(std::uint32_t number, const void* args, void* res) {
        bool done = false;
        sunrpc::Call rpc;
        rpc.proc = &nfs::nfs3_procs()[number];
        rpc.proc_number = number;
        rpc.args = args;
        rpc.args_in_payload = false;
        rpc.res = res;
        rpc.user = &done;
        rpc.done = [](sunrpc::Call& c, Result<void> result) noexcept {
            *static_cast<bool*>(c.user) = true;
            EXPECT_TRUE(static_cast<bool>(result)) << c.proc->name;
        };
        ASSERT_TRUE(static_cast<bool>(clnt->call(rpc)));
        ASSERT_TRUE(world.run_until([&done] { return done; })) << rpc.proc->name;
        if (number != NFSPROC3_READ) return;
        auto& read = *static_cast<READ3res*>(res);
        if (read.status == NFS3_OK) read.READ3res_u.resok.data = {};  // lay in the message
    }

    test::LoopWorld world;
    nfs::Server server;
    nfs::VfsMem* vfs = nullptr;
    nfs::VfsMem* other_vfs = nullptr;
    sunrpc::SvcDispatcher dispatcher;
    std::unique_ptr<svcrdma::Listener> listener;
    std::unique_ptr<xprtrdma::Transport> xprt;
    std::unique_ptr<sunrpc::Clnt> clnt;

  private:
    void connect() {
        xprtrdma::TransportOptions options;
        options.demand.credits = 8;
        const auto connected = [](void* arg, Result<void> how) noexcept {
            static_cast<RdmaNfs*>(arg)->outcome_ = how ? 1 : -1;
        };
        auto made = xprtrdma::Transport::create(*world.client, test::LoopWorld::server_address(),
                                                options, connected, this);
        NR_ASSERT(static_cast<bool>(made));
        xprt = *std::move(made);
        EXPECT_TRUE(world.run_until([this] { return outcome_ != 0; }));
        EXPECT_EQ(outcome_, 1);
        sunrpc::AuthSys sys;
        sys.uid = 1000;
        sys.gid = 1000;
        clnt = std::make_unique<sunrpc::Clnt>(*xprt, NFS3_PROGRAM, NFS_V3, &sys);
    }
    int outcome_ = 0;
};

}  // namespace nfsrdma::testing
