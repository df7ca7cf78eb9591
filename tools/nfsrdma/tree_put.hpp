#pragma once
#include <cstdint>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "tools/nfsrdma/calls.hpp"
#include "tools/nfsrdma/job_set.hpp"
#include "tools/nfsrdma/put_job.hpp"
#include "tools/nfsrdma/tree_get.hpp"

namespace nfsrdma::tool {

// Copies local files and trees to the server.
class TreePutter {
  public:
    TreePutter(Calls& calls, const CopyOptions& options, Progress& progress);
    // The local `path` becomes `name` in `directory`; a local directory's content goes into
    // `directory` when `name` is empty.
    void put(const std::string& path, const nfs::client::FileHandle& directory,
             const std::string& name);
    // Waits for all, then gives directories their modes and times. False when anything failed; it
    // has been said.
    bool finish();

  private:
    struct Source {
        int at;
        std::string name;
        std::string path;  // for messages
        bool follow_link;
    };
    struct Made {
        nfs::client::FileHandle handle;
        struct stat attributes;
        std::string path;
    };
    struct Target {
        const nfs::client::FileHandle& directory;
        std::string name;
    };
    void trouble(const std::string& place, const std::string& what);
    void put_entry(const Source& source, const struct stat& st, const Target& target,
                   std::uint32_t depth);
    void put_file(const Source& source, const Target& target);
    void put_link(const Source& source, const struct stat& st, const Target& target);
    void put_directory(const Source& source, const struct stat& st, const Target& target,
                       std::uint32_t depth);
    void put_below(int local, const std::string& path, const nfs::client::FileHandle& directory,
                   std::uint32_t depth);
    nfs::client::Outcome make_remote(const Target& target, nfs::client::FileHandle& made);

    Calls& calls_;
    const CopyOptions options_;
    JobSet<PutJob> jobs_;
    std::vector<Made> directories_;
    bool failed_ = false;
};

}  // namespace nfsrdma::tool
