#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/mount_nfsrdma/options.hpp"

namespace nfsrdma::mount {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

MountOptions good(const std::string& list, bool as_root = true) {
    MountOptions out;
    out.allow_other = out.default_permissions = as_root;
    EXPECT_EQ(parse_list(list, as_root, false, out), "") << list;
    return out;
}

std::string why(const std::string& list, bool as_root = true, bool sloppy = false) {
    MountOptions out;
    return parse_list(list, as_root, sloppy, out);
}

TEST(OptionList, TimesOfCaches) {
    const MountOptions four = good("acregmin=1,acregmax=2,acdirmin=3,acdirmax=4");
    EXPECT_EQ(four.times.reg_min, 1);
    EXPECT_EQ(four.times.reg_max, 2);
    EXPECT_EQ(four.times.dir_min, 3);
    EXPECT_EQ(four.times.dir_max, 4);
    EXPECT_EQ(four.times.negative, 3) << "never more than acdirmin";
    const MountOptions all = good("actimeo=7");
    EXPECT_EQ(all.times.reg_min, 7);
    EXPECT_EQ(all.times.reg_max, 7);
    EXPECT_EQ(all.times.dir_min, 7);
    EXPECT_EQ(all.times.dir_max, 7);
    EXPECT_EQ(good("actimeo=7,acregmax=9").times.reg_max, 9);
    EXPECT_EQ(good("actimeo=0").times.negative, 0);
    // One bound that was given moves the other one that was not.
    EXPECT_EQ(good("acregmin=100").times.reg_max, 100);
    EXPECT_EQ(good("acdirmax=10").times.dir_min, 10);
    EXPECT_THAT(why("acregmin=9,acregmax=8"), HasSubstr("acregmin=9' is more than acregmax=8"));
    const MountOptions noac = good("noac");
    EXPECT_TRUE(noac.no_ac);
    EXPECT_EQ(noac.times.reg_max, 0);
    EXPECT_EQ(noac.times.dir_max, 0);
    EXPECT_FALSE(good("noac,ac").no_ac);
    EXPECT_EQ(good("noac,ac").times.reg_max, 60);
}

TEST(OptionList, KernelIsToldWhatItKnows) {
    EXPECT_THAT(good("").kernel, ElementsAre("suid", "dev"));
    EXPECT_THAT(good("nosuid,nodev,noexec,noatime,sync,dirsync").kernel,
                ElementsAre("nosuid", "nodev", "noexec", "noatime", "sync", "dirsync"));
    EXPECT_THAT(good("nosuid,suid,noexec,exec,noatime,relatime,sync,async").kernel,
                ElementsAre("suid", "dev"));
    EXPECT_THAT(good("user", false).kernel, ElementsAre("nosuid", "nodev", "noexec"));
    EXPECT_THAT(good("user,exec", false).kernel, ElementsAre("nosuid", "nodev"));
    EXPECT_THAT(good("owner").kernel, ElementsAre("nosuid", "nodev"));
    EXPECT_THAT(good("", false).kernel, ElementsAre());
    EXPECT_THAT(why("suid", false), HasSubstr("only root"));
    EXPECT_THAT(why("dev", false), HasSubstr("only root"));
    EXPECT_TRUE(good("ro").read_only);
    EXPECT_FALSE(good("ro,rw").read_only);
    EXPECT_FALSE(good("ro,defaults").read_only);
}

TEST(OptionList, ContradictionsAreNamed) {
    EXPECT_THAT(why("mountport=2048,mountproto=rdma"), HasSubstr("contradicts mountproto=rdma"));
    EXPECT_THAT(why("bind=127.0.0.1,device=rdmacore"), HasSubstr("contradicts device=rdmacore"));
    EXPECT_THAT(why("registration=umr"), HasSubstr("needs device=rdmacore"));
    EXPECT_EQ(why("registration=umr,device=rdmacore:mlx5_0"), "");
    MountOptions out;
    out.server = "10.0.0.1";
    EXPECT_THAT(parse_list("proto=rdma6", true, false, out), HasSubstr("IPv4 address 10.0.0.1"));
}

TEST(OptionList, UnknownOnesAreNamedWithTheNearest) {
    EXPECT_THAT(why("rsise=8192"), HasSubstr("'rsise' is not known; is rsize meant?"));
    EXPECT_THAT(why("ro,nosuidd"), HasSubstr("'nosuidd' is not known; is nosuid meant?"));
    EXPECT_THAT(why("harrd"), HasSubstr("is hard meant?"));
    EXPECT_THAT(why("xyzzyplugh=1"), HasSubstr("'xyzzyplugh' is not known; mount.nfsrdma(8)"));
    EXPECT_THAT(why("hard=1"), HasSubstr("'hard' has no value: leave out '=1'"));
    EXPECT_THAT(why("port"), HasSubstr("'port' needs a value"));
    EXPECT_EQ(why("rsise=8192,xyzzyplugh", true, true), "") << "sloppy";
    EXPECT_NE(why("port=x", true, true), "") << "sloppy is of names, not of values";
}

TEST(OptionList, EmptyOnesAndQuotesAreTaken) {
    EXPECT_TRUE(good(",,ro,,").read_only);
    EXPECT_TRUE(good("comment=\"a,b\",ro").read_only);
    EXPECT_TRUE(good("x-note=\"soft,ro").read_only == false) << "a quote that is not closed";
}

}  // namespace
}  // namespace nfsrdma::mount
