#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/trace.hpp"
#include "nfs/client/client.hpp"
#include "nfs/server/server.hpp"
#include "sunrpc/reply_cache.hpp"
#include "sunrpc/xprt_group.hpp"
#include "svcrdma/listener.hpp"
#include "tests/sim/nfs_workers.hpp"
#include "tests/sim/unstable_vfs.hpp"
#include "verbs/softroce/loop_wire.hpp"
#include "verbs/softroce/softroce.hpp"
#include "xprtrdma/transport.hpp"

namespace nfsrdma::test {

// An NFS client that recovers, and a server that is killed and started again, in virtual time, on
// devices and a network with every fault that there is. The whole product but its main()s.
class RecoveryWorld {
  public:
    struct Options {
        std::uint64_t seed = 1;
        verbs::softroce::FaultSpec client_faults, server_faults;
        svcrdma::ServerOptions server;
        xprtrdma::TransportOptions transport;  // of each connection
        std::uint32_t connections = 1;
        TraceRing* trace = nullptr;
    };
    explicit RecoveryWorld(const Options& options);
    ~RecoveryWorld();
    RecoveryWorld(const RecoveryWorld&) = delete;
    RecoveryWorld& operator=(const RecoveryWorld&) = delete;

    bool run_until(const std::function<bool()>& done, std::uint64_t limit_ns);
    void run_for(std::uint64_t ns);
    // What is under way in the server may still be done; nothing of it is heard.
    void kill_server();
    void start_server();
    bool connect();  // and mounts
    void close();    // and waits until everything is home

    nfs::client::Client& client() { return *client_; }
    const nfs::client::FileHandle& root() const { return flow_->root; }
    std::size_t connections() const { return transports_.size(); }
    xprtrdma::TransportCounters counters() const;  // reconnects and resends of all connections
    UnstableVfs& vfs() { return *vfs_; }
    const verbs::Device& client_device() const { return *client_device_; }
    Loop& loop() { return *loop_; }
    std::uint64_t replayed() const;  // by the reply caches of all lives
    std::uint32_t lives = 0;

  private:
    sunrpc::Xprt& xprt() noexcept;

    // What dies with a process.
    struct Life {
        std::unique_ptr<verbs::Device> device;
        sunrpc::ReplyCache cache{{.entries = 256, .shards = 1}};
        nfs::Server server;
        sunrpc::SvcDispatcher dispatcher;
        std::unique_ptr<svcrdma::Listener> listener;
    };
    // A host that is down says nothing.
    struct Silence final : verbs::softroce::LoopTap {
        bool on_frame(verbs::softroce::LoopFrame& frame) noexcept override;
    };

    const Options options_;
    ManualClock clock_;
    std::unique_ptr<Loop> loop_;
    std::unique_ptr<verbs::softroce::LoopNet> net_;
    Silence silence_;
    std::shared_ptr<UnstableVfs> vfs_;
    const nfs::HandleKey key_;  // of the seed
    std::unique_ptr<Life> life_;
    std::uint64_t replayed_before_ = 0;
    std::unique_ptr<verbs::Device> client_device_;
    std::vector<std::unique_ptr<xprtrdma::Transport>> transports_;
    std::unique_ptr<sunrpc::XprtGroup> group_;  // of more than one
    std::unique_ptr<nfs::client::Client> client_;
    std::unique_ptr<nfs::client::MountFlow> flow_;
};

}  // namespace nfsrdma::test
