#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnReaddir : public NfsTest {
  protected:
    std::set<std::string> fill(const Handle& dir, int count) {
        std::set<std::string> names{".", ".."};
        for (int i = 0; i < count; ++i) {
            const std::string name =
                "n" + std::to_string(i) + std::string(static_cast<std::size_t>(i % 30), 'x');
            w.file(dir, name);
            names.insert(name);
        }
        return names;
    }
};
class B77 : public OnReaddir {};
class B79 : public OnReaddir {};
class B81 : public OnReaddir {};
class B82 : public OnReaddir {};
class B100 : public OnReaddir {};
NR_ON_BACKENDS(OnReaddir);
NR_ON_BACKENDS(B77);
NR_ON_BACKENDS(B79);
NR_ON_BACKENDS(B81);
NR_ON_BACKENDS(B82);
NR_ON_BACKENDS(B100);

TEST_P(OnReaddir, DotsHaveTheRightFileids) {
    const Handle d = w.directory(w.root, "d");
    for (const Handle& dir : {w.root, d}) {
        for (const Listed& entry : w.readdir(dir, 0, 4096).entries) {
            if (entry.name == ".") {
                EXPECT_EQ(entry.fileid, w.attr(dir).fileid);
            }
            if (entry.name == "..") {
                EXPECT_EQ(entry.fileid, w.attr(w.root).fileid);
            }
        }
    }
}

TEST_P(OnReaddir, FileIsNoDirectory) {
    EXPECT_EQ(w.readdir(w.file(w.root, "f"), 0, 4096).status, NFS3ERR_NOTDIR);
}

TEST_P(OnReaddir, CookieBehindTheEndGivesNothingMore) {
    fill(w.root, 3);
    const ListReply all = w.readdir(w.root, 0, 4096);
    ASSERT_TRUE(all.eof);
    const ListReply rest = w.readdir(w.root, all.entries.back().cookie, 4096);
    EXPECT_EQ(rest.status, NFS3_OK);
    EXPECT_TRUE(rest.entries.empty());
    EXPECT_TRUE(rest.eof);
}

TEST_P(B77, CountTooSmallIsSaid) {
    fill(w.root, 3);
    for (const std::uint32_t count : {0u, 1u, 64u, 103u, 104u, 120u}) {
        EXPECT_EQ(w.readdir(w.root, 0, count).status, NFS3ERR_TOOSMALL) << count;
    }
    EXPECT_EQ(w.readdirplus(w.root, 0, 0, 100).status, NFS3ERR_TOOSMALL);
    EXPECT_EQ(w.readdirplus(w.root, 0, 100, 0).status, NFS3ERR_TOOSMALL);
    const ListReply one = w.readdir(w.root, 0, 104 + 28);  // exactly one short name
    EXPECT_EQ(one.status, NFS3_OK);
    EXPECT_EQ(one.entries.size(), 1u);
    EXPECT_FALSE(one.eof);
}

TEST_P(B79, EveryNameComesOnceAtAnySize) {
    for (const int count : {0, 1, 100, 600}) {
        const std::string name = "d" + std::to_string(count);
        const Handle d = w.directory(w.root, name);
        const std::set<std::string> names = fill(d, count);
        for (const bool plus : {false, true}) {
            for (const std::uint32_t bytes : {512u, 4096u, 65536u, 0xffffffffu}) {
                if (count == 600 && bytes == 512) continue;
                EXPECT_EQ(w.list(d, plus, bytes), names) << count << " " << bytes;
            }
        }
    }
}

TEST_P(B81, RemovingWhatWasListedLosesNothing) {
    const std::set<std::string> names = fill(w.root, 300);
    std::set<std::string> listed;
    std::uint64_t cookie = 0;
    for (;;) {
        const ListReply page = w.readdir(w.root, cookie, 1024);
        ASSERT_EQ(page.status, NFS3_OK);
        for (const Listed& entry : page.entries) {
            EXPECT_TRUE(listed.insert(entry.name).second);
            cookie = entry.cookie;
            if (entry.name[0] == 'n') w.remove(w.root, entry.name);
        }
        if (page.eof) break;
    }
    EXPECT_EQ(listed, names);
}

TEST_P(B82, ListingGoesOnWhileFilesAreMade) {
    const std::set<std::string> names = fill(w.root, 300);
    int made = 0;
    const std::set<std::string> listed =
        w.list(w.root, true, 2048, [&] { w.file(w.root, "later" + std::to_string(made++)); });
    for (const std::string& name : names)
        EXPECT_TRUE(listed.count(name) == 1) << name;
}

TEST_P(B100, FailedListingTellsNothingFalse) {
    const Handle d = w.directory(w.root, "d");
    w.rmdir(w.root, "d");
    READDIR3args args{};
    args.dir = d.fh();
    args.count = 4096;
    auto reply = w.call<READDIR3args, READDIR3res>(NFSPROC3_READDIR, args);
    EXPECT_EQ(reply->status, NFS3ERR_STALE);
    EXPECT_EQ(reply->READDIR3res_u.resfail.dir_attributes.attributes_follow, FALSE);
}

}  // namespace
}  // namespace nfsrdma::testing
