#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/counters.hpp"
#include "nfs/client/client.hpp"
#include "sunrpc/clnt.hpp"
#include "tools/nfsrdma/stats.hpp"
#include "xprtrdma/transport.hpp"

// What a mount counts: the names and the order are those of /proc/self/mountstats, so that tools
// made for it (mountstats(8), nfsiostat(8)) read ours.
namespace nfsrdma::mount {

inline constexpr std::uint32_t kProcs = 22;  // of NFSv3, RFC 1813
const char* name_of_proc(std::uint32_t proc) noexcept;

// Times that something happened. Which of them we count is told by who counts; the others stay 0.
enum class Event : std::uint8_t {
    inode_revalidate,
    dentry_revalidate,
    data_invalidate,
    attribute_invalidate,
    vfs_open,
    vfs_lookup,
    vfs_access,
    vfs_update_page,
    vfs_read_page,
    vfs_read_pages,
    vfs_write_page,
    vfs_write_pages,
    vfs_get_dents,
    vfs_setattr,
    vfs_flush,
    vfs_fsync,
    vfs_lock,
    vfs_release,
    congestion_wait,
    setattr_trunc,
    extend_write,
    silly_rename,
    short_read,
    short_write,
    delay,  // the server asked for patience (NFS3ERR_JUKEBOX)
    pnfs_read,
    pnfs_write,
};
inline constexpr std::uint32_t kEvents = static_cast<std::uint32_t>(Event::pnfs_write) + 1;

enum class Bytes : std::uint8_t {
    normal_read,  // by read(2) and write(2)
    normal_write,
    direct_read,  // with O_DIRECT
    direct_write,
    server_read,  // by READ and WRITE
    server_write,
    read_pages,  // pages, by mmap and the cache
    write_pages,
};
inline constexpr std::uint32_t kByteKinds = static_cast<std::uint32_t>(Bytes::write_pages) + 1;

// Of one call, when it has ended. Times in ns; execute is from the caller's wish to its answer.
struct CallCosts {
    std::uint64_t bytes_out = 0, bytes_in = 0;  // of RPC messages with their payload
    std::uint64_t queue_ns = 0, rtt_ns = 0, execute_ns = 0;
    std::uint32_t resends = 0;
    bool timed_out = false;
    bool error = false;  // no reply, or a status that is not NFS3_OK
};

struct ProcCounts {
    std::uint64_t ops = 0, transmissions = 0, timeouts = 0, bytes_sent = 0, bytes_received = 0;
    std::uint64_t queue_ns = 0, rtt_ns = 0, execute_ns = 0, errors = 0;
    ProcCounts& operator+=(const ProcCounts& other) noexcept;
};

// The counters of one loop: its thread writes, any thread reads. No locks, no allocation.
class LoopStats {
  public:
    // `proc` below kProcs.
    void note(std::uint32_t proc, const CallCosts& costs) noexcept;
    void note(Event event, std::uint64_t times = 1) noexcept;
    void note(Bytes kind, std::uint64_t bytes) noexcept;
    ProcCounts of_proc(std::uint32_t proc) const noexcept;
    std::uint64_t of(Event event) const noexcept;
    std::uint64_t of(Bytes kind) const noexcept;

  private:
    struct Proc {
        Counter ops, transmissions, timeouts, bytes_sent, bytes_received;
        Counter queue_ns, rtt_ns, execute_ns, errors;
    };
    std::array<Proc, kProcs> procs_;
    std::array<Counter, kEvents> events_;
    std::array<Counter, kByteKinds> bytes_;
};

// Everything of one mount, summed over its loops: a value.
struct Stats {
    std::string source;     // SERVER:/EXPORT
    std::string directory;  // where it is mounted
    std::string options;    // as in /proc/self/mountstats
    std::uint64_t age_s = 0;
    std::uint32_t wtmult = 4096, dtsize = 0, namlen = 255;  // of FSINFO and PATHCONF
    std::uint16_t port = 0;
    std::uint32_t connections = 0;
    std::uint64_t idle_s = 0;  // since the last reply

    std::array<ProcCounts, kProcs> procs{};
    std::array<std::uint64_t, kEvents> events{};
    std::array<std::uint64_t, kByteKinds> bytes{};
    xprtrdma::TransportCounters rdma;
    pools::IoCounters io;
    sunrpc::ClntCounters rpc;
    nfs::client::ClientCounters nfs;
    // What only this program has (nodes, memory ...); names are static.
    std::vector<tool::Statistic> more;

    void add(const LoopStats& loop) noexcept;
};

// As the kernel writes one mount to /proc/self/mountstats, statvers 1.1; ends with an empty line.
std::string to_mountstats(const Stats& stats);
// One JSON object on one line, with all that to_mountstats has and the transport's own counters.
std::string to_json(const Stats& stats);

}  // namespace nfsrdma::mount
