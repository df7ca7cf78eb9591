#pragma once
#include <cstdint>

#include "nfs/client/client.hpp"

// A call whose answer was lost with the connection is sent again, with the same XID. A server that
// remembers its answers gives the first one once more; one that was started again meanwhile does
// not, and says of what it has done already that it cannot be done (RFC 1813 s4.5): REMOVE of a
// name that is gone, MKDIR of one that is there. Here that is told apart from the error that it
// looks like, as far as the server's state can tell; docs/faults.md names the rest.
//
//   REMOVE, RMDIR                 NOENT: done
//   MKDIR, MKNOD, guarded CREATE  EXIST: done when the object has the type and the mode asked for,
//                                 an empty file the size
//   SYMLINK                       EXIST: done when it is a link with this text
//   LINK                          EXIST: done when it is the very file
//   RENAME                        NOENT: done when the new name is the very object; where that is
//                                 not known, when the new name is there
//   SETATTR with a guard          NOT_SYNC: done when the attributes are those asked for
//
// An exclusive CREATE needs nothing: the server knows its verifier again (RFC 1813 s3.3.8).
namespace nfsrdma::nfs::client {

enum class Doubt : std::uint8_t { none, was_done, look };
// Of the answer `status` to a call that was sent more than once. Pure.
Doubt doubt_of(const sunrpc::Call& call, nfsstat3 status) noexcept;

// Whether what is there is what `call`, one of those that make something, was to make. Pure.
bool is_as_asked(const sunrpc::Call& call, const fattr3& there) noexcept;

// Looks at the server, for one call after the other of its client's list. Its own calls change
// nothing, and so are never in doubt themselves.
class ResendCheck {
  public:
    explicit ResendCheck(Client& client) noexcept;
    ~ResendCheck() = default;
    ResendCheck(const ResendCheck&) = delete;
    ResendCheck& operator=(const ResendCheck&) = delete;
    void go_on() noexcept;  // with the next in the list, unless one is looked at
    void drop() noexcept;   // the one that is looked at: its caller has been told already

  private:
    static void on_lookup(Op& op) noexcept;
    static void on_getattr(Op& op) noexcept;
    static void on_readlink(Op& op) noexcept;
    void begin(Op& subject) noexcept;
    void look_up(const diropargs3& where) noexcept;
    void get_attributes(const nfs_fh3& object) noexcept;
    void found() noexcept;
    bool answered(Op& op) noexcept;
    void settle(bool was_done) noexcept;

    Client& client_;
    Op* subject_ = nullptr;
    bool comparing_ = false;  // GETATTR is of what the caller knows, not of what was found
    bool has_attributes_ = false;
    fattr3 attributes_{};  // of what was found
    FileHandle expected_;
    LookupOp lookup_;
    GetattrOp getattr_;
    ReadlinkOp readlink_;
};

}  // namespace nfsrdma::nfs::client
