#include "nfs/client/unstable_writes.hpp"

#include <vector>

#include "tests/nfs/client/fake_server.hpp"
#include "tests/nfs/client/world.hpp"

namespace nfsrdma::nfs::client {
namespace {

constexpr std::uint32_t kPiece = 4096;

testing::DirectOptions few_payloads() {
    testing::DirectOptions options;
    options.client_payload_runs = 8;
    options.max_payload = 64 << 10;
    return options;
}

class UnstableWritesTest : public ::testing::Test {
  protected:
    UnstableWritesTest() { EXPECT_TRUE(handle.assign("file", 4)); }
    ~UnstableWritesTest() override {
        writes.reset();
        EXPECT_EQ(xprt.payloads_in_use(), 0u);
        EXPECT_EQ(xprt.slots_in_use(), 0u);
    }
    std::unique_ptr<UnstableWrites> make(const UnstableWrites::Limits& limits) {
        auto made = std::make_unique<UnstableWrites>(client, limits);
        made->user = this;
        made->changed = [](UnstableWrites& w) noexcept {
            ++static_cast<UnstableWritesTest*>(w.user)->changes;
        };
        made->begin({.file = handle, .stable = false});
        return made;
    }
    void begin(UnstableWrites::Limits limits = {.pieces = 64, .depth = 4, .commit_after = 32}) {
        writes = make(limits);
    }
    // Number `index` of the file's pieces.
    void write(UnstableWrites& to, std::uint64_t index) {
        Result<UnstableWrites::Piece*> piece = to.take(kPiece);
        ASSERT_TRUE(piece) << to_string(piece.error());
        fill((*piece)->memory(), index);
        to.write(**piece, index * kPiece, kPiece);
    }
    static void fill(std::span<std::byte> memory, std::uint64_t index) {
        for (std::size_t i = 0; i < memory.size(); ++i)
            memory[i] = static_cast<std::byte>(testing::file_byte(index * kPiece + i));
    }
    void expect_file(std::uint64_t pieces) {
        ASSERT_EQ(fake.file.size(), pieces * kPiece);
        for (std::size_t i = 0; i < fake.file.size(); ++i)
            ASSERT_EQ(fake.file[i], testing::file_byte(i)) << i;
    }
    void commit_all() {
        ASSERT_TRUE(world.run_until([this] {
            if (writes->under_way() == 0) writes->commit();
            return writes->empty();
        }));
    }
    testing::DirectWorld world;
    testing::FakeServer fake;
    testing::DirectXprt xprt{*world.loop, fake.dispatcher, few_payloads()};
    Client client{xprt, nullptr};
    FileHandle handle;
    std::unique_ptr<UnstableWrites> writes;
    int changes = 0;
};

TEST_F(UnstableWritesTest, MemoryIsKeptUntilTheCommit) {
    begin();
    for (std::uint64_t i = 0; i < 6; ++i)
        write(*writes, i);
    world.run_idle();
    EXPECT_EQ(writes->kept(), 6u);
    EXPECT_EQ(writes->under_way(), 0u);
    EXPECT_EQ(xprt.payloads_in_use(), 6u);
    EXPECT_EQ(fake.commits, 0u);
    writes->commit();
    EXPECT_TRUE(writes->committing());
    world.run_idle();
    EXPECT_TRUE(writes->empty());
    EXPECT_EQ(xprt.payloads_in_use(), 0u);
    EXPECT_EQ(fake.commits, 1u);
    EXPECT_EQ(writes->bytes(), 6u * kPiece);
    expect_file(6);
}

// cases B90: the server was restarted between WRITE and COMMIT, and has lost what it had not
// committed.
TEST_F(UnstableWritesTest, B90VerifierOfTheCommitThatDiffersMeansToWriteAnew) {
    begin();
    for (std::uint64_t i = 0; i < 5; ++i)
        write(*writes, i);
    world.run_idle();
    fake.restart();
    commit_all();
    EXPECT_EQ(fake.commits, 2u);
    EXPECT_EQ(fake.writes, 10u);
    EXPECT_EQ(client.counters().rewrites, 5u);
    expect_file(5);
}

// Restarted twice in a row, the second time while what was lost is written anew.
TEST_F(UnstableWritesTest, B90TwoRestartsInARow) {
    begin();
    for (std::uint64_t i = 0; i < 5; ++i)
        write(*writes, i);
    world.run_idle();
    fake.restart();
    fake.restart_after_write = 8;
    commit_all();
    expect_file(5);
    EXPECT_TRUE(writes->outcome.ok());
}

// Nobody waits for the COMMIT to find out.
TEST_F(UnstableWritesTest, VerifierOfAWriteThatDiffersSendsTheOlderOnesAtOnce) {
    begin();
    for (std::uint64_t i = 0; i < 4; ++i)
        write(*writes, i);
    world.run_idle();
    fake.restart();
    write(*writes, 4);
    world.run_idle();
    EXPECT_EQ(fake.commits, 0u);
    EXPECT_EQ(fake.writes, 9u);
    EXPECT_EQ(writes->kept(), 5u);
    commit_all();
    EXPECT_EQ(fake.commits, 1u);
    expect_file(5);
}

// What is written while the COMMIT is under way is not covered by it.
TEST_F(UnstableWritesTest, CommitCoversOnlyWhatWasAnsweredBefore) {
    xprt.options().latency_ns = kNsPerMs;
    begin();
    write(*writes, 0);
    ASSERT_TRUE(world.run_until([&] { return writes->kept() == 1; }));
    writes->commit();
    write(*writes, 1);
    ASSERT_TRUE(world.run_until([&] { return !writes->committing() && writes->under_way() == 0; }));
    EXPECT_EQ(writes->kept(), 1u);
    EXPECT_EQ(xprt.payloads_in_use(), 1u);
    commit_all();
    EXPECT_EQ(fake.commits, 2u);
    expect_file(2);
}

// The first part of a WRITE that was answered short is of another boot than its rest.
TEST_F(UnstableWritesTest, PartsOfTwoVerifiersAreWrittenAnewTogether) {
    fake.write_most = kPiece / 2;
    fake.restart_after_write = 1;
    begin();
    write(*writes, 0);
    world.run_idle();
    EXPECT_EQ(fake.writes, 4u);
    EXPECT_EQ(writes->kept(), 1u);
    commit_all();
    expect_file(1);
}

TEST_F(UnstableWritesTest, StableAnswersNeedNothingKept) {
    fake.always_stable = true;
    begin();
    for (std::uint64_t i = 0; i < 5; ++i)
        write(*writes, i);
    world.run_idle();
    EXPECT_TRUE(writes->empty());
    expect_file(5);
}

TEST_F(UnstableWritesTest, ManyKeptAreCommittedByThemselves) {
    begin({.pieces = 8, .depth = 2, .commit_after = 3});
    for (std::uint64_t i = 0; i < 3; ++i)
        write(*writes, i);
    world.run_idle();
    EXPECT_EQ(fake.commits, 1u);
    EXPECT_TRUE(writes->empty());
}

TEST_F(UnstableWritesTest, NoMoreWritesInFlightThanAllowed) {
    begin({.pieces = 8, .depth = 2, .commit_after = 6});
    for (std::uint64_t i = 0; i < 6; ++i)
        write(*writes, i);
    world.run_idle();
    EXPECT_EQ(xprt.counters().in_flight_max, 2u);
    commit_all();
    expect_file(6);
}

TEST_F(UnstableWritesTest, PieceLessIsToldAgain) {
    begin({.pieces = 2, .depth = 1, .commit_after = 1});
    Result<UnstableWrites::Piece*> first = writes->take(kPiece);
    Result<UnstableWrites::Piece*> second = writes->take(kPiece);
    ASSERT_TRUE(first && second);
    const auto third = writes->take(kPiece);
    ASSERT_FALSE(third);
    EXPECT_EQ(third.error().code, Errc::again);
    writes->give_back(**first);
    EXPECT_TRUE(static_cast<bool>(writes->take(kPiece)));
    EXPECT_EQ(writes->window(), 2u);
    writes->give_back(writes->piece(0));
    writes->give_back(writes->piece(1));
}

// Memory runs dry for somebody else: who keeps most commits, and nobody else does before somebody
// asks again.
TEST_F(UnstableWritesTest, DryMemoryMakesTheOneWhoKeepsMostCommit) {
    begin();
    std::unique_ptr<UnstableWrites> other = make({.pieces = 8, .depth = 2, .commit_after = 6});
    for (std::uint64_t i = 0; i < 6; ++i)
        write(*writes, i);
    for (std::uint64_t i = 0; i < 2; ++i)
        write(*other, i);
    world.run_idle();
    EXPECT_EQ(xprt.payloads_in_use(), 8u);
    const auto none = client.get_payload(kPiece);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::again);
    EXPECT_TRUE(writes->committing());
    EXPECT_FALSE(other->committing());
    world.run_idle();
    EXPECT_EQ(fake.commits, 1u);
    EXPECT_EQ(xprt.payloads_in_use(), 2u);
    other->commit();
    world.run_idle();
    EXPECT_EQ(xprt.payloads_in_use(), 0u);
    EXPECT_TRUE(static_cast<bool>(client.get_payload(kPiece)));
}

// A COMMIT of little is not worth it while more is being written.
TEST_F(UnstableWritesTest, DryMemoryWaitsForMoreToCommit) {
    xprt.options().latency_ns = kNsPerMs;
    begin({.pieces = 64, .depth = 2, .commit_after = 32});
    for (std::uint64_t i = 0; i < 8; ++i)
        write(*writes, i);
    EXPECT_FALSE(client.get_payload(kPiece));
    ASSERT_TRUE(world.run_until([&] { return writes->committing(); }));
    EXPECT_EQ(writes->kept(), xprt.limits().slots / 2);
    ASSERT_TRUE(world.run_until([&] { return !writes->committing(); }));
    // Nobody asked again.
    world.run_idle();
    EXPECT_EQ(fake.commits, 1u);
    EXPECT_EQ(writes->kept(), 4u);
    commit_all();
    expect_file(8);
}

// It was all in flight when memory ran dry: the wish is remembered until something can be let go.
TEST_F(UnstableWritesTest, DryMemoryIsRememberedUntilSomethingIsKept) {
    begin();
    for (std::uint64_t i = 0; i < 8; ++i)
        write(*writes, i);
    EXPECT_FALSE(client.get_payload(kPiece));
    EXPECT_EQ(writes->kept(), 0u);
    world.run_idle();
    EXPECT_EQ(fake.commits, 1u);
    EXPECT_LE(xprt.payloads_in_use(), 4u);
    commit_all();
    expect_file(8);
}

// cases B91: what COMMIT says is the truth.
TEST_F(UnstableWritesTest, B91CommitThatFailsFailsTheWrites) {
    begin();
    fake.commit_status = NFS3ERR_NOSPC;
    for (std::uint64_t i = 0; i < 3; ++i)
        write(*writes, i);
    world.run_idle();
    writes->commit();
    world.run_idle();
    EXPECT_EQ(writes->outcome.status, NFS3ERR_NOSPC);
    EXPECT_TRUE(writes->empty());
    EXPECT_EQ(xprt.payloads_in_use(), 0u);
}

TEST_F(UnstableWritesTest, FailureLetsGoWhatIsKeptAndTheRestWithItsAnswer) {
    xprt.options().latency_ns = kNsPerMs;
    begin();
    for (std::uint64_t i = 0; i < 3; ++i)
        write(*writes, i);
    ASSERT_TRUE(world.run_until([&] { return writes->kept() == 3; }));
    write(*writes, 3);
    writes->fail(Outcome::failed(NFS3ERR_IO));
    EXPECT_EQ(writes->kept(), 0u);
    EXPECT_EQ(xprt.payloads_in_use(), 1u);
    EXPECT_FALSE(writes->empty());
    world.run_idle();
    EXPECT_TRUE(writes->empty());
}

// Every piece has one half of each boot, and is told of by itself: it was one restart.
TEST_F(UnstableWritesTest, OneRestartThatManyPiecesTellOfIsOne) {
    constexpr std::uint32_t kPieces = 2 * UnstableWrites::kForgottenMax;
    testing::DirectOptions options;
    options.slots = options.requests = options.client_payload_runs = kPieces;
    options.max_payload = kPiece;
    testing::DirectXprt wide(*world.loop, fake.dispatcher, options);
    Client its_client(wide, nullptr);
    UnstableWrites its(its_client,
                       {.pieces = 2 * kPieces, .depth = kPieces, .commit_after = kPieces});
    its.changed = [](UnstableWrites&) noexcept {};
    its.begin({.file = handle, .stable = false});
    fake.write_most = kPiece / 2;
    fake.restart_after_write = kPieces;
    for (std::uint64_t i = 0; i < kPieces; ++i)
        write(its, i);
    ASSERT_TRUE(world.run_until([&] {
        if (its.under_way() == 0) its.commit();
        return its.empty();
    }));
    EXPECT_TRUE(its.outcome.ok()) << to_string(its.outcome);
    EXPECT_EQ(its_client.counters().rewrites, kPieces);
    expect_file(kPieces);
}

TEST_F(UnstableWritesTest, ServerThatForgetsAfterEachCommitIsGivenUp) {
    begin();
    fake.restarts_before_commit = 1000;
    write(*writes, 0);
    ASSERT_TRUE(world.run_until([&] {
        if (writes->under_way() == 0) writes->commit();
        return writes->empty();
    }));
    ASSERT_FALSE(writes->outcome.rpc);
    EXPECT_EQ(writes->outcome.rpc.error().code, Errc::bad_message);
}

}  // namespace
}  // namespace nfsrdma::nfs::client
