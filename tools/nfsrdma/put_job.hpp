#pragma once
#include <memory>
#include <string>
#include <sys/stat.h>

#include "base/loop.hpp"
#include "base/unique_fd.hpp"
#include "nfs/client/write_file.hpp"
#include "tools/nfsrdma/progress.hpp"

namespace nfsrdma::tool {

// Copies one local file to the server: CREATE, WRITEs out of the payload memory that the local
// reads filled, SETATTR. Reusable.
class PutJob {
  public:
    struct Task {
        nfs::client::FileHandle directory;
        std::string name;
        UniqueFd fd;
        struct stat attributes {};
        std::string label;  // for messages
    };
    using Done = void (*)(PutJob& job) noexcept;  // once a task; not from inside start()
    PutJob(nfs::client::Client& client, std::uint32_t depth, Progress& progress);
    void start(Task task) noexcept;
    bool busy() const noexcept { return busy_; }
    Done done = nullptr;
    void* user = nullptr;
    nfs::client::Outcome outcome;
    const std::string& label() const noexcept { return task_.label; }

  private:
    struct LocalRead : FileOp {
        PutJob* job = nullptr;
        nfs::client::FileWriter::Slot* slot = nullptr;
    };
    static void on_created(nfs::client::Op& op) noexcept;
    static void on_looked_up(nfs::client::Op& op) noexcept;
    static void on_room(nfs::client::FileWriter& writer,
                        nfs::client::FileWriter::Slot& slot) noexcept;
    static void on_read(FileOp& op, std::int64_t result) noexcept;
    static void on_restart(nfs::client::FileWriter& writer) noexcept;
    static void on_write_done(nfs::client::FileWriter& writer) noexcept;
    static void on_setattr(nfs::client::Op& op) noexcept;
    void write_file(const nfs::client::FileHandle& file) noexcept;
    bool next_extent(std::uint64_t& offset, std::uint64_t& size) noexcept;
    void set_attributes() noexcept;
    void finish(const nfs::client::Outcome& why) noexcept;
    std::uint64_t size() const noexcept {
        return static_cast<std::uint64_t>(task_.attributes.st_size);
    }

    nfs::client::Client& client_;
    Progress& progress_;
    nfs::client::FileWriter writer_;
    std::unique_ptr<LocalRead[]> reads_;
    nfs::client::CreateOp create_;
    nfs::client::LookupOp lookup_;
    nfs::client::SetattrOp setattr_;
    Task task_;
    nfs::client::FileHandle file_;
    std::uint64_t next_ = 0;      // offset of what is read next
    std::uint64_t data_end_ = 0;  // of the run of data that holds `next_`, in a file with holes
    bool sparse_ = false, in_line_ = false, busy_ = false;
};

// Arguments for a set of mode and time.
void set_mode(sattr3& attributes, std::uint32_t mode) noexcept;
void set_mtime(sattr3& attributes, const timespec& mtime) noexcept;

}  // namespace nfsrdma::tool
