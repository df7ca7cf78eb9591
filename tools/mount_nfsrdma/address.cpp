#include "tools/mount_nfsrdma/address.hpp"

#include <cerrno>
#include <memory>
#include <netdb.h>

namespace nfsrdma::mount {

Result<SockAddr> resolve_server(const MountOptions& options) {
    if (!options.v6_only) return SockAddr::resolve(options.server, options.port);
    if (auto numeric = SockAddr::parse(options.server, options.port); numeric && numeric->is_v6())
        return *numeric;
    addrinfo hints{};
    hints.ai_family = AF_INET6;
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* found = nullptr;
    const int rc = ::getaddrinfo(options.server.c_str(), nullptr, &hints, &found);
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
    if (rc == EAI_SYSTEM) return Error{Errc::system, errno, "resolve host name"};
    if (rc == EAI_AGAIN) return Error{Errc::again, 0, "resolve host name: no answer"};
    if (rc != 0) return Error{Errc::invalid_argument, 0, "host name has no IPv6 address"};
    return SockAddr::from(found->ai_addr).with_port(options.port);
}

}  // namespace nfsrdma::mount
