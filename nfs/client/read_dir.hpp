#pragma once
#include <array>
#include <cstdint>

#include "nfs/client/client.hpp"

// Reads one directory to its end: READDIRPLUS, or READDIR where the server does not have that or
// names are all that is wanted. Every entry of every reply is used. A server that leads in circles
// or has no end is noticed. Reusable.
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
    enum class What : std::uint8_t { everything, names };
    void start(const FileHandle& directory, What what = What::everything) noexcept;
    // More entries than this are no directory that anybody has: Errc::bad_message.
    std::uint64_t entries_max = std::uint64_t{1} << 27;
    std::uint64_t entries() const noexcept { return entries_; }
    std::uint64_t replies() const noexcept { return replies_; }

  private:
    static void on_plus(Op& op) noexcept;
    static void on_plain(Op& op) noexcept;
    void ask() noexcept;
    bool advances(bool any) noexcept;
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
    // Brent's search for a circle in the cookies that we ask from: a mark that moves up to where we
    // are whenever as many replies as the power of two have come.
    std::uint64_t mark_ = 0;
    std::uint64_t since_mark_ = 0, next_mark_ = 1;
    std::uint64_t entries_ = 0, replies_ = 0;
};

}  // namespace nfsrdma::nfs::client
