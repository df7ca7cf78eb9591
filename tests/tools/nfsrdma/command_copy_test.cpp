#include "tools/nfsrdma/command_copy.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::tool {
namespace {

TEST(CommandCopy, ADirectoryThatIsTheCopyItself) {
    const std::vector<std::string> source = {"a", "b", "c"};
    EXPECT_TRUE(is_copy_itself("tree", {"a", "b", "c"}, source));
    EXPECT_TRUE(is_copy_itself("tree", {"b"}, source));
    EXPECT_FALSE(is_copy_itself("tree", {}, source));          // where the copy is to go
    EXPECT_FALSE(is_copy_itself("tree", {"b", "x"}, source));  // something else
    EXPECT_FALSE(is_copy_itself("b", {"b"}, source));          // the copy is in it
    EXPECT_FALSE(is_copy_itself("tree", {"a"}, {}));
}

}  // namespace
}  // namespace nfsrdma::tool
