#include "verbs/softroce/cm.hpp"

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "tests/verbs/softroce/cm_world.hpp"
#include "verbs/softroce/cm_id.hpp"
#include "verbs/softroce/cm_mad.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

using test::bytes_of;
using test::CmTest;
using test::Dropper;
using test::End;
using test::is_mad;
using test::kHostA;
using test::kHostB;
using test::kMadAt;
using test::kPort;
using test::run_for;
using test::run_until;
using test::Server;
using test::SimWorld;
using test::ud_frame;

TEST_F(CmTest, ConnectCarriesPrivateDataAndDepthsBothWays) {
    const auto hello = bytes_of("hello, fifty-six bytes at most");
    ConnParams params;
    params.private_data = hello;
    params.initiator_depth = 3;
    params.responder_resources = 9;
    server->params.initiator_depth = 5;
    server->params.responder_resources = 16;
    establish(params);
    EXPECT_TRUE(std::equal(hello.begin(), hello.end(), server->request_data.begin()));
    EXPECT_EQ(server->request_data.size(), kConnectPrivateDataMax);
    EXPECT_EQ(server->request_data.back(), std::byte{0}) << "padded by zeros";
    EXPECT_EQ(server->initiator_depth, 9);
    EXPECT_EQ(server->responder_resources, 3);
    EXPECT_TRUE(
        std::equal(server->answer.begin(), server->answer.end(), client->private_data.begin()));
    EXPECT_EQ(client->private_data.size(), kAcceptPrivateDataMax);
    EXPECT_EQ(client->initiator_depth, 3) << "the smaller of both";
    EXPECT_EQ(client->responder_resources, 5);
    EXPECT_EQ(server->ends[0]->initiator_depth, 5);
    EXPECT_EQ(server->ends[0]->responder_resources, 3);

    EXPECT_EQ(client->id->peer(), at());
    EXPECT_TRUE(client->id->local().same_address(kHostA));
    EXPECT_EQ(server->ends[0]->id->local(), at());
    EXPECT_EQ(server->ends[0]->id->peer(), client->id->local());
}

TEST_F(CmTest, QueuePairsAreConnectedToEachOther) {
    establish();
    auto& active = static_cast<SoftQp&>(*client->id->qp());
    auto& passive = static_cast<SoftQp&>(*server->ends[0]->id->qp());
    EXPECT_EQ(active.attr().dest_qpn, passive.qpn());
    EXPECT_EQ(passive.attr().dest_qpn, active.qpn());
    // Each names the PSN at which its peer is to begin, as Linux does: the REP of the capture says
    // 0x81A887, and the client's first SEND has it.
    EXPECT_EQ(active.attr().rq_psn, active.initial_psn());
    EXPECT_EQ(active.attr().sq_psn, passive.initial_psn());
    EXPECT_EQ(passive.attr().rq_psn, passive.initial_psn());
    EXPECT_EQ(passive.attr().sq_psn, active.initial_psn());
    EXPECT_EQ(active.attr().pmtu, 4096u);
    EXPECT_EQ(passive.attr().pmtu, 4096u);
    EXPECT_EQ(active.attr().path.peer, kHostB);
    EXPECT_EQ(passive.attr().path.peer, kHostA);
    EXPECT_EQ(active.attr().rnr_retry_count, 7);
}

TEST_F(CmTest, RejectCarriesReasonAndPrivateData) {
    server->mode = Server::Mode::reject;
    server->answer = bytes_of("full");
    ASSERT_TRUE(client->connect(at()));
    ASSERT_TRUE(run_until(loop(), [&] { return !client->events.empty(); }));
    EXPECT_EQ(client->events, std::vector{CmEventType::rejected});
    EXPECT_EQ(client->reason, 28);
    EXPECT_EQ(client->private_data.size(), kRejectPrivateDataMax);
    EXPECT_TRUE(
        std::equal(server->answer.begin(), server->answer.end(), client->private_data.begin()));
    run_for(loop(), 10 * kNsPerSec);
    EXPECT_EQ(client->events.size(), 1u);
    EXPECT_EQ(server->requests, 1u);
}

TEST_F(CmTest, DroppingARequestRejectsIt) {
    server->mode = Server::Mode::drop;
    ASSERT_TRUE(client->connect(at()));
    ASSERT_TRUE(run_until(loop(), [&] { return !client->events.empty(); }));
    EXPECT_EQ(client->events, std::vector{CmEventType::rejected});
    EXPECT_EQ(client->reason, 28);
}

TEST_F(CmTest, DisconnectIsToldOnceOnBothSides) {
    establish();
    End& passive = *server->ends[0];
    client->id->disconnect();
    client->id->disconnect();
    EXPECT_EQ(client->events.size(), 1u) << "never from inside the call";
    EXPECT_TRUE(client->id->qp()->in_error());
    ASSERT_TRUE(run_until(loop(), [&] { return client->over() && passive.over(); }));
    passive.id->disconnect();
    run_for(loop(), 20 * kNsPerSec);
    const std::vector expected{CmEventType::established, CmEventType::disconnected};
    EXPECT_EQ(client->events, expected);
    EXPECT_EQ(passive.events, expected);
    EXPECT_TRUE(passive.id->qp()->in_error());
    EXPECT_EQ(a->cm().counters().retries, 0u) << "the DREP came";
}

TEST_F(CmTest, BothMayDisconnectAtTheSameTime) {
    establish();
    client->id->disconnect();
    server->ends[0]->id->disconnect();
    run_for(loop(), 20 * kNsPerSec);
    EXPECT_EQ(client->count(CmEventType::disconnected), 1u);
    EXPECT_EQ(server->ends[0]->count(CmEventType::disconnected), 1u);
    EXPECT_EQ(a->cm().counters().retries + b->cm().counters().retries, 0u);
}

TEST_F(CmTest, AQueuePairInErrorDisconnects) {
    establish();
    server->ends[0]->id->qp()->set_error();
    server->ends[0]->id->disconnect();
    ASSERT_TRUE(run_until(loop(), [&] { return client->over(); }));
    EXPECT_EQ(client->events.back(), CmEventType::disconnected);
}

TEST_F(CmTest, EveryMessageIsRepeatedWhenItIsLost) {
    for (const CmAttr attr : {CmAttr::req, CmAttr::rep, CmAttr::rtu, CmAttr::dreq, CmAttr::drep}) {
        Dropper dropper(world.net, attr, 2);
        server->ends.clear();
        client = std::make_unique<End>(*a);
        establish();
        client->id->disconnect();
        ASSERT_TRUE(run_until(loop(), [&] { return client->over() && server->ends[0]->over(); }));
        run_for(loop(), 20 * kNsPerSec);
        EXPECT_EQ(dropper.left, 0u);
        EXPECT_GE(dropper.seen, 3u);
        EXPECT_EQ(client->events.size(), 2u);
        EXPECT_EQ(server->ends[0]->events.size(), 2u);
    }
    EXPECT_EQ(server->requests, 5u) << "a repeated REQ is the same request";
}

TEST_F(CmTest, ASlowHandlerIsCoveredByMra) {
    server->mode = Server::Mode::hold;
    ASSERT_TRUE(client->connect(at()));
    Dropper reqs(world.net, CmAttr::req, 0);
    run_for(loop(), 2 * kNsPerSec);
    EXPECT_LE(reqs.seen, 2u) << "the MRA stops the repetitions";
    ASSERT_EQ(server->ends.size(), 1u);
    EXPECT_TRUE(client->events.empty());
    server->accept(*server->ends[0]);
    ASSERT_TRUE(run_until(loop(), [&] { return client->established(); }));
    EXPECT_EQ(server->requests, 1u);
}

TEST_F(CmTest, AcceptAfterThePeerGaveUpIsToldSo) {
    server->mode = Server::Mode::hold;
    ConnParams params;
    params.timeout_ns = 100 * kNsPerMs;
    ASSERT_TRUE(client->connect(at(), params));
    ASSERT_TRUE(run_until(loop(), [&] { return client->over(); }));
    EXPECT_EQ(client->events, std::vector{CmEventType::unreachable});
    run_for(loop(), kNsPerSec);
    End& late = *server->ends[0];
    const auto gone = [](const auto& result) {
        return !result && result.error().code == Errc::reconnect;
    };
    EXPECT_TRUE(gone(late.try_qp()));
    EXPECT_TRUE(gone(late.id->accept({})));
    EXPECT_TRUE(late.id->reject({})) << "nothing more to say";
    EXPECT_EQ(b->cm().half_open(), 0u);
}

TEST_F(CmTest, AnAcceptThatNobodyWaitsForIsUnreachable) {
    Dropper rejs(world.net, CmAttr::rej, 100);
    server->mode = Server::Mode::hold;
    ASSERT_TRUE(client->connect(at()));
    ASSERT_TRUE(run_until(loop(), [&] { return server->ends.size() == 1; }));
    client->id.reset();
    run_for(loop(), kNsPerSec);
    rejs.left = 0;
    server->accept(*server->ends[0]);
    ASSERT_TRUE(run_until(loop(), [&] { return server->ends[0]->over(); }));
    EXPECT_EQ(server->ends[0]->events, std::vector{CmEventType::unreachable});
    EXPECT_EQ(server->ends[0]->reason, 6) << "invalid communication id";
}

TEST_F(CmTest, DyingInAnyStateIsSilentHereAndSeenThere) {
    // Active, before the answer.
    server->mode = Server::Mode::hold;
    ASSERT_TRUE(client->connect(at()));
    ASSERT_TRUE(run_until(loop(), [&] { return server->ends.size() == 1; }));
    client->id.reset();
    run_for(loop(), kNsPerSec);
    EXPECT_TRUE(client->events.empty());
    EXPECT_EQ(b->cm().half_open(), 0u);
    // Passive, with the answer on its way.
    server->ends.clear();
    ASSERT_TRUE(client->connect(at()));
    ASSERT_TRUE(run_until(loop(), [&] { return server->ends.size() == 1; }));
    server->accept(*server->ends[0]);
    server->ends[0]->id.reset();
    ASSERT_TRUE(run_until(loop(), [&] { return client->over(); }));
    EXPECT_EQ(client->count(CmEventType::unreachable), 0u);
    // Established, and its DREQ is lost twice.
    server->mode = Server::Mode::accept;
    server->ends.clear();
    client = std::make_unique<End>(*a);
    establish();
    Dropper dreqs(world.net, CmAttr::dreq, 2);
    client->id.reset();
    ASSERT_TRUE(run_until(loop(), [&] { return server->ends[0]->over(); }));
    EXPECT_EQ(client->events, std::vector{CmEventType::established});
    server->ends.clear();
    EXPECT_EQ(a->cm().ids(), 0u);
    EXPECT_EQ(b->cm().ids(), 0u);
}

TEST_F(CmTest, AHandlerMayDestroyItsIdInAnyEvent) {
    client->destroy_on_event = true;
    ASSERT_TRUE(client->connect(at()));
    ASSERT_TRUE(
        run_until(loop(), [&] { return server->ends.size() == 1 && server->ends[0]->over(); }));
    EXPECT_EQ(client->events, std::vector{CmEventType::established});
    EXPECT_EQ(a->cm().ids(), 0u);
}

TEST_F(CmTest, AListenerThatDiesRefusesWhatItHasNotSeen) {
    ASSERT_TRUE(client->connect(at()));
    // The request has arrived, and is told by the next timer.
    ASSERT_TRUE(run_until(loop(), [&] { return b->cm().counters().requests > 0; }));
    server->listener.reset();
    ASSERT_TRUE(run_until(loop(), [&] { return client->over(); }));
    EXPECT_EQ(client->events, std::vector{CmEventType::rejected});
    EXPECT_EQ(b->cm().ids(), 0u);
}

TEST_F(CmTest, ListenersShareNoPort) {
    EXPECT_EQ(b->listen(at(), *server).error().sys, EADDRINUSE);
    auto other = b->listen(at().with_port(0), *server);
    ASSERT_TRUE(other);
    EXPECT_NE((*other)->local().port(), 0);
    EXPECT_NE((*other)->local().port(), kPort);
    server->listener.reset();
    EXPECT_TRUE(b->listen(at(), *server)) << "free again";
}

TEST_F(CmTest, AListenerAtAnyAddressIsFoundAndAnExactOneWins) {
    Server any(*b, SockAddr::v4(0, kPort));
    ASSERT_TRUE(client->connect(at()));
    ASSERT_TRUE(run_until(loop(), [&] { return client->established(); }));
    EXPECT_EQ(any.requests, 0u);
    server->listener.reset();
    End second(*a);
    ASSERT_TRUE(second.connect(at()));
    ASSERT_TRUE(run_until(loop(), [&] { return second.established(); }));
    EXPECT_EQ(any.requests, 1u);
}

TEST_F(CmTest, MisuseIsAnError) {
    client->id = std::move(*a->create_id(*client));
    EXPECT_EQ(client->id->connect(at(), {}).error().code, Errc::invalid_argument)
        << "no queue pair";
    client->make_qp();
    ConnParams params;
    const std::vector<std::byte> long_data(57);
    params.private_data = long_data;
    EXPECT_EQ(client->id->connect(at(), params).error().code, Errc::invalid_argument);
    EXPECT_EQ(client->id->connect(at().with_port(0), {}).error().code, Errc::invalid_argument);
    EXPECT_EQ(client->id->accept({}).error().code, Errc::invalid_argument) << "no request";
    EXPECT_EQ(client->id->reject({}).error().code, Errc::invalid_argument);
    EXPECT_TRUE(client->id->connect(at(), {}));
    EXPECT_EQ(client->id->connect(at(), {}).error().code, Errc::invalid_argument) << "twice";
}

TEST_F(CmTest, ASmallerPathMtuOfThePeerIsTaken) {
    // Plays a peer that takes no more than 1024.
    class SmallPeer final : public LoopTap {
      public:
        explicit SmallPeer(LoopNet& n) : net(n) {}
        bool on_frame(LoopFrame& frame) noexcept override {
            if (!is_mad(frame, CmAttr::req)) return true;
            const auto mad = frame.bytes.subspan(kMadAt);
            auto req = decode_req(mad);
            if (req->pmtu_code <= 3) return true;
            CmRej rej;
            rej.ids.remote = req->local_comm;
            rej.reason = 26;
            rej.pmtu_code = 3;
            net.inject(frame.to, frame.from, ud_frame(encode(rej, decode_header(mad)->tid)));
            return false;
        }
        LoopNet& net;
    } small(world.net);
    world.net.set_tap(&small);
    establish();
    world.net.set_tap(nullptr);
    EXPECT_EQ(static_cast<SoftQp&>(*client->id->qp()).attr().pmtu, 1024u);
    EXPECT_EQ(static_cast<SoftQp&>(*server->ends[0]->id->qp()).attr().pmtu, 1024u);
}

// Linux's soft-RoCE repeats for ever when the count in our request is 7, and its NFS server's
// threads wait that long; it gives up too soon where the time is short.
TEST_F(CmTest, ARequestLetsThePeerMissUsAfterTwoSeconds) {
    class Seen final : public LoopTap {
      public:
        bool on_frame(LoopFrame& frame) noexcept override {
            if (is_mad(frame, CmAttr::req)) req = decode_req(frame.bytes.subspan(kMadAt));
            return true;
        }
        Result<CmReq> req = Error{Errc::invalid_argument, 0, "none"};
    } seen;
    world.net.set_tap(&seen);
    establish();
    world.net.set_tap(nullptr);
    ASSERT_TRUE(seen.req);
    EXPECT_EQ(seen.req->retry_count, 6);
    const std::uint64_t silence_ns = (std::uint64_t{4096} << seen.req->ack_timeout_exp) * 7;
    EXPECT_GE(silence_ns, 18 * kNsPerSec / 10);
    EXPECT_LE(silence_ns, 4 * kNsPerSec);
}

// Random loss, duplication and reordering: each side gets one outcome, a connection that one side
// has got is seen by the other to end, and nothing is left over.
TEST(CmFaults, EveryConnectionEndsOnceOnBothSides) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        LoopFaults faults;
        faults.loss_ppm = 100'000;
        faults.dup_ppm = 200'000;
        faults.reorder_ppm = 300'000;
        faults.corrupt_ppm = 20'000;
        faults.delay_ns_max = 3 * kNsPerMs;
        faults.reorder_ns = 5 * kNsPerMs;
        SimWorld world(seed, faults);
        auto a = world.make_device(kHostA), b = world.make_device(kHostB);
        Server server(*b, kHostB.with_port(kPort));
        std::vector<std::unique_ptr<End>> clients;
        for (int i = 0; i < 16; ++i) {
            clients.push_back(std::make_unique<End>(*a));
            ASSERT_TRUE(clients.back()->connect(server.at()));
        }
        run_for(world.loop(), 8 * kNsPerSec);
        std::uint32_t up = 0;
        for (auto& client : clients) {
            ASSERT_EQ(client->events.size(), 1u) << "seed " << seed;
            up += client->established();
            client->id->disconnect();
        }
        EXPECT_GE(up, 15u) << "seed " << seed;
        run_for(world.loop(), 20 * kNsPerSec);
        for (auto& client : clients)
            EXPECT_TRUE(client->over()) << "seed " << seed;
        for (auto& end : server.ends) {
            EXPECT_TRUE(end->over()) << "seed " << seed;
            EXPECT_LE(end->events.size(), 2u);
        }
        EXPECT_EQ(b->cm().half_open(), 0u) << "seed " << seed;
        clients.clear();
        server.ends.clear();
        EXPECT_EQ(a->cm().ids() + b->cm().ids(), 0u);
    }
}

TEST(B32, ClosedPortIsRejectedAtOnceFiveHundredTimes) {
    SimWorld world;
    auto a = world.make_device(kHostA), b = world.make_device(kHostB);
    for (int i = 0; i < 500; ++i) {
        End client(*a);
        const std::uint64_t start = world.loop().now_ns();
        ASSERT_TRUE(client.connect(kHostB.with_port(kPort)));
        ASSERT_TRUE(run_until(world.loop(), [&] { return client.over(); }));
        EXPECT_EQ(client.events, std::vector{CmEventType::rejected});
        EXPECT_EQ(client.reason, 8) << "invalid service id";
        EXPECT_LT(world.loop().now_ns() - start, kNsPerMs);
    }
    EXPECT_EQ(a->cm().ids(), 0u);
}

TEST(B32, DeadAddressIsUnreachableWithinTheTimeoutFiveHundredTimes) {
    SimWorld world;
    auto a = world.make_device(kHostA);
    for (int i = 0; i < 500; ++i) {
        End client(*a);
        ConnParams params;
        params.timeout_ns = 300 * kNsPerMs;
        const std::uint64_t start = world.loop().now_ns();
        ASSERT_TRUE(client.connect(kHostB.with_port(kPort), params));
        if (i % 3 == 0) {  // or its user loses patience
            client.id.reset();
            continue;
        }
        ASSERT_TRUE(run_until(world.loop(), [&] { return client.over(); }));
        EXPECT_EQ(client.events, std::vector{CmEventType::unreachable});
        EXPECT_LE(world.loop().now_ns() - start, 310 * kNsPerMs);
    }
    EXPECT_EQ(a->cm().ids(), 0u);
    EXPECT_GT(a->cm().counters().retries, 300u * 4);
}

TEST(B32, ServerThatRejectsFiveHundredTimes) {
    SimWorld world;
    auto a = world.make_device(kHostA), b = world.make_device(kHostB);
    Server server(*b, kHostB.with_port(kPort));
    server.mode = Server::Mode::reject;
    for (int i = 0; i < 500; ++i) {
        End client(*a);
        ASSERT_TRUE(client.connect(server.at()));
        ASSERT_TRUE(run_until(world.loop(), [&] { return client.over(); }));
        EXPECT_EQ(client.events, std::vector{CmEventType::rejected});
    }
    EXPECT_EQ(server.requests, 500u);
    EXPECT_EQ(b->cm().ids(), 0u);
}

TEST(B38, ADeviceConnectsToItself) {
    SimWorld world;
    auto a = world.make_device(kHostA);
    Server server(*a, kHostA.with_port(kPort));
    End client(*a);
    ASSERT_TRUE(client.connect(server.at()));
    ASSERT_TRUE(run_until(world.loop(), [&] {
        return client.established() && server.ends.size() == 1 && server.ends[0]->established();
    }));
    client.id->disconnect();
    ASSERT_TRUE(run_until(world.loop(), [&] { return client.over() && server.ends[0]->over(); }));
    EXPECT_EQ(client.events.size(), 2u);
    EXPECT_EQ(server.ends[0]->events.size(), 2u);
    server.ends.clear();
}

TEST(B48, FiveThousandConnectionsNeitherLeakNorSlowDown) {
    SimWorld world;
    auto a = world.make_device(kHostA), b = world.make_device(kHostB);
    Server server(*b, kHostB.with_port(kPort));
    std::uint64_t first = 0, last = 0;
    for (int i = 0; i < 5000; ++i) {
        End client(*a);
        const std::uint64_t start = world.loop().now_ns();
        ASSERT_TRUE(client.connect(server.at()));
        ASSERT_TRUE(run_until(world.loop(), [&] {
            return client.established() && server.ends.size() == 1 && server.ends[0]->established();
        })) << i;
        client.id->disconnect();
        ASSERT_TRUE(run_until(world.loop(), [&] { return server.ends[0]->over(); })) << i;
        server.ends.clear();
        const std::uint64_t took = world.loop().now_ns() - start;
        if (i < 100) first += took;
        if (i >= 4900) last += took;
        // A user who connects as fast as this in virtual time would be held to the request rate.
        run_for(world.loop(), kNsPerSec / kCmRequestsPerSec);
    }
    EXPECT_LE(last, first + first / 2);
    EXPECT_EQ(a->cm().ids() + b->cm().ids(), 0u);
    EXPECT_EQ(a->cm().counters().retries, 0u);
    EXPECT_EQ(server.requests, 5000u);
}

TEST(B56, Ipv6LinkLocalAddressesWithScope) {
    in6_addr address{};
    address.s6_addr[0] = 0xFE;
    address.s6_addr[1] = 0x80;
    address.s6_addr[15] = 1;
    const SockAddr host_a = SockAddr::v6(address, kRoceV2Port, 2);
    address.s6_addr[15] = 2;
    const SockAddr host_b = SockAddr::v6(address, kRoceV2Port, 2);
    SimWorld world;
    auto a = world.make_device(host_a), b = world.make_device(host_b);
    Server server(*b, host_b.with_port(kPort));
    End client(*a);
    ASSERT_TRUE(client.connect(server.at()));
    ASSERT_TRUE(run_until(world.loop(), [&] {
        return client.established() && server.ends.size() == 1 && server.ends[0]->established();
    }));
    EXPECT_EQ(server.ends[0]->id->peer(), client.id->local()) << "with its scope";
    server.ends.clear();
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
