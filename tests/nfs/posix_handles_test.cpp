#include "nfs/posix_handles.hpp"

#include <algorithm>
#include <list>
#include <map>

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace nfsrdma::nfs {
namespace {

std::vector<PosixHandles::Place> places(const PosixHandles& db, std::uint64_t fileid) {
    std::uint64_t generation = 0;
    return db.places(fileid, generation);
}

TEST(PosixHandles, NewestPlaceComesFirst) {
    PosixHandles db;
    db.learn({7, 1}, 2, "a");
    db.learn({7, 1}, 2, "b");
    EXPECT_EQ(places(db, 7).front().name, "b");
    db.learn({7, 1}, 2, "a");  // seen again
    EXPECT_EQ(places(db, 7).front().name, "a");
    EXPECT_EQ(places(db, 7).size(), 2u);
}

TEST(PosixHandles, AnotherGenerationReplaces) {
    PosixHandles db;
    db.learn({7, 1}, 2, "a");
    db.learn({7, 2}, 2, "b");
    ASSERT_EQ(places(db, 7).size(), 1u);
    EXPECT_EQ(places(db, 7).front().name, "b");
    std::uint64_t generation = 0;
    EXPECT_TRUE(db.generation_of(7, generation));
    EXPECT_EQ(generation, 2u);
}

TEST(PosixHandles, LastPlaceForgottenForgetsTheObject) {
    PosixHandles db;
    db.learn({7, 1}, 2, "a");
    db.learn({7, 1}, 3, "a");
    db.forget_place(7, 2, "a");
    EXPECT_EQ(places(db, 7).size(), 1u);
    db.forget_place(7, 2, "a");  // not there any more
    db.forget_place(7, 3, "a");
    EXPECT_EQ(db.size(), 0u);
    db.forget_place(8, 3, "a");
    db.forget(8);
}

TEST(PosixHandles, PlacesAreBounded) {
    PosixHandles db;
    for (int i = 0; i < 100; ++i)
        db.learn({7, 1}, 2, std::to_string(i));
    EXPECT_EQ(places(db, 7).size(), 8u);
    EXPECT_EQ(db.size(), 8u);
    EXPECT_EQ(places(db, 7).front().name, "99");
    EXPECT_EQ(places(db, 7).back().name, "92");
}

TEST(PosixHandles, NamesOfEveryLength) {
    PosixHandles db;
    for (std::uint64_t size = 1; size <= 255; ++size)
        db.learn({size, 1}, 2, std::string(size, 'n'));
    for (std::uint64_t size = 1; size <= 255; ++size)
        EXPECT_EQ(places(db, size).front().name.size(), size);
    db.learn({1000, 1}, 2, "");
    db.learn({1000, 1}, 2, std::string(256, 'n'));
    EXPECT_TRUE(places(db, 1000).empty());
}

// Against the plainest thing that does the same.
TEST(PosixHandles, IsWhatAMapOfListsWouldBe) {
    PosixHandles db;
    std::map<std::uint64_t, std::list<PosixHandles::Place>> model;
    Prng prng(7);
    for (int i = 0; i < 200'000; ++i) {
        const std::uint64_t fileid = prng.below(3000);
        const std::uint64_t parent = prng.below(4);
        const std::string name = "file-" + std::to_string(prng.below(3));
        auto& known = model[fileid];
        switch (prng.below(4)) {
            case 0:
            case 1: {
                db.learn({fileid, 1}, parent, name);
                known.remove({parent, name});
                known.push_front({parent, name});
                if (known.size() > 8) known.pop_back();
                break;
            }
            case 2:
                db.forget_place(fileid, parent, name);
                known.remove({parent, name});
                break;
            default:
                if (prng.below(8) != 0) break;
                db.forget(fileid);
                known.clear();
        }
    }
    std::size_t names = 0;
    for (const auto& [fileid, known] : model) {
        const auto found = places(db, fileid);
        EXPECT_TRUE(std::equal(found.begin(), found.end(), known.begin(), known.end())) << fileid;
        names += known.size();
    }
    EXPECT_EQ(db.size(), names);
}

TEST(PosixHandles, TheFullDatabaseForgetsWhatNobodyAsksFor) {
    constexpr std::size_t kCapacity = 1600;  // 100 a shard
    PosixHandles db(kCapacity);
    std::uint64_t generation = 0;
    for (std::uint64_t fileid = 1; fileid <= 20 * kCapacity; ++fileid) {
        db.learn({fileid, 1}, 2, "name");
        for (std::uint64_t kept = 1; kept <= 16; ++kept)
            EXPECT_TRUE(fileid < kept || db.generation_of(kept, generation)) << kept;
    }
    EXPECT_EQ(db.size(), kCapacity);
}

// What an administrator has to reckon with.
TEST(PosixHandles, MemoryAnObjectIsSmall) {
    constexpr std::uint64_t kObjects = 200'000;
    PosixHandles db;
    for (std::uint64_t fileid = 1; fileid <= kObjects; ++fileid)
        db.learn({fileid, 1}, 2, "file-name-" + std::to_string(fileid));
    const double each = static_cast<double>(db.memory_bytes()) / kObjects;
    RecordProperty("bytes_per_object", std::to_string(each));
    EXPECT_LT(each, 90.0);
    for (std::uint64_t fileid = 1; fileid <= kObjects; ++fileid)
        db.forget(fileid);
    const std::size_t before = db.memory_bytes();
    for (std::uint64_t fileid = 1; fileid <= kObjects; ++fileid)
        db.learn({fileid, 2}, 2, "file-name-" + std::to_string(fileid));
    EXPECT_LT(db.memory_bytes(), before + before / 4);  // names were packed, entries used again
}

}  // namespace
}  // namespace nfsrdma::nfs
