#pragma once
#include <optional>

#include "nfs/server/handler.hpp"

// How READ, WRITE and COMMIT come to their file: on the loop where nothing has to be waited for,
// else on a helper thread.
namespace nfsrdma::nfs {

struct Opened {
    Found found;
    nfsstat3 status = NFS3_OK;
    IoFile file;  // status == NFS3_OK: the receiver's to close
    // The file's before the IO, where it was asked for; when status is not NFS3_OK, what is known
    // of the object.
    std::optional<Attr> attr;
};

// Goes on with `next` on the loop, now or later. `opened.found` and `status` are set: a status that
// is not NFS3_OK already only gathers attributes. Uses the call's handler_state until `next` runs.
struct OpenFile {
    IoUse use = IoUse::read;
    bool want_attr = true;
    void (*next)(sunrpc::SvcCall& call, Opened& opened) noexcept = nullptr;
};
void open_file(sunrpc::SvcCall& call, Opened& opened, const OpenFile& how) noexcept;

// After the IO: gathers the attributes into `attr` and closes, on a helper thread where that may
// wait, and goes on with `next` on the loop.
struct ClosingFile {
    std::shared_ptr<Vfs> vfs;
    IoFile file;
    std::optional<Attr> after;
};
void close_file(sunrpc::SvcCall& call, ClosingFile& closing, sunrpc::SvcWork::Step away,
                sunrpc::SvcWork::Step next) noexcept;
void take_after(ClosingFile& closing) noexcept;

}  // namespace nfsrdma::nfs
