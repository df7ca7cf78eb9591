#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/sock_addr.hpp"

namespace nfsrdma::nfs {

// The host names of peers, for rules that are wildcards over names. Looked up by a thread of its
// own, which is started by the first question: the resolver may take seconds, and no loop waits for
// it. Any thread.
class HostNames {
  public:
    using Names = std::vector<std::string>;
    // May block; empty when the address has no name that leads back to it.
    using Lookup = Names (*)(const SockAddr& peer);
    struct Options {
        std::uint64_t known_ns = 300 * kNsPerSec;
        std::uint64_t unknown_ns = 30 * kNsPerSec;  // addresses without a name
        Lookup lookup = nullptr;                    // nullptr: the system's resolver
    };

    HostNames();
    explicit HostNames(const Options& options);
    ~HostNames();  // does not wait for a lookup that is under way
    HostNames(const HostNames&) = delete;
    HostNames& operator=(const HostNames&) = delete;

    // nullptr: not known yet, and being looked up now. Names that have become old are given while
    // they are looked up anew.
    std::shared_ptr<const Names> find(const SockAddr& peer);
    // As find, but waits so long for the answer. Not on a loop.
    std::shared_ptr<const Names> wait(const SockAddr& peer, std::uint64_t patience_ns);
    void forget_all();

    static constexpr std::size_t kHostsMax = 4096;
    static constexpr std::size_t kWaitingMax = 256;

  private:
    struct State;
    static void work(const std::shared_ptr<State>& state);
    std::shared_ptr<State> state_;
};

}  // namespace nfsrdma::nfs
