#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tools/nfsrdma/calls.hpp"
#include "tools/nfsrdma/progress.hpp"

namespace nfsrdma::tool {

// A fixed number of reusable jobs that run side by side on the loop of the calls. The caller waits
// for a free one, starts it, and goes on; `report` is told of each one that has ended.
template <class Job>
class JobSet {
  public:
    using Report = std::function<void(const Job& job)>;
    JobSet(Calls& calls, std::uint32_t count, std::uint32_t depth, Progress& progress,
           Report report)
        : calls_(calls), report_(std::move(report)) {
        for (std::uint32_t i = 0; i < std::max(count, 1u); ++i) {
            Job& job = *jobs_.emplace_back(std::make_unique<Job>(calls.client(), depth, progress));
            job.user = this;
            job.done = on_done;
            free_.push_back(&job);
        }
    }
    void start(typename Job::Task task) {
        if (free_.empty()) calls_.wait_until([this] { return !free_.empty(); });
        Job& job = *free_.back();
        free_.pop_back();
        job.start(std::move(task));
    }
    void wait_for_all() {
        calls_.wait_until([this] { return free_.size() == jobs_.size(); });
    }

  private:
    static void on_done(Job& job) noexcept {
        JobSet& self = *static_cast<JobSet*>(job.user);
        self.report_(job);
        self.free_.push_back(&job);
    }
    Calls& calls_;
    Report report_;
    std::vector<std::unique_ptr<Job>> jobs_;
    std::vector<Job*> free_;
};

}  // namespace nfsrdma::tool
