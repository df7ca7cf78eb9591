#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace nfsrdma {

// A file of memory (tmpfs) mapped to be read. A copy out of it runs two to three times as
// fast as pread, whose copy waits for cold memory (docs/adr: file IO). It pays for a file that is
// read again: the first touch of a page costs what the copy gains.
//
// The file may shrink while it is mapped. The processor then faults in the middle of a copy
// (SIGBUS), and read() says so; allow() makes that possible.
class FileMapping {
  public:
    FileMapping() = default;  // maps nothing
    // Takes the process's SIGBUS, once; before any other thread may map. A fault outside of read()
    // goes to whoever had the signal before. Errc::system.
    static Result<void> allow() noexcept;
    // The first `bytes` of the file. Nothing where it is not allowed or the kernel says no.
    static FileMapping map(int fd, std::uint64_t bytes) noexcept;
    ~FileMapping();
    FileMapping(FileMapping&& other) noexcept;
    FileMapping& operator=(FileMapping&& other) noexcept;
    FileMapping(const FileMapping&) = delete;
    FileMapping& operator=(const FileMapping&) = delete;

    // Fills `into` from `offset` on. False where the mapping does not reach, or the file shrank:
    // `into` holds anything then. Blocks as a pread of the same pages would. Any thread.
    bool read(std::uint64_t offset, std::span<std::byte> into) const noexcept;

    explicit operator bool() const noexcept { return !memory_.empty(); }
    std::uint64_t size() const noexcept { return memory_.size(); }

  private:
    explicit FileMapping(std::span<const std::byte> memory) noexcept : memory_(memory) {}
    std::span<const std::byte> memory_;
};

}  // namespace nfsrdma
