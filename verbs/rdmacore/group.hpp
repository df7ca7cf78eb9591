#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/loop.hpp"
#include "base/sock_addr.hpp"
#include "verbs/loop_turns.hpp"
#include "verbs/rdmacore/cm.hpp"

// One address and port, several loops: one of the listeners listens, and hands the requests round.
namespace nfsrdma::verbs::rdmacore {

class ListenGroup {
  public:
    ListenGroup() = default;
    ~ListenGroup() = default;
    ListenGroup(const ListenGroup&) = delete;
    ListenGroup& operator=(const ListenGroup&) = delete;

    // Any thread of the group. The first listener at an address listens itself; when it goes, the
    // others hear nothing any more, and the next that asks for the address is the first again.
    Result<void> listen(RdmaListener& listener, const SockAddr& local);
    void leave(RdmaListener& listener) noexcept;
    // On the loop of `home`: gives the request to one of those that listen there.
    void steer(RdmaListener& home, CmIdHandle id, const RawEvent& event) noexcept;
    // Drops what is on its way; no loop runs.
    void clear() noexcept;

  private:
    struct Entry {
        RdmaListener* home = nullptr;
        std::vector<RdmaListener*> members;
        LoopTurns turns;
    };
    struct Handoff : Task {
        Handoff() noexcept;
        ListenGroup* group = nullptr;
        Cm* cm = nullptr;
        RdmaListener* listener = nullptr;
        CmIdHandle id;
        RawEvent event;
    };
    RdmaListener* next(const RdmaListener& home, const SockAddr& peer) noexcept;
    void arrive(Handoff& handoff) noexcept;

    std::mutex mutex_;  // listening and connecting are rare, and no part of the data path
    std::vector<Entry> entries_;
    std::vector<std::unique_ptr<Handoff>> handoffs_;
};

}  // namespace nfsrdma::verbs::rdmacore
