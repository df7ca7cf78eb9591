#pragma once
#include <cstdint>
#include <string>

// What is known of the Linux client from outside: the output of fio, which drives it, and what the
// kernel counts for a mount.
namespace nfsrdma::bench {

// Bytes per second out of fio's `--output-format=json`; negative when there are none.
double fio_rate(const std::string& json, bool write);

// Since the mount. What the kernel calls chunks are their segments; each has a key of its own.
struct LinuxCounters {
    bool found = false;  // the rest says nothing otherwise
    std::uint64_t calls = 0, read_segments = 0, write_segments = 0, reply_segments = 0;
    std::uint64_t local_invalidations = 0;  // of keys that the server had left
};

// Out of the text of /proc/self/mountstats, of what is mounted at `where`; not `found` when nothing
// is, or not by RDMA. Of several mounts there the last is meant, which is the one to be seen.
LinuxCounters linux_counters(const std::string& mountstats, const std::string& where);

}  // namespace nfsrdma::bench
