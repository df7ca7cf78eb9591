#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/rpcrdma_stress/connection.hpp"
#include "tools/rpcrdma_stress/object.hpp"
#include "tools/rpcrdma_stress/plan.hpp"

namespace nfsrdma::stress {

class Worker;

struct Tally {
    std::array<std::uint64_t, kKinds> steps{};
    std::uint64_t calls = 0, bytes_read = 0, bytes_written = 0, bytes_verified = 0;
    std::uint64_t cancelled = 0, cancelled_too_late = 0, disconnected = 0, lost = 0;
    std::uint64_t fate_unknown = 0, files_given_up = 0, stripes_given_up = 0;
    std::uint64_t short_transfers = 0;
    std::uint64_t write_verifiers = 0;  // changes of it: the server began anew
};

// What all workers share.
class Field {
  public:
    virtual const Content& content() const noexcept = 0;
    virtual const PlanOptions& plan_options() const noexcept = 0;
    virtual Connection& connection(std::uint32_t any) noexcept = 0;
    virtual Loop& loop() noexcept = 0;
    virtual Tally& tally() noexcept = 0;
    virtual const nfs::client::FileHandle& common_file() const noexcept = 0;
    // Rounds of stripes, one for each worker, that the file of all is long enough for.
    virtual std::uint32_t common_rounds() const noexcept = 0;
    virtual void common_grown(std::uint32_t rounds) noexcept = 0;
    virtual std::uint32_t workers() const noexcept = 0;
    // No worker begins anything new.
    virtual bool stopped() const noexcept = 0;
    // Enough was done: what there is is read once more, and that is all.
    virtual bool enough(std::uint64_t steps_done) const noexcept = 0;
    // A call was answered: the server is alive.
    virtual void note_answer() noexcept = 0;
    // The first one counts.
    virtual void mismatch(const Worker& worker, const std::string& what) noexcept = 0;
    virtual void trouble(const std::string& what) noexcept = 0;
    virtual void note_verifier(const char* verifier) noexcept = 0;

  protected:
    ~Field() = default;
};

// Bytes of one round in the file of all: the stripes, and behind them a byte that makes the file so
// long, which is nobody's and can be written late or twice.
inline constexpr std::uint32_t kRoundEndBytes = 4096;
constexpr std::uint64_t round_bytes(std::uint32_t workers, std::uint32_t stripe_bytes) noexcept {
    return std::uint64_t{workers} * stripe_bytes + kRoundEndBytes;
}

// One call in flight: steps of its plan, one after the other, in two directories of its own and a
// stripe of the file of all.
//
// A call that changes something and whose answer never came (it was cancelled, or the connection
// went) may have been executed, may still be, or never: its objects are read once more, allowing
// both, and given up: names and files that may be touched by such a call are never used again.
class Worker {
  public:
    Worker(Field& field, std::uint32_t index, std::uint32_t home);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    // Directories 0 and 1 exist and are empty.
    void start(const nfs::client::FileHandle& first, const nfs::client::FileHandle& second);
    bool finished() const noexcept { return finished_; }
    bool idle() const noexcept { return pending_ == nullptr; }
    // The last call that was begun, for people.
    const std::string& last_call() const noexcept { return what_; }
    // A call on this connection waits for its answer.
    bool calls(const Connection& connection) const noexcept {
        return pending_ != nullptr && connection_ == &connection;
    }
    void connection_up(Connection& connection) noexcept;
    void connection_gone(Connection& connection) noexcept;
    void stop() noexcept;  // after Field::stopped: a pending call is cancelled
    std::uint32_t index() const noexcept { return index_; }
    std::uint64_t fingerprint() const noexcept { return planner_.fingerprint(); }
    std::uint64_t steps() const noexcept { return plan_.step; }
    const std::deque<std::string>& history() const noexcept { return history_; }

  private:
    using Next = std::function<void()>;
    // With true when the answer came, whatever it says.
    using Then = std::function<void(bool)>;

    // worker.cpp: steps and calls.
    void next_step();
    void run_step();
    void run_look();
    void step_done();
    void finish();
    void with_connection(Next next);
    void with_payload(std::uint32_t bytes, Next next);
    void issue(nfs::client::Op& op, std::string what, Then then);
    void send(nfs::client::Op& op);
    static void on_done(nfs::client::Op& op) noexcept;
    void answered(nfs::client::Op& op);
    static void on_fault(Timer& timer) noexcept;
    void arm_fault();
    void note(const nfs::client::Op& op);
    // False, after having told, when the answer is none of these.
    bool expect(const nfs::client::Op& op, std::initializer_list<nfsstat3> allowed);
    bool require(const std::string& problem);  // empty: true
    void wrong(const std::string& what);
    diropargs3 at(const Name& name, std::string& keep) const;
    Name new_name(std::uint32_t dir, char letter);
    std::string place(const Name& name) const;
    std::string place(const Object& object) const;

    // worker_data.cpp: what files hold.
    struct Range {
        nfs::client::FileHandle handle;
        FileModel* model = nullptr;
        std::uint64_t base = 0;  // of the model's beginning in the file
        bool whole = false;      // the model is the file: its end is known
        std::string where;
    };
    Range range_of(Object& object);
    Range range_of_stripe();
    void read_step();
    void write_step();
    void read_common();
    void write_common();
    void with_stripe(Next next);
    void next_stripe();
    // `next` runs also when a call was cut off, except while verifying, when it is made again.
    void read_range(const Range& range, std::uint64_t offset, std::uint64_t length, Next next);
    void read_cut();
    bool again_while_verifying();
    void read_next();
    void read_answered(std::uint32_t asked);
    bool check_end(std::uint32_t asked);
    void check_guard(std::uint32_t asked);
    void differs(const Difference& difference, const std::string& again);
    void write_range(const Range& range, std::uint64_t offset, std::uint64_t length,
                     std::function<void()> unknown);
    void write_next();
    void write_answered(std::uint32_t asked);
    void commit();
    void verify_all(std::size_t slot);

    // worker_names.cpp: what has which name.
    void with_file(Next next);
    void make_file(Next next);
    void made_file(Object object, bool exclusive, Next next);
    void create();
    void create_again(createmode3 how);
    void remove();
    void remove_name(std::optional<Object>& slot, std::size_t which, Next next);
    void check_removed(const nfs::client::FileHandle& handle, std::uint64_t fileid);
    void rename();
    void renamed(const Name& from, const Name& to, std::optional<Object>& replaced);
    void link();
    void symlink();
    void readlink();
    void mkdir();
    void mknod();
    void add(Object object, std::optional<Object>& slot);
    void forget(const Name& name);

    // worker_look.cpp: what only looks, and attributes.
    void getattr();
    void set_size();
    void set_mode();
    void set_time();
    void setattr_call(std::string what, Next applied);
    void lookup();
    void lookup_absent();
    void access();
    void list(bool plus);
    void list_next();
    bool listed(std::uint64_t fileid, const char* name, const post_op_attr* attributes,
                const post_op_fh3* handle);
    template <class Ok>
    bool take_page(const Ok& ok);
    void list_end();
    void file_system();

    // worker_settle.cpp: after calls whose fate is not known.
    void settle(std::optional<Object>& slot, bool verify);
    void give_up(std::optional<Object>& slot);
    void sweep(std::vector<Name> names, bool directories, Next next);

    Field& field_;
    const std::uint32_t index_, home_;
    Planner planner_;
    Plan plan_;
    std::array<Directory, 2> dirs_;
    std::vector<std::optional<Object>> files_;
    std::optional<Object> symlink_, subdir_, fifo_;
    FileModel stripe_;
    std::uint32_t stripes_given_up_ = 0;
    std::uint64_t serial_ = 0;
    bool finished_ = false, settling_ = false, verifying_ = false;

    // The call under way.
    Connection* connection_ = nullptr;
    nfs::client::Op* pending_ = nullptr;
    Then then_;
    std::string what_;
    Next waiting_;  // for the connection, or for payload memory
    bool waits_for_payload_ = false, cancelled_ = false;
    std::uint32_t payload_bytes_ = 0;
    sunrpc::Payload payload_;
    std::string name_, other_name_, text_;
    nfs::client::FileHandle removed_;
    std::deque<std::string> history_;

    // The range under way.
    Range range_;
    std::uint64_t at_ = 0, left_ = 0;
    std::uint32_t generation_ = 0;
    std::optional<Difference> difference_;  // is read again
    std::uint32_t cuts_ = 0;                // of this range or listing
    Next range_done_, range_unknown_;

    // The listing under way.
    bool plus_ = false;
    std::uint32_t listings_ = 0;
    std::map<std::string, std::uint32_t> seen_;
    std::uint64_t cookie_ = 0;
    std::array<char, NFS3_COOKIEVERFSIZE> cookie_verifier_{};

    struct FaultTimer : Timer {
        using Timer::Timer;
        Worker* worker = nullptr;
    };
    struct PayloadWaiter : sunrpc::SlotWaiter {
        Worker* worker = nullptr;
    };
    FaultTimer fault_timer_;
    PayloadWaiter payload_waiter_;

    nfs::client::NullOp null_;
    nfs::client::GetattrOp getattr_;
    nfs::client::SetattrOp setattr_;
    nfs::client::LookupOp lookup_;
    nfs::client::AccessOp access_;
    nfs::client::ReadlinkOp readlink_;
    nfs::client::ReadOp read_;
    nfs::client::WriteOp write_;
    nfs::client::CreateOp create_;
    nfs::client::MkdirOp mkdir_;
    nfs::client::SymlinkOp make_symlink_;
    nfs::client::MknodOp mknod_;
    nfs::client::RemoveOp remove_;
    nfs::client::RmdirOp rmdir_;
    nfs::client::RenameOp rename_;
    nfs::client::LinkOp link_;
    nfs::client::ReaddirOp readdir_;
    nfs::client::ReaddirplusOp readdirplus_;
    nfs::client::FsstatOp fsstat_;
    nfs::client::FsinfoOp fsinfo_;
    nfs::client::PathconfOp pathconf_;
    nfs::client::CommitOp commit_;
};

}  // namespace nfsrdma::stress
