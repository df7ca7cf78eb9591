#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/loop.hpp"

namespace nfsrdma::tool {

// What was moved so far, and a line about it on the terminal, renewed a few times a second.
class Progress {
  public:
    // Shows itself when `terminal`; total_bytes == 0: not known.
    Progress(Loop& loop, bool terminal, std::uint64_t total_bytes) noexcept;
    ~Progress();  // wipes the line
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void add_bytes(std::uint64_t bytes) noexcept { bytes_ += bytes; }
    // What is moved once more was counted already.
    void take_back_bytes(std::uint64_t bytes) noexcept { bytes_ -= std::min(bytes, bytes_); }
    void add_file() noexcept { ++files_; }
    std::uint64_t bytes() const noexcept { return bytes_; }
    std::uint64_t files() const noexcept { return files_; }
    double seconds() const noexcept;
    std::string line() const;  // "[#####.....]  50 %  1.0 MiB  10.0 MiB/s  3 files"

  private:
    static void on_timer(Timer& timer) noexcept;
    struct ShowTimer final : Timer {
        ShowTimer(Fire fire_at, Progress& owner) noexcept : Timer(fire_at), progress(owner) {}
        Progress& progress;
    };
    Loop& loop_;
    const bool terminal_;
    const std::uint64_t total_bytes_;
    const std::uint64_t started_ns_;
    std::uint64_t bytes_ = 0, files_ = 0;
    bool shown_ = false;
    ShowTimer timer_;
};

}  // namespace nfsrdma::tool
