#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "tools/nfsrdma/calls.hpp"
#include "tools/nfsrdma/copy_report.hpp"
#include "tools/nfsrdma/get_job.hpp"
#include "tools/nfsrdma/job_set.hpp"
#include "tools/nfsrdma/tree_walk.hpp"

namespace nfsrdma::tool {

struct CopyOptions {
    bool recursive = false;
    std::uint32_t jobs = 16;  // files at a time
    std::uint32_t depth = 8;  // READs or WRITEs of one file in flight
    CopyRules rules;
    std::uint32_t depth_max = kTreeDepthMax;
};

// Copies files and trees from the server. Nothing that the server says leads out of the target:
// names that are not plain are refused, local symbolic links are not followed.
class TreeGetter final : private TreeVisitor {
  public:
    TreeGetter(Calls& calls, const CopyOptions& options, Progress& progress, CopyReport& report);
    // What `url` leads to becomes `name` in the directory `at`; `path` is how that place is called
    // in messages.
    void get(const Url& url, int at, const std::string& name, const std::string& path);
    // Waits for all. False when anything failed; it has been said.
    bool finish();

  private:
    bool enter(const Entry& directory, const std::string& path) override;
    bool listed(const std::vector<Entry>& /*entries*/, const std::string& /*path*/) override {
        return true;
    }
    void leaf(const Entry& entry, const nfs::client::FileHandle& parent,
              const std::string& path) override;
    void leave(const Entry& directory, const nfs::client::FileHandle& parent,
               const std::string& path) override;
    void failed(const std::string& path, const std::string& why) override;
    bool stopped() const override { return hopeless_; }

    void get_entry(const Entry& entry, int at, const std::string& path);
    void get_link(const Entry& entry, int at, const std::string& path);
    void on_done(const GetJob& job);
    void failed(const std::string& path, const Error& error);

    Calls& calls_;
    const CopyOptions options_;
    CopyReport& report_;
    JobSet<GetJob> jobs_;
    int at_ = -1;                        // where the walk began
    std::vector<UniqueFd> directories_;  // that the walk is in; local
    bool hopeless_ = false;              // the local disk is full
};

}  // namespace nfsrdma::tool
