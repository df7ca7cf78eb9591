#include "tirpc/clnt_link.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tirpc/clnt_world.hpp"

namespace nfsrdma::tirpc::test {
namespace {

class ClntLinkTest : public ::testing::Test {
  protected:
    std::unique_ptr<ClntLink> connect(std::uint32_t credits = 1, std::uint32_t max_message = 0,
                                      std::uint64_t stall_ms = 60000) {
        rpcrdma_opts opts = server_.opts();
        opts.credits = credits;
        opts.max_message = max_message;
        Options options = *check_options(&opts);
        options.stall_ns = stall_ms * kNsPerMs;
        std::string text;
        auto link = ClntLink::create(server_.address(), options, text);
        EXPECT_TRUE(link) << text;
        return *std::move(link);
    }
    // As much memory as it gives.
    static std::vector<std::span<std::byte>> alloc_all(ClntLink& link, std::uint32_t bytes) {
        std::vector<std::span<std::byte>> all;
        for (;;) {
            auto memory = link.alloc(bytes);
            if (!memory) return all;
            all.push_back(*memory);
        }
    }
    // Until all credits are granted.
    void warm(ClntLink& link) {
        for (std::uint32_t i = 0; i < 20; ++i) {
            Flight& flight = **link.take(1024, false, UINT64_MAX);
            encode(flight, 5000 + i);
            bool sent = false;
            ASSERT_TRUE(link.fly(flight, in_ms(link, 20000), sent));
            link.give_back(flight);
        }
    }
    template <class Condition>
    static bool soon(Condition condition) {
        for (int i = 0; i < 3000; ++i) {
            if (condition()) return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return false;
    }
    // A call that the server does not answer, and that is given up.
    static void lose(ClntLink& link, std::uint32_t xid) {
        auto flight = link.take(1024, false, in_ms(link, 20));
        if (!flight) return;
        encode(**flight, xid);
        bool sent = false;
        EXPECT_FALSE(link.fly(**flight, in_ms(link, 20), sent));
        link.give_back(**flight);
    }
    static std::uint64_t in_ms(const ClntLink& link, std::uint64_t ms) {
        return link.now_ns() + ms * kNsPerMs;
    }
    // Every slot that there is.
    static std::vector<Flight*> take_all(ClntLink& link) {
        std::vector<Flight*> all;
        for (;;) {
            auto got = link.take(1024, false, in_ms(link, 30));
            if (!got) break;
            all.push_back(*got);
        }
        return all;
    }
    // A call of procedure 0.
    static void encode(Flight& flight, std::uint32_t xid) {
        const std::array<std::uint32_t, 10> words = {xid, 0, 2, kProg, kVers, T_NULL, 0, 0, 0, 0};
        sunrpc::Rqst& rqst = *flight.rqst;
        for (std::size_t i = 0; i < words.size(); ++i)
            store_be32(rqst.head_room.data() + 4 * i, words[i]);
        rqst.xid = xid;
        rqst.call.head = rqst.head_room.first(4 * words.size());
        rqst.reply_max = 100;
    }
    Server server_;
};

TEST_F(ClntLinkTest, ACallFliesAndItsReplyIsThere) {
    const auto link = connect();
    Flight& flight = **link->take(1024, false, UINT64_MAX);
    encode(flight, 77);
    bool sent = false;
    ASSERT_TRUE(link->fly(flight, in_ms(*link, 20000), sent));
    EXPECT_TRUE(sent);
    EXPECT_EQ(load_be32(flight.rqst->reply.head.data()), 77u);
    link->give_back(flight);
}

TEST_F(ClntLinkTest, WhatIsTakenIsGivenBackAtItsEnd) {
    const auto link = connect(4);
    for (int i = 0; i < 100; ++i) {
        auto got = link->take(1024, false, in_ms(*link, 20000));
        ASSERT_TRUE(got) << i;
        link->give_back(**got);
    }
    const std::vector<Flight*> all = take_all(*link);
    EXPECT_GE(all.size(), 4u);
    for (Flight* flight : all)
        link->give_back(*flight);
}

TEST_F(ClntLinkTest, WithoutASlotTimeIsOut) {
    const auto link = connect();
    const std::vector<Flight*> all = take_all(*link);
    ASSERT_FALSE(all.empty());
    auto more = link->take(1024, false, in_ms(*link, 20));
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, Errc::timed_out);
    for (Flight* flight : all)
        link->give_back(*flight);
}

// Giving back does not tell the loop, unless somebody waits.
TEST_F(ClntLinkTest, WhoWaitsIsToldOfWhatIsGivenBack) {
    const auto link = connect();
    std::vector<Flight*> all = take_all(*link);
    std::atomic<int> got{0};
    std::vector<std::thread> waiters;
    for (int i = 0; i < 4; ++i) {
        waiters.emplace_back([&] {
            auto flight = link->take(1024, false, in_ms(*link, 60000));
            ASSERT_TRUE(flight);
            ++got;
            link->give_back(**flight);
        });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(got.load(), 0);
    link->give_back(*all.back());
    all.pop_back();
    for (std::thread& waiter : waiters)
        waiter.join();
    EXPECT_EQ(got.load(), 4);
    for (Flight* flight : all)
        link->give_back(*flight);
}

TEST_F(ClntLinkTest, WhatIsTooLargeIsToldAtOnce) {
    const auto link = connect();
    auto got = link->take(link->limits().max_message + 1, false, UINT64_MAX);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Errc::too_big);
    EXPECT_EQ(link->alloc(link->limits().max_payload + 1).error().code, Errc::too_big);
    Flight& flight = **link->take(1024, false, UINT64_MAX);
    EXPECT_EQ(link->provide(flight, 0, link->limits().max_payload + 1, UINT64_MAX).error().code,
              Errc::too_big);
    link->give_back(flight);
}

// With one payload left, what wants two holds it no longer than it waits.
TEST_F(ClntLinkTest, BothPayloadsAreTakenOrNone) {
    // Small runs for messages are none for payloads, so that there are as many as flights.
    const auto link = connect(1, 8192);
    const std::uint32_t most = link->limits().max_payload;
    std::vector<Flight*> flights = take_all(*link);
    ASSERT_GE(flights.size(), 2u);
    ASSERT_TRUE(link->provide(*flights[0], 0, most, in_ms(*link, 20000)));
    const auto refused = link->provide(*flights[1], most, most, in_ms(*link, 30));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::timed_out);
    EXPECT_FALSE(flights[1]->args);
    EXPECT_FALSE(flights[1]->results);
    EXPECT_TRUE(link->provide(*flights[1], most, 0, in_ms(*link, 20000)));
    for (Flight* flight : flights)
        link->give_back(*flight);
}

// What waits for the second of two payloads, with one free: it sleeps.
TEST_F(ClntLinkTest, WhoWaitsForTheSecondPayloadSleeps) {
    const auto link = connect();
    const std::uint32_t most = link->limits().max_payload;
    std::vector<std::span<std::byte>> all = alloc_all(*link, most);
    ASSERT_GE(all.size(), 3u);
    EXPECT_TRUE(link->free(all.back().data()));
    all.pop_back();
    Flight& flight = **link->take(1024, false, UINT64_MAX);
    const std::uint64_t before = link->tasks_run();
    const auto refused = link->provide(flight, most, most, in_ms(*link, 300));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::timed_out);
    EXPECT_LT(link->tasks_run() - before, 1000u);
    // The one that it had is free again.
    auto memory = link->alloc(most);
    EXPECT_TRUE(memory);
    for (std::span<std::byte> each : all)
        EXPECT_TRUE(link->free(each.data()));
    link->give_back(flight);
}

// Both of two that want two, with three in all.
TEST_F(ClntLinkTest, WhoWaitsForTwoPayloadsGetsThem) {
    const auto link = connect();
    const std::uint32_t most = link->limits().max_payload;
    std::vector<std::span<std::byte>> all = alloc_all(*link, most);
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(link->free(all.back().data()));
        all.pop_back();
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int round = 0; round < 30; ++round) {
                auto flight = link->take(1024, false, in_ms(*link, 60000));
                ASSERT_TRUE(flight);
                EXPECT_TRUE(link->provide(**flight, most, most, in_ms(*link, 60000)));
                link->give_back(**flight);
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
}

// Calls have it all; each that ends serves one that waits.
TEST_F(ClntLinkTest, AllocWaitsWhileCallsHaveTheMemory) {
    const auto link = connect(4);
    const std::uint32_t most = link->limits().max_payload;
    Flight& flight = **link->take(1024, false, UINT64_MAX);
    ASSERT_TRUE(link->provide(flight, most, most, UINT64_MAX));
    std::vector<std::span<std::byte>> all;
    std::atomic<std::uint32_t> got{0};
    std::thread waiter([&] {
        for (;;) {
            auto memory = link->alloc(most);
            if (!memory) {
                EXPECT_EQ(memory.error().sys, ENOMEM);
                return;
            }
            all.push_back(*memory);
            ++got;
        }
    });
    std::uint32_t before = UINT32_MAX;
    ASSERT_TRUE(soon([&] {
        const std::uint32_t seen = got.load();
        const bool same = seen == before && seen != 0;
        before = seen;
        return same;
    }));
    link->give_back(flight);
    waiter.join();
    EXPECT_GE(got.load(), 8u);  // all that there are
    for (std::span<std::byte> each : all)
        EXPECT_TRUE(link->free(each.data()));
}

// One that waits for a long slot goes; the next one wants a short one, which there is.
TEST_F(ClntLinkTest, WhoLeavesAtItsTimeoutLetsTheNextOneTry) {
    const auto link = connect(1, 8192);
    const std::uint32_t most = link->limits().max_payload;
    // All large payloads, so that small ones are left.
    std::vector<std::span<std::byte>> all = alloc_all(*link, most);
    Flight& small = **link->take(1024, false, UINT64_MAX);
    Flight& large = **link->take(1024, false, UINT64_MAX);
    std::thread first([&] {
        const auto refused = link->provide(large, 0, most, in_ms(*link, 300));
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Errc::timed_out);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::uint64_t begin = link->now_ns();
    EXPECT_TRUE(link->provide(small, 0, 4096, in_ms(*link, 20000)));
    EXPECT_LT(link->now_ns() - begin, 15 * kNsPerSec);
    first.join();
    for (std::span<std::byte> each : all)
        EXPECT_TRUE(link->free(each.data()));
    link->give_back(small);
    link->give_back(large);
}

TEST_F(ClntLinkTest, IsAllocatedKnowsTheEdges) {
    const auto link = connect();
    auto memory = link->alloc(8192);
    ASSERT_TRUE(memory);
    EXPECT_TRUE(link->is_allocated(*memory));
    EXPECT_TRUE(link->is_allocated(memory->subspan(8191)));
    EXPECT_FALSE(link->is_allocated({memory->data() - 1, 2}));
    EXPECT_FALSE(link->is_allocated({memory->data(), (4u << 20)}));
    std::array<std::byte, 8> other{};
    EXPECT_FALSE(link->is_allocated(other));
    EXPECT_FALSE(link->free(other.data()));
    EXPECT_TRUE(link->free(memory->data()));
    EXPECT_FALSE(link->is_allocated(memory->first(1)));
    EXPECT_FALSE(link->free(memory->data()));
}

TEST_F(ClntLinkTest, ALongerSlotReplacesAShortOne) {
    const auto link = connect();
    Flight* flight = *link->take(1024, false, UINT64_MAX);
    EXPECT_LT(flight->rqst->head_room.size(), 100000u);
    auto longer = link->change_slot(*flight, 100000, in_ms(*link, 20000));
    ASSERT_TRUE(longer);
    EXPECT_GE((*longer)->rqst->head_room.size(), 100000u);
    link->give_back(**longer);
}

// More threads than there are slots and flights, each of which changes its slot.
TEST_F(ClntLinkTest, ManyThreadsThatChangeTheirSlots) {
    const auto link = connect();
    std::vector<std::thread> threads;
    for (int i = 0; i < 40; ++i) {
        threads.emplace_back([&] {
            auto flight = link->take(1024, false, in_ms(*link, 60000));
            ASSERT_TRUE(flight);
            auto longer = link->change_slot(**flight, 100000, in_ms(*link, 60000));
            ASSERT_TRUE(longer);
            link->give_back(**longer);
        });
    }
    for (std::thread& thread : threads)
        thread.join();
}

TEST_F(ClntLinkTest, ACallThatTimedOutIsForgottenAndItsReplyIsLate) {
    const auto link = connect(4);
    Flight& flight = **link->take(1024, false, UINT64_MAX);
    encode(flight, 5);
    server_.play({Trick::drop});
    bool sent = false;
    const Result<void> outcome = link->fly(flight, in_ms(*link, 20), sent);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, Errc::timed_out);
    EXPECT_EQ(flight.rqst, nullptr);
    link->give_back(flight);
    std::uint64_t late = 1;
    std::uint32_t connections = 0;
    EXPECT_EQ(link->counters(late, connections).replies, 0u);
    EXPECT_EQ(late, 0u);
    EXPECT_EQ(connections, 1u);
}

TEST_F(ClntLinkTest, AOneWayCallNeedsACreditBesides) {
    const auto link = connect(4);
    EXPECT_FALSE(link->allows_one_way());  // one credit, until the first reply
    Flight& first = **link->take(1024, false, UINT64_MAX);
    encode(first, 1);
    bool sent = false;
    ASSERT_TRUE(link->fly(first, in_ms(*link, 20000), sent));
    link->give_back(first);
    EXPECT_TRUE(link->allows_one_way());
    server_.play(std::vector<Trick>(8, Trick::drop));
    std::uint32_t flying = 0;
    for (;;) {
        auto flight = link->take(1024, true, in_ms(*link, 50));
        if (!flight) break;
        encode(**flight, 100 + flying);
        ASSERT_TRUE(link->fly_one_way(**flight));
        ++flying;
    }
    EXPECT_EQ(flying, 3u);
    ASSERT_TRUE(soon([&] { return server_.calls.load() == 4; }));
    // The last one is for those that wait.
    server_.play({});
    auto flight = link->take(1024, false, in_ms(*link, 20000));
    ASSERT_TRUE(flight);
    link->give_back(**flight);
}

// Counted when they are taken: before any of them flies.
TEST_F(ClntLinkTest, OneWayCallsOfManyThreadsLeaveACredit) {
    const auto link = connect(4);
    warm(*link);
    server_.play(std::vector<Trick>(8, Trick::drop));
    std::atomic<std::uint32_t> taken{0}, asked{0};
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            auto flight = link->take(1024, true, in_ms(*link, 300));
            ++asked;
            if (!flight) {
                EXPECT_EQ(flight.error().code, Errc::timed_out);
                return;
            }
            ++taken;
            while (asked.load() != 8)
                std::this_thread::yield();
            encode(**flight, 100 + t);
            EXPECT_TRUE(link->fly_one_way(**flight));
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(taken.load(), 3u);
    ASSERT_TRUE(soon([&] { return server_.calls.load() == 23; }));
    server_.play({});
    warm(*link);
}

TEST_F(ClntLinkTest, AOneWayCallThatDoesNotFlyGivesItsPlaceBack) {
    const auto link = connect(2);
    warm(*link);
    Flight* flight = *link->take(1024, true, in_ms(*link, 20000));
    // Its place is kept over a change of its slot.
    EXPECT_FALSE(link->take(1024, true, in_ms(*link, 20)));
    flight = *link->change_slot(*flight, 100000, in_ms(*link, 20000));
    EXPECT_FALSE(link->take(1024, true, in_ms(*link, 20)));
    std::thread waiter([&] {
        auto other = link->take(1024, true, in_ms(*link, 20000));
        ASSERT_TRUE(other);
        link->give_back(**other);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    link->give_back(*flight);
    waiter.join();
    // And when there is no other slot.
    flight = *link->take(1024, true, in_ms(*link, 20000));
    EXPECT_FALSE(link->change_slot(*flight, link->limits().max_message + 1, UINT64_MAX));
    auto again = link->take(1024, true, in_ms(*link, 20000));
    ASSERT_TRUE(again);
    link->give_back(**again);
}

// All credits are of calls that were given up, and nothing is answered: the connection ends.
TEST_F(ClntLinkTest, AServerThatDropsAllCallsLosesTheConnection) {
    const auto link = connect(4, 0, 300);
    warm(*link);
    server_.play(std::vector<Trick>(100, Trick::drop));
    for (std::uint32_t i = 0; i < 4; ++i)
        lose(*link, 100 + i);
    ASSERT_TRUE(soon([&] {
        auto flight = link->take(1024, false, in_ms(*link, 20));
        if (flight) {
            link->give_back(**flight);
            return false;
        }
        return flight.error().code == Errc::reconnect;
    }));
}

// One credit is left, of a call that somebody waits for: it may take as long as it likes.
TEST_F(ClntLinkTest, ACallThatSomebodyWaitsForKeepsTheConnection) {
    const auto link = connect(4, 0, 100);
    warm(*link);
    server_.play({Trick::drop});
    std::thread waiter([&] {
        auto flight = link->take(1024, false, in_ms(*link, 20000));
        ASSERT_TRUE(flight);
        encode(**flight, 90);
        bool sent = false;
        const Result<void> outcome = link->fly(**flight, in_ms(*link, 1500), sent);
        ASSERT_FALSE(outcome);
        EXPECT_EQ(outcome.error().code, Errc::timed_out);
        link->give_back(**flight);
    });
    ASSERT_TRUE(soon([&] { return server_.calls.load() == 21; }));
    server_.play(std::vector<Trick>(3, Trick::drop));
    for (std::uint32_t i = 0; i < 3; ++i)
        lose(*link, 100 + i);
    waiter.join();
}

TEST_F(ClntLinkTest, LateRepliesAreExact) {
    const auto link = connect(16);
    std::atomic<bool> ends{false};
    std::thread looks([&] {
        while (!ends.load()) {
            std::uint64_t late = 0;
            std::uint32_t connections = 0;
            static_cast<void>(link->counters(late, connections));
            EXPECT_EQ(late, 0u);
        }
    });
    for (int i = 0; i < 20; ++i)
        warm(*link);
    ends.store(true);
    looks.join();
}

TEST_F(ClntLinkTest, WhoWaitsWhenTheConnectionEndsIsTold) {
    const auto link = connect();
    const std::vector<Flight*> all = take_all(*link);
    std::thread waiter([&] {
        auto flight = link->take(1024, false, in_ms(*link, 60000));
        ASSERT_FALSE(flight);
        EXPECT_EQ(flight.error().code, Errc::reconnect);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    server_.stop();
    waiter.join();
    for (Flight* flight : all)
        link->give_back(*flight);
}

TEST_F(ClntLinkTest, FailureToOpenADeviceNamesNoOptionOfACommandLine) {
    std::string text;
    rpcrdma_opts opts = server_.opts();
    opts.bind = nullptr;
    opts.device = "rdmacore:no_such_device";
    auto link = ClntLink::create(server_.address(), *check_options(&opts), text);
    ASSERT_FALSE(link);
    EXPECT_NE(text.find("no_such_device"), std::string::npos) << text;
    EXPECT_NE(text.find("rpcrdma_opts"), std::string::npos) << text;
    EXPECT_EQ(text.find("--"), std::string::npos) << text;
}

TEST_F(ClntLinkTest, FailureSaysWhatWasTried) {
    std::string text;
    rpcrdma_opts opts = server_.opts();
    opts.credits = 1;
    auto link = ClntLink::create(server_.address().with_port(9), *check_options(&opts), text);
    ASSERT_FALSE(link);
    EXPECT_EQ(link.error().code, Errc::refused);
    EXPECT_NE(text.find("127.0.7.1:9"), std::string::npos) << text;
}

}  // namespace
}  // namespace nfsrdma::tirpc::test
