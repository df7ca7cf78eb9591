#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "nfs/binding.hpp"
#include "nfs/client/client.hpp"
#include "nfs/client/walk.hpp"
#include "nfs/server/server.hpp"
#include "nfs/vfs_mem.hpp"
#include "tests/support/direct_xprt.hpp"

namespace nfsrdma::testing {

// A client of the real server over a tree in memory, with a transport inside the process.
class NfsWorld : public ::testing::Test {
  protected:
    NfsWorld() {
        EXPECT_TRUE(server.add_export("/export", std::make_unique<nfs::VfsMem>()));
        server.add_to(dispatcher);
        remake({});
    }
    ~NfsWorld() override {
        client.reset();
        EXPECT_EQ(xprt->slots_in_use(), 0u);
        EXPECT_EQ(xprt->payloads_in_use(), 0u);
        EXPECT_EQ(xprt->counters().over_reply_max, 0u);
        EXPECT_EQ(xprt->server().requests_in_use(), 0u);
    }
    void remake(const DirectOptions& options) {
        client.reset();
        xprt = std::make_unique<DirectXprt>(*world.loop, dispatcher, options);
        client = std::make_unique<nfs::client::Client>(*xprt, nullptr);
        mount();
    }
    void mount() {
        nfs::client::MountFlow flow(*client);
        bool finished = false;
        flow.start(
            "/export",
            [](nfs::client::MountFlow& f) noexcept { *static_cast<bool*>(f.user) = true; },
            &finished);
        ASSERT_TRUE(world.run_until([&] { return finished; }));
        ASSERT_TRUE(flow.outcome.ok()) << to_string(flow.outcome);
        root = flow.root;
    }
    nfs::client::Outcome run(nfs::client::Op& op) {
        bool finished = false;
        op.user = &finished;
        op.done = [](nfs::client::Op& o) noexcept { *static_cast<bool*>(o.user) = true; };
        client->start(op);
        EXPECT_FALSE(finished);
        EXPECT_TRUE(world.run_until([&] { return finished; }));
        return op.outcome;
    }
    nfs::client::FileHandle create(const nfs::client::FileHandle& dir, std::string name) {
        nfs::client::CreateOp op;
        op.args.where = {dir.view(), name.data()};
        op.args.how.mode = UNCHECKED;
        op.args.how.createhow3_u.obj_attributes.mode.set_it = TRUE;
        op.args.how.createhow3_u.obj_attributes.mode.set_mode3_u.mode = 0644;
        EXPECT_TRUE(run(op).ok()) << to_string(op.outcome);
        EXPECT_FALSE(op.object.empty());
        return op.object;
    }
    nfs::client::FileHandle mkdir(const nfs::client::FileHandle& dir, std::string name) {
        nfs::client::MkdirOp op;
        op.args.where = {dir.view(), name.data()};
        EXPECT_TRUE(run(op).ok()) << to_string(op.outcome);
        return op.object;
    }
    void symlink(const nfs::client::FileHandle& dir, std::string name, std::string target) {
        nfs::client::SymlinkOp op;
        op.args.where = {dir.view(), name.data()};
        op.args.symlink.symlink_data = target.data();
        EXPECT_TRUE(run(op).ok()) << to_string(op.outcome);
    }

    DirectWorld world;
    nfs::Server server;
    sunrpc::SvcDispatcher dispatcher;
    std::unique_ptr<DirectXprt> xprt;
    std::unique_ptr<nfs::client::Client> client;
    nfs::client::FileHandle root;
};

inline char file_byte(std::uint64_t i) {
    return static_cast<char>((i * 31 + (i >> 12) * 7 + (i >> 20)) & 0xff);
}

}  // namespace nfsrdma::testing
