#include "nfs/client/read_dir.hpp"

#include <set>

#include "tests/nfs/client/fake_server.hpp"
#include "tests/nfs/client/world.hpp"

namespace nfsrdma::nfs::client {
namespace {

struct Listing {
    explicit Listing(Client& client) : reader(client) {
        reader.user = this;
        reader.on_entry = [](DirReader& r, const DirEntry& entry) noexcept {
            auto& self = *static_cast<Listing*>(r.user);
            EXPECT_TRUE(self.names.insert(entry.name).second) << entry.name;
            if (entry.attributes != nullptr) ++self.with_attributes;
            if (!entry.handle.empty()) ++self.with_handle;
            return self.names.size() < self.most;
        };
        reader.done = [](DirReader& r) noexcept { static_cast<Listing*>(r.user)->finished = true; };
    }
    DirReader reader;
    std::set<std::string> names;
    std::size_t with_attributes = 0, with_handle = 0, most = SIZE_MAX;
    bool finished = false;
};

class DirReaderTest : public testing::NfsWorld {
  protected:
    void list(Listing& listing, const FileHandle& dir) {
        listing.reader.start(dir);
        ASSERT_TRUE(world.run_until([&] { return listing.finished; }));
    }
};

TEST_F(DirReaderTest, EmptyDirectory) {
    Listing listing(*client);
    list(listing, root);
    ASSERT_TRUE(listing.reader.outcome.ok());
    listing.names.erase(".");
    listing.names.erase("..");
    EXPECT_TRUE(listing.names.empty());
}

// Every entry once, and all that the server sends is used (case B129).
TEST_F(DirReaderTest, B129_AllEntriesOfEveryReplyAreUsed) {
    const FileHandle dir = mkdir(root, "dir");
    std::set<std::string> want{".", ".."};
    for (int i = 0; i < 3000; ++i) {
        std::string name =
            "file-" + std::to_string(i) + std::string(static_cast<std::size_t>(i % 40), 'x');
        create(dir, name);
        want.insert(name);
    }
    Listing listing(*client);
    list(listing, dir);
    ASSERT_TRUE(listing.reader.outcome.ok()) << to_string(listing.reader.outcome);
    listing.names.insert({".", ".."});
    EXPECT_EQ(listing.names, want);
    EXPECT_GE(listing.with_attributes, 3000u);
    EXPECT_GE(listing.with_handle, 3000u);
    EXPECT_LE(listing.reader.replies(), 3000u / 50);
}

TEST_F(DirReaderTest, StopsWhenTold) {
    const FileHandle dir = mkdir(root, "dir");
    for (int i = 0; i < 100; ++i)
        create(dir, "f" + std::to_string(i));
    Listing listing(*client);
    listing.most = 10;
    list(listing, dir);
    EXPECT_EQ(listing.names.size(), 10u);
    ASSERT_FALSE(listing.reader.outcome.rpc);
    EXPECT_EQ(listing.reader.outcome.rpc.error().code, Errc::closed);
}

TEST_F(DirReaderTest, NotADirectory) {
    const FileHandle file = create(root, "file");
    Listing listing(*client);
    list(listing, file);
    EXPECT_EQ(listing.reader.outcome.status, NFS3ERR_NOTDIR);
}

class FakeDirReaderTest : public ::testing::Test {
  protected:
    FakeDirReaderTest() { EXPECT_TRUE(dir.assign("dir", 3)); }
    testing::DirectWorld world;
    testing::FakeServer fake;
    testing::DirectXprt xprt{*world.loop, fake.dispatcher, testing::DirectOptions{}};
    Client client{xprt, nullptr};
    FileHandle dir;
};

TEST_F(FakeDirReaderTest, B77_NothingAndNoEndIsAnErrorAfterOneRetry) {
    Listing listing(client);
    listing.reader.start(dir);
    ASSERT_TRUE(world.run_until([&] { return listing.finished; }, 5 * kNsPerSec));
    ASSERT_FALSE(listing.reader.outcome.rpc);
    EXPECT_EQ(listing.reader.outcome.rpc.error().code, Errc::bad_message);
    EXPECT_EQ(fake.listings, 2u);
}

TEST_F(FakeDirReaderTest, CookieThatDoesNotAdvanceIsAnError) {
    fake.stuck_cookie = true;
    DirReader reader(client);
    bool finished = false;
    reader.user = &finished;
    reader.on_entry = [](DirReader& /*r*/, const DirEntry& /*entry*/) noexcept { return true; };
    reader.done = [](DirReader& r) noexcept { *static_cast<bool*>(r.user) = true; };
    reader.start(dir);
    ASSERT_TRUE(world.run_until([&] { return finished; }, 5 * kNsPerSec));
    ASSERT_FALSE(reader.outcome.rpc);
    EXPECT_EQ(reader.outcome.rpc.error().code, Errc::bad_message);
    EXPECT_EQ(fake.listings, 2u);
}

TEST_F(FakeDirReaderTest, B77_CookiesThatLeadInACircleAreAnError) {
    for (const std::uint64_t last : {6u, 7u, 100u, 1000u}) {
        fake.cookie_circle = last;
        fake.listings = 0;
        Listing listing(client);
        listing.reader.start(dir);
        ASSERT_TRUE(world.run_until([&] { return listing.finished; }, 5 * kNsPerSec)) << last;
        ASSERT_FALSE(listing.reader.outcome.rpc) << last;
        EXPECT_EQ(listing.reader.outcome.rpc.error().code, Errc::bad_message);
        EXPECT_LE(fake.listings, 4 * last);
    }
}

TEST_F(FakeDirReaderTest, ADirectoryWithoutEndIsAnError) {
    fake.cookie_circle = UINT64_MAX;
    Listing listing(client);
    listing.reader.entries_max = 500;
    listing.reader.start(dir);
    ASSERT_TRUE(world.run_until([&] { return listing.finished; }, 5 * kNsPerSec));
    ASSERT_FALSE(listing.reader.outcome.rpc);
    EXPECT_EQ(listing.reader.entries(), 501u);
}

TEST_F(DirReaderTest, NamesAlone) {
    const FileHandle dir = mkdir(root, "dir");
    for (int i = 0; i < 1000; ++i)
        create(dir, "f" + std::to_string(i));
    Listing listing(*client);
    listing.reader.start(dir, DirReader::What::names);
    ASSERT_TRUE(world.run_until([&] { return listing.finished; }));
    ASSERT_TRUE(listing.reader.outcome.ok());
    listing.names.insert({".", ".."});
    EXPECT_EQ(listing.names.size(), 1002u);
    EXPECT_EQ(listing.with_attributes, 0u);
}

TEST_F(FakeDirReaderTest, ReaddirWhereReaddirplusIsNotSupported) {
    fake.readdir_only = true;
    Listing listing(client);
    listing.reader.start(dir);
    ASSERT_TRUE(world.run_until([&] { return listing.finished; }));
    EXPECT_TRUE(listing.reader.outcome.ok());
    EXPECT_EQ(listing.names, std::set<std::string>{"only"});
}

}  // namespace
}  // namespace nfsrdma::nfs::client
