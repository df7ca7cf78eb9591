#include "tools/nfsrdma/tree_walk.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::FileHandle;
using nfs::client::Outcome;

struct Level {
    Entry directory;
    FileHandle parent;
    std::vector<Entry> entries;
    std::size_t next = 0;
    std::size_t path_size = 0;  // of the path up to this directory
};

class Walk {
  public:
    Walk(Calls& calls, TreeVisitor& visitor, const WalkOptions& options)
        : calls_(calls), visitor_(visitor), options_(options) {}
    void run(const Entry& root, const std::string& path) {
        path_ = path;
        enter(root, FileHandle{});
        while (!levels_.empty()) {
            if (visitor_.stopped() || calls_.interrupted() || !calls_.connected()) return;
            Level& level = levels_.back();
            path_.resize(level.path_size);
            if (level.next == level.entries.size()) {
                visitor_.leave(level.directory, level.parent, path_);
                levels_.pop_back();
            } else {
                visit(level.entries[level.next++], level.directory.handle);
            }
        }
    }

  private:
    void enter(const Entry& directory, const FileHandle& parent) {
        if (levels_.size() >= options_.depth_max) {
            visitor_.failed(path_, "the tree is too deep");
            return;
        }
        if (!visitor_.enter(directory, path_)) return;
        Level& level = levels_.emplace_back();
        level.directory = directory;
        level.parent = parent;
        level.path_size = path_.size();
        const Outcome outcome = calls_.list(directory.handle, level.entries, options_.list);
        if (!outcome.ok()) visitor_.failed(path_, calls_.explain(outcome));
        if (!visitor_.listed(level.entries, path_)) level.next = level.entries.size();
    }
    // Copies of what it needs: levels move when one is added.
    void visit(const Entry& entry, const FileHandle parent) {
        path_ += "/";
        path_ += entry.name;
        if (!nfs::client::is_plain_name(entry.name.c_str())) {
            if (entry.name != "." && entry.name != "..")
                visitor_.failed(path_, "refused: the server sent a name that is none");
        } else if (entry.repeated) {
            visitor_.failed(path_, "refused: the server sent this name for two things");
        } else if (entry.known && entry.attributes.type == NF3DIR) {
            enter(Entry(entry), parent);
        } else {
            visitor_.leaf(entry, parent, path_);
        }
    }
    Calls& calls_;
    TreeVisitor& visitor_;
    const WalkOptions& options_;
    std::vector<Level> levels_;
    std::string path_;
};

}  // namespace

void walk_tree(Calls& calls, TreeVisitor& visitor, const Entry& root, const std::string& path,
               const WalkOptions& options) {
    Walk(calls, visitor, options).run(root, path);
}

}  // namespace nfsrdma::tool
