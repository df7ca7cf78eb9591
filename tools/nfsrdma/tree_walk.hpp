#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/nfsrdma/calls.hpp"

namespace nfsrdma::tool {

inline constexpr std::uint32_t kTreeDepthMax = 4096;  // deeper is no tree that people make

// What a walk over a tree at the server meets, in order. `path` is the place as messages call it.
class TreeVisitor {
  public:
    virtual ~TreeVisitor() = default;
    // Before the directory is read. False: it is left out, with all that is in it.
    virtual bool enter(const Entry& directory, const std::string& path) = 0;
    // All that is in it. False: what is in it is not walked through.
    virtual bool listed(const std::vector<Entry>& entries, const std::string& path) = 0;
    // What is no directory, or could not be looked at (`known` is false).
    virtual void leaf(const Entry& entry, const nfs::client::FileHandle& parent,
                      const std::string& path) = 0;
    // After everything in it. The root has no parent: an empty handle.
    virtual void leave(const Entry& directory, const nfs::client::FileHandle& parent,
                       const std::string& path) = 0;
    virtual void failed(const std::string& path, const std::string& why) = 0;
    // Nothing further is wanted: the walk ends, without leave().
    virtual bool stopped() const = 0;
};

struct WalkOptions {
    std::uint32_t depth_max = kTreeDepthMax;
    ListOptions list;
};
// Depth first, in the order of names. Paths may be longer than any file system's PATH_MAX: handles
// lead the way. Names that are none are failures, and so is a name that stands for two things.
void walk_tree(Calls& calls, TreeVisitor& visitor, const Entry& root, const std::string& path,
               const WalkOptions& options);

}  // namespace nfsrdma::tool
