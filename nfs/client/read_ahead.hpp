#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "nfs/client/client.hpp"
#include "nfs/client/data_observer.hpp"

// Reads of one open file out of payload memory that READs filled, ahead of whoever reads one piece
// after the other. All of one loop.
namespace nfsrdma::nfs::client {

class ReadAhead;
struct OfRecent;
struct OfHungry;

// The memory that the open files of one loop read into. Outlives them, and ends when every READ has
// been answered.
class ReadPool final : public PayloadHolder {
  public:
    struct Limits {
        std::uint64_t bytes = 32 << 20;            // that may be read ahead, of all files together
        std::uint32_t blocks = 256;                // READs under way and their data that is kept
        std::uint64_t window = 8 << 20;            // of one file
        std::uint64_t max_age_ns = 3 * kNsPerSec;  // of what was read ahead
    };
    ReadPool(Client& client, const Limits& limits);
    ~ReadPool();
    ReadPool(const ReadPool&) = delete;
    ReadPool& operator=(const ReadPool&) = delete;

    Client& client() noexcept { return client_; }
    bool idle() const noexcept { return free_.size() == limits_.blocks; }
    std::uint64_t ahead() const noexcept { return ahead_; }  // bytes that were asked for
    struct Counters {
        std::uint64_t reads = 0, calls = 0;
        std::uint64_t hits = 0;    // reads whose bytes were there, or were under way
        std::uint64_t unused = 0;  // blocks ahead that were dropped before anybody used them
        std::uint64_t waited = 0;  // reads that had to wait for memory
        std::uint64_t ahead_max = 0;
    };
    const Counters& counters() const noexcept { return counters_; }

    // PayloadHolder
    std::uint32_t could_let_go() const noexcept override { return ready_blocks_; }
    bool letting_go() const noexcept override { return let_go_ || !buried_.empty(); }
    bool awaits_more() const noexcept override { return false; }
    void let_go() noexcept override;

  private:
    friend class ReadAhead;
    struct Block : ListHook<Block> {
        enum class State : std::uint8_t { free, reading, ready, buried };
        ReadPool* pool = nullptr;
        ReadAhead* file = nullptr;  // nullptr: closed meanwhile
        State state = State::free;
        bool ahead = false;  // counted in ahead_
        bool stale = false;  // the file was changed since it was asked for
        bool ended = false;  // the file ended there
        std::uint64_t offset = 0;
        std::uint32_t want = 0, got = 0, used = 0;  // bytes
        std::uint64_t ready_ns = 0, number = 0;
        FileHandle handle;
        bool has_sys = false;
        sunrpc::AuthSys sys;
        sunrpc::Payload payload;
        ReadOp op;
        std::uint64_t end() const noexcept { return offset + want; }
        bool within(std::uint64_t begin, std::uint64_t until) const noexcept {
            return offset < until && begin < end();
        }
    };
    static void on_read(Op& op) noexcept;
    static void on_turn(Task& task) noexcept;
    static void on_wake(sunrpc::SlotWaiter& waiter) noexcept;
    // A block with payload memory of that size. nullptr: there is none now, and, when it is not for
    // ahead, a turn of the loop comes when there may be.
    Block* get(std::uint32_t bytes, bool ahead) noexcept;
    void send(Block& block) noexcept;
    void bury(Block& block) noexcept;  // is in no list; its memory goes home in the next turn
    void schedule() noexcept;
    bool drop_oldest(const ReadAhead* but) noexcept;

    struct PoolTask final : Task {
        PoolTask(Run go, ReadPool& owner) noexcept : Task(go), pool(owner) {}
        ReadPool& pool;
    };
    struct Waiter final : sunrpc::SlotWaiter {
        ReadPool* pool = nullptr;
    };
    Client& client_;
    const Limits limits_;
    std::unique_ptr<Block[]> blocks_;
    std::unique_ptr<std::span<std::byte>[]> spans_;  // of the read that is being answered
    List<Block, Block> free_, buried_;
    List<ReadAhead, OfRecent> recent_;  // whose blocks were used least recently first
    List<ReadAhead, OfHungry> hungry_;  // their reads wait for memory
    std::uint64_t ahead_ = 0;
    std::uint32_t ready_blocks_ = 0;
    bool scheduled_ = false, let_go_ = false;
    PoolTask turn_task_;
    Waiter waiter_;
    Counters counters_;
};

class ReadAhead final : public ListHook<OfRecent>, public ListHook<OfHungry> {
  public:
    // One read: the caller's object until `done`.
    struct Read : ListHook<Read> {
        std::uint64_t offset = 0;
        std::uint32_t size = 0;  // not 0
        // How large the file is as far as is known: nothing behind it is read ahead.
        std::uint64_t file_size = 0;
        const sunrpc::AuthSys* sys = nullptr;  // lives as long; nullptr: the client's own
        // Once, perhaps from inside of read(). With success `data`, valid during the call, is what
        // was read, fewer bytes only where the file ends.
        void (*done)(Read& read) noexcept = nullptr;
        Outcome outcome;
        std::span<const std::span<std::byte>> data;
        std::uint32_t bytes = 0;
    };
    // `observer` may be nullptr; outlives it. Those of one pool have one lock.
    ReadAhead(ReadPool& pool, const FileHandle& file, DataObserver* observer);
    ~ReadAhead();  // no read may wait; READs that are under way go on without it
    ReadAhead(const ReadAhead&) = delete;
    ReadAhead& operator=(const ReadAhead&) = delete;

    void read(Read& read) noexcept;
    void cancel(Read& read) noexcept;  // one that waits; its `done` does not run
    // The file was changed there, by us or by others: what was read of it is not used any more,
    // and what is under way is read again. Any thread that holds the observer's lock.
    void invalidate(std::uint64_t offset, std::uint64_t size) noexcept;
    // As invalidate, of everything; its memory is let go. On its loop.
    void drop() noexcept;
    bool waiting() const noexcept { return !waiting_.empty(); }
    std::uint64_t window() const noexcept { return window_; }  // 0: reads are random

  private:
    friend class ReadPool;
    using Block = ReadPool::Block;
    std::uint32_t block_max() const noexcept;
    bool follow(const Read& read) noexcept;
    bool ask(const Read& read) noexcept;
    Block* start(std::uint64_t offset, std::uint32_t size, const sunrpc::AuthSys* sys,
                 bool ahead) noexcept;
    void insert(Block& block) noexcept;
    void extend(const Read& read) noexcept;
    bool try_serve(Read& read) noexcept;
    void serve_waiting() noexcept;
    void answered(Block& block) noexcept;
    void fail_waiting(const Block& block, const Outcome& outcome) noexcept;
    void sweep(const Read& read) noexcept;
    void drop_used() noexcept;
    bool is_awaited(const Block& block) noexcept;
    void make_ready(Block& block) noexcept;
    void drop_block(Block& block) noexcept;
    std::uint32_t drop_ready() noexcept;
    void retry() noexcept;

    ReadPool& pool_;
    DataObserver* const observer_;
    const FileHandle file_;
    List<Block, Block> blocks_;  // by offset; no two overlap
    List<Read, Read> waiting_;
    bool read_before_ = false;
    std::uint64_t next_ = 0;               // the end of what was read one after the other
    std::uint64_t window_ = 0;             // is asked for ahead of that
    std::uint64_t ahead_end_ = 0;          // so far
    std::uint64_t file_end_ = UINT64_MAX;  // as a READ told; nothing behind it is read ahead
};

}  // namespace nfsrdma::nfs::client
