#include "tirpc/error_text.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "tirpc/tirpc_rdma.h"

namespace nfsrdma::tirpc {
namespace {

TEST(ErrorText, EachThreadHasItsOwnAndItIsEmptyAtFirst) {
    set_error_text("ours");
    std::thread([] {
        EXPECT_STREQ(rpcrdma_strerror(), "");
        set_error_text("theirs");
    }).join();
    EXPECT_STREQ(rpcrdma_strerror(), "ours");
}

TEST(ErrorText, AnErrorReadsAsALine) {
    set_error_text("connect to 127.0.0.1:20049", Error{Errc::system, ENODEV, "open a device"});
    EXPECT_STREQ(rpcrdma_strerror(), "connect to 127.0.0.1:20049: open a device: No such device");
    set_error_text("", Error{Errc::timed_out, 0, ""});
    EXPECT_STREQ(rpcrdma_strerror(), "timed out");
}

TEST(ErrorText, WhatIsTooLongIsCut) {
    set_error_text(std::string(2000, 'x'));
    EXPECT_EQ(std::strlen(rpcrdma_strerror()), kErrorTextBytes - 1);
    set_error_text(std::string(2000, 'y'), Error{Errc::system, EIO, "z"});
    EXPECT_EQ(std::strlen(rpcrdma_strerror()), kErrorTextBytes - 1);
}

TEST(ErrorText, MayBeSetFromItself) {
    set_error_text("a line");
    set_error_text(rpcrdma_strerror());
    EXPECT_STREQ(rpcrdma_strerror(), "a line");
}

TEST(ErrorText, EveryErrorHasAnErrno) {
    for (int code = 0; code <= static_cast<int>(Errc::system); ++code)
        EXPECT_NE(errno_of(Error{static_cast<Errc>(code), 0, ""}), 0);
    EXPECT_EQ(errno_of(Error{Errc::refused, 0, ""}), ECONNREFUSED);
    EXPECT_EQ(errno_of(Error{Errc::timed_out, 0, ""}), ETIMEDOUT);
    EXPECT_EQ(errno_of(Error{Errc::system, EACCES, ""}), EACCES);
}

}  // namespace
}  // namespace nfsrdma::tirpc
