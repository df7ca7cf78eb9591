#pragma once
#include <cstdint>
#include <fcntl.h>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "tools/nfsrdma/calls.hpp"
#include "tools/nfsrdma/get_job.hpp"
#include "tools/nfsrdma/job_set.hpp"

namespace nfsrdma::tool {

struct CopyOptions {
    bool recursive = false;
    std::uint32_t jobs = 16;  // files at a time
    std::uint32_t depth = 8;  // READs or WRITEs of one file in flight
};
inline constexpr std::uint32_t kTreeDepthMax = 512;  // deeper is no tree that people make

// Copies files and trees from the server. Nothing that the server says leads out of the target:
// names that are not plain are refused, local symbolic links are not followed.
class TreeGetter {
  public:
    TreeGetter(Calls& calls, const CopyOptions& options, Progress& progress);
    // What `url` leads to becomes `name` in the directory `at`, which stays open until finish();
    // `path` is how that place is called in messages.
    void get(const Url& url, int at, const std::string& name, const std::string& path);
    // Waits for all, then gives directories their modes and times. False when anything failed; it
    // has been said.
    bool finish();

  private:
    struct Place {
        int at;
        std::string name;
        std::string path;
    };
    // A directory that was made, by the names that lead to it from where its copy began.
    struct Made {
        int at;
        std::vector<std::string> names;
        std::string path;
        fattr3 attributes;
    };
    void trouble(const std::string& place, const std::string& what);
    void get_entry(const Entry& entry, const Place& place, std::uint32_t depth);
    void get_file(const Entry& entry, const Place& place);
    void get_link(const Entry& entry, const Place& place);
    void get_directory(const Entry& entry, const Place& place, std::uint32_t depth);
    void get_below(const Entry& entry, int directory, const std::string& path, std::uint32_t depth);

    Calls& calls_;
    const CopyOptions options_;
    JobSet<GetJob> jobs_;
    std::vector<Made> directories_;
    std::vector<std::string> names_;
    int top_ = AT_FDCWD;
    bool failed_ = false;
};

}  // namespace nfsrdma::tool
