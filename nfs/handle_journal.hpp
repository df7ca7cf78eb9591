#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "nfs/posix_handles.hpp"

namespace nfsrdma::nfs {

// Keeps a handle database on disk, so that handles survive the process: also when it is killed, not
// when the machine loses power in the seconds before.
//
// PATH.base is the database as it was; PATH.N.log is what came after, PATH.lock keeps a second
// server out. A base names the first log that goes on from it. When a log has grown larger than the
// base, the next one is begun and a new base written beside it: at every moment a base and the logs
// from it on say everything. Records carry checksums; a log is good up to its first bad record.
class HandleJournal final : public PlaceLog {
  public:
    // Fills `into` from what is there and keeps the files open. Errc::refused: another process has
    // them; Errc::again: an earlier one of this process; Errc::system.
    static Result<std::unique_ptr<HandleJournal>> open(const std::string& path, PosixHandles& into);
    ~HandleJournal();
    HandleJournal(const HandleJournal&) = delete;
    HandleJournal& operator=(const HandleJournal&) = delete;

    // Any thread.
    void note(const PlaceRecord& record) noexcept override;
    void flush() noexcept override;

    // Every second or so, by one thread: syncs, and writes a new base when it is time (`now`: in
    // any case).
    void tidy(const PosixHandles& handles, bool now = false) noexcept;

    std::uint64_t log_bytes() const noexcept;
    // A write has failed: what is learned is kept in memory only, until a new base could be
    // written.
    bool is_broken() const noexcept;

  private:
    explicit HandleJournal(std::string path) : path_(std::move(path)) {}
    Result<void> start(PosixHandles& into);
    std::string log_path(std::uint64_t epoch) const;
    Result<UniqueFd> new_log(std::uint64_t epoch) const;
    Result<void> write_base(const PosixHandles& handles, std::uint64_t epoch);
    void flush_locked() noexcept;
    void remove_logs_before(std::uint64_t epoch) const noexcept;

    const std::string path_;
    UniqueFd lock_fd_;
    mutable std::mutex mutex_;  // of what follows
    UniqueFd log_fd_;           // changed by tidy() only, under the lock
    std::uint64_t epoch_ = 0;
    std::uint64_t log_bytes_ = 0;
    bool broken_ = false, unsynced_ = false;
    std::string pending_;
    // Of the thread that tidies.
    std::uint64_t base_bytes_ = 0;
    std::uint32_t patience_ = 0;
};

}  // namespace nfsrdma::nfs
