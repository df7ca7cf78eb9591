#include "sunrpc/clnt.hpp"

#include <memory>

#include <gtest/gtest.h>

#include "tests/sunrpc/blob_program.hpp"
#include "tests/support/direct_xprt.hpp"

namespace nfsrdma::sunrpc {
namespace {

namespace blob = testing::blob;
using testing::DirectOptions;
using testing::DirectWorld;
using testing::DirectXprt;
using testing::Fate;

struct TestCall : Call {
    TestCall() {
        user = this;
        done = [](Call& call, Result<void> result) noexcept {
            auto& self = *static_cast<TestCall*>(call.user);
            ++self.times;
            self.outcome = result;
            if (self.then) self.then();
        };
    }
    int times = 0;
    Result<void> outcome;
    std::function<void()> then;
    blob::WriteArgs write_args{};
    blob::WriteRes write_res{};
    blob::ReadArgs read_args{};
    blob::ReadRes read_res{};
    blob::NameArgs name_args{};
    blob::NameRes name_res{};
};

class ClntTest : public ::testing::Test {
  protected:
    ClntTest() { dispatcher.add(blob::program(table, state)); }
    ~ClntTest() override {
        clnt.reset();
        if (xprt) {
            EXPECT_EQ(xprt->slots_in_use(), 0u);
        }
        if (xprt) {
            EXPECT_EQ(xprt->payloads_in_use(), 0u);
        }
        if (xprt) {
            EXPECT_EQ(xprt->counters().over_reply_max, over_reply_max);
        }
    }
    void make(const DirectOptions& options = {}, const AuthSys* sys = nullptr) {
        clnt.reset();
        xprt = std::make_unique<DirectXprt>(*world.loop, dispatcher, options);
        clnt = std::make_unique<Clnt>(*xprt, blob::kProg, blob::kVers, sys);
    }
    void set(TestCall& call, blob::Proc proc) {
        call.proc = &table.at(proc).info;
        call.proc_number = proc;
        call.args = proc == blob::write  ? static_cast<const void*>(&call.write_args)
                    : proc == blob::read ? static_cast<const void*>(&call.read_args)
                                         : static_cast<const void*>(&call.name_args);
        call.res = proc == blob::write  ? static_cast<void*>(&call.write_res)
                   : proc == blob::read ? static_cast<void*>(&call.read_res)
                                        : static_cast<void*>(&call.name_res);
    }
    void set_read(TestCall& call, Payload& room, u_int count, u_int returned) {
        set(call, blob::read);
        call.read_args = {count, returned};
        call.read_res = {};
        call.result_room = room.memory().first(count);
    }
    bool run(TestCall& call) {
        return world.run_until([&] { return call.times != 0; });
    }
    Payload payload(std::uint32_t size) {
        Result<Payload> got = xprt->get_payload(size);
        EXPECT_TRUE(got);
        return *std::move(got);
    }

    std::array<SvcProcedure, blob::Proc::count> table = blob::procedures();
    blob::State state;
    std::uint64_t over_reply_max = 0;
    DirectWorld world;
    SvcDispatcher dispatcher;
    std::unique_ptr<DirectXprt> xprt;
    std::unique_ptr<Clnt> clnt;
};

TEST_F(ClntTest, NullCallNeverCompletesInside) {
    make();
    TestCall call;
    set(call, blob::null);
    ASSERT_TRUE(clnt->call(call));
    EXPECT_EQ(call.times, 0);
    ASSERT_TRUE(run(call));
    EXPECT_TRUE(call.outcome);
    EXPECT_EQ(call.status, RpcStatus::success);
    EXPECT_EQ(state.last_flavor, AuthFlavor::none);
}

TEST_F(ClntTest, CredentialsArriveAsTheyAre) {
    AuthSys sys;
    sys.uid = 1234;
    sys.gid = 99;
    sys.group_count = 16;
    for (std::uint32_t i = 0; i < 16; ++i)
        sys.groups.at(i) = i * 3;
    make({}, &sys);
    TestCall call;
    set(call, blob::null);
    ASSERT_TRUE(clnt->call(call));
    ASSERT_TRUE(run(call));
    EXPECT_EQ(state.last_flavor, AuthFlavor::sys);
    EXPECT_EQ(state.last_sys.uid, 1234u);
    EXPECT_EQ(state.last_sys.group_count, 16u);
    EXPECT_EQ(state.last_sys.groups.at(15), 45u);
}

// Larger credentials than the client's own, too, and AUTH_NONE's client can make it.
TEST_F(ClntTest, OneCallGoesAsSomebodyElse) {
    AuthSys own;
    own.uid = 7;
    AuthSys other;
    other.uid = 3000;
    other.group_count = 16;
    other.groups.at(15) = 45;
    for (const AuthSys* sys :
         {static_cast<const AuthSys*>(&own), static_cast<const AuthSys*>(nullptr)}) {
        make({}, sys);
        TestCall call;
        set(call, blob::null);
        call.sys = &other;
        ASSERT_TRUE(clnt->call(call));
        ASSERT_TRUE(run(call));
        EXPECT_EQ(state.last_flavor, AuthFlavor::sys);
        EXPECT_EQ(state.last_sys.uid, 3000u);
        EXPECT_EQ(state.last_sys.groups.at(15), 45u);
        TestCall next;
        set(next, blob::null);
        ASSERT_TRUE(clnt->call(next));
        ASSERT_TRUE(run(next));
        EXPECT_EQ(state.last_flavor, sys == nullptr ? AuthFlavor::none : AuthFlavor::sys);
        if (sys != nullptr) {
            EXPECT_EQ(state.last_sys.uid, 7u);
        }
    }
}

TEST_F(ClntTest, ObserverIsToldWhatEachCallCost) {
    make();
    struct Seen {
        std::vector<std::uint32_t> procs;
        std::uint64_t out = 0, in = 0;
        bool sent = false, ok = false;
    } seen;
    const auto note = [](void* arg, const Call& ended, const Result<void>& result) noexcept {
        auto& all = *static_cast<Seen*>(arg);
        all.procs.push_back(ended.proc_number);
        all.out = ended.bytes_out;
        all.in = ended.bytes_in;
        all.sent = ended.sent_ns >= ended.called_ns && ended.called_ns != 0;
        all.ok = static_cast<bool>(result);
    };
    clnt->observe({note, &seen});
    Payload room = payload(8192);
    TestCall call;
    set_read(call, room, 8192, 8192);
    ASSERT_TRUE(static_cast<bool>(clnt->call(call)));
    ASSERT_TRUE(run(call));
    EXPECT_EQ(seen.procs, std::vector<std::uint32_t>{blob::read});
    EXPECT_TRUE(seen.sent && seen.ok);
    EXPECT_GT(seen.in, 8192u);
    EXPECT_GT(seen.out, 40u);
    EXPECT_LT(seen.out, 400u);

    TestCall closed;
    set(closed, blob::write);
    xprt->close();
    ASSERT_TRUE(static_cast<bool>(clnt->call(closed)));
    ASSERT_TRUE(run(closed));
    EXPECT_EQ(seen.procs.size(), 2u);
    EXPECT_FALSE(seen.ok);
}

TEST_F(ClntTest, WriteOfEverySizeByChunkAndInline) {
    for (const std::uint32_t chunk_min : {0u, UINT32_MAX}) {
        for (const std::uint32_t size : {0u, 1u, 2u, 3u, 4u, 5u, 1023u, 4096u, 65537u}) {
            DirectOptions options;
            options.arg_chunk_min = chunk_min;
            options.pad_in_chunk = (size & 1) != 0;
            make(options);
            Payload data = payload(std::max(size, 1u));
            for (std::uint32_t i = 0; i < size; ++i) {
                as_chars(data.memory().data())[i] = blob::pattern(i, size);
            }
            TestCall call;
            set(call, blob::write);
            call.write_args = {77, {size, as_chars(data.memory().data())}, 88};
            ASSERT_TRUE(clnt->call(call));
            ASSERT_TRUE(run(call));
            ASSERT_TRUE(call.outcome);
            EXPECT_EQ(call.write_res.received, size);
            EXPECT_EQ(call.write_res.sum, blob::sum_of(as_chars(data.memory().data()), size));
            EXPECT_EQ(state.last_id, 77u);
            EXPECT_EQ(state.last_after, 88u);
            EXPECT_EQ(dispatcher.counters().payload_copied_bytes, 0u);
        }
    }
}

TEST_F(ClntTest, ReadIsPlacedOrCopiedAndCounted) {
    for (const std::uint32_t chunk_min : {0u, UINT32_MAX}) {
        for (const std::uint32_t size : {1u, 3u, 4u, 1023u, 65536u, 65537u}) {
            DirectOptions options;
            options.result_chunk_min = chunk_min;
            make(options);
            Payload room = payload(65540);
            TestCall call;
            set_read(call, room, 65540, size);
            ASSERT_TRUE(clnt->call(call));
            ASSERT_TRUE(run(call));
            ASSERT_TRUE(call.outcome);
            EXPECT_EQ(call.read_res.data.data_len, size);
            EXPECT_EQ(as_bytes(call.read_res.data.data_val), room.memory().data());
            EXPECT_EQ(call.read_res.after, 0xAFAFAFAFu);
            for (std::uint32_t i = 0; i < size; ++i) {
                ASSERT_EQ(as_chars(room.memory().data())[i], blob::pattern(i, 65540));
            }
            const bool placed = chunk_min == 0;
            EXPECT_EQ(call.result_placed, placed ? size : 0);
            EXPECT_EQ(clnt->counters().payload_copied_bytes, placed ? 0 : size);
        }
    }
}

// The reply's count and what was placed must agree; nothing behind the placed bytes is touched.
TEST_F(ClntTest, B07_CountThatDisagreesWithThePlacedLengthIsBadMessage) {
    make();
    Payload room = payload(8192);
    std::fill(room.memory().begin(), room.memory().end(), std::byte{0x5A});
    TestCall good;
    set_read(good, room, 8192, 100);
    ASSERT_TRUE(clnt->call(good));
    ASSERT_TRUE(run(good));
    EXPECT_TRUE(good.outcome);
    EXPECT_EQ(good.result_placed, 100u);
    for (std::size_t i = 100; i < 8192; ++i)
        ASSERT_EQ(room.memory()[i], std::byte{0x5A});

    for (const std::uint32_t claimed : {0u, 50u, 99u, 101u, 8192u}) {
        xprt->tamper = [claimed](std::vector<std::byte>& /*head*/, std::uint32_t& placed) {
            placed = claimed;
        };
        TestCall call;
        set_read(call, room, 8192, 100);
        ASSERT_TRUE(clnt->call(call));
        ASSERT_TRUE(run(call));
        ASSERT_FALSE(call.outcome) << claimed;
        EXPECT_EQ(call.outcome.error().code, Errc::bad_message);
        EXPECT_EQ(call.read_res.data.data_val, nullptr);
    }
    // A peer that counts the pad as placed is understood.
    xprt->tamper = [](std::vector<std::byte>& /*head*/, std::uint32_t& placed) { placed = 104; };
    TestCall padded;
    set_read(padded, room, 8192, 101);
    ASSERT_TRUE(clnt->call(padded));
    ASSERT_TRUE(run(padded));
    EXPECT_TRUE(padded.outcome);
    EXPECT_EQ(padded.read_res.data.data_len, 101u);
}

TEST_F(ClntTest, PlacedBytesOfAnErrorReplyAreBadMessage) {
    make();
    xprt->tamper = [](std::vector<std::byte>& /*head*/, std::uint32_t& placed) { placed = 16; };
    Payload room = payload(64);
    TestCall call;
    set_read(call, room, 64, 100);  // the program answers with an error status
    ASSERT_TRUE(clnt->call(call));
    ASSERT_TRUE(run(call));
    ASSERT_FALSE(call.outcome);
    EXPECT_EQ(call.outcome.error().code, Errc::bad_message);
}

TEST_F(ClntTest, InlineAnswerLargerThanTheRoomIsBadMessage) {
    DirectOptions options;
    options.result_chunk_min = UINT32_MAX;
    make(options);
    Payload room = payload(4096);
    TestCall call;
    set_read(call, room, 4096, 2000);
    call.result_room = room.memory().first(1000);
    over_reply_max = 1;
    ASSERT_TRUE(clnt->call(call));
    ASSERT_TRUE(run(call));
    ASSERT_FALSE(call.outcome);
    EXPECT_EQ(call.outcome.error().code, Errc::bad_message);
}

TEST_F(ClntTest, WithoutARoomTheItemIsReadInPlaceDuringDone) {
    make();
    TestCall call;
    set(call, blob::read);
    call.read_args = {64, 33};
    bool seen = false;
    call.then = [&] {
        seen = call.read_res.data.data_len == 33;
        for (u_int i = 0; seen && i < 33; ++i)
            seen = call.read_res.data.data_val[i] == blob::pattern(i, 64);
        EXPECT_EQ(xprt->slots_in_use(), 1u);  // the message is still there
    };
    ASSERT_TRUE(clnt->call(call));
    ASSERT_TRUE(run(call));
    EXPECT_TRUE(call.outcome);
    EXPECT_TRUE(seen);
    EXPECT_EQ(xprt->slots_in_use(), 0u);
}

TEST_F(ClntTest, StringsBothWays) {
    for (const bool own : {false, true}) {
        for (const std::size_t size :
             {std::size_t{1}, std::size_t{7}, std::size_t{1023}, std::size_t{1024}}) {
            make();
            state.string_in_own_memory = own;
            std::string name(size, 'n');
            name.back() = 'e';
            Payload room = payload(blob::kNameMax + 1);
            TestCall call;
            set(call, blob::name);
            call.name_args = {name.data(), 5};
            call.args_in_payload = false;
            call.result_room = room.memory();
            ASSERT_TRUE(clnt->call(call));
            ASSERT_TRUE(run(call));
            ASSERT_TRUE(call.outcome) << to_string(call.outcome.error());
            EXPECT_EQ(state.last_name, name);
            EXPECT_EQ(std::string(call.name_res.name), name);
            EXPECT_EQ(as_bytes(call.name_res.name), room.memory().data());
            EXPECT_EQ(xprt->counters().placed_results, 1u);
        }
    }
}

TEST_F(ClntTest, RoomForAStringWithoutItsZeroIsRefused) {
    make();
    std::string name = "x";
    Payload room = payload(blob::kNameMax);
    TestCall call;
    set(call, blob::name);
    call.name_args = {name.data(), 5};
    call.args_in_payload = false;
    call.result_room = room.memory();
    Result<void> result = clnt->call(call);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::invalid_argument);
}

TEST_F(ClntTest, ArgumentsThatDoNotEncodeComeBackAtOnce) {
    make();
    std::string name(blob::kNameMax + 1, 'x');
    TestCall call;
    set(call, blob::name);
    call.name_args = {name.data(), 5};
    call.args_in_payload = false;
    Result<void> result = clnt->call(call);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::invalid_argument);
    world.run_idle();
    EXPECT_EQ(call.times, 0);
    EXPECT_EQ(clnt->pending(), 0u);
}

TEST_F(ClntTest, ErrorsOfTheServerByName) {
    make();
    struct Case {
        std::uint32_t prog, vers, proc;
        RpcStatus status;
    };
    for (const Case& c : {Case{blob::kProg, blob::kVers, blob::refuse, RpcStatus::system_err},
                          Case{blob::kProg, blob::kVers, blob::missing, RpcStatus::proc_unavail},
                          Case{blob::kProg, blob::kVers, 1000, RpcStatus::proc_unavail},
                          Case{blob::kProg, 7, 0, RpcStatus::prog_mismatch},
                          Case{99, 1, 0, RpcStatus::prog_unavail}}) {
        Clnt other(*xprt, c.prog, c.vers, nullptr);
        TestCall call;
        set(call, blob::null);
        call.proc_number = c.proc;
        ASSERT_TRUE(other.call(call));
        ASSERT_TRUE(run(call));
        ASSERT_FALSE(call.outcome);
        EXPECT_EQ(call.outcome.error().code, Errc::refused);
        EXPECT_EQ(call.status, c.status);
        if (c.status == RpcStatus::prog_mismatch) {
            EXPECT_EQ(call.mismatch_low, blob::kVers);
            EXPECT_EQ(call.mismatch_high, blob::kVers);
        }
        EXPECT_STRNE(to_string(call.status), "unknown");
    }
}

TEST_F(ClntTest, MoreCallsThanSlotsQueueInOrder) {
    DirectOptions options;
    options.slots = 4;
    make(options);
    std::vector<std::unique_ptr<TestCall>> calls;
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < 100; ++i) {
        TestCall& call = *calls.emplace_back(std::make_unique<TestCall>());
        set(call, blob::null);
        call.then = [&order, i] { order.push_back(i); };
        ASSERT_TRUE(clnt->call(call));
    }
    EXPECT_EQ(clnt->pending(), 100u);
    ASSERT_TRUE(world.run_until([&] { return order.size() == 100; }));
    for (std::size_t i = 0; i < 100; ++i)
        EXPECT_EQ(order[i], i);
    EXPECT_EQ(xprt->counters().in_flight_max, 4u);
    EXPECT_EQ(clnt->counters().waited_for_slot, 96u);
}

TEST_F(ClntTest, TwoClientsOfOneTransportBothGetSlots) {
    DirectOptions options;
    options.slots = 1;
    make(options);
    Clnt other(*xprt, blob::kProg, blob::kVers, nullptr);
    std::vector<std::unique_ptr<TestCall>> calls;
    std::size_t finished = 0;
    for (std::size_t i = 0; i < 20; ++i) {
        TestCall& call = *calls.emplace_back(std::make_unique<TestCall>());
        set(call, blob::null);
        call.then = [&] { ++finished; };
        ASSERT_TRUE((i < 10 ? *clnt : other).call(call));
    }
    EXPECT_TRUE(world.run_until([&] { return finished == 20; }));
}

TEST_F(ClntTest, LateReplyAfterATimeoutIsDroppedAndTheSlotComesBack) {
    make();
    xprt->reply_fate = [](std::uint32_t /*xid*/) { return Fate{false, 5 * kNsPerSec}; };
    TestCall call;
    set(call, blob::null);
    call.timeout_ns = kNsPerSec;
    ASSERT_TRUE(clnt->call(call));
    ASSERT_TRUE(run(call));
    ASSERT_FALSE(call.outcome);
    EXPECT_EQ(call.outcome.error().code, Errc::timed_out);
    EXPECT_EQ(call.status, RpcStatus::not_answered);
    EXPECT_EQ(xprt->slots_in_use(), 1u);
    world.run_idle();
    EXPECT_EQ(call.times, 1);
    EXPECT_EQ(xprt->slots_in_use(), 0u);
    EXPECT_EQ(clnt->counters().timeouts, 1u);
}

TEST_F(ClntTest, TimeoutWhileQueued) {
    DirectOptions options;
    options.slots = 1;
    make(options);
    xprt->reply_fate = [](std::uint32_t /*xid*/) { return Fate{false, 5 * kNsPerSec}; };
    TestCall first, second;
    set(first, blob::null);
    set(second, blob::null);
    second.timeout_ns = kNsPerSec;
    ASSERT_TRUE(clnt->call(first));
    ASSERT_TRUE(clnt->call(second));
    ASSERT_TRUE(run(second));
    EXPECT_EQ(second.outcome.error().code, Errc::timed_out);
    EXPECT_EQ(first.times, 0);
    ASSERT_TRUE(run(first));
    EXPECT_TRUE(first.outcome);
}

TEST_F(ClntTest, CancelAnswersOnce) {
    DirectOptions options;
    options.slots = 1;
    make(options);
    TestCall in_flight, queued;
    set(in_flight, blob::null);
    set(queued, blob::null);
    ASSERT_TRUE(clnt->call(in_flight));
    ASSERT_TRUE(clnt->call(queued));
    clnt->cancel(queued);
    clnt->cancel(in_flight);
    EXPECT_EQ(queued.outcome.error().code, Errc::closed);
    EXPECT_EQ(in_flight.outcome.error().code, Errc::closed);
    world.run_idle();
    EXPECT_EQ(queued.times, 1);
    EXPECT_EQ(in_flight.times, 1);
}

TEST_F(ClntTest, DisconnectTellsEveryCallOnce) {
    DirectOptions options;
    options.slots = 2;
    make(options);
    std::vector<std::unique_ptr<TestCall>> calls;
    for (int i = 0; i < 10; ++i) {
        set(*calls.emplace_back(std::make_unique<TestCall>()), blob::hold);
        ASSERT_TRUE(clnt->call(*calls.back()));
    }
    world.run_until([&] { return state.held.size() == 2; });
    xprt->disconnect();
    world.run_until([&] { return clnt->pending() == 0; });
    for (auto& call : calls) {
        EXPECT_EQ(call->times, 1);
        ASSERT_FALSE(call->outcome);
        EXPECT_EQ(call->outcome.error().code, Errc::reconnect);
    }
    for (SvcCall* held : state.held)
        held->drop();
}

TEST_F(ClntTest, CallOnAClosedTransportIsToldLater) {
    make();
    xprt->close();
    TestCall call;
    set(call, blob::null);
    ASSERT_TRUE(clnt->call(call));
    EXPECT_EQ(call.times, 0);
    ASSERT_TRUE(run(call));
    EXPECT_EQ(call.outcome.error().code, Errc::closed);
}

TEST_F(ClntTest, CallFromInsideDone) {
    DirectOptions options;
    options.slots = 1;
    make(options);
    TestCall call;
    set(call, blob::null);
    int rounds = 0;
    call.then = [&] {
        if (++rounds < 50) {
            EXPECT_TRUE(clnt->call(call));
        }
    };
    ASSERT_TRUE(clnt->call(call));
    ASSERT_TRUE(world.run_until([&] { return rounds == 50; }));
    EXPECT_EQ(clnt->counters().waited_for_slot, 0u);  // the slot is free before `done` runs
}

TEST_F(ClntTest, GarbledRepliesFailTheirCallAlone) {
    make();
    int garbled = 0;
    for (std::size_t size = 0; size < 36; size += 4) {
        xprt->tamper = [size](std::vector<std::byte>& head, std::uint32_t& /*placed*/) {
            head.resize(std::min(head.size(), size));
        };
        TestCall call;
        set(call, blob::write);
        ASSERT_TRUE(clnt->call(call));
        ASSERT_TRUE(run(call));
        ASSERT_FALSE(call.outcome) << size;
        EXPECT_EQ(call.outcome.error().code, Errc::bad_message);
        ++garbled;
    }
    xprt->tamper = [](std::vector<std::byte>& head, std::uint32_t& /*placed*/) {
        head[0] ^= std::byte{1};  // another XID than the transport matched
    };
    TestCall other;
    set(other, blob::null);
    ASSERT_TRUE(clnt->call(other));
    ASSERT_TRUE(run(other));
    EXPECT_EQ(other.outcome.error().code, Errc::bad_message);
    xprt->tamper = nullptr;
    TestCall good;
    set(good, blob::null);
    ASSERT_TRUE(clnt->call(good));
    ASSERT_TRUE(run(good));
    EXPECT_TRUE(good.outcome);
    EXPECT_EQ(clnt->counters().errors, static_cast<std::uint64_t>(garbled) + 1);
}

TEST_F(ClntTest, XidsAreNotReusedByTheNextClient) {
    make();
    std::vector<std::uint32_t> xids;
    xprt->call_fate = [&](std::uint32_t xid) {
        xids.push_back(xid);
        return Fate{};
    };
    for (int i = 0; i < 3; ++i) {
        Clnt other(*xprt, blob::kProg, blob::kVers, nullptr);
        for (int j = 0; j < 2; ++j) {
            TestCall call;
            set(call, blob::null);
            ASSERT_TRUE(other.call(call));
            ASSERT_TRUE(run(call));
        }
    }
    EXPECT_EQ(xids[1], xids[0] + 1);
    EXPECT_NE(xids[2], xids[0]);
    EXPECT_NE(xids[2], xids[1] + 1);
}

}  // namespace
}  // namespace nfsrdma::sunrpc
