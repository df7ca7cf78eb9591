#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "nfs/client/client.hpp"

// Writes one file with several WRITEs in flight out of payload memory that the producer fills, then
// makes it durable: UNSTABLE and a COMMIT, whose verifier tells whether the server has forgotten
// anything meanwhile (RFC 1813 s4.8). Reusable.
namespace nfsrdma::nfs::client {

class FileWriter {
  public:
    // Memory to fill, then a WRITE in flight.
    class Slot {
      public:
        std::span<std::byte> memory() const noexcept { return memory_; }  // Options::block bytes
        FileWriter& writer() const noexcept { return *writer_; }
        void* user = nullptr;  // the producer's own, kept over calls

      private:
        friend class FileWriter;
        enum class State : std::uint8_t { free, filling, writing };
        FileWriter* writer_ = nullptr;
        State state_ = State::free;
        sunrpc::Payload payload_;
        std::span<std::byte> memory_;
        std::uint64_t number_ = 0;  // counts the pieces, in the order in which room was given
        std::uint32_t at_ = 0;      // bytes of memory that are written
        std::uint32_t size_ = 0;    // bytes that were filled
        WriteOp op_;
    };
    struct Options {
        FileHandle file;
        std::uint32_t block = 0;  // 0: the client's write size
        // FILE_SYNC instead of a COMMIT: where there is but one piece, or where the source cannot
        // be read again should the server forget.
        bool stable = false;
    };
    // Fill `slot.memory()` and call filled(), then or later; or call end_of_input(slot) when there
    // is nothing more.
    using OnRoom = void (*)(FileWriter& writer, Slot& slot) noexcept;
    // The server forgot what it had not committed: begin with the first byte again. No slot is out.
    using OnRestart = void (*)(FileWriter& writer) noexcept;
    using Done = void (*)(FileWriter& writer) noexcept;  // once; not from inside start()

    // No piece is written so many, times the depth, behind one that is not done: see FileReader.
    static constexpr std::uint32_t kWindowDepths = 2;
    FileWriter(Client& client, std::uint32_t depth);
    ~FileWriter();  // not while it runs
    FileWriter(const FileWriter&) = delete;
    FileWriter& operator=(const FileWriter&) = delete;

    OnRoom on_room = nullptr;
    OnRestart on_restart = nullptr;
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
    std::uint64_t bytes() const noexcept { return bytes_; }  // written, by the server's word
    std::uint32_t depth() const noexcept { return depth_; }
    Slot& slot(std::uint32_t index) noexcept { return slots_[index]; }

  private:
    static void on_write(Op& op) noexcept;
    static void on_commit(Op& op) noexcept;
    static void on_wake(sunrpc::SlotWaiter& waiter) noexcept;
    static void on_finished(Task& task) noexcept;
    void pump() noexcept;
    bool in_window() const noexcept;
    void send(Slot& slot) noexcept;
    void take(Slot& slot) noexcept;
    void note_verifier(const char* verifier) noexcept;
    void release(Slot& slot) noexcept;
    void maybe_finish() noexcept;
    void finish() noexcept;
    void restart() noexcept;

    struct Waiter final : sunrpc::SlotWaiter {
        FileWriter* writer = nullptr;
    };
    struct FinishTask final : Task {
        using Task::Task;
        FileWriter* writer = nullptr;
    };
    Client& client_;
    const std::uint32_t depth_;
    std::unique_ptr<Slot[]> slots_;
    CommitOp commit_;
    Waiter waiter_;
    FinishTask finish_task_;
    Options options_;
    std::array<char, NFS3_WRITEVERFSIZE> verifier_{};
    bool has_verifier_ = false;
    bool uncommitted_ = false;  // something was written that only a COMMIT makes durable
    bool forgotten_ = false;    // two verifiers differ
    bool input_ended_ = false;
    bool running_ = false, finishing_ = false;
    std::uint32_t restarts_ = 0;
    std::uint32_t busy_ = 0;
    std::uint64_t bytes_ = 0;
    std::uint64_t next_number_ = 0;
};

}  // namespace nfsrdma::nfs::client
