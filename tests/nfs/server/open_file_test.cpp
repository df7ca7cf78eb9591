#include "nfs/server/open_file.hpp"

#include <chrono>

#include "tests/nfs/nfs_world.hpp"

// Storage that is slow, on a loop of real time: what one connection waits for is not another's
// business.
namespace nfsrdma::testing {
namespace {

using nfs::MemCall;

// Much longer than what passes it needs, on a busy machine as well.
constexpr std::uint64_t kSlowNs = 3 * kNsPerSec;
constexpr std::uint32_t kThreads = 4;  // two of them for one storage

class OffLoop : public ::testing::Test {
  protected:
    OffLoop() {
        LoopOptions options;
        options.blocking_threads = kThreads;
        auto made = Loop::create(options);
        NR_ASSERT(static_cast<bool>(made));
        loop_ = *std::move(made);
        auto slow = std::make_shared<nfs::VfsMem>();
        auto quick = std::make_shared<nfs::VfsMem>();
        slow_ = slow.get();
        quick_ = quick.get();
        EXPECT_TRUE(static_cast<bool>(server_.add_export("/slow", slow)));
        EXPECT_TRUE(static_cast<bool>(server_.add_export("/quick", quick)));
        server_.add_to(dispatcher_);
        dispatcher_.set_helper_threads(kThreads);
        for (auto& peer : peers_) {
            peer.xprt = std::make_unique<DirectXprt>(*loop_, dispatcher_, DirectOptions{});
            peer.clnt = std::make_unique<sunrpc::Clnt>(*peer.xprt, NFS3_PROGRAM, NFS_V3, nullptr);
        }
        const nfs::Cred cred;
        nfs::Node node;
        nfs::Wcc wcc;
        EXPECT_EQ(slow_->create(cred, {slow_->root(), "file"}, {}, node, wcc), NFS3_OK);
        slow_file_ = of("/slow", node.id);
        EXPECT_EQ(slow_->symlink(cred, {slow_->root(), "link"}, "elsewhere", node, wcc), NFS3_OK);
        slow_link_ = of("/slow", node.id);
        slow_root_ = of("/slow", slow_->root());
        quick_root_ = of("/quick", quick_->root());
    }
    Handle of(const char* exported, nfs::NodeId id) const {
        nfs::FhBytes fh = nfs::encode_fh(server_.handle_key(), {nfs::export_id_of(exported), id});
        return Handle::of(nfs::to_fh3(fh));
    }

    template <class Args, class Res>
    struct Asked {
        Args args{};
        Reply<Res> reply;
        sunrpc::Call rpc;
        bool done = false, failed = false;
        explicit Asked(std::uint32_t number) : reply(nfs::nfs3_procs()[number]) {
            rpc.proc = &nfs::nfs3_procs()[number];
            rpc.proc_number = number;
            rpc.args = &args;
            rpc.args_in_payload = false;
            rpc.res = &reply.res;
            rpc.user = this;
            rpc.done = [](sunrpc::Call& c, Result<void> result) noexcept {
                auto& self = *static_cast<Asked*>(c.user);
                self.done = true;
                self.failed = !result;
            };
        }
    };
    template <class Asking>
    void send(std::size_t peer, Asking& asked) {
        ASSERT_TRUE(static_cast<bool>(peers_.at(peer).clnt->call(asked.rpc)));
    }
    template <class Asking>
    bool wait(const Asking& asked) {
        const auto over = [](void* arg) { return static_cast<const Asking*>(arg)->done; };
        return loop_->run_until(over, const_cast<Asking*>(&asked), 50 * kNsPerSec);
    }
    struct Getattr : Asked<GETATTR3args, GETATTR3res> {
        explicit Getattr(const Handle& h) : Asked(NFSPROC3_GETATTR) { args.object = h.fh(); }
    };
    struct Readdir : Asked<READDIR3args, READDIR3res> {
        explicit Readdir(const Handle& h) : Asked(NFSPROC3_READDIR) {
            args.dir = h.fh();
            args.count = 4096;
        }
    };
    struct Read : Asked<READ3args, READ3res> {
        explicit Read(const Handle& h) : Asked(NFSPROC3_READ) {
            args.file = h.fh();
            args.count = 4096;
        }
    };

    struct Peer {
        std::unique_ptr<DirectXprt> xprt;
        std::unique_ptr<sunrpc::Clnt> clnt;
    };
    std::unique_ptr<Loop> loop_;
    nfs::Server server_;
    sunrpc::SvcDispatcher dispatcher_;
    std::array<Peer, 2> peers_;
    nfs::VfsMem* slow_ = nullptr;
    nfs::VfsMem* quick_ = nullptr;
    Handle slow_root_, slow_file_, slow_link_, quick_root_;
};

TEST_F(OffLoop, OtherConnectionsCallsPassASlowListing) {
    slow_->inject(MemCall::readdir, {.delay_ns = kSlowNs});
    Readdir listing(slow_root_);
    send(0, listing);
    const std::uint64_t began = loop_->now_ns();
    for (int i = 0; i < 10; ++i) {
        Getattr elsewhere(quick_root_), same(slow_root_);
        send(1, elsewhere);
        ASSERT_TRUE(wait(elsewhere));
        send(1, same);
        ASSERT_TRUE(wait(same));
        EXPECT_EQ(same.reply->status, NFS3_OK);
    }
    EXPECT_LT(loop_->now_ns() - began, kSlowNs);
    EXPECT_FALSE(listing.done);
    ASSERT_TRUE(wait(listing));
    EXPECT_EQ(listing.reply->status, NFS3_OK);
    EXPECT_NE(listing.reply->READDIR3res_u.resok.reply.entries, nullptr);
}

TEST_F(OffLoop, OtherConnectionsCallsPassSlowAttributesAndOpening) {
    slow_->inject(MemCall::getattr, {.delay_ns = kSlowNs});
    slow_->inject(MemCall::open_io, {.delay_ns = kSlowNs});
    Getattr attr(slow_file_);
    Read read(slow_file_);
    send(0, attr);
    send(0, read);
    const std::uint64_t began = loop_->now_ns();
    Getattr elsewhere(quick_root_);
    send(1, elsewhere);
    ASSERT_TRUE(wait(elsewhere));
    EXPECT_LT(loop_->now_ns() - began, kSlowNs);
    ASSERT_TRUE(wait(attr));
    ASSERT_TRUE(wait(read));
    EXPECT_EQ(attr.reply->status, NFS3_OK);
    EXPECT_EQ(read.reply->status, NFS3_OK);
    EXPECT_NE(read.reply->READ3res_u.resok.eof, FALSE);
    read.reply->READ3res_u.resok.data = {};
}

// However many calls wait for a storage that is gone, another one's find a thread.
TEST_F(OffLoop, ManyCallsOfOneStorageLeaveThreadsToAnother) {
    slow_->inject(MemCall::readdir, {.delay_ns = kSlowNs});
    quick_->inject(MemCall::access, {.delay_ns = 1});  // it may block, too
    std::vector<std::unique_ptr<Readdir>> listings;
    for (int i = 0; i < 6; ++i) {
        listings.push_back(std::make_unique<Readdir>(slow_root_));
        send(0, *listings.back());
    }
    while (loop_->counters().blocking_works < 1)
        static_cast<void>(loop_->run_once(kNsPerMs));
    const std::uint64_t began = loop_->now_ns();
    for (int i = 0; i < 10; ++i) {
        Getattr elsewhere(quick_root_);
        send(1, elsewhere);
        ASSERT_TRUE(wait(elsewhere));
    }
    EXPECT_LT(loop_->now_ns() - began, kSlowNs);
    EXPECT_GE(dispatcher_.counters().off_loop, 16u);
    for (const auto& listing : listings) {
        ASSERT_TRUE(wait(*listing));
        EXPECT_EQ(listing->reply->status, NFS3_OK);
    }
}

TEST_F(OffLoop, MemoryThatAnswersAtOnceStaysOnTheLoop) {
    Getattr attr(slow_file_);
    Read read(slow_file_);
    send(0, attr);
    send(0, read);
    ASSERT_TRUE(wait(attr));
    ASSERT_TRUE(wait(read));
    read.reply->READ3res_u.resok.data = {};
    EXPECT_EQ(loop_->counters().blocking_works, 0u);
    EXPECT_EQ(dispatcher_.counters().off_loop, 0u);
}

TEST_F(OffLoop, FailureIsAnsweredFromThere) {
    slow_->inject(MemCall::open_io, {.status = NFS3ERR_ACCES, .delay_ns = kNsPerMs});
    Read read(slow_file_);
    send(0, read);
    ASSERT_TRUE(wait(read));
    EXPECT_EQ(read.reply->status, NFS3ERR_ACCES);
    EXPECT_NE(read.reply->READ3res_u.resfail.file_attributes.attributes_follow, FALSE);
    slow_->inject(MemCall::readdir, {.status = NFS3ERR_BAD_COOKIE, .delay_ns = kNsPerMs});
    Readdir listing(slow_root_);
    send(0, listing);
    ASSERT_TRUE(wait(listing));
    EXPECT_EQ(listing.reply->status, NFS3ERR_BAD_COOKIE);
}

TEST_F(OffLoop, LinkIsReadThere) {
    slow_->inject(MemCall::readlink, {.delay_ns = kNsPerMs});
    Asked<READLINK3args, READLINK3res> link(NFSPROC3_READLINK);
    link.args.symlink = slow_link_.fh();
    send(0, link);
    ASSERT_TRUE(wait(link));
    ASSERT_EQ(link.reply->status, NFS3_OK);
    EXPECT_STREQ(link.reply->READLINK3res_u.resok.data, "elsewhere");
}

TEST_F(OffLoop, ConnectionAndExportMayGoWhileWorkIsOut) {
    slow_->inject(MemCall::readdir, {.delay_ns = kSlowNs});
    slow_->inject(MemCall::open_io, {.delay_ns = kSlowNs});
    Readdir listing(slow_root_);
    Read read(slow_file_);
    send(0, listing);
    send(0, read);
    while (loop_->counters().blocking_works < 2)
        static_cast<void>(loop_->run_once(kNsPerMs));
    peers_[0].xprt->disconnect();
    ASSERT_TRUE(wait(listing));
    ASSERT_TRUE(wait(read));
    EXPECT_TRUE(listing.failed);
    EXPECT_TRUE(read.failed);
    const auto home = [](void* arg) {
        return static_cast<DirectXprt*>(arg)->server().requests_in_use() == 0;
    };
    EXPECT_TRUE(loop_->run_until(home, peers_[0].xprt.get(), 10 * kNsPerSec));
}

// A loop that ends waits for the work that runs.
TEST_F(OffLoop, LoopMayEndWhileWorkIsOut) {
    slow_->inject(MemCall::readdir, {.delay_ns = kSlowNs});
    Readdir listing(slow_root_);
    send(0, listing);
    while (loop_->counters().blocking_works < 1)
        static_cast<void>(loop_->run_once(kNsPerMs));
    peers_[0].xprt->disconnect();
    ASSERT_TRUE(wait(listing));
    for (auto& peer : peers_) {
        peer.clnt.reset();
    }
    // As a program does whose user lost patience: the transports go last here, since they hold
    // what the helper threads write to.
    struct Rest {
        std::array<Peer, 2>& peers;
        ~Rest() {
            for (Peer& peer : peers)
                peer.xprt.reset();
        }
    } rest{peers_};
    loop_.reset();
}

}  // namespace
}  // namespace nfsrdma::testing
