#include "tirpc/svc_connection.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace nfsrdma::tirpc {

void SvcFace::set(const SockAddr& local_address, const SockAddr& remote_address) noexcept {
    xprt = {};
    ext = {};
    local = remote = {};
    std::memcpy(&local, local_address.sa(), local_address.sa_len());
    std::memcpy(&remote, remote_address.sa(), remote_address.sa_len());
    const std::string_view name = local_address.is_v6() ? "rdma6" : "rdma";
    netid = {};
    std::copy(name.begin(), name.end(), netid.begin());
    xprt.xp_netid = netid.data();
    xprt.xp_tp = tp.data();
    xprt.xp_type = NC_TPI_COTS_ORD;
    const auto room = static_cast<unsigned>(sizeof local);
    xprt.xp_ltaddr = {room, local_address.sa_len(), &local};
    xprt.xp_rtaddr = {room, remote_address.sa_len(), &remote};
    xprt.xp_addrlen = static_cast<int>(remote_address.sa_len());
    std::memcpy(&xprt.xp_raddr, &remote, sizeof xprt.xp_raddr);
    xprt.xp_verf = _null_auth;
    xprt.xp_p3 = &ext;
}

}  // namespace nfsrdma::tirpc
