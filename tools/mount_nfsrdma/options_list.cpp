// What stands behind -o: taken apart, looked up, and brought together.
#include <algorithm>

#include "base/sock_addr.hpp"
#include "tools/mount_nfsrdma/options_table.hpp"

namespace nfsrdma::mount {
namespace {

constexpr double kForegroundMinutes = 2, kBackgroundMinutes = 10000;  // nfs(5), retry

using Text = std::string;
using View = std::string_view;

// How many letters are to be changed, added or left out to make `a` of `b`.
std::size_t distance(View a, View b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j)
        row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
        }
    }
    return row[b.size()];
}

Text unknown(View name) {
    Text why = "option '" + Text(name) + "' is not known";
    const Option* nearest = nullptr;
    std::size_t best = std::max<std::size_t>(1, name.size() / 3) + 1;
    for (const Option& option : option_table()) {
        const std::size_t away = distance(name, option.name);
        if (away >= best) continue;
        best = away;
        nearest = &option;
    }
    if (nearest != nullptr) why += "; is " + Text(nearest->name) + " meant?";
    return why + (nearest != nullptr ? "" : "; mount.nfsrdma(8) has them all, -s leaves it out");
}

// Of whom mount(8) and others write into fstab, for themselves.
bool is_of_others(View name) {
    return name.substr(0, 2) == "x-" || name.substr(0, 2) == "X-";
}

Text apply(State& state, View text, bool sloppy) {
    const std::size_t equals = text.find('=');
    const View name = text.substr(0, equals);
    if (is_of_others(name)) return {};
    const std::span<const Option> table = option_table();
    const auto option = std::find_if(table.begin(), table.end(),
                                     [&](const Option& one) { return one.name == name; });
    if (option == table.end()) return sloppy ? Text() : unknown(name);
    const bool has_value = equals != View::npos;
    if (has_value != (option->value == Option::Value::needed)) {
        return "option '" + Text(name) +
               (has_value ? "' has no value: leave out '" + Text(text.substr(equals)) + "'"
                          : "' needs a value: " + Text(name) + "=...");
    }
    const Text why = option->apply(state, has_value ? text.substr(equals + 1) : View());
    return why.empty() ? why : "option '" + Text(text) + "': " + why;
}

// What stands behind the next comma; commas in double quotes end nothing, as with mount(8), and the
// quotes are left out.
Text next_option(View& list) {
    Text out;
    bool quoted = false;
    while (!list.empty()) {
        const char c = list.front();
        list.remove_prefix(1);
        if (c == '"') {
            quoted = !quoted;
        } else if (c == ',' && !quoted) {
            break;
        } else {
            out += c;
        }
    }
    return out;
}

// A least time that was given lifts the greatest one that was not, and the other way round.
Text settle(const char* kind, const std::optional<double>& least, const std::optional<double>& most,
            double& least_out, double& most_out) {
    if (least && most && *least > *most) {
        const Text prefix = Text("ac") + kind;
        return "option '" + prefix + "min=" + std::to_string(static_cast<int>(*least)) +
               "' is more than " + prefix + "max=" + std::to_string(static_cast<int>(*most));
    }
    if (least) least_out = *least;
    if (most) most_out = *most;
    if (least) most_out = std::max(most_out, *least);
    if (most) least_out = std::min(least_out, *most);
    return {};
}

Text settle_times(State& state) {
    CacheTimes& times = state.out.times;
    if (Text why = settle("reg", state.reg_min, state.reg_max, times.reg_min, times.reg_max);
        !why.empty())
        return why;
    if (Text why = settle("dir", state.dir_min, state.dir_max, times.dir_min, times.dir_max);
        !why.empty())
        return why;
    if (state.out.no_ac) times = CacheTimes{0, 0, 0, 0, 0};
    times.negative = std::min(times.negative, times.dir_min);
    if (state.out.lookup_cache != LookupCache::all) times.negative = 0;
    return {};
}

// For the mount by the kernel. What libfuse takes from root's mounts unless it is told otherwise is
// asked for.
void settle_kernel(const State& state) {
    std::vector<std::string>& kernel = state.out.kernel;
    kernel.clear();
    const auto add = [&](bool on, const char* word) {
        if (on) kernel.emplace_back(word);
    };
    add(state.as_root && state.suid, "suid");
    add(!state.suid, "nosuid");
    add(state.as_root && state.dev, "dev");
    add(!state.dev, "nodev");
    add(!state.exec, "noexec");
    add(!state.atime, "noatime");
    add(state.sync, "sync");
    add(state.dirsync, "dirsync");
}

Text settle_server(const MountOptions& out) {
    if (out.v6_only && SockAddr::parse(out.server, 1) && out.server.find(':') == Text::npos)
        return "option 'proto=rdma6' contradicts the IPv4 address " + out.server;
    if (!out.device.bind.empty() && out.device.device.rfind("rdmacore", 0) == 0)
        return "option 'bind' is of device=softroce, and contradicts device=" + out.device.device;
    if (out.device.mount_port != 0 && out.device.mount_proto == "rdma")
        return "option 'mountport' is of MOUNT over TCP or UDP, and contradicts mountproto=rdma";
    if (out.device.registration == "umr" && out.device.device.rfind("rdmacore", 0) != 0)
        return "option 'registration=umr' is of mlx5's devices alone: it needs device=rdmacore";
    return {};
}

}  // namespace

std::string parse_list(const std::string& list, bool as_root, bool sloppy, MountOptions& options) {
    State state{options, as_root, {}, {}, {}, {}, {}, {}};
    for (View rest = list; !rest.empty();) {
        const Text one = next_option(rest);
        if (one.empty()) continue;
        if (Text why = apply(state, one, sloppy); !why.empty()) return why;
    }
    options.retry_minutes =
        state.retry_minutes.value_or(options.background ? kBackgroundMinutes : kForegroundMinutes);
    options.device.timeout_s = options.timeo_s;
    // What the kernel keeps of one user's looks is shown to the others: it has to check who they
    // are.
    options.default_permissions =
        state.permissions.value_or(options.default_permissions || options.allow_other);
    settle_kernel(state);
    if (Text why = settle_times(state); !why.empty()) return why;
    return settle_server(options);
}

}  // namespace nfsrdma::mount
