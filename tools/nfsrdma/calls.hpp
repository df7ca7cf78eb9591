#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "nfs/client/client.hpp"
#include "nfs/client/read_dir.hpp"
#include "nfs/client/walk.hpp"
#include "tools/nfsrdma/mount_calls.hpp"
#include "tools/nfsrdma/options.hpp"
#include "tools/nfsrdma/url.hpp"

namespace nfsrdma::tool {

// An entry of a directory, owned.
struct Entry {
    std::string name;
    fattr3 attributes{};
    nfs::client::FileHandle handle;
    bool known = false;     // attributes and handle were told
    bool repeated = false;  // the same name stands before it, for something else
};

struct ListOptions {
    bool names_only = false;  // attributes and handles are not asked for
    bool dots = false;        // with "." and ".." as far as the server has them
};

// What a path leads to.
struct Found {
    nfs::client::Outcome outcome;
    nfs::client::FileHandle handle;
    fattr3 attributes{};
    std::string name;  // of walk_to_parent: the last component
};

// NFS calls on one mounted export that wait for their answer while everything else on the loop goes
// on: jobs that were started meanwhile. They run the loop, and so are not for callbacks.
class Calls {
  public:
    // The client outlives this. `server`: whom the client talks to.
    Calls(nfs::client::Client& client, const Url& server) : client_(&client), server_(server) {}
    virtual ~Calls() = default;
    Calls(const Calls&) = delete;
    Calls& operator=(const Calls&) = delete;

    // Mounts the export that holds `path`; false after complaint.
    bool mount(const std::string& path);
    // The same of a call of MOUNT, which may have been made beside the connection.
    void complain_about_mount(const nfs::client::Outcome& outcome);
    // For people: the outcome, and what may help.
    std::string explain(const nfs::client::Outcome& outcome) const;
    // "nfsrdma: PLACE: WHY", but not after the user has interrupted: the rest only follows from it.
    void complain_about(const std::string& place, const nfs::client::Outcome& outcome) const;
    // MOUNT's calls, for showmount.
    MountCalls& mounts() noexcept { return mounts_; }
    nfs::client::Client& client() noexcept { return *client_; }
    Loop& loop() noexcept { return client_->loop(); }
    // Not at its end: it has a connection, or will have one again.
    bool connected() const noexcept {
        return client_->xprt().connected() || client_->xprt().recovering();
    }
    bool interrupted() const noexcept { return interrupted_; }
    std::string server_name() const { return server_.server(); }
    const std::string& export_path() const noexcept { return export_; }
    // False, after complaint, when `url` is not below the export.
    bool holds(const Url& url) const;

    nfs::client::Outcome run(nfs::client::Op& op);
    void wait_until(const std::function<bool()>& finished);
    // For what a helper thread may keep waiting for ever (a terminal, a pipe): after an interrupt
    // it waits a second more and then ends the process.
    void wait_or_leave(const std::function<bool()>& finished);
    // What the command ends with: `status`, or what tells of the signal that ended it.
    int status(int status) const noexcept { return signal_ == 0 ? status : kSignalBase + signal_; }
    void sleep(std::uint64_t ns);  // ends early when interrupted
    Found walk(const Url& url, bool follow_last);
    Found walk_to_parent(const Url& url);
    Found look_up(const nfs::client::FileHandle& directory, const std::string& name);
    // Sorted by name. Entries of which the server told too little are looked up. Names are as the
    // server sent them: see is_plain_name. Begins anew, a few times, when the server says that the
    // directory has changed too much to go on (NFS3ERR_BAD_COOKIE).
    nfs::client::Outcome list(const nfs::client::FileHandle& directory, std::vector<Entry>& entries,
                              const ListOptions& options);

  protected:
    Calls() = default;
    nfs::client::Client* client_ = nullptr;
    MountCalls mounts_{[this](nfs::client::Op& op) { return run(op); }};
    Url server_;
    std::string export_;    // normal; empty: nothing is mounted
    std::string identity_;  // as whom the calls are made: "uid 1000, gid 1000"
    bool interrupted_ = false;
    int signal_ = 0;  // that interrupted it

  private:
    bool try_mount(const std::string& path, nfs::client::Outcome& outcome);
    bool find_export(const std::string& path, std::vector<std::string>& exports,
                     nfs::client::Outcome& outcome);
    bool mount_by_trying(const std::string& path, nfs::client::Outcome& outcome);
    // The outcome of a call of MOUNT: as explain(), and why it could not be asked.
    std::string explain_mount(const nfs::client::Outcome& outcome) const;
    void notice_interrupt(const nfs::client::Outcome& outcome);
    Found walk(const nfs::client::PathWalk::Options& options);
    nfs::client::Outcome list_once(const nfs::client::FileHandle& directory,
                                   std::vector<Entry>& entries, const ListOptions& options);
    void complete(const nfs::client::FileHandle& directory, std::vector<Entry>& entries);
    std::string below_export(const Url& url) const;
    nfs::client::FileHandle root_;
};

}  // namespace nfsrdma::tool
