#include "tools/nfsrdmad/rpcbind.hpp"

namespace nfsrdma::nfsrdmad {

Result<void> Rpcbind::add(std::uint32_t prog, std::uint32_t vers, const std::string& netid,
                          const SockAddr& address) {
    sunrpc::RpcbindEntry entry{prog, vers, netid, sunrpc::universal_address(address)};
    NR_TRY_ASSIGN(const bool done,
                  sunrpc::change_rpcbind(socket_, sunrpc::RpcbindChange::set, entry));
    if (!done) {
        return Error{Errc::refused, 0,
                     "rpcbind refuses: another server is registered, or only root may"};
    }
    entries_.push_back(std::move(entry));
    return {};
}

void Rpcbind::remove_all() noexcept {
    // One that cannot be taken back is of a rpcbind that has gone, and its list with it.
    for (const sunrpc::RpcbindEntry& entry : entries_)
        static_cast<void>(sunrpc::change_rpcbind(socket_, sunrpc::RpcbindChange::unset, entry));
    entries_.clear();
}

}  // namespace nfsrdma::nfsrdmad
