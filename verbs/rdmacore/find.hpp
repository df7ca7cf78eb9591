#pragma once
#include <cstdint>
#include <string>

#include <infiniband/verbs.h>

#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "verbs/rdmacore/handles.hpp"
#include "verbs/rdmacore/rdmacore.hpp"

// Which devices there are.
namespace nfsrdma::verbs::rdmacore {

struct Found {
    ContextHandle context;
    SockAddr source;  // unspecified unless it was asked for by address
};
// By name or by local address; empty: the first with an active port, else the first. Opened such
// that it can do what is `wanted`. Errors as of open_device.
Result<Found> find_device(const std::string& name_or_address,
                          Strategy wanted = Strategy::automatic);

Transport transport_of(ibv_context& context) noexcept;
std::uint8_t first_active_port(ibv_context& context, const ibv_device_attr& attr) noexcept;

}  // namespace nfsrdma::verbs::rdmacore
