#pragma once
#include <memory>
#include <string>
#include <sys/stat.h>

#include "base/loop.hpp"
#include "base/unique_fd.hpp"
#include "nfs/client/write_file.hpp"
#include "tools/nfsrdma/get_job.hpp"
#include "tools/nfsrdma/progress.hpp"

namespace nfsrdma::tool {

// Copies one local file to the server: CREATE, WRITEs out of the payload memory that the local
// reads filled, SETATTR. With CopyRules::resume a LOOKUP first, and a COMMIT of what an earlier
// copy has left. A source that changes meanwhile is copied anew, a few times. Reusable.
class PutJob {
  public:
    struct Task {
        nfs::client::FileHandle directory;
        std::string name;
        UniqueFd fd;
        struct stat attributes {};
        std::string label;  // for messages
        CopyRules rules;
    };
    using Done = void (*)(PutJob& job) noexcept;  // once a task; not from inside start()
    PutJob(nfs::client::Client& client, std::uint32_t depth, Progress& progress);
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
    struct LocalRead : FileOp {
        PutJob* job = nullptr;
        nfs::client::FileWriter::Slot* slot = nullptr;
    };
    static void on_created(nfs::client::Op& op) noexcept;
    static void on_looked_up(nfs::client::Op& op) noexcept;
    static void on_kept(nfs::client::Op& op) noexcept;
    static void on_room(nfs::client::FileWriter& writer,
                        nfs::client::FileWriter::Slot& slot) noexcept;
    static void on_read(FileOp& op, std::int64_t result) noexcept;
    static void on_write_done(nfs::client::FileWriter& writer) noexcept;
    static void on_setattr(nfs::client::Op& op) noexcept;
    static void on_verified(VerifyJob& job) noexcept;
    void look_up() noexcept;
    void create() noexcept;
    void take_what_is_there() noexcept;
    void write_file(const nfs::client::FileHandle& file, std::uint64_t begin) noexcept;
    bool next_extent(std::uint64_t& offset, std::uint64_t& size) noexcept;
    void set_attributes() noexcept;
    bool copy_anew() noexcept;
    void verify() noexcept;
    void finish(const nfs::client::Outcome& why) noexcept;
    std::uint64_t size() const noexcept {
        return static_cast<std::uint64_t>(task_.attributes.st_size);
    }
    bool has_holes() const noexcept {
        return static_cast<std::uint64_t>(task_.attributes.st_blocks) * 512 < size();
    }

    nfs::client::Client& client_;
    Progress& progress_;
    const std::uint32_t depth_;
    nfs::client::FileWriter writer_;
    std::unique_ptr<LocalRead[]> reads_;
    std::unique_ptr<VerifyJob> verifier_;  // made when it is asked for
    nfs::client::CreateOp create_;
    nfs::client::LookupOp lookup_;
    nfs::client::SetattrOp setattr_;
    nfs::client::CommitOp commit_;
    Task task_;
    nfs::client::FileHandle file_;
    std::uint64_t begin_ = 0;     // bytes that were there
    std::uint64_t next_ = 0;      // offset of what is read next
    std::uint64_t data_end_ = 0;  // of the run of data that holds `next_`, in a file with holes
    std::uint64_t read_ = 0;      // bytes of the source, as the progress was told
    std::uint32_t attempts_ = 0;
    bool sparse_ = false, in_line_ = false, busy_ = false;
    bool made_ = false;     // CREATE was answered
    bool writing_ = false;  // `writer_` is, or was, at this task
};

// Arguments for a set of mode and time.
void set_mode(sattr3& attributes, std::uint32_t mode) noexcept;
void set_times(sattr3& attributes, const struct stat& from) noexcept;

}  // namespace nfsrdma::tool
