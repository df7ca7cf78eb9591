#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "sunrpc/auth.hpp"
#include "tools/mount_nfsrdma/fuse3.hpp"

// As whom calls are made: the user and the groups of whoever made the system call.
namespace nfsrdma::mount {

// Of one user; lives as long as anybody holds it, and is the same object for the same ids.
using Caller = std::shared_ptr<const sunrpc::AuthSys>;

// Under Mount::lock.
class Callers {
  public:
    Callers();
    // Of a request. The groups are read from /proc and remembered, for that thread with these ids,
    // for a second; where they cannot be read (another pid namespace) there are none but the gid.
    Caller of(fuse_req_t req, std::uint64_t now_ns);
    // Of this process: for calls that nobody asked for.
    const Caller& own() const noexcept { return own_; }
    std::size_t size() const noexcept { return known_.size(); }

  private:
    struct Key {
        std::uint32_t pid = 0, uid = 0, gid = 0;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const noexcept;
    };
    struct Entry {
        Caller caller;
        std::uint64_t until_ns = 0;
    };
    static constexpr std::size_t kKnownMax = 1024;
    Caller own_;
    std::unordered_map<Key, Entry, KeyHash> known_;
};

}  // namespace nfsrdma::mount
