#include "sunrpc/reply_cache.hpp"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sunrpc/blob_program.hpp"
#include "tests/support/direct_xprt.hpp"

namespace nfsrdma::sunrpc {
namespace {

namespace blob = testing::blob;
using testing::RawReply;
using Verdict = ReplyCache::Verdict;

CallKey key_of(std::uint32_t xid, std::uint8_t caller = 1) {
    CallKey key;
    key.xid = xid;
    key.prog = 100003;
    key.vers = 3;
    key.proc = 12;
    key.caller[15] = std::byte{caller};
    return key;
}
std::vector<std::byte> bytes_of(const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

class ReplyCacheTest : public ::testing::Test {
  protected:
    // Executes a call and keeps `reply`.
    void execute(ReplyCache& cache, const CallKey& key, const std::string& reply,
                 std::uint64_t now = 0) {
        const auto found = cache.begin(key, now, room);
        ASSERT_EQ(found.verdict, Verdict::fresh);
        cache.finish(*found.entry, bytes_of(reply), now);
    }
    std::string replay(ReplyCache& cache, const CallKey& key, std::uint64_t now = 0) {
        const auto found = cache.begin(key, now, room);
        if (found.verdict != Verdict::done) return "not done";
        return {as_chars(room.data()), found.reply_bytes};
    }
    std::array<std::byte, 1024> room{};
};

TEST_F(ReplyCacheTest, SecondCopyGetsTheFirstReply) {
    ReplyCache cache({});
    execute(cache, key_of(1), "one");
    execute(cache, key_of(2), "two");
    EXPECT_EQ(replay(cache, key_of(1)), "one");
    EXPECT_EQ(replay(cache, key_of(2)), "two");
    EXPECT_EQ(cache.counters().replayed, 2u);
    EXPECT_EQ(cache.counters().executed, 2u);
}

TEST_F(ReplyCacheTest, CopyOfOneInProgressIsTold) {
    ReplyCache cache({});
    const auto first = cache.begin(key_of(1), 0, room);
    ASSERT_EQ(first.verdict, Verdict::fresh);
    EXPECT_EQ(cache.begin(key_of(1), 0, room).verdict, Verdict::in_progress);
    cache.forget(*first.entry);
    EXPECT_EQ(cache.begin(key_of(1), 0, room).verdict, Verdict::fresh);
}

TEST_F(ReplyCacheTest, EveryPartOfTheKeyCounts) {
    ReplyCache cache({});
    execute(cache, key_of(1), "one");
    std::vector<CallKey> others(8, key_of(1));
    others[0].xid ^= 1;
    others[1].prog ^= 1;
    others[2].vers ^= 1;
    others[3].proc ^= 1;
    others[4].args_bytes ^= 1;
    others[5].caller[0] = std::byte{1};
    others[6].cred ^= 1;
    others[7].args ^= 1;
    for (const CallKey& other : others)
        EXPECT_EQ(cache.begin(other, 0, room).verdict, Verdict::fresh);
    EXPECT_EQ(replay(cache, key_of(1)), "one");
}

TEST_F(ReplyCacheTest, FullCacheForgetsTheOneUsedLongestAgo) {
    ReplyCacheOptions options;
    options.entries = 4;
    ReplyCache cache(options);
    for (std::uint32_t xid = 0; xid < 4; ++xid)
        execute(cache, key_of(xid), "r" + std::to_string(xid));
    EXPECT_EQ(replay(cache, key_of(0)), "r0");
    execute(cache, key_of(4), "r4");  // in place of 1
    EXPECT_EQ(replay(cache, key_of(0)), "r0");
    EXPECT_EQ(replay(cache, key_of(2)), "r2");
    EXPECT_EQ(cache.begin(key_of(1), 0, room).verdict, Verdict::fresh);
    EXPECT_EQ(cache.counters().evicted, 2u);
}

TEST_F(ReplyCacheTest, CallsInProgressAreNotEvicted) {
    ReplyCacheOptions options;
    options.entries = 2;
    ReplyCache cache(options);
    const auto first = cache.begin(key_of(1), 0, room), second = cache.begin(key_of(2), 0, room);
    EXPECT_EQ(cache.begin(key_of(3), 0, room).verdict, Verdict::uncached);
    EXPECT_EQ(cache.begin(key_of(1), 0, room).verdict, Verdict::in_progress);
    cache.finish(*first.entry, bytes_of("one"), 0);
    cache.finish(*second.entry, bytes_of("two"), 0);
    EXPECT_EQ(replay(cache, key_of(1)), "one");
    EXPECT_EQ(cache.counters().uncached, 1u);
}

TEST_F(ReplyCacheTest, AnOldReplyIsNoRetrys) {
    ReplyCacheOptions options;
    options.age_max_ns = 100;
    ReplyCache cache(options);
    execute(cache, key_of(1), "one", 1000);
    EXPECT_EQ(replay(cache, key_of(1), 1099), "one");
    execute(cache, key_of(1), "anew", 1100);
    EXPECT_EQ(replay(cache, key_of(1), 1101), "anew");
}

TEST_F(ReplyCacheTest, ReplyFinishedAfterTheCopyLookedAtTheClockIsReplayed) {
    ReplyCache cache({});
    execute(cache, key_of(1), "one", 1000);
    EXPECT_EQ(replay(cache, key_of(1), 999), "one");
    EXPECT_EQ(cache.counters().executed, 1u);
}

TEST_F(ReplyCacheTest, ALargeReplyIsForgotten) {
    ReplyCache cache({});
    execute(cache, key_of(1), std::string(ReplyCache::kReplyMax, 'x'));
    EXPECT_EQ(replay(cache, key_of(1)).size(), ReplyCache::kReplyMax);
    execute(cache, key_of(2), std::string(ReplyCache::kReplyMax + 1, 'x'));
    EXPECT_EQ(cache.begin(key_of(2), 0, room).verdict, Verdict::fresh);
}

TEST_F(ReplyCacheTest, ManyThreadsExecuteEachCallOnce) {
    ReplyCacheOptions options;
    options.entries = 4096;
    ReplyCache cache(options);
    std::vector<std::atomic<std::uint32_t>> executed(2000);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            std::array<std::byte, 1024> own{};
            for (std::uint32_t xid = 0; xid < executed.size(); ++xid) {
                const auto found = cache.begin(key_of(xid), 0, own);
                if (found.verdict != Verdict::fresh) continue;
                ++executed[xid];
                cache.finish(*found.entry, bytes_of(std::to_string(xid)), 0);
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    for (std::uint32_t xid = 0; xid < executed.size(); ++xid) {
        EXPECT_EQ(executed[xid], 1u);
        EXPECT_EQ(replay(cache, key_of(xid)), std::to_string(xid));
    }
}

// Through the dispatcher.
class ReplyCacheSvcTest : public ::testing::Test {
  protected:
    ReplyCacheSvcTest() {
        for (const blob::Proc proc : {blob::write, blob::name, blob::hold, blob::refuse})
            table.at(proc).once = true;
        dispatcher.add(blob::program(table, state));
        dispatcher.set_reply_cache(&cache);
        for (auto& xprt : xprts)
            xprt = std::make_unique<testing::DirectXprt>(*world.loop, dispatcher,
                                                         testing::DirectOptions{});
    }
    static void put(std::vector<std::byte>& out, std::uint32_t word) {
        out.resize(out.size() + 4);
        store_be32(out.data() + out.size() - 4, word);
    }
    // AUTH_SYS with a stamp that differs in each copy.
    std::vector<std::byte> call(std::uint32_t proc, std::initializer_list<std::uint32_t> args,
                                std::uint32_t xid = 7, std::uint32_t uid = 1000) {
        std::vector<std::byte> out;
        for (const std::uint32_t word : {xid, 0u, 2u, blob::kProg, blob::kVers, proc, 1u, 20u,
                                         ++stamp, 0u, uid, 100u, 0u, 0u, 0u})
            put(out, word);
        for (const std::uint32_t word : args)
            put(out, word);
        return out;
    }
    testing::DirectSvcXprt& server(std::size_t index) { return xprts.at(index)->server(); }

    std::uint32_t stamp = 0;
    ReplyCache cache{{}};
    std::array<SvcProcedure, blob::Proc::count> table = blob::procedures();
    blob::State state;
    testing::DirectWorld world;
    SvcDispatcher dispatcher;
    std::array<std::unique_ptr<testing::DirectXprt>, 2> xprts;
};

TEST_F(ReplyCacheSvcTest, B30_CopyOnANewConnectionGetsTheFirstReply) {
    const RawReply first = server(0).raw_call(call(blob::write, {11, 4, 0x61626364, 22}));
    ASSERT_TRUE(first.answered);
    state.last_id = 0;
    const RawReply copy = server(1).raw_call(call(blob::write, {11, 4, 0x61626364, 22}));
    EXPECT_EQ(copy.message, first.message);
    EXPECT_EQ(state.last_id, 0u) << "executed twice";
    EXPECT_EQ(cache.counters().replayed, 1u);
}

// The item comes inline at first and by a chunk then, and the other way round; with pad bytes.
TEST_F(ReplyCacheSvcTest, B30_CopyWithOtherChunksIsACopy) {
    const std::string text = "abcdef";
    const auto head = call(blob::write, {11, 6});
    for (const bool chunk_first : {true, false}) {
        const std::uint32_t xid = chunk_first ? 1 : 2;
        auto inline_call = call(blob::write, {11, 6, 0x61626364, 0x65660000, 22}, xid);
        auto chunk_call = call(blob::write, {11, 6, 22}, xid);
        const auto position = static_cast<std::uint32_t>(head.size());
        const auto send = [&](std::size_t on, bool chunk) {
            return chunk ? server(on).raw_call(chunk_call, bytes_of(text), position)
                         : server(on).raw_call(inline_call);
        };
        const RawReply first = send(0, chunk_first);
        ASSERT_TRUE(first.answered);
        EXPECT_EQ(first.word(5), 0u);
        EXPECT_EQ(state.last_bytes.size(), 6u);
        state.last_id = 0;
        EXPECT_EQ(send(1, !chunk_first).message, first.message);
        EXPECT_EQ(state.last_id, 0u);
    }
}

TEST_F(ReplyCacheSvcTest, SameXidWithOtherContentIsAnotherCall) {
    ASSERT_TRUE(server(0).raw_call(call(blob::write, {11, 0, 22})).answered);
    ASSERT_TRUE(server(0).raw_call(call(blob::write, {12, 0, 22})).answered);
    EXPECT_EQ(state.last_id, 12u);
    ASSERT_TRUE(server(0).raw_call(call(blob::write, {11, 0, 22}, 8)).answered);
    EXPECT_EQ(state.last_id, 11u);
    ASSERT_TRUE(server(0).raw_call(call(blob::write, {12, 0, 22}, 7, 1001)).answered);
    EXPECT_EQ(state.last_id, 12u);
    EXPECT_EQ(cache.counters().replayed, 0u);
}

TEST_F(ReplyCacheSvcTest, B85_CopyOfACallInProgressIsAnsweredWhenTheFirstIs) {
    const RawReply first = server(0).raw_call(call(blob::hold, {}));
    EXPECT_FALSE(first.answered || first.dropped);
    ASSERT_EQ(state.held.size(), 1u);
    const RawReply waits = server(1).raw_call(call(blob::hold, {}));
    EXPECT_FALSE(waits.answered || waits.dropped);
    world.run_until([] { return false; }, kNsPerSec);
    EXPECT_EQ(state.held.size(), 1u);
    EXPECT_EQ(dispatcher.counters().replies, 0u);
    state.held.front()->reply();
    EXPECT_TRUE(world.run_until([&] { return dispatcher.counters().replies == 2; }, kNsPerSec));
    EXPECT_EQ(cache.counters().in_progress, 1u);
    const RawReply copy = server(1).raw_call(call(blob::hold, {}));
    ASSERT_TRUE(copy.answered);
    EXPECT_EQ(copy.word(5), 0u);
    EXPECT_EQ(state.held.size(), 1u);
}

TEST_F(ReplyCacheSvcTest, CopyDoesNotWaitOnAConnectionThatIsGone) {
    server(0).raw_call(call(blob::hold, {}));
    server(1).raw_call(call(blob::hold, {}));
    EXPECT_EQ(server(1).requests_in_use(), 1u);
    server(1).set_closing();
    EXPECT_TRUE(world.run_until([&] { return server(1).requests_in_use() == 0; }, kNsPerSec));
    EXPECT_EQ(dispatcher.counters().dropped, 1u);
    ASSERT_EQ(state.held.size(), 1u);
    state.held.front()->reply();
    EXPECT_EQ(dispatcher.counters().replies, 1u);
}

TEST_F(ReplyCacheSvcTest, CopyIsExecutedWhereTheFirstCameToNothing) {
    server(0).raw_call(call(blob::hold, {}));
    server(1).raw_call(call(blob::hold, {}));
    ASSERT_EQ(state.held.size(), 1u);
    state.held.front()->drop();
    EXPECT_TRUE(world.run_until([&] { return state.held.size() == 2; }, kNsPerSec));
    state.held.back()->reply();
    EXPECT_EQ(dispatcher.counters().replies, 1u);
}

TEST_F(ReplyCacheSvcTest, WhatFailedOrWasDroppedMayComeAgain) {
    EXPECT_EQ(server(0).raw_call(call(blob::refuse, {})).word(5), 5u);
    EXPECT_EQ(server(0).raw_call(call(blob::refuse, {})).word(5), 5u);
    server(0).raw_call(call(blob::hold, {}, 9));
    state.held.front()->drop();
    server(0).raw_call(call(blob::hold, {}, 9));
    ASSERT_EQ(state.held.size(), 2u);
    state.held.back()->reply();
    EXPECT_EQ(cache.counters().replayed, 0u);
    EXPECT_EQ(cache.counters().executed, 4u);
}

TEST_F(ReplyCacheSvcTest, ProceduresThatMayRunTwiceDo) {
    ASSERT_TRUE(server(0).raw_call(call(blob::null, {})).answered);
    ASSERT_TRUE(server(0).raw_call(call(blob::null, {})).answered);
    EXPECT_EQ(cache.counters().executed, 0u);
}

}  // namespace
}  // namespace nfsrdma::sunrpc
