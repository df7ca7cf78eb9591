#include "nfs/client/write_file.hpp"

#include <vector>

#include "tests/nfs/client/fake_server.hpp"
#include "tests/nfs/client/world.hpp"

namespace nfsrdma::nfs::client {
namespace {

class FileWriterTest : public ::testing::Test {
  protected:
    FileWriterTest() {
        EXPECT_TRUE(handle.assign("file", 4));
        FSINFO3resok info{};
        info.rtmax = info.wtmax = 65536;
        EXPECT_TRUE(client.set_sizes(info));
        writer.user = this;
        writer.on_room = [](FileWriter& w, FileWriter::Slot& slot) noexcept {
            static_cast<FileWriterTest*>(w.user)->give(slot);
        };
        writer.done = [](FileWriter& w) noexcept {
            ++static_cast<FileWriterTest*>(w.user)->finished;
        };
    }
    ~FileWriterTest() override {
        EXPECT_EQ(xprt.payloads_in_use(), 0u);
        EXPECT_EQ(xprt.slots_in_use(), 0u);
    }
    void give(FileWriter::Slot& slot) {
        if (next >= source.size()) {
            writer.end_of_input(slot);
            return;
        }
        const std::size_t size =
            std::min<std::size_t>({slot.memory().size(), source.size() - next, piece});
        std::memcpy(slot.memory().data(), source.data() + next, size);
        const std::uint64_t offset = next;
        next += size;
        writer.filled(slot, offset, static_cast<std::uint32_t>(size));
    }
    Outcome write(std::size_t size, bool stable = false) {
        source.resize(size);
        for (std::size_t i = 0; i < size; ++i)
            source[i] = testing::file_byte(i);
        next = 0;
        finished = 0;
        fake.file.clear();
        fake.safe.clear();
        fake.writes = fake.commits = 0;
        FileWriter::Options options;
        options.file = handle;
        options.stable = stable;
        writer.start(options);
        EXPECT_EQ(finished, 0);
        EXPECT_TRUE(world.run_until([this] { return finished != 0; }));
        EXPECT_EQ(finished, 1);
        return writer.outcome;
    }
    testing::DirectWorld world;
    testing::FakeServer fake;
    testing::DirectXprt xprt{*world.loop, fake.dispatcher, testing::DirectOptions{}};
    Client client{xprt, nullptr};
    FileWriter writer{client, 6};
    FileHandle handle;
    std::vector<char> source;
    std::size_t next = 0, piece = SIZE_MAX;
    int finished = 0;
};

TEST_F(FileWriterTest, EverySize) {
    for (const std::size_t size : {0u, 1u, 65535u, 65536u, 65537u, 1000000u}) {
        ASSERT_TRUE(write(size).ok()) << size << " " << to_string(writer.outcome);
        EXPECT_EQ(fake.file, source);
        EXPECT_EQ(writer.bytes(), size);
        // By the half of the memory, and once at the end.
        EXPECT_EQ(fake.commits, size == 0 ? 0u : size < 400000 ? 1u : 3u);
    }
    EXPECT_EQ(xprt.counters().in_flight_max, 6u + 1);  // WRITEs, and a COMMIT
}

TEST_F(FileWriterTest, OneStableWriteNeedsNoCommit) {
    ASSERT_TRUE(write(5000, true).ok());
    EXPECT_EQ(fake.writes, 1u);
    EXPECT_EQ(fake.commits, 0u);
    EXPECT_EQ(fake.file, source);
}

TEST_F(FileWriterTest, ServerThatWritesStablyNeedsNoCommit) {
    fake.always_stable = true;
    ASSERT_TRUE(write(500000).ok());
    EXPECT_EQ(fake.commits, 0u);
}

TEST_F(FileWriterTest, ShortWritesAreContinued) {
    for (const std::uint32_t most : {1000u, 4096u, 65535u}) {
        fake.write_most = most;
        ASSERT_TRUE(write(300000).ok());
        EXPECT_EQ(fake.file, source);
        EXPECT_EQ(writer.bytes(), 300000u);
    }
}

TEST_F(FileWriterTest, WriteOfNothingIsAnError) {
    fake.write_most = 0;
    const Outcome outcome = write(1000);
    ASSERT_FALSE(outcome.rpc);
    EXPECT_EQ(outcome.rpc.error().code, Errc::bad_message);
    EXPECT_EQ(fake.writes, 1u);
}

// RFC 1813 s4.8: another verifier says that what was not committed is lost. The producer gives each
// byte once.
TEST_F(FileWriterTest, RestartOfTheServerBetweenWritesIsMadeUp) {
    fake.restart_after_write = 5;
    ASSERT_TRUE(write(1000000).ok());
    EXPECT_EQ(next, source.size());
    EXPECT_EQ(fake.file, source);
    EXPECT_EQ(writer.bytes(), source.size());
    EXPECT_GE(client.counters().rewrites, 4u);
    EXPECT_LE(client.counters().rewrites, 10u);
}

TEST_F(FileWriterTest, RestartOfTheServerBeforeTheCommitIsMadeUp) {
    fake.restarts_before_commit = 1;
    ASSERT_TRUE(write(300000).ok());
    EXPECT_EQ(fake.file, source);
    EXPECT_EQ(fake.commits, 2u);
    EXPECT_EQ(fake.writes, 2 * 5u);
    EXPECT_EQ(client.counters().rewrites, 5u);
}

TEST_F(FileWriterTest, VerifierThatKeepsChangingIsAnError) {
    fake.restarts_before_commit = 1000;
    const Outcome outcome = write(100000);
    ASSERT_FALSE(outcome.rpc);
    EXPECT_EQ(outcome.rpc.error().code, Errc::bad_message);
    EXPECT_EQ(fake.commits, UnstableWrites::kForgottenMax + 1);
}

// A file larger than the memory of the connection: COMMITs as it goes let memory go.
TEST_F(FileWriterTest, FileLargerThanAllMemoryIsCommittedOnTheWay) {
    ASSERT_TRUE(write(5000000).ok());
    EXPECT_EQ(fake.file, source);
    EXPECT_GE(fake.commits, 5u);
    EXPECT_EQ(fake.writes, 77u);
}

// Each time, with a COMMIT that succeeds in between.
TEST_F(FileWriterTest, ServerThatIsRestartedAgainAndAgainGetsTheFile) {
    fake.restart_every_writes = 19;
    ASSERT_TRUE(write(20000000).ok());
    EXPECT_EQ(fake.file, source);
    EXPECT_EQ(writer.bytes(), source.size());
    EXPECT_GT(fake.verifier, 17);
}

TEST_F(FileWriterTest, FullServerIsToldOnce) {
    fake.write_status = NFS3ERR_NOSPC;
    EXPECT_EQ(write(1000000).status, NFS3ERR_NOSPC);
    EXPECT_LE(fake.writes, 6u);
    EXPECT_EQ(fake.commits, 0u);
}

// The first piece takes long to fill: the others may not run away from it.
TEST_F(FileWriterTest, NoWriteIsFarBehindOneThatIsNotDone) {
    FileWriter::Slot* first = nullptr;
    source.assign(100 * 65536, 'w');
    struct State {
        FileWriter::Slot*& first;
        std::uint64_t pieces = 0;
        bool finished = false;
    } state{first};
    writer.user = &state;
    writer.on_room = [](FileWriter& w, FileWriter::Slot& slot) noexcept {
        State& s = *static_cast<State*>(w.user);
        if (s.pieces++ == 0) {
            s.first = &slot;
            return;
        }
        if (s.pieces > 100) {
            w.end_of_input(slot);
            return;
        }
        w.filled(slot, (s.pieces - 1) * 65536, 65536);
    };
    writer.done = [](FileWriter& w) noexcept { static_cast<State*>(w.user)->finished = true; };
    FileWriter::Options options;
    options.file = handle;
    writer.start(options);
    world.run_idle();
    EXPECT_EQ(state.pieces, std::uint64_t{FileWriter::kWindowDepths} * 6);
    writer.filled(*first, 0, 65536);
    ASSERT_TRUE(world.run_until([&] { return state.finished; }));
    EXPECT_TRUE(writer.outcome.ok());
    EXPECT_EQ(writer.bytes(), source.size());
}

TEST_F(FileWriterTest, OddPiecesArriveInPlace) {
    piece = 777;
    ASSERT_TRUE(write(50000).ok());
    EXPECT_EQ(fake.file, source);
}

}  // namespace
}  // namespace nfsrdma::nfs::client
