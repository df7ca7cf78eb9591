#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nfs/client/client.hpp"

// Finds an object by its path below a root: LOOKUP by LOOKUP, following symbolic links on the way.
namespace nfsrdma::nfs::client {

class PathWalk {
  public:
    using Done = void (*)(PathWalk& walk) noexcept;
    explicit PathWalk(Client& client) noexcept;

    // `path` is relative to `root`, of components separated by '/'; empty components and "." are
    // left out, ".." goes up but never above the root. `follow_last`: a symbolic link at the very
    // end is followed, too. `parent_only`: ends at the directory of the last component, which must
    // be a plain name and need not exist.
    struct Options {
        FileHandle root;
        std::string path;
        bool follow_last = true;
        bool parent_only = false;
    };
    void start(const Options& options);
    Done done = nullptr;  // once; not from inside start()
    void* user = nullptr;
    Outcome outcome;
    FileHandle object;    // after success; with parent_only the directory
    fattr3 attributes{};  // of it
    const std::string& last_name() const noexcept {
        return last_name_;
    }  // parent_only: the component left out
    const std::string& failed_at() const noexcept {
        return failed_at_;
    }  // after failure: path up to where it failed

  private:
    struct Step {
        std::string name;
        FileHandle object;
    };
    static void on_lookup(Op& op) noexcept;
    static void on_getattr(Op& op) noexcept;
    static void on_readlink(Op& op) noexcept;
    void push_path(std::string_view path);
    void advance() noexcept;
    void arrived(const fattr3& attr) noexcept;
    void follow(std::string_view target);
    void finish(const Outcome& why) noexcept;
    const FileHandle& here() const noexcept {
        return done_steps_.empty() ? options_.root : done_steps_.back().object;
    }

    Client& client_;
    Options options_;
    std::vector<Step> done_steps_;   // from the root to where we are
    std::vector<std::string> left_;  // still to go, the next one last
    std::string last_name_, failed_at_;
    std::uint32_t links_ = 0;
    bool at_end_ = false;
    LookupOp lookup_;
    GetattrOp getattr_;
    ReadlinkOp readlink_;
};

}  // namespace nfsrdma::nfs::client
