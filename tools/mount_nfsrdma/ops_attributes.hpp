#pragma once
#include <array>

#include "nfs/nfs3_types.hpp"
#include "tools/mount_nfsrdma/file_state.hpp"
#include "tools/mount_nfsrdma/job.hpp"

// What the jobs about one object share, and the pure parts of getattr, setattr and statfs.
namespace nfsrdma::mount {

// What setattr(2)'s relatives change (FUSE_SET_ATTR_*, with the values in `to`) as SETATTR says it.
sattr3 to_sattr3(const struct stat& to, int what) noexcept;
// False: nothing of it can be told to the server.
bool changes_any(const sattr3& what) noexcept;
// From mode `from` to `to` no more happens than that set-ID bits go.
bool takes_set_id(std::uint32_t from, std::uint32_t to) noexcept;
struct statvfs to_statvfs(const FSSTAT3resok& told, std::uint32_t name_max) noexcept;
// The text of a link, decoded into `room`, which was zeroed before: false when it has a NUL inside.
bool is_whole_text(std::span<const char> room) noexcept;

// A job about one object, which can wait until what was written to it is at the server.
class ObjectJob : public Job {
  public:
    ObjectJob(Worker& at, fuse_req_t request, fuse_ino_t ino);
    void give_up() noexcept override;

  protected:
    // True: WRITEs that came before have been answered. Otherwise start() runs again when they
    // have, on the file's own loop.
    bool settle() noexcept;
    // The same for until they are durable: what has to be written anew, because the server was
    // started again, would make a file longer that has become shorter meanwhile.
    bool settle_durably() noexcept;
    // Replies with the node's attributes; asks for them where `known` says that they are not.
    void reply_attributes(bool known) noexcept;
    NodePin node_;

  private:
    struct Waiter final : FileState::Waiter {
        ObjectJob* job = nullptr;
    };
    void asked_attributes() noexcept;
    bool waiting_ = false, settled_ = false;
    Waiter waiter_;
    nfs::client::GetattrOp getattr_;
};

// setattr (ops_attributes_set.cpp).
void on_setattr(fuse_req_t req, fuse_ino_t ino, struct stat* to, int what, fuse_file_info* info);

}  // namespace nfsrdma::mount
