#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.0
void on_null(sunrpc::SvcCall& call) noexcept {
    call.reply();
}

}  // namespace nfsrdma::nfs
