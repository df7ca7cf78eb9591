#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nfs/client/unstable_writes.hpp"

// Writes of one file that are answered to whoever wrote as soon as their bytes lie in payload
// memory, and go to the server behind: UNSTABLE WRITEs, joined where they are small and follow each
// other, and COMMITs. All of one loop.
namespace nfsrdma::nfs::client {

class WriteBehind;
struct OfDirty;
struct OfStarved;

// What the files of one loop may keep together. Outlives them.
class WriteBudget {
  public:
    struct Limits {
        std::uint64_t bytes = 0;  // of payload memory; one piece is always allowed
        // Of each file, see UnstableWrites::Limits.
        std::uint32_t pieces = 64, depth = 16, commit_after = 32;
    };
    WriteBudget(Client& client, const Limits& limits);
    ~WriteBudget();
    WriteBudget(const WriteBudget&) = delete;
    WriteBudget& operator=(const WriteBudget&) = delete;

    Client& client() noexcept { return client_; }
    std::uint64_t held() const noexcept { return held_; }
    struct Counters {
        std::uint64_t writes = 0;        // that were asked for
        std::uint64_t queued = 0;        // and had to wait, for whatever reason
        std::uint64_t overlapped = 0;    // for the COMMIT of what they overwrite
        std::uint64_t through = 0;       // and were answered after their WRITE
        std::uint64_t copied_bytes = 0;  // to join small ones, or to hold them in less memory
        std::uint64_t held_max = 0;
    };
    const Counters& counters() const noexcept { return counters_; }

  private:
    friend class WriteBehind;
    static void on_retry(Task& task) noexcept;
    std::unique_ptr<UnstableWrites> get_writes();
    void put_writes(std::unique_ptr<UnstableWrites> writes) noexcept;
    bool allows(std::uint64_t bytes) const noexcept {
        return held_ == 0 || held_ + bytes <= limits_.bytes;
    }
    void reclaim() noexcept;
    void note_progress() noexcept;

    struct BudgetTask final : Task {
        BudgetTask(Run go, WriteBudget& owner) noexcept : Task(go), budget(owner) {}
        WriteBudget& budget;
    };
    Client& client_;
    const Limits limits_;
    std::uint64_t held_ = 0, held_when_starved_ = 0;
    List<WriteBehind, OfDirty> dirty_;      // since when they are, the oldest first
    List<WriteBehind, OfStarved> starved_;  // wait for others to let memory go
    std::vector<std::unique_ptr<UnstableWrites>> idle_;
    bool retry_ready_ = false;
    BudgetTask retry_task_;
    Counters counters_;
};

class WriteBehind final : public ListHook<OfDirty>, public ListHook<OfStarved> {
  public:
    // One write: the caller's object until it is taken, or `done` ran.
    struct Write : ListHook<Write> {
        sunrpc::Payload payload;    // of this loop's transport
        std::span<std::byte> data;  // a part of it, not empty
        std::uint64_t offset = 0;
        const sunrpc::AuthSys* sys = nullptr;  // lives as long; nullptr: the client's own
        // Of a write that was queued: once, never from inside of write(). With success its bytes
        // have been taken, or are written.
        void (*done)(Write& write) noexcept = nullptr;
        Outcome outcome;

      private:
        friend class WriteBehind;
        std::uint64_t number_ = 0;
        bool overlaps_ = false;  // it was counted
    };
    // Waits until all that was written before has been answered by the server, or is durable; that
    // may have failed: see error().
    struct Waiter : ListHook<Waiter> {
        void (*done)(Waiter& waiter) noexcept = nullptr;

      private:
        friend class WriteBehind;
        bool durable_ = false, counting_ = false;
        std::uint64_t after_ = 0;   // writes in the queue with smaller numbers come first
        std::uint64_t before_ = 0;  // counting_: pieces with smaller numbers
    };

    // `observer` may be nullptr; outlives it.
    WriteBehind(WriteBudget& budget, const FileHandle& file, DataObserver* observer);
    ~WriteBehind();  // when idle()
    WriteBehind(const WriteBehind&) = delete;
    WriteBehind& operator=(const WriteBehind&) = delete;

    // True: taken, the writer is to be answered now. False: queued, behind others of this file.
    bool write(Write& write) noexcept;
    // Of one that is queued: its `done` does not run, and it is its caller's again. True: nothing
    // of it was sent. False: it goes on without its writer, and its failure counts as one of what
    // had been taken.
    bool cancel(Write& write) noexcept;
    // True: there is nothing to wait for. False: `done` will run, never from inside.
    bool flush(Waiter& waiter) noexcept { return wait(waiter, false); }
    bool sync(Waiter& waiter) noexcept { return wait(waiter, true); }
    void stop_waiting(Waiter& waiter) noexcept;  // no effect when it does not wait

    // Each failure of what had been taken is counted, and the last one kept, so that each open file
    // can tell it once. What had been taken and was not durable then may be lost.
    std::uint64_t error_seq() const noexcept { return error_seq_; }
    const Outcome& error() const noexcept { return error_; }
    // Every write is answered after its WRITE was, from now on.
    void always_through() noexcept { always_through_ = true; }

    // Not every write that was taken has been answered; there are writes that are not durable.
    bool unwritten() const noexcept;
    bool dirty() const noexcept { return writes_ != nullptr; }
    bool idle() const noexcept {
        return writes_ == nullptr && queue_.empty() && waiters_.empty() && !advancing_ &&
               !go_on_ready_;
    }
    // A part of this range has been written, or is to be, and the server has not answered; or it is
    // not durable.
    bool unwritten_in(std::uint64_t offset, std::uint64_t size) const noexcept;
    bool dirty_in(std::uint64_t offset, std::uint64_t size) const noexcept;

  private:
    friend class WriteBudget;
    static void on_changed(UnstableWrites& writes) noexcept;
    static void on_go_on(Task& task) noexcept;
    bool wait(Waiter& waiter, bool durable) noexcept;
    bool goes_through() const noexcept { return through_ || always_through_; }
    void advance() noexcept;
    void step() noexcept;
    bool take(Write& write) noexcept;
    bool join(Write& write) noexcept;
    bool begin_piece(Write& write) noexcept;
    void begin_writes(bool stable) noexcept;
    void seal() noexcept;
    void note_failure() noexcept;
    void pump() noexcept;
    void pump_through() noexcept;
    void finish_front(const Outcome& outcome) noexcept;
    void help_along() noexcept;
    bool is_done(Waiter& waiter) noexcept;
    bool starve() noexcept;

    struct GoOnTask final : Task {
        GoOnTask(Run go, WriteBehind& owner) noexcept : Task(go), file(owner) {}
        WriteBehind& file;
    };
    WriteBudget& budget_;
    DataObserver* const observer_;
    const FileHandle file_;
    std::unique_ptr<UnstableWrites> writes_;  // nullptr: nothing was written that is not durable
    // The piece that is being filled.
    UnstableWrites::Piece* piece_ = nullptr;
    std::uint64_t piece_offset_ = 0;
    std::uint32_t filled_ = 0;
    bool piece_has_sys_ = false;
    sunrpc::AuthSys piece_sys_;
    List<Write, Write> queue_;
    List<Waiter, Waiter> waiters_;
    std::uint64_t next_number_ = 0;  // of a write that is queued
    std::uint64_t error_seq_ = 0;
    Outcome error_;
    bool failed_ = false;   // noted; what is in flight is waited for
    bool through_ = false;  // until one succeeds
    bool always_through_ = false;
    bool front_sent_ = false;  // the first of the queue goes through
    bool front_gone_ = false;  // and is in it no more: its writer has given up
    bool advancing_ = false, advance_again_ = false, go_on_ready_ = false;
    GoOnTask go_on_task_;
};

}  // namespace nfsrdma::nfs::client
