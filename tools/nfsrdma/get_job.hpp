#pragma once
#include <memory>
#include <string>

#include "base/loop.hpp"
#include "base/unique_fd.hpp"
#include "nfs/client/read_file.hpp"
#include "tools/nfsrdma/progress.hpp"

namespace nfsrdma::tool {

// Copies one file from the server into a local one: READs land in payload memory, and the local
// writes go out of it. Reusable.
class GetJob {
  public:
    struct Task {
        nfs::client::FileHandle file;
        fattr3 attributes{};
        UniqueFd fd;
        std::string label;  // for messages
    };
    using Done = void (*)(GetJob& job) noexcept;  // once a task; not from inside start()
    GetJob(nfs::client::Client& client, std::uint32_t depth, Progress& progress);
    void start(Task task) noexcept;
    bool busy() const noexcept { return busy_; }
    Done done = nullptr;
    void* user = nullptr;
    nfs::client::Outcome outcome;
    const std::string& label() const noexcept { return task_.label; }

  private:
    struct LocalWrite : FileOp {
        GetJob* job = nullptr;
        nfs::client::FileReader::Slot* slot = nullptr;
    };
    static void on_data(nfs::client::FileReader& reader,
                        nfs::client::FileReader::Slot& slot) noexcept;
    static void on_written(FileOp& op, std::int64_t result) noexcept;
    static void on_read_done(nfs::client::FileReader& reader) noexcept;
    void write(nfs::client::FileReader::Slot& slot) noexcept;
    Result<void> finish_file() noexcept;

    nfs::client::Client& client_;
    Progress& progress_;
    nfs::client::FileReader reader_;
    std::unique_ptr<LocalWrite[]> writes_;
    Task task_;
    std::uint64_t end_ = 0;  // of the local file
    bool sparse_ = false, in_line_ = false, busy_ = false;
};

}  // namespace nfsrdma::tool
