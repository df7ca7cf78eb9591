#include "nfs/client/read_ahead.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/prng.hpp"
#include "tests/nfs/client/fake_server.hpp"
#include "tests/nfs/client/world.hpp"

namespace nfsrdma::nfs::client {
namespace {

constexpr std::uint32_t kPiece = 128 << 10;  // what a kernel asks for
constexpr std::uint64_t kMiB = 1 << 20;

testing::DirectOptions options() {
    testing::DirectOptions options;
    options.client_payload_runs = 24;
    options.server_payload_runs = 24;
    options.slots = options.requests = 16;
    options.latency_ns = kNsPerMs;
    return options;
}

struct Observed final : DataObserver {
    void lock() noexcept override { mutex.lock(); }
    void unlock() noexcept override { mutex.unlock(); }
    std::uint64_t change_sent() noexcept override { return 0; }
    void change_answered(std::uint64_t, const wcc_data*) noexcept override {}
    std::uint64_t read_sent() noexcept override { return ++sent; }
    void read_answered(std::uint64_t number, const post_op_attr* told) noexcept override {
        EXPECT_LE(number, sent);
        ++answered;
        if (told != nullptr) ++with_data;
    }
    std::mutex mutex;
    std::uint64_t sent = 0, answered = 0, with_data = 0;
};

class ReadAheadTest : public ::testing::Test {
  protected:
    struct Reader : ReadAhead::Read {
        int times = 0;
        std::string got;
        std::size_t spans = 0;
    };
    ReadAheadTest() {
        EXPECT_TRUE(handle.assign("file", 4));
        client.limit_sizes(1 << 20, 1 << 20);
        FSINFO3resok info{};
        info.rtmax = info.wtmax = 1 << 20;
        EXPECT_TRUE(client.set_sizes(info));
        remake({});
    }
    ~ReadAheadTest() override {
        xprt.reply_fate = nullptr;
        file.reset();
        world.run_idle();
        pool.reset();
        EXPECT_EQ(xprt.payloads_in_use(), 0u);
        EXPECT_EQ(xprt.slots_in_use(), 0u);
    }
    void remake(const ReadPool::Limits& limits) {
        file.reset();
        pool = std::make_unique<ReadPool>(client, limits);
        file = std::make_unique<ReadAhead>(*pool, handle, &observed);
    }
    void make_file(std::uint64_t size, int generation = 0) {
        fake.file.resize(size);
        for (std::uint64_t i = 0; i < size; ++i)
            fake.file[i] = byte(i, generation);
    }
    static char byte(std::uint64_t i, int generation) {
        return static_cast<char>(testing::file_byte(i) + generation);
    }
    std::unique_ptr<Reader> make(std::uint64_t offset, std::uint32_t size) {
        auto made = std::make_unique<Reader>();
        made->offset = offset;
        made->size = size;
        made->file_size = fake.file.size();
        made->done = [](ReadAhead::Read& r) noexcept {
            auto& self = static_cast<Reader&>(r);
            ++self.times;
            self.spans = r.data.size();
            for (const auto& span : r.data)
                self.got.append(as_chars(span.data()), span.size());
            EXPECT_EQ(self.got.size(), r.bytes);
        };
        return made;
    }
    void start(ReadAhead& of, Reader& reader) {
        const std::lock_guard guard(observed);
        of.read(reader);
    }
    void expect_bytes(const Reader& reader, int generation = 0) {
        const std::uint64_t size = fake.file.size();
        const std::uint64_t expected =
            reader.offset >= size ? 0 : std::min<std::uint64_t>(reader.size, size - reader.offset);
        ASSERT_TRUE(reader.outcome.ok()) << to_string(reader.outcome);
        ASSERT_EQ(reader.got.size(), expected);
        for (std::uint64_t i = 0; i < expected; ++i)
            ASSERT_EQ(reader.got[i], byte(reader.offset + i, generation))
                << reader.offset << "+" << i;
    }
    // Whether it waited.
    bool read(ReadAhead& of, std::uint64_t offset, std::uint32_t size, int generation = 0) {
        auto reader = make(offset, size);
        start(of, *reader);
        const bool waited = reader->times == 0;
        EXPECT_TRUE(world.run_until([&] { return reader->times != 0; }));
        EXPECT_EQ(reader->times, 1);
        expect_bytes(*reader, generation);
        return waited;
    }
    bool read(std::uint64_t offset, std::uint32_t size) { return read(*file, offset, size); }
    testing::DirectWorld world;
    testing::FakeServer fake;
    testing::DirectXprt xprt{*world.loop, fake.dispatcher, options()};
    Client client{xprt, nullptr};
    FileHandle handle;
    Observed observed;
    std::unique_ptr<ReadPool> pool;
    std::unique_ptr<ReadAhead> file;
};

TEST_F(ReadAheadTest, WholeFileIsReadOnceAndInLargePieces) {
    make_file(20 * kMiB + 777);
    for (std::uint64_t at = 0; at < fake.file.size(); at += kPiece)
        read(at, kPiece);
    // 160 pieces: a few READs while the window grows, and 20 afterwards.
    EXPECT_LE(fake.reads, 32u);
    EXPECT_EQ(file->window(), 8 * kMiB);
    EXPECT_EQ(pool->ahead(), 0u);
    EXPECT_EQ(pool->counters().unused, 0u);
    world.run_idle();
    EXPECT_TRUE(pool->idle());
    EXPECT_EQ(xprt.payloads_in_use(), 0u);
    EXPECT_EQ(observed.answered, observed.sent);
}

TEST_F(ReadAheadTest, WhatIsAheadIsAnsweredAtOnce) {
    make_file(8 * kMiB);
    EXPECT_TRUE(read(0, kPiece));
    world.run_idle();
    EXPECT_FALSE(read(kPiece, kPiece));
    EXPECT_GE(pool->counters().hits, 1u);
}

TEST_F(ReadAheadTest, RandomReadsGetWhatTheyAskForAndNoMore) {
    make_file(8 * kMiB);
    Prng prng(3);
    std::uint64_t bytes = 0;
    for (int i = 0; i < 50; ++i) {
        const std::uint64_t at = kPiece + prng.below(60) * kPiece + 4096;
        read(at, 4096);
        bytes += 4096;
    }
    EXPECT_EQ(fake.reads, 50u);
    EXPECT_EQ(fake.read_bytes, bytes);
    EXPECT_EQ(file->window(), 0u);
    EXPECT_EQ(pool->counters().ahead_max, 0u);
}

TEST_F(ReadAheadTest, SmallFileCostsOneRead) {
    make_file(5000);
    read(0, 8192);
    EXPECT_EQ(fake.reads, 1u);
    make_file(kPiece);
    remake({});
    read(0, kPiece);
    EXPECT_EQ(fake.reads, 2u);
}

// cases B101: behind the end there is nothing, also when it is asked for twice.
TEST_F(ReadAheadTest, B101ReadsAtAndBehindTheEnd) {
    make_file(100);
    read(0, 120);
    read(100, 120);
    read(100, 120);
    read(5000, 10);
    for (const std::uint32_t size :
         {65535u, 65536u, 65537u, 3 * 65536u, (1u << 20) - 1, 1u << 20}) {
        make_file(3 * kMiB + 5);
        remake({});
        for (std::uint64_t at = 0; at < fake.file.size() + size; at += size)
            read(at, size);
        world.run_idle();
    }
}

// A kernel sends the pieces of its own read-ahead all at once, and they may change places.
TEST_F(ReadAheadTest, PiecesInAnyOrderShareTheirReads) {
    make_file(8 * kMiB);
    Prng prng(7);
    xprt.reply_fate = [&](std::uint32_t) {
        return testing::Fate{.lost = false, .delay_ns = prng.below(4 * kNsPerMs)};
    };
    for (std::uint64_t at = 0; at < fake.file.size(); at += 4 * kPiece) {
        std::vector<std::unique_ptr<Reader>> readers;
        for (const std::uint64_t i : {1, 0, 3, 2})
            readers.push_back(make(at + i * kPiece, kPiece));
        if (at == 0) std::swap(readers[0], readers[1]);
        for (auto& reader : readers)
            start(*file, *reader);
        for (auto& reader : readers) {
            ASSERT_TRUE(world.run_until([&] { return reader->times != 0; }));
            expect_bytes(*reader);
        }
    }
    EXPECT_LE(fake.reads, 24u);
    EXPECT_EQ(fake.read_bytes, fake.file.size());
}

TEST_F(ReadAheadTest, TwoWhoWantTheSameShareItsRead) {
    make_file(kMiB);
    auto one = make(300000, 4096), two = make(300000, 4096), three = make(302000, 1000);
    for (Reader* reader : {one.get(), two.get(), three.get()})
        start(*file, *reader);
    ASSERT_TRUE(world.run_until([&] { return one->times + two->times + three->times == 3; }));
    EXPECT_EQ(fake.reads, 1u);
    expect_bytes(*one);
    expect_bytes(*two);
    expect_bytes(*three);
}

// cases B07: fewer bytes than were asked for, and no end.
TEST_F(ReadAheadTest, B07ShortReadsGoOn) {
    make_file(2 * kMiB + 3);
    fake.read_most = 50000;
    for (std::uint64_t at = 0; at < fake.file.size(); at += kPiece)
        read(at, kPiece);
    EXPECT_GE(fake.reads, 43u);
    fake.tells_eof = false;
    auto reader = make(fake.file.size(), 100);
    start(*file, *reader);
    ASSERT_TRUE(world.run_until([&] { return reader->times != 0; }));
    EXPECT_FALSE(reader->outcome.rpc);
}

TEST_F(ReadAheadTest, SmallReadSizesAreSplit) {
    client.limit_sizes(16384, 0);
    make_file(3 * kMiB + 100);
    auto reader = make(0, 1 << 20);
    start(*file, *reader);
    ASSERT_TRUE(world.run_until([&] { return reader->times != 0; }));
    expect_bytes(*reader);
    EXPECT_EQ(reader->spans, 16u);
    for (std::uint64_t at = kMiB; at < fake.file.size(); at += kPiece)
        read(at, kPiece);
}

TEST_F(ReadAheadTest, WriteOfOursMakesWhatWasReadInvalid) {
    make_file(4 * kMiB);
    read(0, kPiece);
    read(kPiece, kPiece);
    world.run_idle();
    const std::uint32_t reads = fake.reads;
    make_file(4 * kMiB, 1);
    file->invalidate(2 * kPiece + 10, 1);
    EXPECT_TRUE(read(*file, 2 * kPiece, kPiece, 1));
    EXPECT_GT(fake.reads, reads);
}

// The READ that is under way may bring what was before: it is read again.
TEST_F(ReadAheadTest, InvalidWhileItIsUnderWayIsReadAgain) {
    make_file(4 * kMiB);
    auto reader = make(kMiB, 4096);
    start(*file, *reader);
    ASSERT_TRUE(world.run_until([&] { return fake.reads == 1; }));
    make_file(4 * kMiB, 1);
    file->invalidate(0, UINT64_MAX);
    ASSERT_TRUE(world.run_until([&] { return reader->times != 0; }));
    EXPECT_EQ(fake.reads, 2u);
    expect_bytes(*reader, 1);
}

TEST_F(ReadAheadTest, FileThatHasGrownIsReadToItsNewEnd) {
    make_file(1000);
    read(0, 4096);
    make_file(3000);
    read(0, 4096);
    make_file(2 * kMiB);
    read(0, kPiece);
    read(kPiece, kPiece);
}

TEST_F(ReadAheadTest, WhatIsOldIsReadAgain) {
    make_file(4 * kMiB);
    read(0, kPiece);
    world.run_idle();
    make_file(4 * kMiB, 1);
    bool waited = false;
    std::uint64_t until = world.clock.now_ns() + 4 * kNsPerSec;
    Timer timer([](Timer&) noexcept {});
    world.loop->arm(timer, until);
    world.run_idle();
    waited = read(*file, kPiece, kPiece, 1);
    EXPECT_TRUE(waited);
}

TEST_F(ReadAheadTest, ErrorIsToldToThoseWhoWaitAndForgotten) {
    make_file(kMiB);
    fake.read_status = NFS3ERR_IO;
    auto one = make(4096, 4096), two = make(4096, 100), other = make(600000, 100);
    for (Reader* reader : {one.get(), two.get(), other.get()})
        start(*file, *reader);
    ASSERT_TRUE(world.run_until([&] { return one->times + two->times + other->times == 3; }));
    EXPECT_EQ(one->outcome.status, NFS3ERR_IO);
    EXPECT_EQ(two->outcome.status, NFS3ERR_IO);
    fake.read_status = NFS3_OK;
    read(4096, 4096);
}

// Nobody has asked for it: an error ahead is none.
TEST_F(ReadAheadTest, ErrorAheadIsToldToNobody) {
    make_file(4 * kMiB);
    fake.read_status = NFS3ERR_IO;
    fake.read_fails_from = kPiece;
    read(0, kPiece);
    world.run_idle();
    EXPECT_EQ(fake.reads, 3u);
    fake.read_status = NFS3_OK;
    EXPECT_TRUE(read(kPiece, kPiece));
}

TEST_F(ReadAheadTest, EachReadGoesAsWhoeverAskedForIt) {
    make_file(4 * kMiB);
    sunrpc::AuthSys sys;
    sys.uid = 3000;
    auto reader = make(0, kPiece);
    reader->sys = &sys;
    start(*file, *reader);
    sys.uid = 7;  // copied
    ASSERT_TRUE(world.run_until([&] { return reader->times != 0; }));
    world.run_idle();
    ASSERT_EQ(fake.callers.size(), 3u);
    for (const auto& [proc, uid] : fake.callers)
        EXPECT_EQ(uid, 3000);
}

TEST_F(ReadAheadTest, ReadThatIsTakenBackIsNotDone) {
    make_file(kMiB);
    auto one = make(4096, 4096), two = make(4096, 8192);
    start(*file, *one);
    start(*file, *two);
    file->cancel(*one);
    ASSERT_TRUE(world.run_until([&] { return two->times != 0; }));
    EXPECT_EQ(one->times, 0);
    auto three = make(500000, 100);
    start(*file, *three);
    file->cancel(*three);
    world.run_idle();
    EXPECT_TRUE(pool->idle());
}

TEST_F(ReadAheadTest, FileIsClosedWhileReadsAreUnderWay) {
    make_file(8 * kMiB);
    for (std::uint64_t at = 0; at < kMiB; at += kPiece)
        read(at, kPiece);
    EXPECT_GT(pool->ahead(), 0u);
    file.reset();
    EXPECT_EQ(pool->ahead(), 0u);
    world.run_idle();
    EXPECT_TRUE(pool->idle());
    EXPECT_EQ(xprt.payloads_in_use(), 0u);
}

// All files of a loop share what may be read ahead; who was not read lately lets his go.
TEST_F(ReadAheadTest, BudgetBoundsAllFilesTogether) {
    make_file(8 * kMiB);
    remake({.bytes = 3 * kMiB});
    std::vector<std::unique_ptr<ReadAhead>> files;
    for (int i = 0; i < 5; ++i)
        files.push_back(std::make_unique<ReadAhead>(*pool, handle, &observed));
    for (std::uint64_t at = 0; at < fake.file.size(); at += kPiece) {
        for (auto& one : files) {
            read(*one, at, kPiece);
            EXPECT_LE(pool->ahead(), 3 * kMiB);
        }
    }
    EXPECT_LE(pool->counters().ahead_max, 3 * kMiB);
    files.clear();
}

// Payload memory is others' as well: reads wait for it, and what was read ahead is let go for them.
TEST_F(ReadAheadTest, DryMemoryIsWaitedForAndWhatIsAheadLetGo) {
    make_file(8 * kMiB);
    for (std::uint64_t at = 0; at < 2 * kMiB; at += kPiece)
        read(at, kPiece);
    world.run_idle();
    std::vector<sunrpc::Payload> taken;
    for (;;) {
        Result<sunrpc::Payload> payload = client.get_payload(1 << 20);
        if (!payload) {
            const std::uint32_t before = xprt.payloads_in_use();
            world.run_idle();
            if (xprt.payloads_in_use() == before) break;
            continue;
        }
        taken.push_back(*std::move(payload));
    }
    EXPECT_EQ(taken.size(), 24u);  // all that there is
    auto reader = make(7 * kMiB, 4096);
    start(*file, *reader);
    world.run_idle();
    EXPECT_EQ(reader->times, 0);
    taken.clear();
    ASSERT_TRUE(world.run_until([&] { return reader->times != 0; }));
    expect_bytes(*reader);
    EXPECT_EQ(pool->counters().waited, 1u);
}

TEST_F(ReadAheadTest, FewBlocksAreSharedByMany) {
    make_file(4 * kMiB);
    remake({.blocks = 3});
    std::vector<std::unique_ptr<Reader>> readers;
    for (std::uint64_t i = 0; i < 20; ++i) {
        readers.push_back(make((i * 7 % 20) * 200000, 5000));
        start(*file, *readers.back());
    }
    for (auto& reader : readers) {
        ASSERT_TRUE(world.run_until([&] { return reader->times != 0; }));
        expect_bytes(*reader);
    }
}

// Random reads, rows of reads and changes of the file, against what it holds; each read sees the
// file as it was at some time since it was asked for.
class ReadAheadSoak : public ReadAheadTest, public ::testing::WithParamInterface<int> {};

TEST_P(ReadAheadSoak, NothingOldIsRead) {
    Prng prng(static_cast<std::uint64_t>(GetParam()));
    xprt.reply_fate = [&](std::uint32_t) {
        return testing::Fate{.lost = false, .delay_ns = prng.below(3 * kNsPerMs)};
    };
    remake({.bytes = 2 * kMiB, .blocks = 12});
    int generation = 0;
    make_file(3 * kMiB, generation);
    std::uint64_t next = 0;
    for (int i = 0; i < 150; ++i) {
        if (prng.below(8) == 0) {
            ++generation;
            make_file(kMiB + prng.below(3 * kMiB), generation);
            file->invalidate(0, UINT64_MAX);
        }
        if (prng.below(3) == 0) next = prng.below(4 * kMiB);
        std::vector<std::unique_ptr<Reader>> readers;
        for (std::uint64_t k = 1 + prng.below(4); k != 0; --k) {
            const auto size = static_cast<std::uint32_t>(1 + prng.below(200000));
            readers.push_back(make(next, size));
            next += size;
            start(*file, *readers.back());
        }
        for (auto& reader : readers) {
            ASSERT_TRUE(world.run_until([&] { return reader->times != 0; }));
            expect_bytes(*reader, generation);
        }
    }
}
INSTANTIATE_TEST_SUITE_P(Seeds, ReadAheadSoak, ::testing::Range(1, 9));

}  // namespace
}  // namespace nfsrdma::nfs::client
