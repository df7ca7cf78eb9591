#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "tools/device/options.hpp"

// What mount(8), or a user, says on the command line of mount.nfsrdma:
//     mount.nfsrdma SERVER:/EXPORT DIR [-fnsvhV] [-o OPTION[,OPTION...]]
// Names and meanings are those of nfs(5) where it has them.
namespace nfsrdma::mount {

// How long what a server told is believed (nfs(5): ac, noac, acregmin ...), in seconds.
struct CacheTimes {
    double reg_min = 3, reg_max = 60, dir_min = 30, dir_max = 60;
    // Of a name that was not there; never more than dir_min.
    double negative = 5;
};

enum class Patience : std::uint8_t { hard, soft, softerr };

// Which names the kernel may keep (nfs(5): lookupcache).
enum class LookupCache : std::uint8_t {
    all,
    positive,  // none that was not there: times.negative is 0 then
    none,      // every name is asked for again
};

struct MountOptions {
    // The command line.
    std::string server, export_path;  // as given, without the brackets of an IPv6 address
    std::string directory;            // where to; absolute
    bool fake = false, no_mtab = false, sloppy = false, foreground = false;
    int verbose = 0;

    std::string source() const;  // SERVER:/EXPORT, with brackets where it has them

    // Connection.
    std::uint16_t port = 20049;
    bool v6_only = false;     // proto=rdma6: the server's IPv6 address, where it has others too
    std::uint32_t loops = 1;  // nconnect: connections, each with a loop and thread of its own
    std::uint32_t rsize = 0, wsize = 0;  // 0: what the server allows
    devices::ClientOptions device;       // device, bind, loop, mountport, mountproto
    bool background = false;             // bg
    double retry_minutes = 2;            // of mounting; bg: 10000

    // A server that does not answer.
    Patience patience = Patience::hard;
    double timeo_s = 60;
    std::uint32_t retrans = 2;

    // Semantics.
    CacheTimes times;
    bool no_ac = false;  // every attribute is asked for, every write goes through
    bool cto = true;     // close-to-open
    bool rdirplus = true;
    LookupCache lookup_cache = LookupCache::all;
    bool read_only = false;
    bool allow_other = false;  // root: unless no_allow_other was given
    bool default_permissions = false;
    // For the kernel's mount, in libfuse's words: nosuid, nodev, noexec, noatime, sync, dirsync; of
    // root also suid and dev, which libfuse takes away unless they are asked for.
    std::vector<std::string> kernel;
};

// Exit statuses of mount(8).
inline constexpr int kExitOk = 0, kExitUsage = 1, kExitSystem = 2, kExitBug = 4, kExitMtab = 16,
                     kExitFailed = 32;

enum class Parsed : std::uint8_t {
    mount,  // go on
    done,   // --help, --version: printed
    wrong,  // said on standard error what is wrong and what to do
};
// `as_root` decides the defaults that only root may have.
Parsed parse_options(int argc, const char* const* argv, bool as_root, MountOptions& options);

// What stands behind -o, into `options` (whose defaults are set; `as_root` as above). Of options
// that exclude each other the last one holds, as with mount(8). Empty, or what is wrong and what to
// do, for people.
std::string parse_list(const std::string& list, bool as_root, bool sloppy, MountOptions& options);

// All of them as /proc/self/mountstats shows those of a mount by the kernel. `rsize` and `wsize`
// are what the mount uses.
std::string options_text(const MountOptions& options, std::uint32_t rsize, std::uint32_t wsize);

}  // namespace nfsrdma::mount
