// What strangers and broken peers send to connection management.
#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "tests/verbs/softroce/cm_world.hpp"
#include "verbs/softroce/cm.hpp"
#include "verbs/softroce/cm_id.hpp"
#include "verbs/softroce/cm_mad.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

using test::CmTest;
using test::Dropper;
using test::kHostA;
using test::kHostB;
using test::kPort;
using test::run_for;
using test::run_until;
using test::Server;
using test::ud_frame;

TEST_F(CmTest, APeerThatBeganAnewWithItsQueuePairNumberEndsTheOldConnection) {
    establish();
    auto& old = static_cast<SoftQp&>(*client->id->qp());
    CmReq req;
    req.local_comm = 0x1234;
    req.service_id = kServiceIdTcp + kPort;
    req.qpn = old.qpn();
    req.source = kHostA;
    req.destination = kHostB;
    world.net.inject(kHostA, kHostB, ud_frame(encode(req, 99)));
    ASSERT_TRUE(run_until(loop(), [&] { return server->ends[0]->over(); }));
    EXPECT_EQ(server->ends[0]->events.back(), CmEventType::disconnected);
}

TEST_F(CmTest, ADisconnectOfAnUnknownConnectionIsAnswered) {
    Dropper dreps(world.net, CmAttr::drep, 0);
    world.net.inject(kHostA, kHostB, ud_frame(encode(CmDreq{{1, 2}, 3}, 4)));
    run_for(loop(), kNsPerSec);
    EXPECT_EQ(dreps.seen, 1u);
}

TEST_F(CmTest, AForgedDisconnectIsNotBelieved) {
    establish();
    auto& passive = static_cast<SoftCmId&>(*server->ends[0]->id);
    auto& active = static_cast<SoftCmId&>(*client->id);
    const CmIds ids{active.local_comm(), passive.local_comm()};
    const std::uint32_t qpn = static_cast<SoftQp&>(*passive.qp()).qpn();
    const SockAddr other = SockAddr::v4(0x0A000009, kRoceV2Port);
    world.net.inject(kHostA, kHostB, ud_frame(encode(CmDreq{ids, qpn ^ 1}, 4)));
    world.net.inject(kHostA, kHostB, ud_frame(encode(CmDreq{{ids.local ^ 1, ids.remote}, qpn}, 4)));
    world.net.inject(kHostA, kHostB,
                     ud_frame(encode(CmDreq{{ids.local, ids.remote ^ (1u << 31)}, qpn}, 4)));
    world.net.inject(other, kHostB, ud_frame(encode(CmDreq{ids, qpn}, 4)));
    CmRej rej;
    rej.ids = {ids.local ^ 1, ids.remote};
    world.net.inject(kHostA, kHostB, ud_frame(encode(rej, 4)));
    run_for(loop(), kNsPerSec);
    EXPECT_EQ(server->ends[0]->events.size(), 1u);
    world.net.inject(kHostA, kHostB, ud_frame(encode(CmDreq{ids, qpn}, 4)));
    run_for(loop(), kNsPerSec);
    EXPECT_TRUE(server->ends[0]->over());
}

TEST_F(CmTest, AFloodOfRequestsIsBoundedAndEndsWithTheFlood) {
    server->mode = Server::Mode::hold;
    const SockAddr flooder = SockAddr::v4(0x0A000009, kRoceV2Port);
    for (std::uint32_t i = 0; i < 6000; ++i) {
        CmReq req;
        req.local_comm = i;
        req.service_id = kServiceIdTcp + kPort;
        req.qpn = 100 + i;
        req.source = flooder;
        req.destination = kHostB;
        world.net.inject(flooder, kHostB, ud_frame(encode(req, i)));
        if (i % 500 == 499) run_for(loop(), 100'000);
    }
    run_for(loop(), kNsPerSec);
    EXPECT_LE(b->cm().half_open(), kCmHalfOpenMax);
    EXPECT_LE(server->ends.size(), kCmHalfOpenMax);
    EXPECT_GT(b->cm().counters().requests_dropped, 5000u);
    for (auto& end : server->ends)
        EXPECT_TRUE(end->id->reject({}));
    server->ends.clear();
    server->mode = Server::Mode::accept;
    establish();
}

TEST_F(CmTest, RequestsAboveTheRateAreDroppedAndComeAgain) {
    const SockAddr flooder = SockAddr::v4(0x0A000009, kRoceV2Port);
    for (std::uint32_t i = 0; i < 2 * kCmRequestBurst; ++i) {
        CmReq req;
        req.local_comm = i;
        req.service_id = kServiceIdTcp + 1;  // nobody listens: no half-open state
        req.qpn = 100 + i;
        req.source = flooder;
        req.destination = kHostB;
        world.net.inject(flooder, kHostB, ud_frame(encode(req, i)));
        if (i % 512 == 511) run_for(loop(), 10'000);
    }
    EXPECT_GT(b->cm().counters().requests_dropped, kCmRequestBurst / 2);
    establish();
}

TEST_F(CmTest, AnyBytesAreCountedAndHarmless) {
    establish();
    Prng prng(11);
    const Mad req = encode(CmReq{}, 1);
    for (int i = 0; i < 20'000; ++i) {
        Mad mad = req;
        if (i % 2 == 0) {
            for (std::byte& byte : mad)
                byte = static_cast<std::byte>(prng.next());
        }
        // A right header, and then anything.
        if (i % 4 != 0) {
            std::copy_n(req.begin(), 16, mad.begin());
            mad[16] = std::byte{0};
            mad[17] = static_cast<std::byte>(0x0F + prng.below(9));
            for (int k = 0; k < 8; ++k)
                mad[24 + prng.below(232)] = static_cast<std::byte>(prng.next());
        }
        const std::size_t size = i % 16 == 0 ? prng.below(256) : kMadBytes;
        world.net.inject(kHostA, kHostB, ud_frame(std::span(mad).first(size)));
        if (i % 64 == 0) run_for(loop(), 20 * kNsPerMs);
    }
    EXPECT_GT(b->cm().counters().malformed, 1000u);
    EXPECT_EQ(server->ends[0]->events.size(), 1u) << "the connection stands";
    EXPECT_EQ(client->events.size(), 1u);
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
