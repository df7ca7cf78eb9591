#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "nfs/binding.hpp"
#include "nfs/server/handler.hpp"

// The entries of a READDIR or READDIRPLUS reply while they are gathered: as many as the counts
// allow.
namespace nfsrdma::nfs {

// More is not worth it in one reply, and encoding a list nests as deep as it is long.
inline constexpr std::uint32_t kDirReplyMax = 64 * 1024;

// What the whole resok structure may have, from the client's count and the room for the message.
inline std::uint32_t dir_reply_limit(const sunrpc::SvcCall& call, std::uint32_t count) noexcept {
    constexpr std::uint32_t kHeader = sunrpc::kReplyHeaderMax + 4;
    const std::size_t room = call.rqst->res_room.size();
    const std::size_t left = room > kHeader ? room - kHeader : 0;
    return static_cast<std::uint32_t>(std::min<std::size_t>({count, left, kDirReplyMax}));
}

inline std::uint32_t name_pad(std::string_view name) noexcept {
    return align_up(static_cast<std::uint32_t>(name.size()), 4);
}

// `Entry` is entry3 or entryplus3. Names and handles lie in vectors that still grow: link() sets
// the pointers.
template <class Entry>
class DirReply {
  public:
    void add(const Entry& entry, std::string_view name) {
        entries_.push_back(entry);
        name_at_.push_back(static_cast<std::uint32_t>(names_.size()));
        names_.insert(names_.end(), name.begin(), name.end());
        names_.push_back('\0');
    }
    bool empty() const noexcept { return entries_.empty(); }
    std::size_t size() const noexcept { return entries_.size(); }
    Entry& operator[](std::size_t i) noexcept { return entries_[i]; }
    // The head of the list; nothing may be added after this.
    Entry* link() noexcept {
        for (std::size_t i = 0; i < entries_.size(); ++i) {
            entries_[i].name = names_.data() + name_at_[i];
            entries_[i].nextentry = i + 1 < entries_.size() ? &entries_[i + 1] : nullptr;
        }
        return entries_.empty() ? nullptr : entries_.data();
    }

  private:
    std::vector<Entry> entries_;
    std::vector<char> names_;
    std::vector<std::uint32_t> name_at_;
};

}  // namespace nfsrdma::nfs
