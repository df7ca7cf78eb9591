#pragma once
#include <cstdint>
#include <utility>

#include <infiniband/verbs.h>

#include "base/result.hpp"
#include "verbs/rdmacore/quirks.hpp"
#include "verbs/rdmacore/rdmacore.hpp"

// What a device really gives of what it says it has: flags and limits of devices promise more than
// their drivers keep (mlx5 counts queues in blocks of 64 bytes; a virtual function may be refused
// its windows).
namespace nfsrdma::verbs::rdmacore {

struct Probed {
    Strategy strategy = Strategy::automatic;  // never `automatic` afterwards
    DeviceCaps caps;
    int window_error = 0;  // errno: the device says that it has windows and makes none
    int memory_error = 0;  // errno: larger queues were refused, for want of memory to lock
};

// Makes, and gives back, a memory window and a queue pair. Errc::unsupported: it cannot do what is
// `wanted`, or has no reliable connections. Errc::system: it makes no queue pair; the log says what
// to do where it lacked memory that it may lock.
Result<Probed> probe(ibv_context& context, const ibv_device_attr& attr, Strategy wanted);

struct QueueSizes {
    std::uint32_t send_wrs = 0, recv_wrs = 0;
};
struct Granted {
    QueueSizes sizes;
    int refusal = 0;  // why not the size before it, an errno; 0: it was the first
};
inline constexpr std::uint32_t kTriesMax = 12;
// What to try after `last` was refused: half of it. Pure.
QueueSizes fewer(const QueueSizes& last) noexcept;
// The first of the sizes from `wanted` down, at most kTriesMax of them, for which `grants(sizes)`
// is 0; what it returned is an errno. Errc::system with the last errno: none was granted.
template <class Grants>
Result<Granted> largest_granted(QueueSizes wanted, Grants grants) {
    int error = 0;
    for (std::uint32_t i = 0; i < kTriesMax; ++i, wanted = fewer(wanted)) {
        const int refusal = std::exchange(error, grants(wanted));
        if (error == 0) return Granted{wanted, refusal};
    }
    return Error{Errc::system, error, "the RDMA device makes no queue pair"};
}

}  // namespace nfsrdma::verbs::rdmacore
