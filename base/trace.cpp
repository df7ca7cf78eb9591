#include "base/trace.hpp"

#include <algorithm>
#include <iterator>
#include <spdlog/fmt/fmt.h>

namespace nfsrdma {

std::string TraceRing::dump(std::size_t count) const {
    const std::uint64_t kept = std::min<std::uint64_t>(added_, capacity());
    const std::uint64_t first = added_ - std::min<std::uint64_t>(kept, count);
    std::string out;
    for (std::uint64_t i = first; i < added_; ++i) {
        const TracePoint& at = points_[i & mask_];
        const std::uint64_t since_ns = at.time_ns - points_[first & mask_].time_ns;
        fmt::format_to(std::back_inserter(out), "{:>8}.{:03} c{} {:08x} {}\n", since_ns / 1000,
                       since_ns % 1000, at.connection, at.xid, at.point);
    }
    return out;
}

}  // namespace nfsrdma
