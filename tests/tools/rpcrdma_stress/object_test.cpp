#include "tools/rpcrdma_stress/object.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nfsrdma::stress {
namespace {

using ::testing::StartsWith;

class CheckAttributes : public ::testing::Test {
  protected:
    CheckAttributes() {
        object.model = FileModel(1, 1);
        object.model.set_size(100);
        object.mode = 0644;
        object.names = {{0, "a"}, {1, "b"}};
        attributes.type = NF3REG;
        attributes.mode = 0644;
        attributes.nlink = 2;
        attributes.size = 100;
        attributes.fileid = 77;
    }
    Object object;
    fattr3 attributes{};
};

TEST_F(CheckAttributes, TheNumberIsLearntOnceAndHolds) {
    EXPECT_EQ(check_attributes(attributes, object), "");
    EXPECT_EQ(object.fileid, 77u);
    attributes.fileid = 78;
    EXPECT_EQ(check_attributes(attributes, object), "fileid: expected 77, got 78");
}

TEST_F(CheckAttributes, EachDifferenceIsTold) {
    fattr3 wrong = attributes;
    wrong.type = NF3DIR;
    EXPECT_THAT(check_attributes(wrong, object), StartsWith("type"));
    wrong = attributes;
    wrong.size = 99;
    EXPECT_EQ(check_attributes(wrong, object), "size: expected 100, got 99");
    wrong = attributes;
    wrong.mode = 0600;
    EXPECT_THAT(check_attributes(wrong, object), StartsWith("mode"));
    wrong = attributes;
    wrong.nlink = 1;
    EXPECT_THAT(check_attributes(wrong, object), StartsWith("nlink"));
}

TEST_F(CheckAttributes, ASizeOfUnknownFateIsARange) {
    object.model.may_have_written(90, 60, 1);
    for (const std::uint64_t size : {100u, 120u, 150u}) {
        attributes.size = size;
        EXPECT_EQ(check_attributes(attributes, object), "") << size;
    }
    attributes.size = 151;
    EXPECT_NE(check_attributes(attributes, object), "");
}

TEST_F(CheckAttributes, AttributesThatDoNotFollowAreNotChecked) {
    EXPECT_EQ(check_attributes(post_op_attr{}, object), "");
}

// As file systems do that are mounted with grpid, or below a directory that has it.
TEST(Object, ADirectoryMayInheritSetgidAFileMayNot) {
    Object object;
    object.type = NF3DIR;
    object.mode = 0755;
    fattr3 attributes{};
    attributes.type = NF3DIR;
    attributes.mode = 02755;
    EXPECT_EQ(check_attributes(attributes, object), "");
    attributes.mode = 02750;
    EXPECT_THAT(check_attributes(attributes, object), StartsWith("mode"));
    object.type = attributes.type = NF3FIFO;
    attributes.mode = 02755;
    EXPECT_THAT(check_attributes(attributes, object), StartsWith("mode"));
}

}  // namespace
}  // namespace nfsrdma::stress
