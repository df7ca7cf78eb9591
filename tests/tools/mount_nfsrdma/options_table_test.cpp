#include "tools/mount_nfsrdma/options_table.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

using ::testing::HasSubstr;

MountOptions good(const std::string& list, bool as_root = true) {
    MountOptions out;
    out.allow_other = out.default_permissions = as_root;
    EXPECT_EQ(parse_list(list, as_root, false, out), "") << list;
    return out;
}

std::string why(const std::string& list) {
    MountOptions out;
    return parse_list(list, true, false, out);
}

TEST(OptionTable, ConnectionIsSaid) {
    const MountOptions out = good(
        "port=1,mountport=20048,mountproto=tcp,mountvers=3,proto=rdma,vers=3,nfsvers=3,v3,rdma,"
        "nconnect=4,sec=sys,device=rdmacore:rxe0,eventloop=epoll,registration=static,bg,retry=7");
    EXPECT_EQ(out.port, 1);
    EXPECT_EQ(out.device.mount_port, 20048);
    EXPECT_EQ(out.device.mount_proto, "tcp");
    EXPECT_EQ(out.loops, 4u);
    EXPECT_EQ(out.device.device, "rdmacore:rxe0");
    EXPECT_EQ(out.device.loop, "epoll");
    EXPECT_EQ(out.device.registration, "static");
    EXPECT_TRUE(out.background);
    EXPECT_EQ(out.retry_minutes, 7);
    EXPECT_EQ(good("loops=16").loops, 16u);
    EXPECT_EQ(good("bind=127.0.0.2:4000").device.bind, "127.0.0.2:4000");
    EXPECT_EQ(good("mountproto=udp6").device.mount_proto, "udp");
    EXPECT_EQ(good("port=0").port, 20049);
    EXPECT_EQ(good("mountport=0").device.mount_port, 0);
    EXPECT_TRUE(good("proto=rdma6").v6_only);
    EXPECT_FALSE(good("rdma6,proto=rdma").v6_only);
}

TEST(OptionTable, SizesAreRoundedAsNfsSays) {
    struct Row {
        const char* text;
        std::uint32_t size;
    };
    for (const Row& row :
         {Row{"1024", 1024}, Row{"1023", 4096}, Row{"1", 4096}, Row{"0", 4096}, Row{"1025", 1024},
          Row{"65536", 65536}, Row{"69000", 68608}, Row{"1048576", 1048576},
          Row{"4194304", 1048576}, Row{"18446744073709551615", 1048576}}) {
        EXPECT_EQ(good(std::string("rsize=") + row.text).rsize, row.size) << row.text;
        EXPECT_EQ(good(std::string("wsize=") + row.text).wsize, row.size) << row.text;
    }
    for (const char* text : {"", "-1", "1k", "1.5", " 1024", "0x400", "18446744073709551616"})
        EXPECT_NE(why(std::string("rsize=") + text), "") << text;
}

TEST(OptionTable, PatienceIsThatOfNfs) {
    EXPECT_EQ(good("soft").patience, Patience::soft);
    EXPECT_EQ(good("softerr").patience, Patience::softerr);
    EXPECT_EQ(good("soft,hard").patience, Patience::hard);
    EXPECT_EQ(good("timeo=15").timeo_s, 1.5);
    EXPECT_EQ(good("retrans=5").retrans, 5u);
    EXPECT_EQ(good("intr,nointr").patience, Patience::hard);
    EXPECT_EQ(good("bg").retry_minutes, 10000);
    EXPECT_EQ(good("bg,fg").retry_minutes, 2);
    EXPECT_EQ(good("retry=0").retry_minutes, 0);
    EXPECT_THAT(why("timeo=0"), HasSubstr("tenths of a second"));
    EXPECT_THAT(why("retry=x"), HasSubstr("minutes"));
}

TEST(OptionTable, MeaningOfFiles) {
    EXPECT_FALSE(good("nocto").cto);
    EXPECT_TRUE(good("nocto,cto").cto);
    EXPECT_FALSE(good("nordirplus").rdirplus);
    EXPECT_EQ(good("lookupcache=all").lookup_cache, LookupCache::all);
    EXPECT_EQ(good("lookupcache=none").lookup_cache, LookupCache::none);
    const MountOptions positive = good("lookupcache=positive");
    EXPECT_EQ(positive.lookup_cache, LookupCache::positive);
    EXPECT_EQ(positive.times.negative, 0);
    EXPECT_EQ(good("lookupcache=pos").lookup_cache, LookupCache::positive);
    EXPECT_THAT(why("lookupcache=some"), HasSubstr("all, pos, positive or none"));
}

TEST(OptionTable, FstabHasWordsOfItsOwn) {
    const MountOptions out = good(
        "defaults,noauto,auto,nouser,_netdev,nofail,comment=x,x-systemd.automount,"
        "x-systemd.idle-timeout=5,X-mount.mkdir,uhelper=me,strictatime,lazytime,diratime,"
        "nolock,local_lock=all,noacl,noresvport");
    EXPECT_EQ(out.patience, Patience::hard);
}

TEST(OptionTable, OthersMayUseIt) {
    EXPECT_FALSE(good("no_allow_other").allow_other);
    EXPECT_TRUE(good("allow_other", false).allow_other);
    EXPECT_TRUE(good("default_permissions", false).default_permissions);
    EXPECT_TRUE(good("allow_other", false).default_permissions);
    EXPECT_FALSE(good("", false).default_permissions);
    EXPECT_FALSE(good("allow_other,no_default_permissions", false).default_permissions);
    EXPECT_FALSE(good("no_default_permissions,allow_other", false).default_permissions);
    EXPECT_FALSE(good("no_default_permissions,allow_other").default_permissions);
    EXPECT_FALSE(good("no_default_permissions").default_permissions);
    EXPECT_THAT(why("allow_root"), HasSubstr("allow_other"));
}

TEST(OptionTable, WhatIsNotDoneIsRefusedWithTheReason) {
    struct Row {
        const char *list, *reason;
    };
    for (const Row& row : {Row{"vers=4", "version 3 alone, not 4"},
                           Row{"vers=4.2", "not 4"},
                           Row{"nfsvers=2", "version 3"},
                           Row{"v4.1", "version 3"},
                           Row{"minorversion=1", "version 3"},
                           Row{"proto=tcp", "over RDMA alone"},
                           Row{"udp", "over RDMA alone"},
                           Row{"sec=krb5p", "sys"},
                           Row{"lock", "nolock"},
                           Row{"local_lock=flock", "nolock"},
                           Row{"mounthost=other", "no other"},
                           Row{"mountvers=2", "version 3"},
                           Row{"mountproto=sctp", "rdma, tcp"},
                           Row{"remount,ro", "unmount it"},
                           Row{"nconnect=17", "1 to 16"},
                           Row{"nconnect=0", "1 to 16"},
                           Row{"loops=x", "1 to 16"},
                           Row{"port=65536", "1 to 65535"},
                           Row{"device=card", "device=card"},
                           Row{"bind=here", "numeric"},
                           Row{"loop=poll", "auto, io_uring or epoll"},
                           Row{"registration=none", "auto, bind, umr or static"},
                           Row{"acregmin=-1", "seconds"}}) {
        EXPECT_THAT(why(row.list), HasSubstr(row.reason)) << row.list;
    }
}

TEST(OptionTable, NamesAreThereOnce) {
    std::set<std::string_view> names;
    for (const Option& option : option_table()) {
        EXPECT_FALSE(option.name.empty());
        EXPECT_TRUE(names.insert(option.name).second) << option.name;
    }
    // What issue 6 lists.
    for (const char* name :
         {"rsize",   "wsize",    "port",     "mountport",   "mountproto",
          "proto",   "vers",     "hard",     "soft",        "timeo",
          "retrans", "nconnect", "ro",       "rw",          "noac",
          "ac",      "acregmin", "acregmax", "acdirmin",    "acdirmax",
          "actimeo", "nocto",    "rdirplus", "nordirplus",  "nolock",
          "sec",     "intr",     "bg",       "fg",          "retry",
          "noexec",  "nosuid",   "nodev",    "allow_other", "default_permissions",
          "device",  "loops"})
        EXPECT_EQ(names.count(name), 1u) << name;
}

}  // namespace
}  // namespace nfsrdma::mount
