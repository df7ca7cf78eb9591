#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/nfs/client/write_behind_world.hpp"

// Who is told what: writers that give up, and readers of the same file.
namespace nfsrdma::nfs::client {
namespace {

// It goes on, and is waited for, without its writer; its memory is not the writer's.
TEST_F(WriteBehindTest, WriteThatGoesThroughIsTakenBackToo) {
    file->always_through();
    EXPECT_FALSE(write(0, 100, 1));
    EXPECT_FALSE(write(100, 100, 2));
    ASSERT_TRUE(world.run_until([&] { return budget->counters().through == 1; }));
    {
        const std::lock_guard guard(observed);
        EXPECT_FALSE(file->cancel(*writers[0]));
    }
    EXPECT_EQ(fake.writes, 0u);
    EXPECT_TRUE(file->unwritten());
    sync(*file);
    EXPECT_EQ(writers[0]->times, 0);
    EXPECT_EQ(writers[1]->times, 1);
    expect_bytes(0, 100, 1);
    expect_bytes(100, 100, 2);
    EXPECT_EQ(file->error_seq(), 0u);
}

TEST_F(WriteBehindTest, FailureOfWhatNobodyWaitsForIsKept) {
    file->always_through();
    fake.write_status = NFS3ERR_NOSPC;
    EXPECT_FALSE(write(0, 100));
    ASSERT_TRUE(world.run_until([&] { return budget->counters().through == 1; }));
    {
        const std::lock_guard guard(observed);
        EXPECT_FALSE(file->cancel(*writers[0]));
    }
    sync(*file);
    EXPECT_EQ(file->error_seq(), 1u);
    EXPECT_EQ(file->error().status, NFS3ERR_NOSPC);
    EXPECT_FALSE(file->unwritten());
}

// Who asks between that and the next turn of the loop knows that there is nothing to wait for.
TEST_F(WriteBehindTest, TakingBackTheLastOneIsToldAtOnce) {
    file->always_through();
    EXPECT_FALSE(write(0, 100));
    const std::uint64_t before = observed.times_progressed;
    {
        const std::lock_guard guard(observed);
        EXPECT_TRUE(file->cancel(*writers[0]));
    }
    EXPECT_FALSE(file->unwritten());
    EXPECT_EQ(observed.times_progressed, before + 1);
    writers[0]->payload.reset();
    world.run_idle();
    EXPECT_EQ(fake.writes, 0u);
}

// What is not durable yet, answered or not.
TEST_F(WriteBehindTest, DirtyUntilItIsDurable) {
    EXPECT_TRUE(write(kRun, kRun));
    EXPECT_TRUE(file->dirty_in(kRun + 5, 1));
    ASSERT_TRUE(world.run_until([&] { return !file->unwritten(); }));
    EXPECT_FALSE(file->unwritten_in(kRun + 5, 1));
    EXPECT_TRUE(file->dirty_in(kRun + 5, 1));
    EXPECT_FALSE(file->dirty_in(0, kRun));
    sync(*file);
    EXPECT_FALSE(file->dirty_in(kRun + 5, 1));
}

TEST_F(WriteBehindTest, EachAnswerTellsOfWhatItIs) {
    fake.write_most = 40000;
    EXPECT_TRUE(write(kRun, kRun));
    sync(*file);
    using Range = std::pair<std::uint64_t, std::uint64_t>;
    EXPECT_EQ(observed.ranges, (std::vector<Range>{{kRun, kRun}, {kRun + 40000, kRun - 40000}}));
}

// A block that is read ahead after a write was taken, and before its WRITE is at the server, has
// what was there before.
TEST_F(WriteBehindTest, WhatIsReadAheadBeforeTheWriteIsDoneIsNotUsed) {
    fake.file.assign(4 * kRun, 0);
    ReadPool pool(client, {});
    ReadAhead ahead(pool, handle, &observed);
    observed.ahead = &ahead;
    struct Reader : ReadAhead::Read {
        int times = 0;
        std::string got;
    };
    const auto read = [&](std::uint64_t offset) {
        Reader reader;
        reader.offset = offset;
        reader.size = kRun;
        reader.file_size = fake.file.size();
        reader.done = [](ReadAhead::Read& one) noexcept {
            Reader& self = static_cast<Reader&>(one);
            ++self.times;
            for (const auto& span : one.data)
                self.got.append(as_chars(span.data()), span.size());
        };
        {
            const std::lock_guard guard(observed);
            ahead.read(reader);
        }
        EXPECT_TRUE(world.run_until([&] { return reader.times != 0; }));
        return reader.got;
    };
    xprt.call_fate = [&](std::uint32_t) {  // the WRITE is the first
        const bool first = fake.reads == 0 && pool.counters().calls == 0;
        return testing::Fate{.lost = false, .delay_ns = first ? 10 * kNsPerMs : 0};
    };
    EXPECT_TRUE(write(kRun, kRun, 1));
    ahead.invalidate(kRun, kRun);  // as whoever took it
    EXPECT_EQ(read(0), std::string(kRun, '\0'));
    ASSERT_TRUE(world.run_until([&] { return fake.reads > 1; }));
    EXPECT_EQ(fake.writes, 0u);
    sync(*file);
    const std::string got = read(kRun);
    ASSERT_EQ(got.size(), kRun);
    for (std::uint64_t i = 0; i < kRun; ++i)
        ASSERT_EQ(got[i], static_cast<char>(testing::file_byte(kRun + i) + 1)) << i;
    world.run_idle();
    observed.ahead = nullptr;
}

}  // namespace
}  // namespace nfsrdma::nfs::client
