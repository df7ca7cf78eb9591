#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "nfs/client/client.hpp"
#include "nfs/client/data_observer.hpp"

// What was written UNSTABLE to one file and is kept until a COMMIT has made it durable: a server
// that was started again tells another verifier, and what it may have forgotten is written anew out
// of the memory that was kept for that (RFC 1813 s3.3.7, s3.3.21, s4.8). Whoever writes uses it:
// FileWriter, a mount.
//
// Bounded: by the number of pieces, and by the payload memory of the transport; when that runs dry
// for anybody who asks Client::get_payload, the one who keeps most commits.
namespace nfsrdma::nfs::client {

// What WRITE and COMMIT tell of the server's boot.
class WriteVerifier {
  public:
    WriteVerifier() = default;
    explicit WriteVerifier(const char* bytes) noexcept {
        std::memcpy(bytes_.data(), bytes, bytes_.size());
    }
    bool operator==(const WriteVerifier&) const = default;

  private:
    std::array<char, NFS3_WRITEVERFSIZE> bytes_{};
};

class UnstableWrites final : public PayloadHolder {
  public:
    // A run of payload memory: filled by the owner, written, kept, and free again.
    class Piece : public ListHook<Piece> {
      public:
        std::span<std::byte> memory() const noexcept { return memory_; }
        std::uint64_t number() const noexcept { return number_; }
        UnstableWrites& home() const noexcept { return *home_; }
        void* user = nullptr;  // the owner's own, kept over uses

      private:
        friend class UnstableWrites;
        // waiting: to be written, or to be written anew. kept: until the COMMIT.
        enum class State : std::uint8_t { free, filling, waiting, writing, kept };
        UnstableWrites* home_ = nullptr;
        State state_ = State::free;
        bool stable_ = false;   // every part of it was answered with FILE_SYNC
        bool mixed_ = false;    // its parts were answered with different verifiers
        bool counted_ = false;  // in bytes()
        sunrpc::Payload payload_;
        std::span<std::byte> memory_;
        WriteVerifier verifier_;
        std::uint64_t number_ = 0;
        std::uint64_t offset_ = 0;  // in the file
        std::uint32_t size_ = 0;    // bytes that were filled
        std::uint32_t at_ = 0;      // bytes that are written
        bool has_sys_ = false;
        sunrpc::AuthSys sys_;     // whose it is: it may be written anew when they are gone
        std::uint64_t sent_ = 0;  // the observer's number of its WRITE
        WriteOp op_;
    };
    struct Options {
        FileHandle file;
        bool stable = false;  // FILE_SYNC: nothing needs to be kept
    };
    // At most `depth` WRITEs are in flight. A COMMIT is sent by itself when `commit_after` pieces
    // are kept.
    struct Limits {
        std::uint32_t pieces = 0, depth = 0, commit_after = 0;
        std::uint64_t* account = nullptr;  // payload memory that is held is counted there, in bytes
    };
    // Verifiers that change so often in a row, without any COMMIT that succeeds, are no restarts.
    // However many pieces one change has cost, it is one.
    static constexpr std::uint32_t kForgottenMax = 16;

    UnstableWrites(Client& client, const Limits& limits);
    ~UnstableWrites();  // when empty()
    UnstableWrites(const UnstableWrites&) = delete;
    UnstableWrites& operator=(const UnstableWrites&) = delete;

    void begin(const Options& options) noexcept;  // when empty()
    // Memory to fill: then write() it or give it back. Errc::again: all pieces are in use
    // (`changed` runs when one is not), or the transport's memory is (wait_for_slot);
    // Errc::too_big.
    Result<Piece*> take(std::uint32_t bytes) noexcept;
    // A piece of memory that came filled from elsewhere: `memory` is a part of `payload`, which is
    // one of the transport's. It is moved from when this succeeds. Errc::again: all pieces are in
    // use.
    Result<Piece*> adopt(sunrpc::Payload&& payload, std::span<std::byte> memory) noexcept;
    // Copies the first `size` bytes, which are filled, into less memory, when there is some that is
    // less than half. Returns the memory that it had, or nothing.
    sunrpc::Payload shrink(Piece& piece, std::uint32_t size) noexcept;
    // The first `size` bytes of its memory, at least one, belong at `offset`. Pieces that are not
    // durable yet may not overlap: which of them is written anew last is not defined. `sys` is
    // copied; nullptr: the client's own. A COMMIT goes as whoever wrote the last piece of it.
    void write(Piece& piece, std::uint64_t offset, std::uint32_t size,
               const sunrpc::AuthSys* sys = nullptr) noexcept;
    void give_back(Piece& piece) noexcept;
    // COMMIT of all that is kept; no effect when nothing is, or while one is under way.
    void commit() noexcept;
    // The first failure ends it all: what is kept is let go, what is in flight when it is answered.
    void fail(const Outcome& why) noexcept;

    // Runs on the loop, from inside of nothing of the above but through a transport that wakes
    // whoever waits for memory: a piece was answered or has become free, a COMMIT was answered.
    void (*changed)(UnstableWrites& writes) noexcept = nullptr;
    void* user = nullptr;
    DataObserver* observer = nullptr;  // set while empty()
    Outcome outcome;
    // Pieces that are with their owner, or wait for a WRITE or its answer.
    std::uint32_t under_way() const noexcept { return filling_ + waiting_.size() + writing_; }
    // Written, not durable yet.
    std::uint32_t kept() const noexcept { return kept_.size() + committing_.size(); }
    bool committing() const noexcept { return commit_.pending() || settling_; }
    bool empty() const noexcept { return under_way() == 0 && kept() == 0 && !committing(); }
    std::uint64_t bytes() const noexcept { return bytes_; }  // written once, by the server's word
    // Pieces are numbered as they are taken: how many were taken since the oldest one under way.
    std::uint64_t window() const noexcept;
    std::uint64_t next_number() const noexcept { return next_number_; }
    // No piece with a smaller number is under way.
    std::uint64_t answered_before() const noexcept { return next_number_ - window(); }
    // No piece with a smaller number is under way or kept.
    std::uint64_t durable_before() const noexcept;
    // Whether a part of this range was written and is not durable; is not answered. Not of pieces
    // that are with their owner.
    bool overlaps(std::uint64_t offset, std::uint64_t size) const noexcept;
    bool under_way_in(std::uint64_t offset, std::uint64_t size) const noexcept;
    std::uint32_t free_pieces() const noexcept { return free_.size(); }
    std::uint32_t pieces() const noexcept { return limits_.pieces; }
    Piece& piece(std::uint32_t index) noexcept { return pieces_[index]; }

    // PayloadHolder
    std::uint32_t could_let_go() const noexcept override { return kept_.size(); }
    bool letting_go() const noexcept override { return committing(); }
    bool awaits_more() const noexcept override { return writing_ != 0; }
    void let_go() noexcept override { commit(); }

  private:
    static void on_write(Op& op) noexcept;
    static void on_commit(Op& op) noexcept;
    static bool in_range(const Piece& piece, std::uint64_t offset, std::uint64_t size) noexcept;
    void pump() noexcept;
    void send(Piece& piece) noexcept;
    void take_answer(Piece& piece) noexcept;
    void written(Piece& piece) noexcept;
    void told(const WriteVerifier& verifier) noexcept;
    void note_verifier(const WriteVerifier& verifier) noexcept;
    bool note_forgotten() noexcept;
    void write_anew(Piece& piece) noexcept;
    void settle(const WriteVerifier& verifier) noexcept;
    Piece& begin_piece(sunrpc::Payload&& payload, std::span<std::byte> memory) noexcept;
    void release(Piece& piece) noexcept;

    Client& client_;
    const Limits limits_;
    std::unique_ptr<Piece[]> pieces_;
    Options options_;
    CommitOp commit_;
    List<Piece, Piece> free_, waiting_, kept_;
    List<Piece, Piece> committing_;  // written before the COMMIT that is under way was sent
    std::uint32_t filling_ = 0, writing_ = 0;
    WriteVerifier newest_;           // of the last answer
    bool changed_verifier_ = false;  // since forgotten_ was last counted
    std::uint32_t forgotten_ = 0;    // times in a row
    std::uint64_t bytes_ = 0;
    std::uint64_t next_number_ = 0;
    std::uint64_t commit_sent_ = 0;  // the observer's number of it
    sunrpc::AuthSys commit_sys_;
    bool settling_ = false;  // the answer of a COMMIT is being looked at
};

}  // namespace nfsrdma::nfs::client
