#include "sunrpc/auth.hpp"

#include <algorithm>
#include <ctime>
#include <unistd.h>
#include <vector>

namespace nfsrdma::sunrpc {

AuthSys AuthSys::of_process(bool& truncated) {
    AuthSys sys;
    truncated = false;
    sys.stamp = static_cast<std::uint32_t>(::time(nullptr));
    if (::gethostname(sys.machine.data(), kMachineNameMax) != 0) sys.machine.front() = '\0';
    sys.machine.back() = '\0';  // gethostname need not terminate a name that it cut
    sys.uid = ::geteuid();
    sys.gid = ::getegid();
    const int count = ::getgroups(0, nullptr);
    if (count <= 0) return sys;
    std::vector<gid_t> groups(static_cast<std::size_t>(count));
    const int got = ::getgroups(count, groups.data());
    if (got < 0) return sys;
    groups.resize(static_cast<std::size_t>(got));
    if (groups.size() > kAuthSysGroupsMax) {
        // The primary group travels in `gid` anyway: it must not take one of the few places.
        std::erase(groups, sys.gid);
    }
    truncated = groups.size() > kAuthSysGroupsMax;
    sys.group_count =
        static_cast<std::uint32_t>(std::min<std::size_t>(groups.size(), kAuthSysGroupsMax));
    std::copy_n(groups.begin(), sys.group_count, sys.groups.begin());
    return sys;
}

}  // namespace nfsrdma::sunrpc
