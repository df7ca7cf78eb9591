#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/nfsrdma/calls.hpp"
#include "tools/rpcrdma_stress/options.hpp"
#include "tools/rpcrdma_stress/worker.hpp"
#include "verbs/softroce/softroce.hpp"

namespace nfsrdma::stress {

struct StressResult {
    bool ok = false;
    std::string trouble;              // why it could not be done, or not to its end
    std::string mismatch;             // what was not as it must be
    std::vector<std::string> before;  // what the same worker did last, the oldest first
    std::string directory;            // that the run made, when it was left behind
    Tally tally;
    std::uint64_t steps = 0, connects = 0, fingerprint = 0;
    double seconds = 0;
    xprtrdma::TransportCounters rdma;
    verbs::softroce::FaultCounters faults;  // of our device
    std::uint64_t server_kills = 0, server_stops = 0;
};

// One run against one server: connections, workers on them, and what came of it.
class Stress final : public Field, public ConnectionOwner {
  public:
    // `device` and its loop outlive this. `url` is options.dir.
    Stress(verbs::Device& device, const SockAddr& server, const tool::Url& url,
           const Options& options);
    ~Stress();
    Stress(const Stress&) = delete;
    Stress& operator=(const Stress&) = delete;
    // Runs the loop. Not to be called again.
    StressResult run();
    void interrupt() noexcept { interrupted_ = true; }  // on the loop
    // Run as the workers begin, and when they have ended: not while the run is set up or cleaned
    // up.
    void at_work(std::function<void()> begin, std::function<void()> end) {
        work_begins_ = std::move(begin);
        work_ends_ = std::move(end);
    }

    const Content& content() const noexcept override { return content_; }
    const PlanOptions& plan_options() const noexcept override { return plan_options_; }
    Connection& connection(std::uint32_t any) noexcept override {
        return *connections_[any % connections_.size()];
    }
    Loop& loop() noexcept override { return device_.loop(); }
    Tally& tally() noexcept override { return result_.tally; }
    const nfs::client::FileHandle& common_file() const noexcept override { return common_; }
    std::uint32_t common_rounds() const noexcept override { return common_rounds_; }
    void common_grown(std::uint32_t rounds) noexcept override {
        common_rounds_ = std::max(common_rounds_, rounds);
    }
    std::uint32_t workers() const noexcept override {
        return options_.connections * options_.depth;
    }
    bool stopped() const noexcept override {
        return !result_.trouble.empty() || !result_.mismatch.empty() || closing_;
    }
    bool enough(std::uint64_t steps_done) const noexcept override;
    void note_answer() noexcept override { last_answer_ns_ = device_.loop().now_ns(); }
    void mismatch(const Worker& worker, const std::string& what) noexcept override;
    void trouble(const std::string& what) noexcept override;
    void note_verifier(const char* verifier) noexcept override;

    bool connection_busy(const Connection& connection) const noexcept override;
    void connection_up(Connection& connection) noexcept override;
    void connection_gone(Connection& connection) noexcept override;
    void connection_lost(Connection& connection, const Error& why) noexcept override;

  private:
    bool wait_until(const std::function<bool()>& done, std::uint64_t limit_ns);
    bool connect();
    bool set_up();
    void choose_mount();
    bool make_directories();
    bool make_common_file();
    nfs::client::FileHandle make_directory(const nfs::client::FileHandle& parent, std::string name);
    void work();
    void watch();
    std::string who_waits() const;
    void stop_workers();
    void clean_up();
    void not_removed(const std::string& why);
    bool remove_tree(const nfs::client::FileHandle& directory);
    bool remove_entry(const nfs::client::FileHandle& directory, const tool::Entry& entry);
    void close();
    nfs::client::Outcome run(nfs::client::Op& op);

    verbs::Device& device_;
    const SockAddr server_;
    const tool::Url url_;
    const Options options_;
    PlanOptions plan_options_;
    Content content_;
    StressResult result_;
    std::function<void()> work_begins_, work_ends_;
    bool interrupted_ = false, closing_ = false, setting_up_ = true;
    bool silent_ = false;  // the server answers no more
    std::uint64_t end_ns_ = UINT64_MAX, last_answer_ns_ = 0;
    std::uint32_t common_rounds_ = 0;
    std::optional<std::array<char, NFS3_WRITEVERFSIZE>> verifier_;
    std::vector<std::unique_ptr<Connection>> connections_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::unique_ptr<tool::Calls> calls_;
    nfs::client::FileHandle parent_, directory_, common_;
    std::string name_;
    std::vector<std::array<nfs::client::FileHandle, 2>> directories_;
};

}  // namespace nfsrdma::stress
