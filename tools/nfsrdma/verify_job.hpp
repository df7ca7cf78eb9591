#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "nfs/client/read_file.hpp"

namespace nfsrdma::tool {

// Reads a file at the server once more and compares it, byte by byte, with a local one. Reusable.
// Memory for the local bytes is taken when it is used for the first time.
class VerifyJob {
  public:
    using Done = void (*)(VerifyJob& job) noexcept;  // once; not from inside start()
    VerifyJob(nfs::client::Client& client, std::uint32_t depth);
    // `fd` is open for reading, and stays so, until `done`; `size`: what both files should have.
    void start(const nfs::client::FileHandle& file, std::uint64_t size, int fd);
    Done done = nullptr;
    void* user = nullptr;
    nfs::client::Outcome outcome;  // of the reading
    bool same() const noexcept { return outcome.ok() && difference_ == UINT64_MAX; }
    // First byte that is known to be another; only when `outcome` is fine and they are not the
    // same.
    std::uint64_t difference() const noexcept { return difference_; }

  private:
    struct LocalRead : FileOp {
        VerifyJob* job = nullptr;
        nfs::client::FileReader::Slot* slot = nullptr;
        std::vector<std::byte> memory;
    };
    static void on_data(nfs::client::FileReader& reader,
                        nfs::client::FileReader::Slot& slot) noexcept;
    static void on_read(FileOp& op, std::int64_t result) noexcept;
    static void on_read_done(nfs::client::FileReader& reader) noexcept;
    void differs_at(std::uint64_t offset) noexcept;

    nfs::client::Client& client_;
    nfs::client::FileReader reader_;
    std::unique_ptr<LocalRead[]> reads_;
    int fd_ = -1;
    std::uint64_t size_ = 0, difference_ = UINT64_MAX;
    bool in_line_ = false;
};

// "verification failed: ..." of a job that found them to differ.
std::string difference_text(const VerifyJob& job);

}  // namespace nfsrdma::tool
