#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/nfsrdma/calls.hpp"

namespace nfsrdma::tool {

// Small calls of one kind, several in flight. The caller waits for a free one, fills it in, starts
// it and goes on; `report` is told of each answer.
template <class OpType>
class OpPool {
  public:
    struct Slot {
        OpPool* pool = nullptr;
        OpType op;
        // The caller's: what the arguments point into, and what the place is called.
        nfs::client::FileHandle object;
        std::string name, text, label;
        void* about = nullptr;
    };
    using Report = std::function<void(Slot& slot)>;
    OpPool(Calls& calls, std::uint32_t count, Report report)
        : calls_(calls), report_(std::move(report)) {
        for (std::uint32_t i = 0; i < std::max(count, 1u); ++i) {
            Slot& slot = *slots_.emplace_back(std::make_unique<Slot>());
            slot.pool = this;
            slot.op.user = &slot;
            slot.op.done = on_done;
            free_.push_back(&slot);
        }
    }
    // Waits for one that is free; it is the caller's until start().
    Slot& get() {
        if (free_.empty()) calls_.wait_until([this] { return !free_.empty(); });
        Slot& slot = *free_.back();
        free_.pop_back();
        return slot;
    }
    void start(Slot& slot) { calls_.client().start(slot.op); }
    bool idle() const noexcept { return free_.size() == slots_.size(); }
    void wait_for_all() {
        calls_.wait_until([this] { return idle(); });
    }

  private:
    static void on_done(nfs::client::Op& op) noexcept {
        Slot& slot = *static_cast<Slot*>(op.user);
        slot.pool->report_(slot);
        slot.pool->free_.push_back(&slot);
    }
    Calls& calls_;
    Report report_;
    std::vector<std::unique_ptr<Slot>> slots_;
    std::vector<Slot*> free_;
};

}  // namespace nfsrdma::tool
