#pragma once
#include <cstdint>
#include <sys/stat.h>

#include "nfs/nfs3_types.hpp"
#include "tools/mount_nfsrdma/options.hpp"

// What is known of one object of the server, how long that is believed, and whose doing a change
// was (RFC 1813 s2.6 wcc_data; nfs(5) "Data and metadata coherence"). Pure.
namespace nfsrdma::mount {

// A change that an answer shows.
enum class Change : std::uint8_t {
    none,     // as before, or the answer is older than what is known
    ours,     // explained by the call that was answered, or by another of ours under way
    foreign,  // somebody else's: cached data, and names below a directory, are not valid any more
};

// The part of wcc_data that a call of ours was answered with.
struct Before {
    bool known = false;
    std::uint64_t size = 0;
    nfstime3 mtime{}, ctime{};
    Before() = default;
    explicit Before(const pre_op_attr& told) noexcept;
};

struct CacheRange {
    std::uint64_t min_ns = 0, max_ns = 0;
};
// Of the kind of object; zeros with noac.
CacheRange cache_range(const MountOptions& options, ftype3 type) noexcept;

class Attributes {
  public:
    bool known() const noexcept { return known_; }
    const fattr3& now() const noexcept { return now_; }
    // What is to be believed no longer: the next who asks asks the server.
    void expire() noexcept { expires_ns_ = 0; }
    bool fresh(std::uint64_t now_ns) const noexcept { return known_ && now_ns < expires_ns_; }
    // For how long from now; 0: not at all.
    std::uint64_t valid_for_ns(std::uint64_t now_ns) const noexcept;
    // The whole time-out, for names in this directory.
    std::uint64_t timeout_ns() const noexcept { return timeout_ns_; }

    // An answer told `told`. `order`: the number of the call, by when it was sent: of two answers
    // that crossed, the older one is recognised by it and by ctime. `before`: of a call of ours
    // that changed this object.
    Change take(const fattr3& told, std::uint64_t order, std::uint64_t now_ns,
                const CacheRange& range, const Before& before) noexcept;
    // Calls of ours that change this object: while any is under way, and for answers to what was
    // sent before the last of them ended, changes are ours. Not so for a call that was the only one
    // and tells what it found: data of another time than was known is another's doing.
    void begin_change() noexcept { ++changing_; }
    void end_change(std::uint64_t next_order) noexcept;
    bool changing() const noexcept { return changing_ != 0; }
    // What a call of that number told may be older than a change of ours.
    bool changed_since(std::uint64_t order) const noexcept {
        return changing_ != 0 || order <= own_until_;
    }
    // Data that is ours and not at the server yet reaches to `end`, at time `mtime`.
    void note_written(std::uint64_t end) noexcept;

  private:
    fattr3 now_{};
    std::uint64_t order_ = 0;      // of the call that told
    std::uint64_t own_until_ = 0;  // orders below were sent before our last change had ended
    std::uint64_t told_ns_ = 0, expires_ns_ = 0, timeout_ns_ = 0;
    std::uint32_t changing_ = 0;
    bool known_ = false;
};

bool is_same(const nfstime3& a, const nfstime3& b) noexcept;
bool is_newer(const nfstime3& a, const nfstime3& b) noexcept;  // a after b

// For the kernel. `ino` is what stat(2) shows: the server's fileid. `block`: the preferred size of
// an IO.
struct stat to_stat(const fattr3& attributes, std::uint32_t block) noexcept;

}  // namespace nfsrdma::mount
