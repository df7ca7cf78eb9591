#include "base/file_io.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "base/unique_fd.hpp"
#include "tests/base/loop_fixture.hpp"
#include "tests/support/byte_pattern.hpp"

namespace nfsrdma {
namespace {

class FileIoTest : public LoopTest {
  protected:
    void SetUp() override {
        LoopTest::SetUp();
        std::string name = testing::TempDir() + "/loop_test.XXXXXX";
        file_.reset(::mkstemp(name.data()));
        ASSERT_TRUE(file_);
        ::unlink(name.c_str());
    }
    std::int64_t run(TestOp& op) {
        const std::uint32_t before = op.calls;
        loop_->submit(op);
        EXPECT_EQ(op.calls, before) << "done ran inside submit";
        EXPECT_TRUE(run_until([&] { return op.calls == before + 1; }));
        return op.moved;
    }
    UniqueFd file_;
};
INSTANTIATE_TEST_SUITE_P(Backends, FileIoTest,
                         testing::Values(LoopBackend::epoll, LoopBackend::io_uring,
                                         LoopBackend::simulated),
                         backend_name);

TEST_P(FileIoTest, WritesSyncsAndReadsBack) {
    for (const bool in_line : {false, true}) {
        std::vector<std::byte> out(300'001), in(out.size());
        test::fill_pattern(out, 7);
        TestOp write(FileOp::Kind::write), sync(FileOp::Kind::sync),
            data_sync(FileOp::Kind::data_sync), read(FileOp::Kind::read);
        for (TestOp* op : {&write, &sync, &data_sync, &read}) {
            op->in_line = in_line;
            op->fd = file_.get();
            op->offset = 4097;
        }
        write.buffer = out;
        read.buffer = in;
        EXPECT_EQ(run(write), static_cast<std::int64_t>(out.size()));
        EXPECT_EQ(run(sync), 0);
        EXPECT_EQ(run(data_sync), 0);
        EXPECT_EQ(run(read), static_cast<std::int64_t>(in.size()));
        EXPECT_EQ(test::pattern_mismatch(in, 7), in.size());
    }
    EXPECT_EQ(loop_->counters().file_ops, 8u);
}

TEST_P(FileIoTest, ReadPastTheEndIsShortThenEmpty) {
    ASSERT_EQ(::pwrite(file_.get(), "0123456789", 10, 0), 10);
    std::array<std::byte, 64> buffer{};
    for (const bool in_line : {false, true}) {
        TestOp read(FileOp::Kind::read);
        read.in_line = in_line;
        read.fd = file_.get();
        read.buffer = buffer;
        read.offset = 6;
        EXPECT_EQ(run(read), 4);
        read.offset = 10;
        EXPECT_EQ(run(read), 0);
        read.offset = 1 << 20;
        EXPECT_EQ(run(read), 0);
        read.buffer = {};
        read.offset = 0;
        EXPECT_EQ(run(read), 0);
    }
}

TEST_P(FileIoTest, ErrorsComeBackAsErrno) {
    std::array<std::byte, 16> buffer{};
    const UniqueFd read_only(::open("/dev/null", O_RDONLY));
    for (const bool in_line : {false, true}) {
        for (const auto kind : {FileOp::Kind::read, FileOp::Kind::write, FileOp::Kind::sync}) {
            TestOp bad(kind);
            bad.in_line = in_line;
            bad.fd = -1;
            bad.buffer = buffer;
            EXPECT_EQ(run(bad), -EBADF);
        }
        TestOp write(FileOp::Kind::write);
        write.in_line = in_line;
        write.fd = read_only.get();
        write.buffer = buffer;
        EXPECT_EQ(run(write), -EBADF);
        // Offsets that off_t cannot hold; io_uring would take -1 as "where the file stands".
        for (const std::uint64_t offset : {UINT64_MAX, std::uint64_t{INT64_MAX} - 15 + 1}) {
            write.offset = offset;
            EXPECT_EQ(run(write), -EINVAL);
        }
    }
}

TEST_P(FileIoTest, ShortWriteReportsWhatWasWritten) {
    // The file may not grow past 10000 bytes: a write over that edge is short, the next one fails.
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit limit{10'000, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    std::vector<std::byte> buffer(8000);
    TestOp write(FileOp::Kind::write);
    write.fd = file_.get();
    write.buffer = buffer;
    write.offset = 6000;
    const std::int64_t first = run(write);
    write.offset = 10'000;
    const std::int64_t second = run(write);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(first, 4000);
    EXPECT_EQ(second, -EFBIG);
}

TEST_P(FileIoTest, PartlyCachedReadIsWhole) {
    std::vector<std::byte> out(1 << 20), in(out.size());
    test::fill_pattern(out, 31);
    ASSERT_EQ(::pwrite(file_.get(), out.data(), out.size(), 0), ssize_t{1 << 20});
    for (const off_t cached : {0, 4096, 300'000}) {
        // Drops the pages (where the file system has other backing), then brings some back.
        ASSERT_EQ(::fsync(file_.get()), 0);
        ASSERT_EQ(::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
        ASSERT_EQ(::posix_fadvise(file_.get(), 0, 0, POSIX_FADV_RANDOM), 0);
        std::vector<std::byte> some(static_cast<std::size_t>(cached));
        ASSERT_EQ(::pread(file_.get(), some.data(), some.size(), 0), cached);
        std::fill(in.begin(), in.end(), std::byte{});
        TestOp read(FileOp::Kind::read);
        read.fd = file_.get();
        read.buffer = in;
        EXPECT_EQ(run(read), std::int64_t{1 << 20});
        EXPECT_EQ(test::pattern_mismatch(in, 31), in.size());
    }
}

TEST_P(FileIoTest, SameOperationIsSubmittedAgain) {
    std::uint32_t value = 0;
    TestOp write(FileOp::Kind::write);
    write.fd = file_.get();
    write.buffer = std::as_writable_bytes(std::span(&value, 1));
    for (value = 1; value <= 20; ++value) {
        write.offset = value * 4;
        EXPECT_EQ(run(write), 4);
    }
    std::array<std::uint32_t, 22> got{};
    ASSERT_EQ(::pread(file_.get(), got.data(), sizeof got, 0), 21 * 4);
    EXPECT_EQ(got[20], 20u);
    EXPECT_EQ(got[1], 1u);
}

TEST_P(FileIoTest, ManyOperationsAtOnceAllComplete) {
    constexpr std::size_t kOps = 3000;  // more than the ring holds
    std::vector<std::unique_ptr<TestOp>> ops;
    std::vector<std::uint32_t> values(kOps);
    std::size_t finished = 0;
    for (std::size_t i = 0; i < kOps; ++i) {
        values[i] = static_cast<std::uint32_t>(i);
        auto op = std::make_unique<TestOp>(FileOp::Kind::write);
        op->fd = file_.get();
        op->buffer = std::as_writable_bytes(std::span(&values[i], 1));
        op->offset = i * 4;
        op->what = [&] { ++finished; };
        loop_->submit(*op);
        ops.push_back(std::move(op));
    }
    ASSERT_TRUE(run_until([&] { return finished == kOps; }));
    std::vector<std::uint32_t> got(kOps);
    ASSERT_EQ(::pread(file_.get(), got.data(), kOps * 4, 0), static_cast<ssize_t>(kOps * 4));
    EXPECT_EQ(got, values);
}

// Large reads that came together leave room between them: what was read is on its way, and what is
// small is answered, before the last of them.
TEST_P(FileIoTest, LargeOperationsShareTheLoopTurnByTurn) {
    constexpr std::size_t kLarge = 1 << 20, kCount = 6;
    ASSERT_EQ(::ftruncate(file_.get(), kLarge * kCount), 0);
    std::vector<std::byte> buffer(kLarge);
    std::vector<std::unique_ptr<TestOp>> ops;
    std::size_t finished = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
        auto op = std::make_unique<TestOp>(FileOp::Kind::read);
        op->in_line = true;
        op->fd = file_.get();
        op->buffer = buffer;
        op->offset = i * kLarge;
        op->what = [&] { ++finished; };
        loop_->submit(*op);
        ops.push_back(std::move(op));
    }
    for (std::size_t turns = 1; turns <= kCount; ++turns) {
        EXPECT_GT(loop_->run_once(0), 0u);
        EXPECT_LE(finished, turns) << "more than one large operation in a turn";
    }
    ASSERT_TRUE(run_until([&] { return finished == kCount; }));
    for (const auto& op : ops)
        EXPECT_EQ(op->moved, static_cast<std::int64_t>(kLarge));
}

TEST_P(FileIoTest, SmallOperationsThatCameTogetherNeedOneTurn) {
    std::array<std::byte, 4096> buffer{};
    ASSERT_EQ(::ftruncate(file_.get(), buffer.size()), 0);
    std::vector<std::unique_ptr<TestOp>> ops;
    std::size_t finished = 0;
    for (int i = 0; i < 32; ++i) {
        auto op = std::make_unique<TestOp>(FileOp::Kind::read);
        op->in_line = true;
        op->fd = file_.get();
        op->buffer = buffer;
        op->what = [&] { ++finished; };
        loop_->submit(*op);
        ops.push_back(std::move(op));
    }
    loop_->run_once(0);
    EXPECT_EQ(finished, ops.size());
}

TEST_P(FileIoTest, LoopDiesWithOperationsInFlight) {
    std::vector<std::byte> buffer(1 << 20);
    std::vector<std::unique_ptr<TestOp>> ops;
    for (int i = 0; i < 32; ++i) {
        auto op = std::make_unique<TestOp>(i % 2 == 0 ? FileOp::Kind::write : FileOp::Kind::read);
        op->fd = file_.get();
        op->buffer = buffer;
        loop_->submit(*op);
        ops.push_back(std::move(op));
    }
    loop_->run_once(0);
    loop_.reset();
    for (auto& op : ops)
        EXPECT_FALSE(op->linked());
}

}  // namespace
}  // namespace nfsrdma
