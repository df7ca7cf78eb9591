#include "tools/mount_nfsrdma/stats.hpp"

#include "base/assert.hpp"

namespace nfsrdma::mount {
namespace {

constexpr std::array<const char*, kProcs> kProcNames{
    "NULL",    "GETATTR",     "SETATTR", "LOOKUP", "ACCESS",   "READLINK", "READ",   "WRITE",
    "CREATE",  "MKDIR",       "SYMLINK", "MKNOD",  "REMOVE",   "RMDIR",    "RENAME", "LINK",
    "READDIR", "READDIRPLUS", "FSSTAT",  "FSINFO", "PATHCONF", "COMMIT"};

constexpr std::size_t index(Event event) noexcept {
    return static_cast<std::size_t>(event);
}
constexpr std::size_t index(Bytes kind) noexcept {
    return static_cast<std::size_t>(kind);
}

}  // namespace

const char* name_of_proc(std::uint32_t proc) noexcept {
    return proc < kProcs ? kProcNames[proc] : "?";
}

ProcCounts& ProcCounts::operator+=(const ProcCounts& other) noexcept {
    ops += other.ops;
    transmissions += other.transmissions;
    timeouts += other.timeouts;
    bytes_sent += other.bytes_sent;
    bytes_received += other.bytes_received;
    queue_ns += other.queue_ns;
    rtt_ns += other.rtt_ns;
    execute_ns += other.execute_ns;
    errors += other.errors;
    return *this;
}

void LoopStats::note(std::uint32_t proc, const CallCosts& costs) noexcept {
    NR_ASSERT(proc < kProcs);
    Proc& counts = procs_[proc];
    ++counts.ops;
    counts.transmissions.add(1 + std::uint64_t{costs.resends});
    if (costs.timed_out) ++counts.timeouts;
    counts.bytes_sent.add(costs.bytes_out);
    counts.bytes_received.add(costs.bytes_in);
    counts.queue_ns.add(costs.queue_ns);
    counts.rtt_ns.add(costs.rtt_ns);
    counts.execute_ns.add(costs.execute_ns);
    if (costs.error) ++counts.errors;
}

void LoopStats::note(Event event, std::uint64_t times) noexcept {
    events_[index(event)].add(times);
}

void LoopStats::note(Bytes kind, std::uint64_t bytes) noexcept {
    bytes_[index(kind)].add(bytes);
}

ProcCounts LoopStats::of_proc(std::uint32_t proc) const noexcept {
    NR_ASSERT(proc < kProcs);
    const Proc& from = procs_[proc];
    ProcCounts out;
    out.ops = from.ops.get();
    out.transmissions = from.transmissions.get();
    out.timeouts = from.timeouts.get();
    out.bytes_sent = from.bytes_sent.get();
    out.bytes_received = from.bytes_received.get();
    out.queue_ns = from.queue_ns.get();
    out.rtt_ns = from.rtt_ns.get();
    out.execute_ns = from.execute_ns.get();
    out.errors = from.errors.get();
    return out;
}

std::uint64_t LoopStats::of(Event event) const noexcept {
    return events_[index(event)].get();
}

std::uint64_t LoopStats::of(Bytes kind) const noexcept {
    return bytes_[index(kind)].get();
}

void Stats::add(const LoopStats& loop) noexcept {
    for (std::uint32_t proc = 0; proc < kProcs; ++proc)
        procs[proc] += loop.of_proc(proc);
    for (std::uint32_t i = 0; i < kEvents; ++i)
        events[i] += loop.of(static_cast<Event>(i));
    for (std::uint32_t i = 0; i < kByteKinds; ++i)
        bytes[i] += loop.of(static_cast<Bytes>(i));
}

}  // namespace nfsrdma::mount
