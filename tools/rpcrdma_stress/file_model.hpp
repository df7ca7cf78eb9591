#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "tools/rpcrdma_stress/content.hpp"

namespace nfsrdma::stress {

// Where a file differs from what it must hold.
struct Difference {
    std::uint64_t offset = 0;  // of the first byte
    std::uint64_t bytes = 0;   // that differ, of those compared
    std::string expected, got;
};

// What one file must hold, byte by byte: which WRITE each byte came from. A WRITE whose fate is not
// known leaves two possibilities for its bytes.
class FileModel {
  public:
    FileModel() = default;
    FileModel(std::uint32_t worker, std::uint32_t serial) noexcept;

    std::uint64_t size() const noexcept { return size_; }
    // What the size may be when the fate of a WRITE is unknown.
    std::uint64_t size_max() const noexcept { return size_max_; }
    Stamp stamp(std::uint32_t generation) const noexcept;
    // Of the WRITE that comes next; each has its own.
    std::uint32_t next_generation() noexcept;
    void wrote(std::uint64_t offset, std::uint64_t length, std::uint32_t generation);
    void may_have_written(std::uint64_t offset, std::uint64_t length, std::uint32_t generation);
    void set_size(std::uint64_t size);

    // `data` is what stands at `offset`, no more than size_max() allows.
    std::optional<Difference> compare(const Content& content, std::uint64_t offset,
                                      std::span<const std::byte> data) const;

  private:
    // Until the next piece; generation 0 is a hole. `other`: what may stand there instead.
    struct Piece {
        std::uint32_t generation = 0;
        std::optional<std::uint32_t> other;
    };
    void split(std::uint64_t offset);
    Difference explain(const Content& content, std::uint64_t offset,
                       std::span<const std::byte> data, std::size_t at, const Piece& piece) const;
    std::string describe_got(const Content& content, std::uint64_t offset,
                             std::span<const std::byte> data, std::size_t at) const;

    std::uint32_t worker_ = 0, serial_ = 0, generation_ = 0;
    std::uint64_t size_ = 0, size_max_ = 0;
    std::map<std::uint64_t, Piece> pieces_;  // by their first byte; from 0 on, without gaps
};

// "file 3 of worker 7", "stripe 0 of worker 7".
std::string file_text(std::uint32_t worker, std::uint32_t serial);

}  // namespace nfsrdma::stress
