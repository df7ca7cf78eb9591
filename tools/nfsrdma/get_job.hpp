#pragma once
#include <memory>
#include <string>

#include "base/loop.hpp"
#include "base/unique_fd.hpp"
#include "nfs/client/read_file.hpp"
#include "tools/nfsrdma/local_file.hpp"
#include "tools/nfsrdma/progress.hpp"
#include "tools/nfsrdma/verify_job.hpp"

namespace nfsrdma::tool {

// How a file is copied, either way.
struct CopyRules {
    bool resume = false;  // skip what is complete, go on with what is not
    bool verify = false;  // read the copy back and compare
};
// What became of it.
struct CopyResult {
    bool skipped = false;    // it was complete
    bool continued = false;  // from where an earlier copy had ended
    bool verified = false;
    std::string trouble;  // what is wrong where `outcome` is not the reason; empty: it is
};

// Copies one file from the server into a local one: READs land in payload memory, and the local
// writes go out of it. A source that changes meanwhile is copied anew, a few times. Reusable.
class GetJob {
  public:
    struct Task {
        nfs::client::FileHandle file;
        fattr3 attributes{};
        UniqueFd directory;  // local
        std::string name;    // in it
        std::string label;   // for messages
        CopyRules rules;
    };
    using Done = void (*)(GetJob& job) noexcept;  // once a task; not from inside start()
    GetJob(nfs::client::Client& client, std::uint32_t depth, Progress& progress);
    void start(Task task) noexcept;
    bool busy() const noexcept { return busy_; }
    Done done = nullptr;
    void* user = nullptr;
    nfs::client::Outcome outcome;
    CopyResult result;
    const std::string& label() const noexcept { return task_.label; }
    // Of a copy that failed: what is left of it.
    std::string remains() const;

  private:
    struct LocalWrite : FileOp {
        GetJob* job = nullptr;
        nfs::client::FileReader::Slot* slot = nullptr;
    };
    struct FinishTask final : ::nfsrdma::Task {
        using ::nfsrdma::Task::Task;
        GetJob* job = nullptr;
    };
    static void on_data(nfs::client::FileReader& reader,
                        nfs::client::FileReader::Slot& slot) noexcept;
    static void on_written(FileOp& op, std::int64_t result) noexcept;
    static void on_read_done(nfs::client::FileReader& reader) noexcept;
    static void on_verified(VerifyJob& job) noexcept;
    static void on_finished(::nfsrdma::Task& task) noexcept;
    Result<void> open_file() noexcept;
    void read_from(std::uint64_t offset) noexcept;
    bool source_changed() noexcept;
    bool copy_anew() noexcept;
    void verify() noexcept;
    void write(nfs::client::FileReader::Slot& slot) noexcept;
    Result<void> finish_file() noexcept;
    void finish() noexcept;

    nfs::client::Client& client_;
    Progress& progress_;
    const std::uint32_t depth_;
    nfs::client::FileReader reader_;
    std::unique_ptr<LocalWrite[]> writes_;
    std::unique_ptr<VerifyJob> verifier_;  // made when it is asked for
    FinishTask finish_task_;
    Task task_;
    UniqueFd fd_;
    std::uint64_t end_ = 0;  // of the local file
    std::uint32_t attempts_ = 0;
    bool sparse_ = false, in_line_ = false, busy_ = false, created_ = false;
};

// Bytes at the end of a broken copy that are not trusted: pieces were under way in no order.
std::uint64_t resume_overlap(nfs::client::Client& client, std::uint32_t depth) noexcept;

}  // namespace nfsrdma::tool
