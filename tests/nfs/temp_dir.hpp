#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "base/assert.hpp"

namespace nfsrdma::testing {

// A directory of its own that goes with the object.
class TempDir {
  public:
    TempDir() : TempDir(::testing::TempDir()) {}
    // Below `parent`, which ends with '/'.
    explicit TempDir(const std::string& parent) {
        std::string name = parent + "nfsrdma-XXXXXX";
        NR_ASSERT(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~TempDir() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

}  // namespace nfsrdma::testing
