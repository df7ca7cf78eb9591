#pragma once
#include <cstdint>
#include <span>

#include "nfs/client/client.hpp"
#include "nfs/client/unstable_writes.hpp"

// Writes one file with several WRITEs in flight out of payload memory that the producer fills, then
// makes it durable: UNSTABLE, and COMMITs as it goes and at the end. What a server forgets when it
// is started again is written anew out of what was kept (UnstableWrites); the producer is not asked
// twice. Reusable.
namespace nfsrdma::nfs::client {

class FileWriter {
  public:
    // Memory to fill (Options::block bytes), then a WRITE in flight, then kept for the COMMIT.
    using Slot = UnstableWrites::Piece;
    struct Options {
        FileHandle file;
        std::uint32_t block = 0;  // 0: the client's write size
        // FILE_SYNC instead of a COMMIT: where there is but one piece.
        bool stable = false;
    };
    // Fill `slot.memory()` and call filled(), then or later; or call end_of_input(slot) when there
    // is nothing more.
    using OnRoom = void (*)(FileWriter& writer, Slot& slot) noexcept;
    using Done = void (*)(FileWriter& writer) noexcept;  // once; not from inside start()

    // No piece is written so many, times the depth, behind one that is not: see FileReader.
    static constexpr std::uint32_t kWindowDepths = 2;
    FileWriter(Client& client, std::uint32_t depth);
    ~FileWriter();  // not while it runs
    FileWriter(const FileWriter&) = delete;
    FileWriter& operator=(const FileWriter&) = delete;

    OnRoom on_room = nullptr;
    Done done = nullptr;
    void* user = nullptr;
    Outcome outcome;
    void start(const Options& options) noexcept;
    // `size` bytes of the slot's memory, at least one, belong at `offset`.
    void filled(Slot& slot, std::uint64_t offset, std::uint32_t size) noexcept;
    void end_of_input(Slot& slot) noexcept;
    // The producer's own failure. A slot that is out comes back by end_of_input.
    void fail(const Outcome& why) noexcept;
    bool running() const noexcept { return running_; }
    std::uint64_t bytes() const noexcept { return writes_.bytes(); }
    // WRITEs in flight, or slots with the producer, at most.
    std::uint32_t depth() const noexcept { return depth_; }
    // All slots, those included that are kept.
    std::uint32_t slots() const noexcept { return writes_.pieces(); }
    Slot& slot(std::uint32_t index) noexcept { return writes_.piece(index); }

  private:
    static void on_changed(UnstableWrites& writes) noexcept;
    static void on_wake(sunrpc::SlotWaiter& waiter) noexcept;
    static void on_finished(Task& task) noexcept;
    void pump() noexcept;
    bool may_go_on() const noexcept;
    void maybe_finish() noexcept;

    struct Waiter final : sunrpc::SlotWaiter {
        FileWriter* writer = nullptr;
    };
    struct FinishTask final : Task {
        using Task::Task;
        FileWriter* writer = nullptr;
    };
    Client& client_;
    const std::uint32_t depth_;
    UnstableWrites writes_;
    Waiter waiter_;
    FinishTask finish_task_;
    std::uint32_t block_ = 0;
    bool input_ended_ = false;
    bool running_ = false, finishing_ = false;
};

}  // namespace nfsrdma::nfs::client
