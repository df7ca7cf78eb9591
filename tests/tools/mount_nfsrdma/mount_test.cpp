#include "tools/mount_nfsrdma/mount.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

// What the kernel may keep of the root, by the options.
struct Kept {
    double name = 0, negative = 0;
};

Kept kept(const std::string& list) {
    MountOptions options;
    EXPECT_EQ(parse_list(list, true, false, options), "");
    Mount mount(options, nfs::client::FileHandle());
    Node& root = mount.nodes.root();
    fattr3 attributes{};
    attributes.type = NF3DIR;
    (void)mount.take(root, attributes, mount.next_order());
    return {mount.name_seconds(root), mount.negative_seconds(root)};
}

TEST(MountTimes, NamesAreKeptAsLookupcacheSays) {
    EXPECT_EQ(kept("").name, 30);
    EXPECT_EQ(kept("").negative, 5);
    EXPECT_EQ(kept("lookupcache=positive").name, 30);
    EXPECT_EQ(kept("lookupcache=positive").negative, 0);
    EXPECT_EQ(kept("lookupcache=none").name, 0);
    EXPECT_EQ(kept("lookupcache=none").negative, 0);
}

TEST(MountTimes, NamesAreKeptAsLongAsTheirDirectoryIsBelieved) {
    EXPECT_EQ(kept("actimeo=7").name, 7);
    EXPECT_EQ(kept("acdirmin=2").negative, 2);
    EXPECT_EQ(kept("noac").name, 0);
    EXPECT_EQ(kept("noac").negative, 0);
}

}  // namespace
}  // namespace nfsrdma::mount
