// The options of a mount in the kernel's words.
#include <cmath>

#include "tools/mount_nfsrdma/options.hpp"

namespace nfsrdma::mount {
namespace {

// Whole numbers without a fraction: they were given so.
std::string number(double value) {
    return std::to_string(std::llround(value));
}

const char* word_of(Patience patience) noexcept {
    switch (patience) {
        case Patience::hard:
            return "hard";
        case Patience::soft:
            return "soft";
        case Patience::softerr:
            return "softerr";
    }
    return "hard";
}

}  // namespace

std::string options_text(const MountOptions& options, std::uint32_t rsize, std::uint32_t wsize) {
    std::string out = options.read_only ? "ro" : "rw";
    const auto add = [&](const std::string& text) { out += "," + text; };
    for (const std::string& word : options.kernel) {
        if (word != "suid" && word != "dev") add(word);
    }
    add("vers=3");
    add("rsize=" + std::to_string(rsize));
    add("wsize=" + std::to_string(wsize));
    add("acregmin=" + number(options.times.reg_min));
    add("acregmax=" + number(options.times.reg_max));
    add("acdirmin=" + number(options.times.dir_min));
    add("acdirmax=" + number(options.times.dir_max));
    add(word_of(options.patience));
    if (options.no_ac) add("noac");
    if (!options.cto) add("nocto");
    if (!options.rdirplus) add("nordirplus");
    if (options.lookup_cache == LookupCache::positive) add("lookupcache=pos");
    if (options.lookup_cache == LookupCache::none) add("lookupcache=none");
    add(options.v6_only ? "proto=rdma6" : "proto=rdma");
    add("port=" + std::to_string(options.port));
    if (options.loops > 1) add("nconnect=" + std::to_string(options.loops));
    add("timeo=" + number(options.timeo_s * 10));
    add("retrans=" + std::to_string(options.retrans));
    add("sec=sys");
    if (options.device.mount_proto != "auto") add("mountproto=" + options.device.mount_proto);
    if (options.device.mount_port != 0)
        add("mountport=" + std::to_string(options.device.mount_port));
    add("mountvers=3");
    add("local_lock=all");
    add("device=" + options.device.device);
    return out;
}

}  // namespace nfsrdma::mount
