#include <gtest/gtest.h>

#include "tools/mount_nfsrdma/options.hpp"

namespace nfsrdma::mount {
namespace {

std::string text_of(const std::string& list) {
    MountOptions out;
    EXPECT_EQ(parse_list(list, true, false, out), "");
    return options_text(out, 1048576, 65536);
}

TEST(OptionsText, DefaultsReadAsThoseOfTheKernel) {
    EXPECT_EQ(text_of(""),
              "rw,vers=3,rsize=1048576,wsize=65536,acregmin=3,acregmax=60,acdirmin=30,acdirmax=60,"
              "hard,proto=rdma,port=20049,timeo=600,retrans=2,sec=sys,mountvers=3,local_lock=all,"
              "device=softroce");
}

TEST(OptionsText, WhatWasAskedForIsShown) {
    const std::string text = text_of(
        "ro,nosuid,noexec,softerr,noac,nocto,nordirplus,lookupcache=none,nconnect=4,timeo=5,"
        "mountproto=tcp,mountport=2048,rdma6");
    for (const char* word : {"ro,nosuid,noexec,vers=3", ",acregmax=0,",
                             ",softerr,noac,nocto,nordirplus,lookupcache=none,", ",proto=rdma6,",
                             ",nconnect=4,timeo=5,", ",mountproto=tcp,mountport=2048,"}) {
        EXPECT_NE(text.find(word), std::string::npos) << word << " in " << text;
    }
}

TEST(OptionsText, IsUnderstoodAgain) {
    MountOptions out;
    EXPECT_EQ(parse_list(text_of("soft,noac,lookupcache=pos,loops=3,retrans=7"), true, false, out),
              "");
    EXPECT_EQ(out.patience, Patience::soft);
    EXPECT_EQ(out.loops, 3u);
    EXPECT_EQ(out.retrans, 7u);
}

}  // namespace
}  // namespace nfsrdma::mount
