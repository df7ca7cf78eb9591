#include "sunrpc/xprt_group.hpp"

#include <array>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "sunrpc/clnt.hpp"
#include "tests/sunrpc/blob_program.hpp"
#include "tests/support/direct_xprt.hpp"

namespace nfsrdma::sunrpc {
namespace {

namespace blob = testing::blob;
using testing::DirectOptions;
using testing::DirectXprt;

constexpr std::uint32_t kBytes = 8192;

// One WRITE out of payload memory.
struct WriteCall : Call {
    WriteCall() {
        user = this;
        proc_number = blob::write;
        args = &write_args;
        res = &write_res;
        done = [](Call& call, Result<void> result) noexcept {
            auto& self = *static_cast<WriteCall*>(call.user);
            ++self.times;
            self.outcome = result;
        };
    }
    void fill(Payload from, std::uint32_t seed) {
        payload = std::move(from);
        char* const data = as_chars(payload.memory().data());
        for (std::size_t i = 0; i < payload.memory().size(); ++i)
            data[i] = blob::pattern(i, seed);
        write_args.data.data_val = data;
        write_args.data.data_len = static_cast<u_int>(payload.memory().size());
    }
    bool good() const {
        return times == 1 && outcome &&
               write_res.sum == blob::sum_of(write_args.data.data_val, write_args.data.data_len);
    }
    int times = 0;
    Result<void> outcome;
    Payload payload;
    blob::WriteArgs write_args{};
    blob::WriteRes write_res{};
};

struct CountingWaiter final : SlotWaiter {
    CountingWaiter() {
        wake = [](SlotWaiter& self) noexcept { ++static_cast<CountingWaiter&>(self).woken; };
    }
    int woken = 0;
};

class XprtGroupTest : public ::testing::Test {
  protected:
    XprtGroupTest() { dispatcher.add(blob::program(table, state)); }
    ~XprtGroupTest() override {
        calls.clear();
        clnt.reset();
        group.reset();
        for (const auto& xprt : xprts) {
            EXPECT_EQ(xprt->slots_in_use(), 0u);
            EXPECT_EQ(xprt->payloads_in_use(), 0u);
        }
    }
    void make(std::uint32_t count, const DirectOptions& options = {}) {
        std::vector<Xprt*> members;
        for (std::uint32_t i = 0; i < count; ++i) {
            xprts.push_back(std::make_unique<DirectXprt>(*world.loop, dispatcher, options));
            members.push_back(xprts.back().get());
        }
        group = std::make_unique<XprtGroup>(members);
        clnt = std::make_unique<Clnt>(*group, blob::kProg, blob::kVers, nullptr);
    }
    Call& null_call() {
        auto& call = static_cast<WriteCall&>(*calls.emplace_back(std::make_unique<WriteCall>()));
        call.proc = &table.at(blob::null).info;
        call.proc_number = blob::null;
        call.args = call.res = nullptr;
        return call;
    }
    // nullptr: no memory.
    WriteCall* write() {
        Result<Payload> payload = group->get_payload(kBytes);
        if (!payload) return nullptr;
        auto& call = *calls.emplace_back(std::make_unique<WriteCall>());
        call.proc = &table.at(blob::write).info;
        call.fill(*std::move(payload), static_cast<std::uint32_t>(calls.size()));
        EXPECT_TRUE(clnt->call(call));
        return &call;
    }
    std::uint32_t member_of(const WriteCall& call) {
        for (std::uint32_t i = 0; i < xprts.size(); ++i) {
            const auto* const owner = static_cast<const DirectXprt*>(xprts[i].get());
            if (owner->owns(call.payload.memory())) return i;
        }
        return UINT32_MAX;
    }
    // All that comes by itself, long before a call is out of time.
    void settle() {
        (void)world.run_until([] { return false; }, kNsPerSec);
    }
    bool all_done() {
        for (const auto& call : calls) {
            if (call->times == 0) return false;
        }
        return true;
    }
    testing::DirectWorld world;
    blob::State state;
    std::array<SvcProcedure, blob::Proc::count> table = blob::procedures();
    SvcDispatcher dispatcher;
    std::vector<std::unique_ptr<DirectXprt>> xprts;
    std::unique_ptr<XprtGroup> group;
    std::unique_ptr<Clnt> clnt;
    std::vector<std::unique_ptr<WriteCall>> calls;
};

TEST_F(XprtGroupTest, LimitsAreTheSmallestSizesAndAllSlots) {
    DirectOptions options;
    options.slots = 5;
    make(3, options);
    EXPECT_EQ(group->limits().slots, 15u);
    EXPECT_EQ(group->limits().max_payload, options.max_payload);
    EXPECT_EQ(group->connections(), 3u);
    EXPECT_TRUE(group->connected());
}

TEST_F(XprtGroupTest, OneMemberIsAGroup) {
    make(1);
    for (int i = 0; i < 5; ++i)
        ASSERT_NE(write(), nullptr);
    ASSERT_TRUE(world.run_until([this] { return all_done(); }));
    for (const auto& call : calls)
        EXPECT_TRUE(call->good());
}

TEST_F(XprtGroupTest, LoadIsSpread) {
    DirectOptions options;
    options.latency_ns = kNsPerMs;
    make(4, options);
    for (int i = 0; i < 16; ++i)
        ASSERT_NE(write(), nullptr);
    for (std::uint32_t i = 0; i < 4; ++i) {
        EXPECT_EQ(group->load(i).payloads, 4u) << i;
        EXPECT_EQ(xprts[i]->slots_in_use(), 4u) << i;
    }
    for (int i = 0; i < 16; ++i)
        ASSERT_TRUE(clnt->call(null_call()));
    for (std::uint32_t i = 0; i < 4; ++i)
        EXPECT_EQ(xprts[i]->slots_in_use(), 8u) << i;
    ASSERT_TRUE(world.run_until([this] { return all_done(); }));
    for (std::uint32_t i = 0; i < 4; ++i)
        EXPECT_EQ(group->load(i).calls, 0u) << i;
}

// The one that is slow gets less: load is what is outstanding, and nobody's turn.
TEST_F(XprtGroupTest, SlowConnectionGetsLess) {
    make(2);
    xprts[0]->options().latency_ns = 100 * kNsPerMs;
    xprts[1]->options().latency_ns = kNsPerMs;
    for (int i = 0; i < 200; ++i) {
        ASSERT_TRUE(clnt->call(null_call()));
        const std::size_t begun = calls.size();
        // Four at a time.
        ASSERT_TRUE(world.run_until([&] {
            std::size_t done = 0;
            for (const auto& call : calls)
                done += call->times != 0 ? 1u : 0u;
            return begun - done < 4;
        }));
    }
    ASSERT_TRUE(world.run_until([this] { return all_done(); }));
    EXPECT_GT(group->load(1).calls_ever, 4 * group->load(0).calls_ever);
    EXPECT_GT(group->load(0).calls_ever, 0u);
}

// No payload is copied from one connection's memory to another's.
TEST_F(XprtGroupTest, CallGoesWhereItsPayloadIs) {
    make(4);
    for (int i = 0; i < 12; ++i) {
        WriteCall* const call = write();
        ASSERT_NE(call, nullptr);
        ASSERT_LT(member_of(*call), 4u);
        EXPECT_EQ(call->rqst->connection, member_of(*call));
    }
    ASSERT_TRUE(world.run_until([this] { return all_done(); }));
    for (const auto& call : calls)
        EXPECT_TRUE(call->good());
    EXPECT_EQ(clnt->counters().payload_copied_bytes, 0u);
}

TEST_F(XprtGroupTest, ResultGoesWhereItsRoomIs) {
    make(3);
    std::vector<Payload> rooms;
    for (int i = 0; i < 6; ++i) {
        Result<Payload> room = group->get_payload(kBytes);
        ASSERT_TRUE(room);
        auto& call = *calls.emplace_back(std::make_unique<WriteCall>());
        blob::ReadArgs args{kBytes, 1000};
        blob::ReadRes res{};
        call.proc = &table.at(blob::read).info;
        call.proc_number = blob::read;
        call.args = &args;
        call.res = &res;
        call.result_room = room->memory();
        ASSERT_TRUE(clnt->call(call));
        ASSERT_TRUE(world.run_until([&] { return call.times != 0; }));
        EXPECT_TRUE(call.outcome);
        EXPECT_EQ(call.result_placed, 1000u);
        EXPECT_EQ(as_chars(room->memory().data())[999], blob::pattern(999, kBytes));
        rooms.push_back(*std::move(room));
    }
}

TEST_F(XprtGroupTest, OneConnectionIsKilledAndOthersGoOn) {
    DirectOptions options;
    options.latency_ns = kNsPerMs;
    make(4, options);
    std::vector<WriteCall*> before;
    for (int i = 0; i < 8; ++i)
        before.push_back(write());
    xprts[2]->interrupt();
    EXPECT_TRUE(group->connected());
    for (int i = 0; i < 20; ++i) {
        WriteCall* const call = write();
        ASSERT_NE(call, nullptr);
        EXPECT_NE(member_of(*call), 2u);
        ASSERT_TRUE(clnt->call(null_call()));
    }
    // All are answered but those whose memory the broken connection owns.
    settle();
    for (WriteCall* call : before)
        EXPECT_EQ(call->times, member_of(*call) == 2 ? 0 : 1);
    for (std::size_t i = before.size(); i < calls.size(); ++i)
        EXPECT_EQ(calls[i]->times, 1) << i;
    xprts[2]->recover();
    ASSERT_TRUE(world.run_until([this] { return all_done(); }));
    for (WriteCall* call : before) {
        EXPECT_TRUE(call->good());
        EXPECT_EQ(call->resends, member_of(*call) == 2 ? 1u : 0u);
    }
}

// A call that must wait for its own connection, in front of others in the queue.
TEST_F(XprtGroupTest, CallThatWaitsForItsConnectionIsInNobodysWay) {
    make(2);
    Result<Payload> first = group->get_payload(kBytes);
    ASSERT_TRUE(first);
    auto& stuck = *calls.emplace_back(std::make_unique<WriteCall>());
    stuck.proc = &table.at(blob::write).info;
    stuck.fill(*std::move(first), 1);
    const std::uint32_t broken = member_of(stuck);
    xprts.at(broken)->interrupt();
    ASSERT_TRUE(clnt->call(stuck));
    for (int i = 0; i < 30; ++i)  // more than there are slots: they queue as well
        ASSERT_TRUE(clnt->call(null_call()));
    settle();
    EXPECT_EQ(stuck.times, 0);
    for (std::size_t i = 1; i < calls.size(); ++i)
        EXPECT_EQ(calls[i]->times, 1) << i;
    xprts.at(broken)->recover();
    ASSERT_TRUE(world.run_until([this] { return all_done(); }));
    EXPECT_TRUE(stuck.good());
}

// More callers than slots, each of which calls again as soon as it was answered: all of them get
// on, whoever is told first that a slot is free.
TEST_F(XprtGroupTest, CallersThatOutnumberTheSlotsGetOnAlike) {
    struct Caller : WriteCall {
        Clnt* clnt = nullptr;
        int rounds = 0;
    };
    DirectOptions options;
    options.slots = 1;
    options.latency_ns = kNsPerUs;
    options.wakes_later = true;
    make(2, options);
    std::array<Caller, 8> callers;
    int answered = 0;
    for (Caller& caller : callers) {
        caller.clnt = clnt.get();
        caller.proc = &table.at(blob::null).info;
        caller.proc_number = blob::null;
        caller.args = caller.res = nullptr;
        caller.user = &answered;
        caller.done = [](Call& call, Result<void> result) noexcept {
            auto& self = static_cast<Caller&>(call);
            EXPECT_TRUE(result);
            ++self.rounds;
            if (++*static_cast<int*>(call.user) < 800) {
                EXPECT_TRUE(self.clnt->call(self));
            }
        };
        ASSERT_TRUE(clnt->call(caller));
    }
    ASSERT_TRUE(world.run_until([&] { return clnt->pending() == 0; }));
    for (const Caller& caller : callers) {
        EXPECT_GE(caller.rounds, 95);
        EXPECT_LE(caller.rounds, 105);
    }
}

TEST_F(XprtGroupTest, AllBrokenMeansAgainAndThenAllGoOn) {
    make(2);
    for (const auto& xprt : xprts)
        xprt->interrupt();
    EXPECT_FALSE(group->connected());
    for (int i = 0; i < 6; ++i)
        ASSERT_TRUE(clnt->call(null_call()));
    settle();
    EXPECT_FALSE(all_done());
    xprts[1]->recover();
    ASSERT_TRUE(world.run_until([this] { return all_done(); }));
    EXPECT_EQ(xprts[0]->counters().calls, 0u);
}

// One is at its end, for good.
TEST_F(XprtGroupTest, LostConnectionEndsOnlyItsOwnCalls) {
    DirectOptions options;
    options.latency_ns = kNsPerMs;
    make(3, options);
    for (int i = 0; i < 6; ++i)
        ASSERT_NE(write(), nullptr);
    xprts[0]->disconnect();
    ASSERT_TRUE(world.run_until([this] { return all_done(); }));
    for (const auto& call : calls) {
        const bool lost = member_of(*call) == 0;
        EXPECT_EQ(static_cast<bool>(call->outcome), !lost);
    }
    for (int i = 0; i < 6; ++i)
        ASSERT_NE(member_of(*write()), 0u);
    ASSERT_TRUE(world.run_until([this] { return all_done(); }));
    EXPECT_TRUE(calls.back()->good());
}

TEST_F(XprtGroupTest, MemoryOfAllIsGivenOutAndWakes) {
    DirectOptions options;
    options.client_payload_runs = 2;
    make(3, options);
    std::vector<Payload> held;
    for (int i = 0; i < 6; ++i) {
        Result<Payload> payload = group->get_payload(kBytes);
        ASSERT_TRUE(payload) << i;
        held.push_back(*std::move(payload));
    }
    const Result<Payload> none = group->get_payload(kBytes);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::again);
    CountingWaiter waiter;
    group->wait_for_slot(waiter);
    held.pop_back();
    EXPECT_EQ(waiter.woken, 1);
    EXPECT_TRUE(static_cast<bool>(group->get_payload(kBytes)));
    const Result<Payload> big = group->get_payload((1 << 20) + 1);
    ASSERT_FALSE(big);
    EXPECT_EQ(big.error().code, Errc::too_big);
}

// Memory of those that are there is gone, and the one that comes back has some.
TEST_F(XprtGroupTest, ConnectionThatComesBackWakesWhoWaitsForMemory) {
    DirectOptions options;
    options.client_payload_runs = 2;
    make(2, options);
    xprts[1]->interrupt();
    std::vector<Payload> held;
    for (int i = 0; i < 2; ++i) {
        Result<Payload> payload = group->get_payload(kBytes);
        ASSERT_TRUE(payload) << i;
        held.push_back(*std::move(payload));
    }
    const Result<Payload> none = group->get_payload(kBytes);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::again);
    CountingWaiter waiter;
    group->wait_for_slot(waiter);
    xprts[1]->recover();
    EXPECT_EQ(waiter.woken, 1);
    EXPECT_TRUE(static_cast<bool>(group->get_payload(kBytes)));
}

TEST_F(XprtGroupTest, CloseEndsEverything) {
    DirectOptions options;
    options.latency_ns = kNsPerMs;
    make(3, options);
    for (int i = 0; i < 6; ++i)
        ASSERT_TRUE(clnt->call(null_call()));
    xprts[1]->interrupt();
    group->close();
    ASSERT_TRUE(all_done());
    for (const auto& call : calls)
        EXPECT_EQ(call->outcome.error().code, Errc::closed);
    EXPECT_EQ(group->get_rqst(100).error().code, Errc::closed);
}

TEST_F(XprtGroupTest, CallersMemoryIsRegisteredWithEachAndItsCallsAreSpread) {
    make(3);
    std::vector<std::byte> memory(kBytes);
    ASSERT_TRUE(group->register_memory(memory));
    for (const auto& xprt : xprts)
        EXPECT_EQ(xprt->registered.size(), 1u);
    std::array<std::uint32_t, 3> seen{};
    std::vector<Rqst*> taken;
    for (int i = 0; i < 6; ++i) {
        auto rqst = group->get_rqst_with(100, memory.data() + 5, nullptr);
        ASSERT_TRUE(rqst);
        ++seen.at((*rqst)->connection);
        taken.push_back(*rqst);
    }
    EXPECT_EQ(seen, (std::array<std::uint32_t, 3>{2, 2, 2}));
    for (Rqst* rqst : taken)
        group->put_rqst(*rqst);
    // One has a call with it: the others give it back at once, that one later.
    xprts[1]->memory_in_use = true;
    EXPECT_EQ(group->deregister_memory(memory).error().code, Errc::again);
    EXPECT_TRUE(xprts[0]->registered.empty());
    EXPECT_TRUE(xprts[2]->registered.empty());
    EXPECT_EQ(group->deregister_memory(memory).error().code, Errc::again);
    xprts[1]->memory_in_use = false;
    EXPECT_TRUE(group->deregister_memory(memory));
    EXPECT_EQ(group->deregister_memory(memory).error().code, Errc::invalid_argument);
}

// Both kinds of memory in one call: it goes by the Payload's member, each time.
TEST_F(XprtGroupTest, CallWithAPayloadAndARoomInCallersMemoryGoesByThePayload) {
    make(2);
    std::vector<std::byte> memory(kBytes);
    ASSERT_TRUE(group->register_memory(memory));
    Result<Payload> payload = group->get_payload(kBytes);
    ASSERT_TRUE(payload);
    const std::uint32_t owner = xprts[0]->owns(payload->memory()) ? 0 : 1;
    const std::byte* const pieces[] = {payload->memory().data(), memory.data()};
    for (std::size_t i = 0; i < 6; ++i) {
        auto rqst = group->get_rqst_with(100, pieces[i % 2], pieces[(i + 1) % 2]);
        ASSERT_TRUE(rqst);
        EXPECT_EQ((*rqst)->connection, owner) << i;
        group->put_rqst(**rqst);
    }
    for (std::uint32_t i = 0; i < 6; ++i) {
        Result<Payload> from = group->get_payload(kBytes);
        ASSERT_TRUE(from);
        auto& call = *calls.emplace_back(std::make_unique<WriteCall>());
        call.proc = &table.at(blob::write).info;
        call.fill(*std::move(from), i);
        call.result_room = memory;
        ASSERT_TRUE(clnt->call(call));
    }
    ASSERT_TRUE(world.run_until([this] { return all_done(); }));
    for (const auto& call : calls)
        EXPECT_TRUE(call->good());
    EXPECT_TRUE(group->deregister_memory(memory));
}

// The next call may be another member's.
TEST_F(XprtGroupTest, CallersMemoryThatACallGivenUpNamesIsRefusedByAll) {
    make(3);
    std::vector<std::byte> memory(kBytes);
    ASSERT_TRUE(group->register_memory(memory));
    xprts[1]->given_up = memory;
    for (int i = 0; i < 3; ++i) {
        auto rqst = group->get_rqst_with(100, nullptr, memory.data());
        ASSERT_TRUE(rqst);
        (*rqst)->result_room = memory;
        (*rqst)->complete = [](Rqst&, Result<void>) noexcept {};
        // That member asks itself.
        if ((*rqst)->connection != 1) {
            EXPECT_EQ(group->send(**rqst).error().code, Errc::invalid_argument);
        }
        group->put_rqst(**rqst);
    }
    EXPECT_TRUE(group->deregister_memory(memory));
}

TEST_F(XprtGroupTest, CallersMemoryThatOneRefusesIsWithNone) {
    make(3);
    std::vector<std::byte> memory(kBytes);
    xprts[2]->refuse_memory = true;
    EXPECT_EQ(group->register_memory(memory).error().code, Errc::system);
    for (const auto& xprt : xprts)
        EXPECT_TRUE(xprt->registered.empty());
    EXPECT_EQ(group->deregister_memory(memory).error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace nfsrdma::sunrpc
