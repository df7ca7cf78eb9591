#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "base/unique_fd.hpp"
#include "tools/nfsrdma/local_file.hpp"

namespace nfsrdma::testing {

// A directory of this test's own, gone with it.
class LocalDir {
  public:
    LocalDir() {
        std::string name = std::filesystem::temp_directory_path() / "nfsrdma-tool.XXXXXX";
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        path_ = name;
        auto opened = tool::open_directory(-100, name, true);  // AT_FDCWD
        EXPECT_TRUE(opened);
        if (opened) fd_ = *std::move(opened);
    }
    ~LocalDir() {
        std::error_code ignored;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(path_, ignored)) {
            if (entry.is_directory() && !entry.is_symlink()) {
                std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_all,
                                             ignored);
            }
        }
        std::filesystem::remove_all(path_, ignored);
    }
    LocalDir(const LocalDir&) = delete;
    LocalDir& operator=(const LocalDir&) = delete;
    int fd() const { return fd_.get(); }
    std::string operator/(const std::string& name) const { return (path_ / name).string(); }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path_ / name, std::ios::binary) << text;
    }
    std::string read(const std::string& name) const {
        std::ifstream in(path_ / name, std::ios::binary);
        std::stringstream text;
        text << in.rdbuf();
        return text.str();
    }
    bool has(const std::string& name) const {
        return std::filesystem::exists(std::filesystem::symlink_status(path_ / name));
    }

  private:
    std::filesystem::path path_;
    UniqueFd fd_;
};

}  // namespace nfsrdma::testing
