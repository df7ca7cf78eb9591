#include "tools/mount_nfsrdma/options_table.hpp"

#include <algorithm>
#include <charconv>

#include "base/sock_addr.hpp"
#include "devices/choice.hpp"

namespace nfsrdma::mount {
namespace {

constexpr std::uint32_t kSizeLeast = 1024, kSizeFallback = 4096, kSizeMost = 1048576;
constexpr std::uint32_t kLoopsMost = 16;

using Text = std::string;
using View = std::string_view;
constexpr auto kNone = Option::Value::none;
constexpr auto kNeeded = Option::Value::needed;

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
    Text why = number_in(value, 1, 36000, tenths);
    state.out.timeo_s = static_cast<double>(tenths) / 10;
    return why.empty() ? why : why + " tenths of a second";
}
Text set_retry(State& state, View value) {
    std::uint32_t minutes = 0;
    Text why = number_in(value, 0, 525600, minutes);
    state.retry_minutes = minutes;
    return why.empty() ? why : why + " minutes";
}
Text set_actimeo(State& state, View value) {
    std::optional<double> all;
    Text why = seconds_of(value, all);
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
    Text why = one_of(value, {"rdma", "tcp", "udp", "tcp6", "udp6", "auto"}, out);
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
    Text why = one_of(value, {"all", "pos", "positive", "none"}, word);
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
Text set_permissions(State& state, bool on) {
    state.permissions = on;
    return {};
}
Text no_allow_root(State&, View) {
    return "is not possible: allow_other, with default_permissions, is";
}

using M = MountOptions;
constexpr Option kOptions[] = {
    // Connection.
    {"port", kNeeded, set_port},
    {"proto", kNeeded, set_proto},
    {"rdma", kNone, [](State& s, View) { return set_proto(s, "rdma"); }},
    {"rdma6", kNone, [](State& s, View) { return set_proto(s, "rdma6"); }},
    {"tcp", kNone, only_rdma},
    {"udp", kNone, only_rdma},
    {"vers", kNeeded, set_version},
    {"nfsvers", kNeeded, set_version},
    {"v3", kNone, nothing},
    {"v2", kNone, only_v3},
    {"v4", kNone, only_v3},
    {"v4.0", kNone, only_v3},
    {"v4.1", kNone, only_v3},
    {"v4.2", kNone, only_v3},
    {"minorversion", kNeeded, only_v3},
    {"mountport", kNeeded, set_mount_port},
    {"mountproto", kNeeded, set_mount_proto},
    {"mountvers", kNeeded, set_mount_version},
    {"mounthost", kNeeded, no_mount_host},
    {"mountaddr", kNeeded, no_mount_host},
    {"nconnect", kNeeded, set_loops},
    {"loops", kNeeded, set_loops},
    {"rsize", kNeeded, [](State& s, View v) { return size_of(v, s.out.rsize); }},
    {"wsize", kNeeded, [](State& s, View v) { return size_of(v, s.out.wsize); }},
    {"sec", kNeeded, set_sec},
    {"device", kNeeded, set_device},
    {"bind", kNeeded, set_bind},
    {"eventloop", kNeeded, set_event_loop},
    {"loop", kNeeded, set_event_loop},
    {"registration", kNeeded, set_registration},
    {"bg", kNone, set<&M::background, true>},
    {"fg", kNone, set<&M::background, false>},
    {"retry", kNeeded, set_retry},
    // A server that does not answer.
    {"hard", kNone, patience<Patience::hard>},
    {"soft", kNone, patience<Patience::soft>},
    {"softerr", kNone, patience<Patience::softerr>},
    {"timeo", kNeeded, set_timeo},
    {"retrans", kNeeded, [](State& s, View v) { return number_in(v, 0, 100, s.out.retrans); }},
    {"intr", kNone, nothing},
    {"nointr", kNone, nothing},
    // Caches and meaning.
    {"ac", kNone, set<&M::no_ac, false>},
    {"noac", kNone, set<&M::no_ac, true>},
    {"acregmin", kNeeded, seconds<&State::reg_min>},
    {"acregmax", kNeeded, seconds<&State::reg_max>},
    {"acdirmin", kNeeded, seconds<&State::dir_min>},
    {"acdirmax", kNeeded, seconds<&State::dir_max>},
    {"actimeo", kNeeded, set_actimeo},
    {"cto", kNone, set<&M::cto, true>},
    {"nocto", kNone, set<&M::cto, false>},
    {"rdirplus", kNone, set<&M::rdirplus, true>},
    {"nordirplus", kNone, set<&M::rdirplus, false>},
    {"lookupcache", kNeeded, set_lookup_cache},
    {"nolock", kNone, nothing},
    {"lock", kNone, no_locks},
    {"local_lock", kNeeded, set_local_lock},
    {"noacl", kNone, nothing},
    {"nofsc", kNone, nothing},
    {"sharecache", kNone, nothing},
    {"nosharecache", kNone, nothing},
    {"resvport", kNone, nothing},
    {"noresvport", kNone, nothing},
    // mount(8).
    {"defaults", kNone, set_defaults},
    {"ro", kNone, set<&M::read_only, true>},
    {"rw", kNone, set<&M::read_only, false>},
    {"exec", kNone, set<&State::exec, true>},
    {"noexec", kNone, set<&State::exec, false>},
    {"suid", kNone, if_root<&State::suid>},
    {"nosuid", kNone, set<&State::suid, false>},
    {"dev", kNone, if_root<&State::dev>},
    {"nodev", kNone, set<&State::dev, false>},
    {"sync", kNone, set<&State::sync, true>},
    {"async", kNone, set<&State::sync, false>},
    {"dirsync", kNone, set<&State::dirsync, true>},
    {"atime", kNone, set<&State::atime, true>},
    {"noatime", kNone, set<&State::atime, false>},
    {"relatime", kNone, set<&State::atime, true>},
    {"norelatime", kNone, nothing},
    {"strictatime", kNone, set<&State::atime, true>},
    {"nostrictatime", kNone, nothing},
    {"lazytime", kNone, nothing},
    {"nolazytime", kNone, nothing},
    {"diratime", kNone, nothing},
    {"nodiratime", kNone, nothing},
    {"silent", kNone, nothing},
    {"loud", kNone, nothing},
    {"nomand", kNone, nothing},
    {"noiversion", kNone, nothing},
    {"remount", kNone, no_remount},
    // fstab(5).
    {"auto", kNone, nothing},
    {"noauto", kNone, nothing},
    {"user", kNone, as_a_user},
    {"users", kNone, as_a_user},
    {"owner", kNone, as_an_owner},
    {"group", kNone, as_an_owner},
    {"nouser", kNone, nothing},
    {"nousers", kNone, nothing},
    {"noowner", kNone, nothing},
    {"nogroup", kNone, nothing},
    {"_netdev", kNone, nothing},
    {"nofail", kNone, nothing},
    {"comment", kNeeded, nothing},
    {"uhelper", kNeeded, nothing},
    {"helper", kNeeded, nothing},
    // FUSE.
    {"allow_other", kNone, set<&M::allow_other, true>},
    {"no_allow_other", kNone, set<&M::allow_other, false>},
    {"allow_root", kNone, no_allow_root},
    {"default_permissions", kNone, [](State& s, View) { return set_permissions(s, true); }},
    {"no_default_permissions", kNone, [](State& s, View) { return set_permissions(s, false); }},
};

}  // namespace

std::span<const Option> option_table() noexcept {
    return kOptions;
}

}  // namespace nfsrdma::mount
