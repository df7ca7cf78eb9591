#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/list.hpp"
#include "nfs/client/client.hpp"
#include "tools/mount_nfsrdma/caller.hpp"
#include "tools/mount_nfsrdma/file_state.hpp"

// An open directory: what the server lists, kept until the kernel has taken it.
//
// Operation. The kernel asks for entries behind an offset, a page or so at a time; the server sends
// many times that. An entry's offset is the server's cookie, as it is, so that telldir(3) and
// seekdir(3) mean what they say. A reply of the server is kept whole: the kernel comes back for
// entries that did not fit where they were to go (case B129), and while it takes the last ones, the
// next reply is on its way. Two replies are held at most.
//
// Ownership. (1) OpenDirs of a node are its OpenDirs object's, until they are closed. (2) Calls go
// out on the loop that opened it, its home; what is in memory is read on any, with Mount::lock
// held. (3) One that is busy, with calls under way, is kept by whoever closes it until it is not.
//
// Errors. A listing that leads in circles, or has neither entries nor an end (case B77), is
// Errc::bad_message. A cookie that the server has forgotten (NFS3ERR_BAD_COOKIE) is looked for from
// the start of the directory, by the name that it stood for.
namespace nfsrdma::mount {

class Mount;
class Node;
class OpenDirs;
class Worker;

// One entry, in memory of its reply.
struct DirItem {
    const char* name = nullptr;
    std::uint64_t fileid = 0, cookie = 0;
    const fattr3* attributes = nullptr;  // nullptr: not told
    const nfs_fh3* handle = nullptr;     // nullptr: not told
};

class OpenDir {
  public:
    struct Waiter : ListHook<Waiter> {
        // On the home loop, Mount::lock held. `outcome` is ok: seek again; or the call that this
        // one waited for has failed.
        void (*ready)(Waiter& waiter, const nfs::client::Outcome& outcome) noexcept = nullptr;

      private:
        friend class OpenDir;
        std::uint64_t cookie_ = 0;
    };
    enum class Where : std::uint8_t { here, end, later };

    // "." and ".." where the server lists none: numbers that no cookie has that anybody has seen.
    static constexpr std::uint64_t kDot = 0x7FFF'FFFF'FFFF'FFD1, kDotDot = kDot + 1;

    // `client`: of the home loop. Calls go out as `opener`.
    OpenDir(Mount& mount, Node& node, nfs::client::Client& client, Caller opener);
    ~OpenDir();
    OpenDir(const OpenDir&) = delete;
    OpenDir& operator=(const OpenDir&) = delete;

    Worker* home = nullptr;  // whose client it has
    Node& node() noexcept { return node_; }
    // Goes to where `offset` is. here: item() is there. later: home has to ask (wait).
    Where seek(std::uint64_t offset) noexcept;
    const DirItem* item() const noexcept;  // nullptr: all of this reply are taken
    void advance() noexcept;
    // What of the reply at hand may be shown to the kernel as what is.
    enum class Belief : std::uint8_t {
        none,         // it has no attributes, or is old
        known_names,  // names of this directory have been changed by us since: those that are known
        briefly,      // another has changed the directory since
        all,
    };
    Belief belief() const noexcept;
    std::uint64_t order() const noexcept;  // of the call that told them

    // On the home loop. After seek has said `later`: asks for what is missing, and tells.
    void wait(Waiter& waiter) noexcept;
    void stop_waiting(Waiter& waiter) noexcept;
    // Whether the reply after this one is to be asked for now, and asks.
    bool wants_ahead() const noexcept;
    void ask_ahead() noexcept;

    bool busy() const noexcept;
    // One that closes it: told when it is not busy any more.
    void when_idle(Waiter& waiter) noexcept { idle_ = &waiter; }

    // Memory for an answer to the kernel.
    std::vector<char> room;

  private:
    friend class OpenDirs;
    enum class State : std::uint8_t { empty, asked, here };
    // One reply.
    struct Reply {
        OpenDir* dir = nullptr;
        State state = State::empty;
        bool plus = false, eof = false;
        bool outdated = false;             // asked before the listing was started again
        bool used = false;                 // the kernel has entries of it
        bool searching = false;            // for `lost`, from the start
        std::uint64_t from = 0, last = 0;  // cookies
        std::uint64_t order = 0, asked_ns = 0, changes = 0;
        std::uint32_t empties = 0;  // answers without entries, in a row
        std::uint64_t lost = 0;     // the cookie that was asked for, and the name it stood for
        std::string lost_name;
        std::vector<DirItem> items;
        nfs::client::ReaddirplusOp plus_op;
        nfs::client::ReaddirOp plain_op;
    };
    struct Place {
        Reply* reply = nullptr;
        std::size_t index = 0;
    };
    static void on_answer(nfs::client::Op& op) noexcept;
    static std::uint64_t cookie_of(std::uint64_t offset) noexcept;
    bool find(std::uint64_t offset, Place& place) noexcept;
    void rewind() noexcept;
    Reply* reply_from(std::uint64_t cookie, State state) noexcept;
    bool ask_plus() const noexcept;
    Reply* room_for_reply(std::uint64_t cookie) noexcept;
    void ask(Reply& reply, std::uint64_t cookie, bool plus) noexcept;
    void send(Reply& reply, std::uint64_t cookie) noexcept;
    void answered(Reply& reply) noexcept;
    nfs::client::Outcome take(Reply& reply, bool& again) noexcept;
    nfs::client::Outcome keep_looking(Reply& reply, bool& again) noexcept;
    template <class Ok>
    bool take_entries(Reply& reply, Ok& ok) noexcept;
    void make_dots(Reply& reply);
    bool leads_on(Reply& reply) noexcept;
    void tell(const Reply& reply, const nfs::client::Outcome& outcome) noexcept;
    void drop(Reply& reply) noexcept;

    Mount& mount_;
    Node& node_;
    nfs::client::Client& client_;
    const Caller opener_;
    std::array<Reply, 2> replies_;
    Place at_;
    bool made_dots_ = false;    // the server's, if it has any, are not shown
    std::uint64_t wanted_ = 0;  // the cookie to ask from, where that is not in memory
    std::array<char, NFS3_COOKIEVERFSIZE> verifier_{};
    // The last that the kernel was given.
    std::uint64_t given_cookie_ = 0;
    std::string given_name_;
    // Brent's search for a circle: a mark that moves up to where we are whenever as many replies as
    // the power of two have come.
    std::uint64_t chain_ = 0, mark_ = 0, since_mark_ = 0, next_mark_ = 1;
    List<Waiter, Waiter> waiters_;
    Waiter* idle_ = nullptr;
};

// Those of one node (Node::file).
class OpenDirs final : public FileState {
  public:
    OpenDirs() = default;
    // The node's, which has none or some.
    static OpenDirs& of(Node& node);
    OpenDir& add(std::unique_ptr<OpenDir> dir);
    std::unique_ptr<OpenDir> remove(OpenDir& dir) noexcept;
    std::uint64_t changes() const noexcept { return changes_; }

    bool when_written(Waiter& waiter) noexcept override;
    void stop_waiting(Waiter& waiter) noexcept override;
    void drop_ahead() noexcept override { ++changes_; }

  private:
    std::vector<std::unique_ptr<OpenDir>> dirs_;
    std::uint64_t changes_ = 0;  // by others
};

}  // namespace nfsrdma::mount
