#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/nfsrdma/calls.hpp"
#include "tools/nfsrdma/progress.hpp"

namespace nfsrdma::tool {

// A fixed number of reusable jobs that run side by side on the loop of the calls. The caller waits
// for a free one, starts it, and goes on; failures are told by `report`.
template <class Job>
class JobSet {
  public:
    using Report =
        std::function<void(const std::string& label, const nfs::client::Outcome& outcome)>;
    JobSet(Calls& calls, std::uint32_t count, std::uint32_t depth, Progress& progress,
           Report report)
        : calls_(calls), report_(std::move(report)) {
        for (std::uint32_t i = 0; i < std::max(count, 1u); ++i) {
            Job& job = *jobs_.emplace_back(std::make_unique<Job>(calls.client(), depth, progress));
            job.user = this;
            job.done = on_done;
        }
    }
    void start(typename Job::Task task) {
        calls_.wait_until([this] { return busy_ < jobs_.size(); });
        const auto free =
            std::find_if(jobs_.begin(), jobs_.end(), [](const auto& job) { return !job->busy(); });
        ++busy_;
        (*free)->start(std::move(task));
    }
    void wait_for_all() {
        calls_.wait_until([this] { return busy_ == 0; });
    }
    bool failed() const noexcept { return failed_; }

  private:
    static void on_done(Job& job) noexcept {
        JobSet& self = *static_cast<JobSet*>(job.user);
        --self.busy_;
        if (job.outcome.ok()) return;
        self.failed_ = true;
        self.report_(job.label(), job.outcome);
    }
    Calls& calls_;
    Report report_;
    std::vector<std::unique_ptr<Job>> jobs_;
    std::size_t busy_ = 0;
    bool failed_ = false;
};

}  // namespace nfsrdma::tool
