#pragma once
#include <unistd.h>

#include <gtest/gtest.h>

namespace nfsrdma::testing {

// Tests of what only root may do.
class RootTest : public ::testing::Test {
  protected:
    void SetUp() override {
        if (::geteuid() != 0) GTEST_SKIP() << "needs root: acting as other users";
    }
};

}  // namespace nfsrdma::testing
