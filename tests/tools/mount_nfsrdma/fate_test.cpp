#include "tools/mount_nfsrdma/fate.hpp"

#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

std::string status(const std::string& own, const std::string& shared) {
    return "Name:\tx\nThreads:\t1\nSigQ:\t0/1\nSigPnd:\t" + own + "\nShdPnd:\t" + shared +
           "\nSigBlk:\tffffffffffffffff\n";
}

TEST(Fate, OnlySigkillIsDeath) {
    EXPECT_EQ(fate_in(status("0000000000000000", "0000000000000000")), Fate::lives);
    EXPECT_EQ(fate_in(status("0000000000000100", "0000000000000000")), Fate::dies);
    EXPECT_EQ(fate_in(status("0000000000000000", "0000000000000102")), Fate::dies);
    // SIGALRM, SIGURG, SIGCHLD.
    EXPECT_EQ(fate_in(status("0000000000412000", "0000000000412000")), Fate::lives);
}

TEST(Fate, WhatCannotBeReadIsUnknown) {
    EXPECT_EQ(fate_in(""), Fate::unknown);
    EXPECT_EQ(fate_in("Name:\tSigPnd:\n"), Fate::unknown);
    EXPECT_EQ(fate_in("Name:\tx\nSigPnd:\tzz\nShdPnd:\t0\n"), Fate::unknown);
    EXPECT_EQ(fate_of(0), Fate::unknown);
    EXPECT_EQ(fate_of(-1), Fate::unknown);
}

TEST(Fate, ThisThreadLives) {
    EXPECT_EQ(fate_of(::gettid()), Fate::lives);
}

}  // namespace
}  // namespace nfsrdma::mount
