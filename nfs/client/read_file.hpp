#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "nfs/client/client.hpp"

// Reads one file with several READs in flight, each into payload memory of the transport, which the
// consumer uses without a copy and gives back; or straight into memory of the caller's own, which
// then holds the file. Reusable for one file after the other.
namespace nfsrdma::nfs::client {

class FileReader {
  public:
    // One READ in flight, or its data with the consumer.
    class Slot {
      public:
        std::uint64_t offset() const noexcept { return op_.args.offset; }
        // What was read: never empty. Valid, and the consumer's, until consumed().
        std::span<std::byte> data() const noexcept { return op_.data(); }
        FileReader& reader() const noexcept { return *reader_; }
        void* user = nullptr;  // the consumer's own, kept over calls

      private:
        friend class FileReader;
        enum class State : std::uint8_t { free, reading, consuming };
        FileReader* reader_ = nullptr;
        State state_ = State::free;
        sunrpc::Payload payload_;
        ReadOp op_;
    };
    struct Options {
        FileHandle file;
        std::uint64_t offset = 0;
        std::uint64_t length = UINT64_MAX;  // reads to the end of the file, but not more
        std::uint64_t size_hint = 0;  // the file's size as known: up to there READs go out at once
        std::uint32_t block = 0;      // bytes of one READ; 0: the client's read size
        // Memory that was registered with the client's transport (Xprt::register_memory): the byte
        // at `offset` of the file goes to its first, and no more is read than it holds. The slots'
        // data lie there and stay after consumed(). Empty: payload memory of the transport. When a
        // READ was given up (timed out) the server may still write its bytes into it until it
        // answers, or the connection ends: until then the memory is not free to be used otherwise,
        // Xprt::deregister_memory says `again`, and another READ into these bytes is refused.
        std::span<std::byte> into{};
    };
    // No READ begins so many blocks, times the depth, behind one that is not done: all before that
    // has been consumed, and a copy that was broken off goes on from there.
    static constexpr std::uint32_t kWindowDepths = 2;
    // In no order of offsets, each byte once. Called on the loop; the consumer calls consumed(slot)
    // then or later.
    using OnData = void (*)(FileReader& reader, Slot& slot) noexcept;
    // Once, when every READ is answered and every slot consumed; not from inside start().
    using Done = void (*)(FileReader& reader) noexcept;

    // `depth` READs in flight at most, at least one.
    FileReader(Client& client, std::uint32_t depth);
    ~FileReader();  // not while it runs
    FileReader(const FileReader&) = delete;
    FileReader& operator=(const FileReader&) = delete;

    OnData on_data = nullptr;
    Done done = nullptr;
    void* user = nullptr;
    Outcome outcome;
    void start(const Options& options) noexcept;
    void consumed(Slot& slot) noexcept;
    // Ends early with this outcome (the consumer's own failure): no further data, `done` when all
    // slots are home.
    void fail(const Outcome& why) noexcept;
    bool running() const noexcept { return running_; }
    std::uint64_t bytes() const noexcept { return bytes_; }  // handed to the consumer so far
    // The newest of what the answers told (by change time), after `done`; nullptr: they told
    // nothing.
    const fattr3* attributes() const noexcept { return has_attributes_ ? &attributes_ : nullptr; }
    std::uint32_t depth() const noexcept { return depth_; }
    Slot& slot(std::uint32_t index) noexcept { return slots_[index]; }

  private:
    static void on_read(Op& op) noexcept;
    static void on_wake(sunrpc::SlotWaiter& waiter) noexcept;
    static void on_finished(Task& task) noexcept;
    void pump() noexcept;
    bool may_read_on() const noexcept;
    void note_attributes(const post_op_attr& told) noexcept;
    void take(Slot& slot) noexcept;
    Result<void> make_room(Slot& slot, std::uint64_t want) noexcept;
    std::span<std::byte> into(std::uint64_t offset, std::uint64_t bytes) const noexcept {
        return options_.into.subspan(offset - options_.offset, bytes);
    }
    void release(Slot& slot) noexcept;
    void maybe_finish() noexcept;

    struct Waiter final : sunrpc::SlotWaiter {
        FileReader* reader = nullptr;
    };
    struct FinishTask final : Task {
        using Task::Task;
        FileReader* reader = nullptr;
    };
    Client& client_;
    const std::uint32_t depth_;
    std::unique_ptr<Slot[]> slots_;
    Waiter waiter_;
    FinishTask finish_task_;
    Options options_;
    std::uint64_t next_ = 0;  // offset of the next READ
    std::uint64_t end_ = 0;   // no byte at or behind it is wanted, or exists
    std::uint64_t bytes_ = 0;
    std::uint32_t busy_ = 0;  // slots not free
    bool running_ = false, finishing_ = false;
    bool has_attributes_ = false;
    fattr3 attributes_{};
};

}  // namespace nfsrdma::nfs::client
