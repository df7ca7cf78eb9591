#include "tools/mount_nfsrdma/options_table.hpp"

#include <algorithm>
#include <charconv>

#include "base/sock_addr.hpp"
#include "tools/device/choice.hpp"

namespace nfsrdma::mount {
namespace {

constexpr std::uint32_t kSizeLeast = 1024, kSizeFallback = 4096, kSizeMost = 1048576;
constexpr std::uint32_t kLoopsMost = 16;

using Text = std::string;
using View = std::string_view;
constexpr auto none = Option::Value::none;
constexpr auto needed = Option::Value::needed;

template <class Number>
std::optional<Number> number_of(View text) {
    Number number{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
    return number;
}

Text number_in(View text, std::uint32_t least, std::uint32_t most, std::uint32_t& out) {
    const auto number = number_of<std::uint64_t>(text);
    if (!number || *number < least || *number > most)
        return "needs a number from " + std::to_string(least) + " to " + std::to_string(most);
    out = static_cast<std::uint32_t>(*number);
    return {};
}

Text port_of(View text, std::uint16_t& out) {
    std::uint32_t port = 0;
    if (Text why = number_in(text, 1, UINT16_MAX, port); !why.empty()) return why;
    out = static_cast<std::uint16_t>(port);
    return {};
}

// Bytes of a request, as nfs(5) rounds them.
Text size_of(View text, std::uint32_t& out) {
    const auto number = number_of<std::uint64_t>(text);
    if (!number) return "needs a number of bytes";
    if (*number < kSizeLeast) {
        out = kSizeFallback;
    } else {
        const auto bounded = std::min<std::uint64_t>(*number, kSizeMost);
        out = static_cast<std::uint32_t>(bounded / kSizeLeast * kSizeLeast);
    }
    return {};
}

Text seconds_of(View text, std::optional<double>& out) {
    std::uint32_t seconds = 0;
    if (Text why = number_in(text, 0, 86400, seconds); !why.empty()) return why + " seconds";
    out = seconds;
    return {};
}

Text one_of(View value, std::initializer_list<View> allowed, std::string& out) {
    out = value;
    if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return {};
    Text why = "may be ";
    for (const View& one : allowed) {
        if (&one != allowed.begin()) why += &one + 1 == allowed.end() ? " or " : ", ";
        why += one;
    }
    return why;
}

Text nothing(State&, View) {
    return {};
}
template <bool MountOptions::*Field, bool Value>
Text set(State& state, View) {
    state.out.*Field = Value;
    return {};
}
template <bool State::*Field, bool Value>
Text set(State& state, View) {
    state.*Field = Value;
    return {};
}
template <Patience Which>
Text patience(State& state, View) {
    state.out.patience = Which;
    return {};
}
template <std::optional<double> State::*Field>
Text seconds(State& state, View value) {
    return seconds_of(value, state.*Field);
}

Text set_port(State& state, View value) {
    if (value == "0") {  // nfs(5): the standard one, or what rpcbind says
        state.out.port = 20049;
        return {};
    }
    return port_of(value, state.out.port);
}
Text set_loops(State& state, View value) {
    return number_in(value, 1, kLoopsMost, state.out.loops);
}
Text set_timeo(State& state, View value) {
    std::uint32_t tenths = 0;
    const Text why = number_in(value, 1, 36000, tenths);
    state.out.timeo_s = static_cast<double>(tenths) / 10;
    return why.empty() ? why : why + " tenths of a second";
}
Text set_retry(State& state, View value) {
    std::uint32_t minutes = 0;
    const Text why = number_in(value, 0, 525600, minutes);
    state.retry_minutes = minutes;
    return why.empty() ? why : why + " minutes";
}
Text set_actimeo(State& state, View value) {
    std::optional<double> all;
    const Text why = seconds_of(value, all);
    state.reg_min = state.reg_max = state.dir_min = state.dir_max = all;
    return why;
}
Text set_version(State&, View value) {
    if (value == "3") return {};
    if (!value.empty() && value.front() == '4') return "this mounts NFS version 3 alone, not 4";
    return "this mounts NFS version 3 alone";
}
Text only_v3(State&, View) {
    return "this mounts NFS version 3 alone";
}
Text set_mount_version(State&, View value) {
    return value == "3" ? "" : "MOUNT is asked in its version 3 alone";
}
Text set_proto(State& state, View value) {
    if (value != "rdma" && value != "rdma6")
        return "this mounts over RDMA alone: rdma, or rdma6 for a server's IPv6 address";
    state.out.v6_only = value == "rdma6";
    return {};
}
Text only_rdma(State&, View) {
    return "this mounts over RDMA alone; mount.nfs(8) does it over TCP";
}
Text set_mount_proto(State& state, View value) {
    std::string& out = state.out.device.mount_proto;
    const Text why = one_of(value, {"rdma", "tcp", "udp", "tcp6", "udp6", "auto"}, out);
    if (out.size() == 4 && out.back() == '6') out.pop_back();
    return why;
}
Text set_mount_port(State& state, View value) {
    return value == "0" ? Text() : port_of(value, state.out.device.mount_port);
}
Text no_mount_host(State&, View) {
    return "MOUNT is asked at the server of NFS itself, and at no other";
}
Text set_sec(State&, View value) {
    return value == "sys" ? "" : "calls carry user and groups (sys), and nothing else is possible";
}
constexpr View kNoLocks = "locks are kept on this machine and are not the server's; say nolock";
Text no_locks(State&, View) {
    return Text(kNoLocks);
}
Text set_local_lock(State&, View value) {
    return value == "all" ? Text() : Text(kNoLocks);
}
Text set_lookup_cache(State& state, View value) {
    std::string word;
    const Text why = one_of(value, {"all", "pos", "positive", "none"}, word);
    if (why.empty()) {
        state.out.lookup_cache = word == "all"    ? LookupCache::all
                                 : word == "none" ? LookupCache::none
                                                  : LookupCache::positive;
    }
    return why;
}
Text set_device(State& state, View value) {
    state.out.device.device = value;
    return devices::check_choice(state.out.device.device);
}
Text set_bind(State& state, View value) {
    state.out.device.bind = value;
    if (SockAddr::parse(value, 0)) return {};
    return "needs a numeric local address";
}
Text set_event_loop(State& state, View value) {
    return one_of(value, {"auto", "io_uring", "epoll"}, state.out.device.loop);
}
Text set_registration(State& state, View value) {
    return one_of(value, {"auto", "bind", "umr", "static"}, state.out.device.registration);
}
Text as_a_user(State& state, View) {  // mount(8): implies these; later options may allow them again
    state.suid = state.dev = state.exec = false;
    return {};
}
Text as_an_owner(State& state, View) {
    state.suid = state.dev = false;
    return {};
}
Text set_defaults(State& state, View) {
    state.suid = state.dev = state.exec = true;
    state.out.read_only = state.sync = false;
    return {};
}
template <bool State::*Field>
Text if_root(State& state, View) {
    if (!state.as_root) return "only root may mount so";
    state.*Field = true;
    return {};
}
Text no_remount(State&, View) {
    return "what is mounted cannot be changed: unmount it, and mount it anew";
}
Text no_allow_root(State&, View) {
    return "is not possible: allow_other, with default_permissions, is";
}

using M = MountOptions;
constexpr Option kOptions[] = {
    // Connection.
    {"port", needed, set_port},
    {"proto", needed, set_proto},
    {"rdma", none, [](State& s, View) { return set_proto(s, "rdma"); }},
    {"rdma6", none, [](State& s, View) { return set_proto(s, "rdma6"); }},
    {"tcp", none, only_rdma},
    {"udp", none, only_rdma},
    {"vers", needed, set_version},
    {"nfsvers", needed, set_version},
    {"v3", none, nothing},
    {"v2", none, only_v3},
    {"v4", none, only_v3},
    {"v4.0", none, only_v3},
    {"v4.1", none, only_v3},
    {"v4.2", none, only_v3},
    {"minorversion", needed, only_v3},
    {"mountport", needed, set_mount_port},
    {"mountproto", needed, set_mount_proto},
    {"mountvers", needed, set_mount_version},
    {"mounthost", needed, no_mount_host},
    {"mountaddr", needed, no_mount_host},
    {"nconnect", needed, set_loops},
    {"loops", needed, set_loops},
    {"rsize", needed, [](State& s, View v) { return size_of(v, s.out.rsize); }},
    {"wsize", needed, [](State& s, View v) { return size_of(v, s.out.wsize); }},
    {"sec", needed, set_sec},
    {"device", needed, set_device},
    {"bind", needed, set_bind},
    {"eventloop", needed, set_event_loop},
    {"loop", needed, set_event_loop},
    {"registration", needed, set_registration},
    {"bg", none, set<&M::background, true>},
    {"fg", none, set<&M::background, false>},
    {"retry", needed, set_retry},
    // A server that does not answer.
    {"hard", none, patience<Patience::hard>},
    {"soft", none, patience<Patience::soft>},
    {"softerr", none, patience<Patience::softerr>},
    {"timeo", needed, set_timeo},
    {"retrans", needed, [](State& s, View v) { return number_in(v, 0, 100, s.out.retrans); }},
    {"intr", none, nothing},
    {"nointr", none, nothing},
    // Caches and meaning.
    {"ac", none, set<&M::no_ac, false>},
    {"noac", none, set<&M::no_ac, true>},
    {"acregmin", needed, seconds<&State::reg_min>},
    {"acregmax", needed, seconds<&State::reg_max>},
    {"acdirmin", needed, seconds<&State::dir_min>},
    {"acdirmax", needed, seconds<&State::dir_max>},
    {"actimeo", needed, set_actimeo},
    {"cto", none, set<&M::cto, true>},
    {"nocto", none, set<&M::cto, false>},
    {"rdirplus", none, set<&M::rdirplus, true>},
    {"nordirplus", none, set<&M::rdirplus, false>},
    {"lookupcache", needed, set_lookup_cache},
    {"nolock", none, nothing},
    {"lock", none, no_locks},
    {"local_lock", needed, set_local_lock},
    {"noacl", none, nothing},
    {"nofsc", none, nothing},
    {"sharecache", none, nothing},
    {"nosharecache", none, nothing},
    {"resvport", none, nothing},
    {"noresvport", none, nothing},
    // mount(8).
    {"defaults", none, set_defaults},
    {"ro", none, set<&M::read_only, true>},
    {"rw", none, set<&M::read_only, false>},
    {"exec", none, set<&State::exec, true>},
    {"noexec", none, set<&State::exec, false>},
    {"suid", none, if_root<&State::suid>},
    {"nosuid", none, set<&State::suid, false>},
    {"dev", none, if_root<&State::dev>},
    {"nodev", none, set<&State::dev, false>},
    {"sync", none, set<&State::sync, true>},
    {"async", none, set<&State::sync, false>},
    {"dirsync", none, set<&State::dirsync, true>},
    {"atime", none, set<&State::atime, true>},
    {"noatime", none, set<&State::atime, false>},
    {"relatime", none, set<&State::atime, true>},
    {"norelatime", none, nothing},
    {"strictatime", none, set<&State::atime, true>},
    {"nostrictatime", none, nothing},
    {"lazytime", none, nothing},
    {"nolazytime", none, nothing},
    {"diratime", none, nothing},
    {"nodiratime", none, nothing},
    {"silent", none, nothing},
    {"loud", none, nothing},
    {"nomand", none, nothing},
    {"noiversion", none, nothing},
    {"remount", none, no_remount},
    // fstab(5).
    {"auto", none, nothing},
    {"noauto", none, nothing},
    {"user", none, as_a_user},
    {"users", none, as_a_user},
    {"owner", none, as_an_owner},
    {"group", none, as_an_owner},
    {"nouser", none, nothing},
    {"nousers", none, nothing},
    {"noowner", none, nothing},
    {"nogroup", none, nothing},
    {"_netdev", none, nothing},
    {"nofail", none, nothing},
    {"comment", needed, nothing},
    {"uhelper", needed, nothing},
    {"helper", needed, nothing},
    // FUSE.
    {"allow_other", none, set<&M::allow_other, true>},
    {"no_allow_other", none, set<&M::allow_other, false>},
    {"allow_root", none, no_allow_root},
    {"default_permissions", none, set<&M::default_permissions, true>},
    {"no_default_permissions", none, set<&M::default_permissions, false>},
};

}  // namespace

std::span<const Option> option_table() noexcept {
    return kOptions;
}

}  // namespace nfsrdma::mount
