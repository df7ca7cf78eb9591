#pragma once
#include <array>
#include <cstdint>

#include "nfs/client/client.hpp"

// Reads one directory to its end: READDIRPLUS, or READDIR where the server does not have that.
// Every entry of every reply is used. Reusable.
namespace nfsrdma::nfs::client {

// Valid during the callback only.
struct DirEntry {
    const char* name = nullptr;
    std::uint64_t fileid = 0;
    const fattr3* attributes = nullptr;  // nullptr: not told
    FileHandle handle;                   // empty: not told
};

class DirReader {
  public:
    // Called for every entry, also "." and "..", and for names that are none (see is_plain_name).
    // False: stop.
    using OnEntry = bool (*)(DirReader& reader, const DirEntry& entry) noexcept;
    using Done = void (*)(DirReader& reader) noexcept;  // once; not from inside start()

    explicit DirReader(Client& client) noexcept;
    OnEntry on_entry = nullptr;
    Done done = nullptr;
    void* user = nullptr;
    Outcome outcome;
    void start(const FileHandle& directory) noexcept;
    std::uint64_t entries() const noexcept { return entries_; }
    std::uint64_t replies() const noexcept { return replies_; }

  private:
    static void on_plus(Op& op) noexcept;
    static void on_plain(Op& op) noexcept;
    void ask() noexcept;
    template <class Ok>
    void take(Ok& ok) noexcept;
    void finish(const Outcome& why) noexcept;

    Client& client_;
    ReaddirplusOp plus_;
    ReaddirOp plain_;
    FileHandle directory_;
    bool use_plain_ = false;
    std::uint64_t cookie_ = 0;
    std::array<char, NFS3_COOKIEVERFSIZE> verifier_{};
    std::uint32_t empty_replies_ = 0;  // in a row
    std::uint64_t entries_ = 0, replies_ = 0;
};

}  // namespace nfsrdma::nfs::client
