#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "nfs/group_cache.hpp"
#include "nfs/vfs.hpp"

// Acting as a caller: the file system's own checks decide, with the caller's uid, gid and groups.
//
// Operation. The system keeps these per thread, and so does this: become() changes the calling
// thread alone (by system calls, since libc's functions of these names change every thread), and
// not at all when it acts for that caller already. A thread stays who it is until somebody becomes
// another: each piece of work begins with become() or become_self(), and none relies on what was
// before. A thread that is new here may have been started by one that acted for a caller, so the
// first call of each thread changes everything.
//
// A caller other than root has no privilege: the capabilities that are about files go with the uid
// (capabilities(7)), or are taken away where the system does not do it by itself.
namespace nfsrdma::nfs {

struct IdentityOptions {
    // Whom callers act as who are not known (no AUTH_SYS).
    std::uint32_t anon_uid = 65534, anon_gid = 65534;
    // Groups are looked up at this machine and those in the call are ignored: for users of more
    // than the 16 that AUTH_SYS has room for.
    bool manage_gids = false;
    GroupCache::Options groups;
    bool keep_own = false;  // all act as this process, whatever it may do
};

// One for the process; outlives the backends that use it. Any thread.
class Identity {
  public:
    Identity(const IdentityOptions& options, const Clock& clock);
    ~Identity();  // its thread is itself again
    Identity(const Identity&) = delete;
    Identity& operator=(const Identity&) = delete;

    // Callers act as themselves; false: all as this process, and become() does nothing.
    bool switches() const noexcept { return switches_; }
    // One line for people, e.g. "each caller acts as itself".
    std::string describe() const;

    // This thread acts for the caller. NFS3ERR_ACCES: there is no such user here (an id that a user
    // namespace does not have); the thread is itself then. May wait when is_quick() says no.
    nfsstat3 become(const Cred& cred) noexcept;
    void become_self() noexcept;
    // become() asks nobody, and on a thread that stays itself changes nothing.
    bool is_quick(const Cred& cred) const noexcept;
    // This thread is itself, as the one was that started it, and stays so: it never becomes
    // anybody of whom is_quick() says no. For threads that use RDMA devices of the kernel: these
    // take nothing from a thread whose credentials are not the very ones that opened them, and a
    // thread that was somebody else meanwhile has new ones.
    void keep_thread() noexcept;

    // For FileOp::personality on `loop`, this thread's: file IO that the kernel does for the
    // caller, with the caller's limits. This process's own for who may do everything, and where
    // become() would have to wait; 0 where the loop has none.
    std::uint16_t personality(Loop& loop, const Cred& cred) noexcept;

    // Quotas and space kept for root hold for callers whatever this process may: gives up the
    // capability that overrides them, for the calling thread and those that it starts. Before an
    // Identity is made.
    static void obey_limits() noexcept;

    // Whom `cred` acts as.
    std::uint32_t uid_of(const Cred& cred) const noexcept;
    // No permission of a file keeps it out.
    bool overrides(const Cred& cred) const noexcept;

  private:
    struct Thread;
    static Thread& thread() noexcept;
    bool set_ids(std::uint32_t uid, std::uint32_t gid, const std::uint32_t* groups,
                 std::size_t count) noexcept;
    // As root that acts as itself: groups decide nothing for it.
    bool is_self(const Cred& cred) const noexcept;
    bool is_same(const Thread& thread, const Cred& cred, std::uint32_t uid,
                 std::uint32_t gid) const noexcept;
    void set_capabilities(bool own) const noexcept;

    GroupCache groups_;
    const IdentityOptions options_;
    std::vector<std::uint32_t> own_groups_;
    const char* why_not_ = "";
    std::array<std::uint32_t, 2> effective_{}, permitted_{}, inheritable_{};
    std::uint32_t own_uid_ = 0, own_gid_ = 0;
    bool switches_ = false;
    bool was_dumpable_ = false;
    bool owns_all_files_ = false;  // root may do everything here
    // The system does not take the capabilities away by itself (capabilities(7), "Effect of user ID
    // changes").
    bool drops_by_hand_ = false;
};

}  // namespace nfsrdma::nfs
