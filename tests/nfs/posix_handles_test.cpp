#include "nfs/posix_handles.hpp"

#include <gtest/gtest.h>

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
    EXPECT_LE(places(db, 7).size(), 8u);
    EXPECT_EQ(places(db, 7).front().name, "99");
}

TEST(PosixHandles, ParentNeedsToBeKnown) {
    PosixHandles db;
    NodeId parent;
    EXPECT_FALSE(db.parent_of({7, 1}, parent));
    db.learn({7, 1}, 2, "a");
    EXPECT_FALSE(db.parent_of({7, 1}, parent));
    db.learn({2, 5}, 1, "dir");
    EXPECT_TRUE(db.parent_of({7, 1}, parent));
    EXPECT_EQ(parent, (NodeId{2, 5}));
    EXPECT_FALSE(db.parent_of({7, 9}, parent));  // another generation
}

}  // namespace
}  // namespace nfsrdma::nfs
