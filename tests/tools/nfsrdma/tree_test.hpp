#pragma once
#include <memory>
#include <string>
#include <sys/stat.h>

#include "tests/nfs/client/world.hpp"
#include "tests/tools/nfsrdma/local_dir.hpp"
#include "tools/nfsrdma/calls.hpp"
#include "tools/nfsrdma/progress.hpp"

namespace nfsrdma::testing {

// Calls on the real server, over a transport inside the process, and a local directory.
class ToolWorld : public NfsWorld {
  protected:
    ToolWorld() {
        url.host = "server";
        url.path = "/export";
        calls = std::make_unique<tool::Calls>(*client, url);
        EXPECT_TRUE(calls->mount(url.path));
        progress = std::make_unique<tool::Progress>(*world.loop, false, 0);
    }
    tool::Url at(const std::string& below) const {
        tool::Url out = url;
        out.path += below;
        return out;
    }
    static struct stat stat_of(const std::string& path) {
        struct stat st {};
        EXPECT_EQ(::lstat(path.c_str(), &st), 0) << path;
        return st;
    }
    tool::Url url;
    std::unique_ptr<tool::Calls> calls;
    std::unique_ptr<tool::Progress> progress;
    LocalDir local;
};

}  // namespace nfsrdma::testing
