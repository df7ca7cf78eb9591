#include "sunrpc/svc.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <malloc.h>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "tests/sunrpc/blob_program.hpp"
#include "tests/support/direct_xprt.hpp"

namespace nfsrdma::sunrpc {
namespace {

namespace blob = testing::blob;
using testing::RawReply;

class SvcTest : public ::testing::Test {
  protected:
    SvcTest() {
        dispatcher.add(blob::program(table, state));
        SvcProgram other = blob::program(table, state);
        other.vers = 5;
        dispatcher.add(other);
        xprt = std::make_unique<testing::DirectXprt>(*world.loop, dispatcher,
                                                     testing::DirectOptions{});
        server = &xprt->server();
    }
    ~SvcTest() override { EXPECT_EQ(server->requests_in_use(), 0u); }

    static void put(std::vector<std::byte>& out, std::uint32_t word) {
        out.resize(out.size() + 4);
        store_be32(out.data() + out.size() - 4, word);
    }
    static std::vector<std::byte> call(std::uint32_t proc,
                                       std::initializer_list<std::uint32_t> args,
                                       std::uint32_t vers = blob::kVers) {
        std::vector<std::byte> out;
        for (const std::uint32_t word : {42u, 0u, 2u, blob::kProg, vers, proc, 0u, 0u, 0u, 0u})
            put(out, word);
        for (const std::uint32_t word : args)
            put(out, word);
        return out;
    }
    // The reply's accept_stat, after checking that it is an accepted reply to XID 42.
    static std::uint32_t accept_of(const RawReply& reply) {
        EXPECT_TRUE(reply.answered);
        if (!reply.answered || reply.message.size() < 24) return ~0u;
        EXPECT_EQ(reply.word(0), 42u);
        EXPECT_EQ(reply.word(1), 1u);
        EXPECT_EQ(reply.word(2), 0u);
        return reply.word(5);
    }

    std::array<SvcProcedure, blob::Proc::count> table = blob::procedures();
    blob::State state;
    testing::DirectWorld world;
    SvcDispatcher dispatcher;
    std::unique_ptr<testing::DirectXprt> xprt;
    testing::DirectSvcXprt* server = nullptr;
};

TEST_F(SvcTest, NullIsAnswered) {
    const RawReply reply = server->raw_call(call(blob::null, {}));
    EXPECT_EQ(accept_of(reply), 0u);
    EXPECT_EQ(reply.message.size(), 24u);
}

// Arguments that libtirpc allocates, and frees: an empty item is nobody's memory.
TEST_F(SvcTest, EmptyItemWithoutAPresetIsNotFreed) {
    table.at(blob::write).preset = nullptr;
    for (const std::uint32_t size : {0u, 4u, 0u}) {
        std::vector<std::byte> message = call(blob::write, {1, size});
        for (std::uint32_t at = 0; at <= size; at += 4)
            put(message, 7);
        const RawReply reply = server->raw_call(message);
        EXPECT_EQ(accept_of(reply), 0u);
        EXPECT_EQ(reply.word(6), size);
        EXPECT_EQ(state.last_after, 7u);
    }
}

TEST_F(SvcTest, ProgramUnavailable) {
    std::vector<std::byte> message = call(blob::null, {});
    store_be32(message.data() + 12, blob::kProg + 1);
    const RawReply reply = server->raw_call(message);
    EXPECT_EQ(accept_of(reply), 1u);
    EXPECT_EQ(reply.message.size(), 24u);
}

TEST_F(SvcTest, ProgramMismatchNamesTheRange) {
    for (const std::uint32_t vers : {0u, 2u, 4u, 6u, 0xFFFFFFFFu}) {
        const RawReply reply = server->raw_call(call(blob::null, {}, vers));
        EXPECT_EQ(accept_of(reply), 2u);
        EXPECT_EQ(reply.word(6), 3u);
        EXPECT_EQ(reply.word(7), 5u);
    }
}

TEST_F(SvcTest, ProcedureUnavailable) {
    for (const std::uint32_t proc :
         {std::uint32_t{blob::missing}, std::uint32_t{blob::count}, 0xFFFFFFFFu}) {
        EXPECT_EQ(accept_of(server->raw_call(call(proc, {}))), 3u);
    }
}

TEST_F(SvcTest, RpcVersionMismatchNamesTwo) {
    std::vector<std::byte> message = call(blob::null, {});
    store_be32(message.data() + 8, 3);
    const RawReply reply = server->raw_call(message);
    ASSERT_TRUE(reply.answered);
    ASSERT_EQ(reply.message.size(), 24u);
    EXPECT_EQ(reply.word(2), 1u);  // denied
    EXPECT_EQ(reply.word(3), 0u);  // RPC_MISMATCH
    EXPECT_EQ(reply.word(4), 2u);
    EXPECT_EQ(reply.word(5), 2u);
}

TEST_F(SvcTest, FlavorsThatWeDoNotTake) {
    const std::pair<std::uint32_t, std::uint32_t> cases[] = {
        {6, 5}, {3, 5}, {0xFFFFFFFF, 5}, {2, 2}};
    for (const auto& [flavor, why] : cases) {
        std::vector<std::byte> message = call(blob::null, {});
        store_be32(message.data() + 24, flavor);
        const RawReply reply = server->raw_call(message);
        ASSERT_TRUE(reply.answered);
        ASSERT_EQ(reply.message.size(), 20u);
        EXPECT_EQ(reply.word(2), 1u);  // denied
        EXPECT_EQ(reply.word(3), 1u);  // AUTH_ERROR
        EXPECT_EQ(reply.word(4), why) << flavor;
    }
}

TEST_F(SvcTest, B58_TooManyGroupsIsAuthErrorBadCredential) {
    for (const std::uint32_t count : {17u, 0x40000001u, 0xFFFFFFFFu}) {
        std::vector<std::byte> message;
        for (const std::uint32_t word :
             {42u, 0u, 2u, blob::kProg, blob::kVers, 0u, 1u, 20u, 0u, 0u, 0u, 0u, count, 0u, 0u}) {
            put(message, word);
        }
        const RawReply reply = server->raw_call(message);
        ASSERT_TRUE(reply.answered);
        EXPECT_EQ(reply.word(2), 1u);
        EXPECT_EQ(reply.word(3), 1u);
        EXPECT_EQ(reply.word(4), 1u);  // AUTH_BADCRED
    }
    EXPECT_EQ(dispatcher.counters().auth_errors, 3u);
}

// A server gets no replies: a stray one is dropped, and the connection lives on.
TEST_F(SvcTest, B29_StrayRepliesAreDropped) {
    Prng prng(1);
    for (int i = 0; i < 1000; ++i) {
        std::vector<std::byte> message = call(blob::null, {});
        store_be32(message.data(), static_cast<std::uint32_t>(prng.next()));
        store_be32(message.data() + 4, 1);
        const RawReply reply = server->raw_call(message);
        EXPECT_TRUE(reply.dropped);
        EXPECT_FALSE(reply.answered);
    }
    EXPECT_EQ(accept_of(server->raw_call(call(blob::null, {}))), 0u);
}

TEST_F(SvcTest, B61_EveryPrefixIsAnsweredOrDropped) {
    const std::vector<std::byte> whole = call(blob::write, {1, 0, 2});
    for (std::size_t size = 0; size <= whole.size(); ++size) {
        const RawReply reply = server->raw_call(std::span(whole).first(size));
        EXPECT_NE(reply.answered, reply.dropped) << size;
        EXPECT_EQ(reply.dropped, size < 8) << size;
        if (size == whole.size()) {
            EXPECT_EQ(accept_of(reply), 0u);
        }
    }
}

// The length of a string is bounded before anything is allocated for it.
TEST_F(SvcTest, B60_HugeLengthsAreGarbageWithoutAllocation) {
    for (const blob::Proc proc : {blob::name, blob::list}) {
        for (const std::uint32_t length : {1025u, 0x7FFFFFFFu, 0xFFFFFFFFu, 0xFFFFFFFDu}) {
            const struct mallinfo2 before = mallinfo2();
            for (int i = 0; i < 1000; ++i) {
                const RawReply reply = server->raw_call(call(proc, {length, 0x41414141, 1}));
                ASSERT_EQ(accept_of(reply), 4u);
            }
            const struct mallinfo2 after = mallinfo2();
            EXPECT_LT(after.uordblks, before.uordblks + 4096);
            EXPECT_EQ(after.hblkhd, before.hblkhd);
        }
        // Within its bound, but the message has no such bytes.
        EXPECT_EQ(accept_of(server->raw_call(call(proc, {1024, 0x41414141, 1}))), 4u);
    }
}

TEST_F(SvcTest, B60_DataThatIsNotThereIsGarbage) {
    for (const std::uint32_t length : {9u, 1u << 20, (1u << 20) + 1, 0xFFFFFFFFu}) {
        EXPECT_EQ(accept_of(server->raw_call(call(blob::write, {1, length, 0, 0}))), 4u);
    }
}

TEST_F(SvcTest, B70_MalformedMessagesLeakNothing) {
    const std::vector<std::byte> bad[] = {call(blob::list, {0xFFFFFFFF}),
                                          call(blob::list, {4, 0x41414141}),
                                          call(blob::list, {1024, 0x41414141}),
                                          call(blob::write, {1, 100, 0}),
                                          call(blob::read, {}),
                                          call(77, {}),
                                          std::vector<std::byte>(7),
                                          call(blob::null, {}, 9)};
    const auto round = [&] {
        for (const auto& message : bad)
            (void)server->raw_call(message);
    };
    for (int i = 0; i < 1000; ++i)
        round();
    const std::size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 20'000; ++i)
        round();
    EXPECT_LT(mallinfo2().uordblks, before + (64 << 10));
    EXPECT_EQ(server->requests_in_use(), 0u);
}

TEST_F(SvcTest, BytesBehindTheArgumentsAreIgnored) {
    EXPECT_EQ(accept_of(server->raw_call(call(blob::null, {1, 2, 3, 4}))), 0u);
    EXPECT_EQ(accept_of(server->raw_call(call(blob::write, {1, 0, 2, 77, 78, 79}))), 0u);
}

TEST_F(SvcTest, WriteDataIsDecodedInPlaceInlineAndByChunk) {
    std::vector<std::byte> message = call(blob::write, {1, 8, 0x61626364, 0x65666768, 2});
    EXPECT_EQ(accept_of(server->raw_call(message)), 0u);
    EXPECT_EQ(std::string(state.last_bytes.begin(), state.last_bytes.end()), "abcdefgh");

    // Six bytes by chunk, with and without their pad: never more than the six.
    for (const std::size_t size : {std::size_t{6}, std::size_t{8}}) {
        std::vector<std::byte> chunk(size);
        std::memcpy(chunk.data(), "abcdef", 6);
        message = call(blob::write, {1, 6, 2});
        EXPECT_EQ(accept_of(server->raw_call(message, chunk, 48)), 0u);
        EXPECT_EQ(std::string(state.last_bytes.begin(), state.last_bytes.end()), "abcdef");
        EXPECT_EQ(state.last_after, 2u);
    }
    EXPECT_EQ(dispatcher.counters().payload_copied_bytes, 0u);
}

TEST_F(SvcTest, ChunkAtNoItemIsGarbage) {
    const std::vector<std::byte> chunk(6);
    EXPECT_EQ(accept_of(server->raw_call(call(blob::write, {1, 6, 2}), chunk, 44)), 4u);
    EXPECT_EQ(accept_of(server->raw_call(call(blob::write, {1, 6, 2}), chunk, 52)), 4u);
    EXPECT_EQ(accept_of(server->raw_call(call(blob::write, {1, 5, 2}), chunk, 48)), 4u);
    EXPECT_EQ(accept_of(server->raw_call(call(blob::write, {1, 0, 2}), chunk, 48)), 4u);
    EXPECT_EQ(accept_of(server->raw_call(call(blob::read, {6, 2}), chunk, 44)), 4u);
    EXPECT_EQ(accept_of(server->raw_call(call(blob::null, {}), chunk, 40)), 4u);
}

TEST_F(SvcTest, StringByChunkIsCopiedIntoThePreset) {
    std::vector<std::byte> chunk(5);
    std::memcpy(chunk.data(), "a/b/c", 5);
    for (const blob::Proc proc : {blob::name, blob::list}) {
        EXPECT_EQ(accept_of(server->raw_call(call(proc, {5, 9}), chunk, 44)), 0u);
        EXPECT_EQ(state.last_name, "a/b/c");
        EXPECT_EQ(state.last_after, 9u);
    }
}

TEST_F(SvcTest, FailAnswersWithItsStatus) {
    EXPECT_EQ(accept_of(server->raw_call(call(blob::refuse, {}))), 5u);
}

TEST_F(SvcTest, HeldCallsAreAnsweredLater) {
    const RawReply reply = server->raw_call(call(blob::hold, {}));
    EXPECT_FALSE(reply.answered || reply.dropped);
    ASSERT_EQ(state.held.size(), 1u);
    EXPECT_EQ(server->requests_in_use(), 1u);
    state.held[0]->reply();
    EXPECT_EQ(server->requests_in_use(), 0u);
    (void)server->raw_call(call(blob::hold, {}));
    state.held[1]->drop();
    EXPECT_EQ(server->requests_in_use(), 0u);
    EXPECT_EQ(dispatcher.counters().dropped, 1u);
}

TEST_F(SvcTest, HandlerIsWokenWhenPayloadComesBack) {
    server->set_dry(true);
    const RawReply reply = server->raw_call(call(blob::read, {100, 50}), {}, 0, 100);
    EXPECT_FALSE(reply.answered || reply.dropped);
    EXPECT_EQ(server->requests_in_use(), 1u);
    server->set_dry(false);
    EXPECT_EQ(server->requests_in_use(), 0u);
    EXPECT_EQ(dispatcher.counters().replies, 1u);
}

TEST_F(SvcTest, ResultsThatDoNotEncodeAreSystemError) {
    // More than the bound of the XDR routine.
    state.string_in_own_memory = false;
    table.at(blob::name).handle = [](SvcCall& held) noexcept {
        static std::string text(blob::kNameMax + 1, 'x');
        static_cast<blob::NameRes*>(held.res)->name = text.data();
        held.reply();
    };
    EXPECT_EQ(accept_of(server->raw_call(call(blob::name, {1, 0x41000000, 0}))), 5u);
}

TEST_F(SvcTest, RandomMessagesNeverHurt) {
    Prng prng(99);
    for (int i = 0; i < 50'000; ++i) {
        std::vector<std::byte> message = call(
            static_cast<std::uint32_t>(prng.below(blob::Proc::count)),
            {static_cast<std::uint32_t>(prng.below(40)), static_cast<std::uint32_t>(prng.below(40)),
             static_cast<std::uint32_t>(prng.next()), 4, 5});
        for (std::uint64_t n = prng.below(3); n != 0; --n) {
            message[prng.below(message.size())] = static_cast<std::byte>(prng.next());
        }
        message.resize(prng.below(message.size() + 1));
        std::vector<std::byte> chunk(prng.chance_ppm(300'000) ? prng.below(32) : 0);
        (void)server->raw_call(message, chunk, static_cast<std::uint32_t>(prng.below(64)),
                               static_cast<std::uint32_t>(prng.below(100)));
        for (SvcCall* held : state.held)
            held->drop();
        state.held.clear();
    }
}

// A dispatcher on a real loop, whose procedures all may block.
class SvcOffLoop : public ::testing::Test {
  protected:
    SvcOffLoop() {
        for (SvcProcedure& procedure : table)
            procedure.may_block = [](SvcCall& /*call*/) noexcept { return true; };
        table.at(blob::null).handle = [](SvcCall& call) noexcept {
            handler_thread = std::this_thread::get_id();
            call.reply();
        };
        table.at(blob::hold).handle = [](SvcCall& call) noexcept {
            do {
                std::this_thread::sleep_for(std::chrono::milliseconds(100));
            } while (held);
            call.reply();
        };
        dispatcher.add(blob::program(table, state));
        auto made = Loop::create({});
        NR_ASSERT(static_cast<bool>(made));
        loop = *std::move(made);
        xprt = std::make_unique<testing::DirectXprt>(*loop, dispatcher, testing::DirectOptions{});
    }
    ~SvcOffLoop() override { EXPECT_EQ(xprt->server().requests_in_use(), 0u); }

    struct Sent {
        bool over = false;
        std::vector<std::byte> reply, placed;
    };
    // A call whose answer lands in `sent`; `room`: bytes offered for the result.
    void send(std::uint32_t proc, Sent& sent, const std::string& name = {},
              std::uint32_t room = 0) {
        Result<Rqst*> got = xprt->get_rqst(4096);
        ASSERT_TRUE(static_cast<bool>(got));
        Rqst& rqst = **got;
        std::size_t at = 0;
        const auto put = [&](std::uint32_t word) {
            store_be32(rqst.head_room.data() + at, word);
            at += 4;
        };
        rqst.xid = ++xid_;
        for (const std::uint32_t word :
             {rqst.xid, 0u, 2u, blob::kProg, blob::kVers, proc, 0u, 0u, 0u, 0u})
            put(word);
        if (!name.empty()) {
            put(static_cast<std::uint32_t>(name.size()));
            std::memset(rqst.head_room.data() + at, 0, align_up(name.size(), 4));
            std::memcpy(rqst.head_room.data() + at, name.data(), name.size());
            at += align_up(name.size(), 4);
            put(7);
        }
        rqst.call = XdrBuf{};
        rqst.call.head = rqst.head_room.first(at);
        rqst.reply_max = 4096;
        if (room != 0) {
            payload_ = *xprt->get_payload(room);
            rqst.result_room = payload_.memory();
        }
        rqst.user = &sent;
        rqst.complete = [](Rqst& done, Result<void> result) noexcept {
            Sent& out = *static_cast<Sent*>(done.user);
            out.over = true;
            if (!result) return;
            out.reply.assign(done.reply.head.begin(), done.reply.head.end());
            out.placed.assign(done.reply.payload.begin(), done.reply.payload.end());
        };
        last_ = &rqst;
        ASSERT_TRUE(static_cast<bool>(xprt->send(rqst)));
    }
    bool wait(const Sent& sent) {
        const auto over = [](void* arg) { return static_cast<const Sent*>(arg)->over; };
        return loop->run_until(over, const_cast<Sent*>(&sent), 50 * kNsPerSec);
    }
    static std::uint32_t accept_of(const Sent& sent) {
        return sent.reply.size() < 24 ? ~0u : load_be32(sent.reply.data() + 20);
    }

    static std::thread::id handler_thread;
    inline static std::atomic<bool> held{false};  // `hold` does not end
    std::array<SvcProcedure, blob::Proc::count> table = blob::procedures();
    blob::State state;
    SvcDispatcher dispatcher;
    std::unique_ptr<Loop> loop;
    std::unique_ptr<testing::DirectXprt> xprt;
    Payload payload_;
    Rqst* last_ = nullptr;
    std::uint32_t xid_ = 0;
};
std::thread::id SvcOffLoop::handler_thread;

TEST_F(SvcOffLoop, HandlerRunsOnAHelperThreadAndTheLoopAnswers) {
    Sent sent;
    send(blob::null, sent);
    ASSERT_TRUE(wait(sent));
    EXPECT_EQ(accept_of(sent), 0u);
    EXPECT_NE(handler_thread, std::this_thread::get_id());
    EXPECT_EQ(dispatcher.counters().replies, 1u);
    EXPECT_EQ(dispatcher.counters().off_loop, 1u);
    xprt->put_rqst(*last_);
}

TEST_F(SvcOffLoop, FailureIsAnswered) {
    Sent sent;
    send(blob::refuse, sent);
    ASSERT_TRUE(wait(sent));
    EXPECT_EQ(accept_of(sent), 5u);
    xprt->put_rqst(*last_);
}

TEST_F(SvcOffLoop, StringGoesToWhereTheClientOfferedRoom) {
    state.string_in_own_memory = true;
    for (const std::uint32_t room : {0u, 2048u}) {
        Sent sent;
        send(blob::name, sent, "a name of some length", room);
        ASSERT_TRUE(wait(sent));
        EXPECT_EQ(accept_of(sent), 0u);
        EXPECT_EQ(sent.placed.size(), room == 0 ? 0u : 21u);
        xprt->put_rqst(*last_);
        payload_.reset();
    }
    EXPECT_EQ(dispatcher.counters().payload_copied_bytes,
              2 * 21u + 21u);  // in by copies, out by one
}

TEST_F(SvcOffLoop, CallsOfOneStorageLeaveHalfOfTheThreads) {
    Sent slow, next;
    send(blob::hold, slow);
    Rqst* const first = last_;
    send(blob::null, next);  // two threads: the one that it may have is taken
    ASSERT_TRUE(wait(next));
    EXPECT_TRUE(slow.over);
    xprt->put_rqst(*first);
    xprt->put_rqst(*last_);
}

// One thread for all of them: the calls of one connection fill the queue, those of four others come
// last. (Of four, since two connections may share a place.)
TEST_F(SvcOffLoop, ConnectionsTakeTurns) {
    std::array<Sent, 7> greedy;
    std::array<Sent, 4> modest;
    std::vector<std::pair<testing::DirectXprt*, Rqst*>> rqsts;
    held = true;
    for (std::size_t i = 0; i < greedy.size(); ++i) {
        send(i == 0 ? blob::hold : blob::null, greedy[i]);
        rqsts.emplace_back(xprt.get(), last_);
    }
    std::array<std::unique_ptr<testing::DirectXprt>, 4> others;
    for (std::size_t i = 0; i < others.size(); ++i) {
        others[i] =
            std::make_unique<testing::DirectXprt>(*loop, dispatcher, testing::DirectOptions{});
        std::swap(xprt, others[i]);
        send(blob::null, modest[i]);
        std::swap(xprt, others[i]);
        rqsts.emplace_back(others[i].get(), last_);
    }
    for (int turn = 0; turn < 20; ++turn)
        static_cast<void>(loop->run_once(0));
    EXPECT_EQ(dispatcher.counters().off_loop, greedy.size() + modest.size());
    held = false;
    const auto one = [](void* arg) {
        const auto& all = *static_cast<const std::array<Sent, 4>*>(arg);
        return std::any_of(all.begin(), all.end(), [](const Sent& sent) { return sent.over; });
    };
    ASSERT_TRUE(loop->run_until(one, &modest, 50 * kNsPerSec));
    EXPECT_LE(std::count_if(greedy.begin(), greedy.end(), [](const Sent& s) { return s.over; }), 4);
    for (const auto& all : {std::span<Sent>(greedy), std::span<Sent>(modest)}) {
        for (const Sent& sent : all)
            ASSERT_TRUE(wait(sent));
    }
    for (const auto& [owner, rqst] : rqsts)
        owner->put_rqst(*rqst);
}

TEST_F(SvcOffLoop, OtherCallsPassASlowOne) {
    dispatcher.set_helper_threads(4);
    Sent slow, quick;
    held = true;
    send(blob::hold, slow);
    Rqst* const first = last_;
    send(blob::null, quick);
    const bool passed = wait(quick);
    EXPECT_FALSE(slow.over);
    held = false;
    ASSERT_TRUE(passed);
    ASSERT_TRUE(wait(slow));
    xprt->put_rqst(*first);
    xprt->put_rqst(*last_);
}

TEST_F(SvcOffLoop, ConnectionMayGoWhileWorkIsOut) {
    Sent slow;
    send(blob::hold, slow);
    static_cast<void>(loop->run_once(0));
    xprt->disconnect();
    EXPECT_TRUE(slow.over);
    xprt->put_rqst(*last_);
    // The request comes home when its work is done.
    const auto home = [](void* arg) {
        return static_cast<testing::DirectXprt*>(arg)->server().requests_in_use() == 0;
    };
    EXPECT_TRUE(loop->run_until(home, xprt.get(), 50 * kNsPerSec));
}

}  // namespace
}  // namespace nfsrdma::sunrpc
