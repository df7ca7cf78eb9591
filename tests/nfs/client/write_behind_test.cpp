#include "nfs/client/write_behind.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/prng.hpp"
#include "tests/nfs/client/write_behind_world.hpp"

namespace nfsrdma::nfs::client {
namespace {

TEST_F(WriteBehindTest, LargeWritesAreTakenAndGoWithoutACopy) {
    for (std::uint64_t i = 0; i < 4; ++i)
        EXPECT_TRUE(write(i * kRun, kRun));
    EXPECT_TRUE(file->unwritten());
    sync(*file);
    EXPECT_FALSE(file->dirty());
    EXPECT_EQ(fake.writes, 4u);
    EXPECT_EQ(fake.commits, 1u);
    EXPECT_EQ(budget->counters().copied_bytes, 0u);
    expect_bytes(0, 4 * kRun);
    EXPECT_EQ(observed.sent, 5u);
    EXPECT_EQ(observed.with_data, 5u);
}

// The first goes at once, what follows while it is under way goes together.
TEST_F(WriteBehindTest, SmallWritesThatFollowEachOtherAreJoined) {
    for (std::uint64_t i = 0; i < 12; ++i)
        EXPECT_TRUE(write(i * 1000, 1000));
    sync(*file);
    EXPECT_EQ(fake.writes, 2u);
    expect_bytes(0, 12000);
    // Ten into the second piece, and both into less memory than they had come in.
    EXPECT_EQ(budget->counters().copied_bytes, (10u + 1 + 11) * 1000);
}

TEST_F(WriteBehindTest, FullPieceIsSentWithoutBeingAskedFor) {
    EXPECT_TRUE(write(0, 4096));
    for (std::uint64_t i = 1; i < 18; ++i)
        EXPECT_TRUE(write(i * 4096, 4096));
    ASSERT_TRUE(world.run_until([&] { return !file->unwritten(); }));
    EXPECT_EQ(fake.writes, 3u);  // 1, 16 and the last
    expect_bytes(0, 18 * 4096);
    sync(*file);
}

TEST_F(WriteBehindTest, GapSendsWhatWasJoined) {
    EXPECT_TRUE(write(0, 100));
    EXPECT_TRUE(write(100, 100));
    EXPECT_TRUE(write(9000, 100));
    EXPECT_TRUE(write(9100, 100));
    sync(*file);
    EXPECT_EQ(fake.writes, 3u);
    expect_bytes(0, 200);
    expect_bytes(9000, 200);
}

// Nothing of what waits to be sent is anybody else's: no WRITE mixes two users.
TEST_F(WriteBehindTest, WritesOfTwoUsersAreNotJoined) {
    sunrpc::AuthSys one, two;
    one.uid = 1001;
    two.uid = 1002;
    EXPECT_TRUE(write(*file, 0, 100, 0, &one));
    EXPECT_TRUE(write(*file, 100, 100, 0, &one));
    EXPECT_TRUE(write(*file, 200, 100, 0, &two));
    one.uid = two.uid = 7;  // copied: whoever wrote may be gone
    sync(*file);
    const std::vector<std::pair<std::uint32_t, int>> expected{{NFSPROC3_WRITE, 1001},
                                                              {NFSPROC3_WRITE, 1001},
                                                              {NFSPROC3_WRITE, 1002},
                                                              {NFSPROC3_COMMIT, 1002}};
    EXPECT_EQ(fake.callers, expected);
}

// While it is being filled a piece may be written over; what is under way may not.
TEST_F(WriteBehindTest, OverwriteInsideOfWhatIsBeingFilledIsDoneThere) {
    EXPECT_TRUE(write(0, 4096));
    EXPECT_TRUE(write(4096, 4096));
    EXPECT_TRUE(write(5000, 100, 1));
    EXPECT_TRUE(write(8000, 400, 2));  // and beyond its end
    sync(*file);
    EXPECT_EQ(fake.writes, 2u);
    expect_bytes(0, 5000);
    expect_bytes(5000, 100, 1);
    expect_bytes(8000, 400, 2);
    EXPECT_EQ(budget->counters().overlapped, 0u);
}

TEST_F(WriteBehindTest, OverwriteOfWhatIsNotDurableWaitsForItsCommit) {
    EXPECT_TRUE(write(0, kRun));
    EXPECT_FALSE(write(100, 50, 1));
    // And who comes later does not overtake.
    EXPECT_FALSE(write(200000, 10));
    ASSERT_TRUE(world.run_until([&] { return writers.back()->times == 1; }));
    EXPECT_EQ(fake.commits, 1u);
    EXPECT_EQ(writers[1]->times, 1);
    EXPECT_TRUE(writers[1]->outcome.ok());
    sync(*file);
    expect_bytes(0, 100);
    expect_bytes(100, 50, 1);
    expect_bytes(150, kRun - 150);
    expect_bytes(200000, 10);
    EXPECT_EQ(budget->counters().overlapped, 1u);
}

TEST_F(WriteBehindTest, FlushWaitsForAnswersAndNotForTheCommit) {
    EXPECT_TRUE(write(0, kRun));
    EXPECT_TRUE(write(kRun, 10));
    EXPECT_TRUE(file->unwritten_in(kRun + 9, 1));
    EXPECT_FALSE(file->unwritten_in(kRun + 10, 100));
    Wait wait;
    ASSERT_FALSE(file->flush(wait));
    EXPECT_EQ(wait.times, 0);
    ASSERT_TRUE(world.run_until([&] { return wait.times != 0; }));
    EXPECT_EQ(fake.writes, 2u);
    EXPECT_EQ(fake.commits, 0u);
    EXPECT_FALSE(file->unwritten());
    EXPECT_FALSE(file->unwritten_in(0, UINT64_MAX));
    EXPECT_TRUE(file->dirty());
    Wait again;
    EXPECT_TRUE(file->flush(again));
    sync(*file);
    EXPECT_TRUE(file->sync(again));
    EXPECT_EQ(again.times, 0);
}

// What is written after it was asked for is not waited for, however much there is of it.
TEST_F(WriteBehindTest, WaitersWaitForWhatWasBeforeThem) {
    EXPECT_TRUE(write(0, kRun));
    Wait wait;
    ASSERT_FALSE(file->sync(wait));
    std::uint64_t at = kRun;
    ASSERT_TRUE(world.run_until([&] {
        if (!file->unwritten_in(0, UINT64_MAX) || at < 8 * kRun) {
            EXPECT_TRUE(write(at, kRun));
            at += kRun;
        }
        return wait.times != 0;
    }));
    EXPECT_TRUE(file->dirty());
    sync(*file);
}

TEST_F(WriteBehindTest, WaiterThatStopsIsNotCalled) {
    EXPECT_TRUE(write(0, kRun));
    Wait one, two;
    ASSERT_FALSE(file->sync(one));
    ASSERT_FALSE(file->sync(two));
    file->stop_waiting(one);
    ASSERT_TRUE(world.run_until([&] { return two.times != 0; }));
    EXPECT_EQ(one.times, 0);
}

TEST_F(WriteBehindTest, WriteThatIsTakenBackIsNotDone) {
    EXPECT_TRUE(write(0, kRun));
    EXPECT_FALSE(write(0, 100, 1));
    EXPECT_FALSE(write(kRun, 100));
    EXPECT_TRUE(file->cancel(*writers[1]));
    ASSERT_TRUE(world.run_until([&] { return writers[2]->times != 0; }));
    sync(*file);
    EXPECT_EQ(writers[1]->times, 0);
    writers[1]->payload.reset();  // is its caller's again
    expect_bytes(0, kRun);
    expect_bytes(kRun, 100);
}

// cases B104: each failure is told once, and writes that come after it hear of their own.
TEST_F(WriteBehindTest, B104ErrorIsKeptAndWritesGoThroughUntilOneSucceeds) {
    EXPECT_TRUE(write(0, kRun));
    fake.write_status = NFS3ERR_NOSPC;
    EXPECT_TRUE(write(kRun, kRun));
    sync(*file);
    EXPECT_EQ(file->error_seq(), 1u);
    EXPECT_EQ(file->error().status, NFS3ERR_NOSPC);
    EXPECT_EQ(xprt.payloads_in_use(), 0u);

    EXPECT_FALSE(write(2 * kRun, 100));
    ASSERT_TRUE(world.run_until([&] { return writers.back()->times != 0; }));
    EXPECT_EQ(writers.back()->outcome.status, NFS3ERR_NOSPC);
    EXPECT_EQ(file->error_seq(), 1u);  // it was told already

    fake.write_status = NFS3_OK;
    EXPECT_FALSE(write(0, kRun));
    ASSERT_TRUE(world.run_until([&] { return writers.back()->times != 0; }));
    EXPECT_TRUE(writers.back()->outcome.ok());
    EXPECT_EQ(budget->counters().through, 2u);
    const std::uint32_t commits = fake.commits;
    EXPECT_TRUE(write(kRun, 100));  // behind again
    EXPECT_EQ(fake.commits, commits);
    sync(*file);
    EXPECT_EQ(fake.commits, commits + 1);
    expect_bytes(0, kRun + 100);
}

// Many are under way, and others wait: all of them end.
TEST_F(WriteBehindTest, ErrorWithManyUnderWayAndOthersWaiting) {
    fake.write_status = NFS3ERR_DQUOT;
    for (std::uint64_t i = 0; i < 10; ++i)
        EXPECT_TRUE(write(i * kRun, kRun));
    for (std::uint64_t i = 0; i < 5; ++i)
        EXPECT_FALSE(write(i * kRun, 1000, 1));
    Wait wait;
    ASSERT_FALSE(file->flush(wait));
    ASSERT_TRUE(world.run_until([&] { return wait.times != 0; }));
    for (std::size_t i = 10; i < 15; ++i) {
        EXPECT_EQ(writers[i]->times, 1);
        EXPECT_EQ(writers[i]->outcome.status, NFS3ERR_DQUOT);
    }
    EXPECT_EQ(file->error_seq(), 1u);
}

// cases B91: the server finds out when it is to make it durable.
TEST_F(WriteBehindTest, B91CommitThatFailsIsAnErrorOfTheFile) {
    fake.commit_status = NFS3ERR_IO;
    EXPECT_TRUE(write(0, kRun));
    sync(*file);
    EXPECT_EQ(file->error_seq(), 1u);
    EXPECT_EQ(file->error().status, NFS3ERR_IO);
}

TEST_F(WriteBehindTest, ConnectionThatEndsFailsAllThatWaits) {
    EXPECT_TRUE(write(0, kRun));
    EXPECT_FALSE(write(0, 100, 1));
    Wait wait;
    ASSERT_FALSE(file->sync(wait));
    xprt.close();
    ASSERT_TRUE(world.run_until([&] { return wait.times != 0 && writers.back()->times != 0; }));
    EXPECT_FALSE(writers.back()->outcome.rpc);
    EXPECT_FALSE(file->error().rpc);
    world.run_idle();
    EXPECT_TRUE(file->idle());
}

TEST_F(WriteBehindTest, AlwaysThroughIsAnsweredWhenItIsAtTheServer) {
    file->always_through();
    EXPECT_FALSE(write(0, 1000));
    EXPECT_FALSE(write(1000, 1000));
    ASSERT_TRUE(world.run_until([&] { return writers.back()->times != 0; }));
    EXPECT_EQ(fake.writes, 2u);
    EXPECT_EQ(fake.commits, 0u);
    EXPECT_FALSE(file->dirty());
    expect_bytes(0, 2000);
}

// A server that never promises more than UNSTABLE.
TEST_F(WriteBehindTest, ThroughWithAServerThatPromisesLess) {
    file->always_through();
    fake.never_stable = true;
    EXPECT_FALSE(write(0, 1000));
    ASSERT_TRUE(world.run_until([&] { return writers.back()->times != 0; }));
    EXPECT_TRUE(writers.back()->outcome.ok());
    EXPECT_EQ(fake.commits, 1u);
}

// cases B90: the server is started again between, and everything is written anew.
TEST_F(WriteBehindTest, B90RestartBetweenWriteAndSyncLosesNothing) {
    for (std::uint64_t i = 0; i < 6; ++i)
        EXPECT_TRUE(write(i * kRun, kRun));
    ASSERT_TRUE(world.run_until([&] { return !file->unwritten(); }));
    fake.restart();
    sync(*file);
    EXPECT_EQ(file->error_seq(), 0u);
    expect_bytes(0, 6 * kRun);
    EXPECT_EQ(fake.safe, fake.file);
}

TEST_F(WriteBehindTest, BudgetBoundsAllFilesAndTheOldestCommits) {
    remake({.bytes = 6 * kRun, .pieces = 16, .depth = 4, .commit_after = 8});
    std::vector<std::unique_ptr<WriteBehind>> files;
    for (int i = 0; i < 4; ++i)
        files.push_back(std::make_unique<WriteBehind>(*budget, handle, &observed));
    // Each writes a part of its own of the fake server's only file.
    for (std::uint64_t round = 0; round < 10; ++round) {
        for (std::uint64_t i = 0; i < 4; ++i) {
            const bool taken = write(*files[i], (i * 10 + round) * kRun, kRun);
            if (!taken) {
                ASSERT_TRUE(world.run_until([&] { return writers.back()->times != 0; }));
            }
            EXPECT_LE(budget->held(), 6u * kRun);
        }
    }
    EXPECT_EQ(budget->counters().held_max, 6u * kRun);
    for (auto& one : files)
        sync(*one);
    EXPECT_EQ(budget->held(), 0u);
    expect_bytes(0, 40 * kRun);
    files.clear();
}

// Less than one piece: files take turns.
TEST_F(WriteBehindTest, BudgetThatIsTooSmallStillGoesOn) {
    remake({.bytes = 1, .pieces = 16, .depth = 4, .commit_after = 8});
    WriteBehind other(*budget, handle, &observed);
    for (std::uint64_t i = 0; i < 6; ++i)
        write(i % 2 == 0 ? *file : other, i * kRun, kRun);
    ASSERT_TRUE(world.run_until([&] {
        return std::all_of(writers.begin() + 1, writers.end(),
                           [](const auto& w) { return w->times == 1; });
    }));
    sync(*file);
    sync(other);
    expect_bytes(0, 6 * kRun);
}

// A small write that goes alone does not keep the memory of a large one.
TEST_F(WriteBehindTest, ManyFilesThatWereWrittenOnceAreHeldByTheirBytes) {
    std::vector<std::unique_ptr<WriteBehind>> files;
    for (std::uint64_t i = 0; i < 20; ++i) {
        files.push_back(std::make_unique<WriteBehind>(*budget, handle, &observed));
        EXPECT_TRUE(write(*files.back(), i * 100, 100));
    }
    EXPECT_EQ(budget->held(), 20u * 100);
    for (auto& one : files)
        sync(*one);
    expect_bytes(0, 2000);
    files.clear();
    world.run_idle();
}

// Random writes, waits, restarts and delays, against what the bytes must be.
class WriteBehindSoak : public WriteBehindTest, public ::testing::WithParamInterface<int> {};

TEST_P(WriteBehindSoak, LastWriteWins) {
    constexpr std::uint64_t kSize = 300000;
    Prng prng(static_cast<std::uint64_t>(GetParam()));
    std::vector<char> model(kSize, 0);
    fake.file.assign(kSize, 0);
    fake.safe = fake.file;
    xprt.call_fate = [&](std::uint32_t) {
        return testing::Fate{.lost = false, .delay_ns = prng.below(3 * kNsPerMs)};
    };
    remake({.bytes = 5 * kRun, .pieces = 8, .depth = 3, .commit_after = 3});
    std::uint64_t next = 0;
    for (int i = 0; i < 400; ++i) {
        const std::uint64_t size = prng.below(3) == 0 ? 1 + prng.below(kRun) : 1 + prng.below(3000);
        const std::uint64_t offset =
            prng.below(2) == 0 && next + size < kSize ? next : prng.below(kSize - size);
        next = offset + size;
        if (!write(offset, static_cast<std::uint32_t>(size), i)) {
            ASSERT_TRUE(world.run_until([&] { return writers.back()->times == 1; }));
        }
        for (std::uint64_t at = offset; at < next; ++at)
            model[at] = static_cast<char>(testing::file_byte(at) + i);
        if (prng.below(40) == 0) fake.restart();
        if (prng.below(30) == 0) sync(*file);
    }
    sync(*file);
    EXPECT_EQ(file->error_seq(), 0u);
    fake.restart();  // nothing of it may be lost any more
    EXPECT_TRUE(fake.file == model);
    EXPECT_LE(budget->counters().held_max, 5u * kRun);
}
INSTANTIATE_TEST_SUITE_P(Seeds, WriteBehindSoak, ::testing::Range(1, 13));

}  // namespace
}  // namespace nfsrdma::nfs::client
