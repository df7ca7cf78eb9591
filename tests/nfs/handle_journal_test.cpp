#include "nfs/handle_journal.hpp"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "tests/nfs/temp_dir.hpp"

namespace nfsrdma::nfs {
namespace {

namespace fs = std::filesystem;

// A database with its journal, as one start of the server has them.
struct Start {
    explicit Start(const std::string& path) {
        auto opened = HandleJournal::open(path, db);
        EXPECT_TRUE(static_cast<bool>(opened)) << (opened ? "" : to_string(opened.error()));
        if (!opened) return;
        journal = *std::move(opened);
        db.set_log(journal.get());
    }
    std::string names(std::uint64_t fileid) const {
        std::uint64_t generation = 0;
        std::string out;
        for (const PosixHandles::Place& place : db.places(fileid, generation))
            out += std::to_string(place.parent) + "/" + place.name + " ";
        return out;
    }
    PosixHandles db;
    std::unique_ptr<HandleJournal> journal;
};

class HandleJournalTest : public ::testing::Test {
  protected:
    std::vector<std::string> files() const {
        std::vector<std::string> out;
        for (const auto& entry : fs::directory_iterator(dir.path()))
            out.push_back(entry.path().filename().string());
        std::sort(out.begin(), out.end());
        return out;
    }
    std::string log(int epoch) const { return path + "." + std::to_string(epoch) + ".log"; }
    const testing::TempDir dir;
    const std::string path = dir.path() + "/places";
};

TEST_F(HandleJournalTest, ChangesSurvive) {
    {
        Start start(path);
        start.db.learn({7, 1}, 2, "a");
        start.db.learn({7, 1}, 3, "b");
        start.db.learn({8, 1}, 2, "gone");
        start.db.learn({9, 1}, 2, "old");
        start.db.learn({9, 2}, 2, "new");
        start.db.learn({10, 1}, 2, "x");
        start.db.forget_place(10, 2, "x");
        start.db.forget(8);
    }
    Start start(path);
    EXPECT_EQ(start.names(7), "3/b 2/a ");
    EXPECT_EQ(start.names(8), "");
    EXPECT_EQ(start.names(9), "2/new ");
    EXPECT_EQ(start.names(10), "");
    std::uint64_t generation = 0;
    ASSERT_TRUE(start.db.generation_of(9, generation));
    EXPECT_EQ(generation, 2u);
}

TEST_F(HandleJournalTest, KnownThingsAreNotWrittenAgain) {
    Start start(path);
    start.db.learn({7, 1}, 2, "a");
    start.db.learn({7, 1}, 2, "b");
    const std::uint64_t bytes = start.journal->log_bytes();
    for (int i = 0; i < 10; ++i) {
        start.db.learn({7, 1}, 2, i % 2 == 0 ? "a" : "b");
        start.db.forget(99);
        start.db.forget_place(7, 2, "c");
    }
    EXPECT_EQ(start.journal->log_bytes(), bytes);
}

TEST_F(HandleJournalTest, ManyAreWrittenAtOnce) {
    Start start(path);
    for (std::uint64_t i = 1; i <= 100; ++i)
        start.db.learn({i, 1}, 2, "n" + std::to_string(i), true);
    EXPECT_EQ(fs::file_size(log(1)), 16u);
    start.db.flush();
    EXPECT_GT(fs::file_size(log(1)), 100u * 32);
}

// A process that is killed keeps all that was told, without any farewell.
TEST_F(HandleJournalTest, KilledProcessLosesNothing) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        Start start(path);
        for (std::uint64_t i = 1; i <= 1000; ++i)
            start.db.learn({i, 1}, 2, "n" + std::to_string(i));
        ::kill(::getpid(), SIGKILL);
        ::_exit(1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    Start start(path);
    EXPECT_EQ(start.db.size(), 1000u);
    EXPECT_EQ(start.names(1000), "2/n1000 ");
}

TEST_F(HandleJournalTest, NewBaseReplacesTheLogs) {
    {
        Start start(path);
        for (int i = 0; i < 1000; ++i) {
            start.db.learn({7, 1}, 2, "a");
            start.db.forget(7);
        }
        start.db.learn({7, 1}, 2, "a");
        start.db.learn({7, 1}, 2, "b");
        start.journal->tidy(start.db, true);
        EXPECT_EQ(start.journal->log_bytes(), 16u);
        start.db.learn({8, 1}, 2, "c");
    }
    EXPECT_EQ(files(), (std::vector<std::string>{"places.2.log", "places.base", "places.lock"}));
    EXPECT_LT(fs::file_size(path + ".base"), 100u);
    Start start(path);
    EXPECT_EQ(start.names(7), "2/b 2/a ");
    EXPECT_EQ(start.names(8), "2/c ");
}

TEST_F(HandleJournalTest, IsCompactedWhenTheLogOutgrowsTheBase) {
    Start start(path);
    for (int i = 0; i < 30'000; ++i) {
        start.db.learn({7, 1}, 2, "a");
        start.db.forget(7);
        if (i % 1000 == 0) start.journal->tidy(start.db);
    }
    EXPECT_LT(start.journal->log_bytes(), 1u << 20);
    EXPECT_TRUE(fs::exists(path + ".base"));
    EXPECT_EQ(files().size(), 3u);
}

// Each state in which a crash may leave the files.
TEST_F(HandleJournalTest, CrashWhileTheBaseIsWritten) {
    {
        Start start(path);
        start.db.learn({7, 1}, 2, "a");
        start.journal->tidy(start.db, true);  // base 2, log 2
        start.db.learn({8, 1}, 2, "b");
    }
    // The next log was begun; nothing of the new base, or a part of its scratch file.
    std::ofstream(log(3)) << "NRPLACE1" << std::string(7, '\0') << '\3';
    std::ofstream(path + ".new") << "NRPLACE1 half";
    {
        Start start(path);
        EXPECT_EQ(start.names(7), "2/a ");
        EXPECT_EQ(start.names(8), "2/b ");
        start.db.learn({9, 1}, 2, "c");
        EXPECT_GT(fs::file_size(log(3)), 16u);
    }
    Start start(path);
    EXPECT_EQ(start.names(8) + start.names(9), "2/b 2/c ");
}

TEST_F(HandleJournalTest, CrashBeforeOldLogsAreRemoved) {
    {
        Start start(path);
        start.db.learn({7, 1}, 2, "a");
        fs::copy_file(log(1), dir.path() + "/kept");
        start.db.forget(7);
        start.journal->tidy(start.db, true);
    }
    fs::rename(dir.path() + "/kept", log(1));
    Start start(path);
    EXPECT_EQ(start.names(7), "");  // the base knows better
    EXPECT_FALSE(fs::exists(log(1)));
}

TEST_F(HandleJournalTest, TornEndIsCutAtEveryByte) {
    std::uint64_t whole = 0;
    {
        Start start(path);
        start.db.learn({7, 1}, 2, "kept");
        whole = start.journal->log_bytes();
        start.db.learn({8, 1}, 2, "torn");
    }
    const std::uint64_t size = fs::file_size(log(1));
    fs::copy_file(log(1), dir.path() + "/full");
    for (std::uint64_t cut = whole; cut < size; ++cut) {
        fs::copy_file(dir.path() + "/full", log(1), fs::copy_options::overwrite_existing);
        fs::resize_file(log(1), cut);
        {
            Start start(path);
            EXPECT_EQ(start.names(7), "2/kept ") << cut;
            EXPECT_EQ(start.names(8), "") << cut;
            start.db.learn({9, 1}, 2, "after");
        }
        Start start(path);
        EXPECT_EQ(start.names(9), "2/after ") << cut;
    }
}

TEST_F(HandleJournalTest, EveryFlippedByteIsNoticed) {
    {
        Start start(path);
        start.db.learn({7, 1}, 2, "first");
        start.db.learn({8, 1}, 2, "second");
    }
    std::ostringstream read;
    read << std::ifstream(log(1), std::ios::binary).rdbuf();
    const std::string good = read.str();
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 0x20);
        std::ofstream(log(1), std::ios::binary) << bad;
        Start start(path);
        for (const std::uint64_t fileid : {7u, 8u}) {
            const std::string want = fileid == 7 ? "2/first " : "2/second ";
            const std::string names = start.names(fileid);
            EXPECT_TRUE(names.empty() || names == want) << at << ": " << names;
        }
        EXPECT_LE(start.db.size(), at >= 8 && at < 16 ? 2u : 1u) << at;
        fs::remove(path + ".base");
    }
}

TEST_F(HandleJournalTest, SecondServerIsRefused) {
    Start start(path);
    PosixHandles other;
    auto second = HandleJournal::open(path, other);
    ASSERT_FALSE(static_cast<bool>(second));
    EXPECT_EQ(second.error().code, Errc::again);  // ourselves
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        auto third = HandleJournal::open(path, other);
        ::_exit(!third && third.error().code == Errc::refused ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST_F(HandleJournalTest, MissingDirectoryIsAnError) {
    PosixHandles db;
    auto journal = HandleJournal::open(dir.path() + "/none/places", db);
    ASSERT_FALSE(static_cast<bool>(journal));
    EXPECT_EQ(journal.error().code, Errc::system);
}

// The disk is full, and later it is not.
TEST_F(HandleJournalTest, FullDiskIsOutlived) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        // The limit of a file's size stands for the disk's.
        ::signal(SIGXFSZ, SIG_IGN);
        rlimit limit{};
        ::getrlimit(RLIMIT_FSIZE, &limit);
        const rlim_t usual = limit.rlim_cur;
        Start start(path);
        limit.rlim_cur = 100;
        ::setrlimit(RLIMIT_FSIZE, &limit);
        for (std::uint64_t i = 1; i <= 50; ++i)
            start.db.learn({i, 1}, 2, "n" + std::to_string(i));
        if (!start.journal->is_broken() || start.db.size() != 50) ::_exit(1);
        limit.rlim_cur = usual;
        ::setrlimit(RLIMIT_FSIZE, &limit);
        start.journal->tidy(start.db, true);
        ::_exit(start.journal->is_broken() ? 2 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    Start start(path);
    EXPECT_EQ(start.db.size(), 50u);
}

// Bases are written while others learn and forget: afterwards the disk says what memory says.
TEST_F(HandleJournalTest, CompactionMissesNothing) {
    constexpr std::uint64_t kFiles = 500;
    std::map<std::uint64_t, std::string> names;
    {
        Start start(path);
        std::vector<std::thread> threads;
        for (std::uint64_t t = 0; t < 2; ++t) {
            threads.emplace_back([&start, t] {
                Prng prng(t + 1);
                for (int i = 0; i < 20'000; ++i) {
                    const std::uint64_t fileid = 2 * prng.below(kFiles / 2) + t;
                    const std::string name = "n" + std::to_string(prng.below(4));
                    if (prng.below(3) == 0) {
                        start.db.forget_place(fileid, 2, name);
                    } else {
                        start.db.learn({fileid, prng.below(2)}, 2, name);
                    }
                }
            });
        }
        for (int i = 0; i < 50; ++i)
            start.journal->tidy(start.db, true);
        for (std::thread& thread : threads)
            thread.join();
        for (std::uint64_t fileid = 0; fileid < kFiles; ++fileid)
            names[fileid] = start.names(fileid);
    }
    Start start(path);
    for (const auto& [fileid, wanted] : names) {
        // The order of names that were all seen before is not kept.
        std::string now = start.names(fileid), then = wanted;
        std::sort(now.begin(), now.end());
        std::sort(then.begin(), then.end());
        EXPECT_EQ(now, then) << fileid;
    }
}

}  // namespace
}  // namespace nfsrdma::nfs
