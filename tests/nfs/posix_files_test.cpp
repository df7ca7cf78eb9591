#include "nfs/posix_files.hpp"

#include <fcntl.h>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/alloc_counter.hpp"

namespace nfsrdma::nfs {
namespace {

UniqueFd any_fd() {
    return UniqueFd(::open("/", O_PATH | O_CLOEXEC));
}
bool is_open(int fd) {
    return ::fcntl(fd, F_GETFD) >= 0;
}

TEST(PosixFiles, PinFindsWhatWasInserted) {
    PosixFiles files(64);
    EXPECT_EQ(files.pin({1, 1}), nullptr);
    PosixFile* made = files.insert({1, 1}, any_fd());
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(files.pin({1, 1}), made);
    EXPECT_EQ(files.pin({1, 2}), nullptr);
    files.unpin(*made);
    files.unpin(*made);
}

TEST(PosixFiles, SecondInsertKeepsTheFirst) {
    PosixFiles files(64);
    PosixFile* first = files.insert({1, 1}, any_fd());
    const int kept = first->path_fd;
    EXPECT_EQ(files.insert({1, 1}, any_fd()), first);
    EXPECT_EQ(first->path_fd, kept);
    files.unpin(*first);
    files.unpin(*first);
}

constexpr std::uint64_t kStep = PosixFiles::kShards;  // fileids of one shard
constexpr std::uint64_t kEach = PosixFiles::kEachMin;

TEST(PosixFiles, LeastRecentlyUsedGoesFirst) {
    PosixFiles files(1);
    for (std::uint64_t i = 1; i <= kEach; ++i)
        files.unpin(*files.insert({i * kStep, 1}, any_fd()));
    files.unpin(*files.pin({kStep, 1}));  // used again
    files.unpin(*files.insert({(kEach + 1) * kStep, 1}, any_fd()));
    EXPECT_EQ(files.pin({2 * kStep, 1}), nullptr);
    PosixFile* kept = files.pin({kStep, 1});
    ASSERT_NE(kept, nullptr);
    files.unpin(*kept);
}

TEST(PosixFiles, EverythingPinnedInsertsNothing) {
    PosixFiles files(1);
    std::vector<PosixFile*> pinned;
    for (std::uint64_t i = 1; i <= kEach; ++i) {
        pinned.push_back(files.insert({i * kStep, 1}, any_fd()));
    }
    EXPECT_EQ(files.insert({(kEach + 1) * kStep, 1}, any_fd()), nullptr);
    files.unpin(*pinned.back());
    pinned.back() = files.insert({(kEach + 1) * kStep, 1}, any_fd());
    ASSERT_NE(pinned.back(), nullptr);
    for (PosixFile* file : pinned)
        files.unpin(*file);
}

TEST(PosixFiles, DroppedFileIsClosedWithItsLastPin) {
    PosixFiles files(64);
    PosixFile* file = files.insert({1, 1}, any_fd());
    const int fd = file->path_fd;
    files.drop(1);
    EXPECT_EQ(files.pin({1, 1}), nullptr);
    EXPECT_TRUE(is_open(fd));
    files.unpin(*file);
    EXPECT_FALSE(is_open(fd));
    files.drop(1);  // not there
}

TEST(PosixFiles, IdleWritersAreClosedAndPinnedOnesAreNot) {
    PosixFiles files(64);
    PosixFile* file = files.insert({1, 1}, any_fd());
    const int fd = files.set_io_fd(*file, true, any_fd());
    EXPECT_EQ(files.set_io_fd(*file, true, any_fd()), fd);
    files.close_idle_writers();
    EXPECT_EQ(files.io_fd(*file, true), fd);
    files.unpin(*file);
    files.close_idle_writers();
    EXPECT_FALSE(is_open(fd));
    file = files.pin({1, 1});
    EXPECT_EQ(files.io_fd(*file, true), -1);
    files.unpin(*file);
}

TEST(PosixFiles, HitsAllocateNothing) {
    if (!test::kAllocCounterWorks) GTEST_SKIP() << "needs a build without sanitizers";
    PosixFiles files(64);
    files.unpin(*files.insert({1, 1}, any_fd()));
    const test::AllocCounter counter;
    for (int i = 0; i < 1000; ++i)
        files.unpin(*files.pin({1, 1}));
    EXPECT_EQ(counter.count(), 0u);
}

TEST(PosixFiles, ThreadsShareIt) {
    PosixFiles files(16);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&files, t] {
            for (std::uint64_t i = 0; i < 2000; ++i) {
                const NodeId id{i * 7 % 40, 1};
                PosixFile* file = files.pin(id);
                if (file == nullptr) file = files.insert(id, any_fd());
                if (file == nullptr) continue;
                EXPECT_GE(file->path_fd, 0);
                files.unpin(*file);
                if (t == 0 && i % 10 == 0) files.drop(id.fileid);
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
}

}  // namespace
}  // namespace nfsrdma::nfs
