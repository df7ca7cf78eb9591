// The counters of a mount as text: /proc/self/mountstats' and JSON.
#include <cstdio>
#include <string_view>

#include "base/clock.hpp"
#include "tools/mount_nfsrdma/stats.hpp"
#include "tools/nfsrdma/json.hpp"

namespace nfsrdma::mount {
namespace {

constexpr std::array<const char*, kEvents> kEventNames{"inode_revalidates",
                                                       "dentry_revalidates",
                                                       "data_invalidates",
                                                       "attribute_invalidates",
                                                       "vfs_open",
                                                       "vfs_lookup",
                                                       "vfs_access",
                                                       "vfs_update_page",
                                                       "vfs_read_page",
                                                       "vfs_read_pages",
                                                       "vfs_write_page",
                                                       "vfs_write_pages",
                                                       "vfs_get_dents",
                                                       "vfs_setattr",
                                                       "vfs_flush",
                                                       "vfs_fsync",
                                                       "vfs_lock",
                                                       "vfs_release",
                                                       "congestion_waits",
                                                       "setattr_truncates",
                                                       "extending_writes",
                                                       "silly_renames",
                                                       "short_reads",
                                                       "short_writes",
                                                       "delays",
                                                       "pnfs_reads",
                                                       "pnfs_writes"};
constexpr std::array<const char*, kByteKinds> kByteNames{
    "normal_read", "normal_write", "direct_read", "direct_write",
    "server_read", "server_write", "read_pages",  "write_pages"};

// As in /proc/self/mountinfo: what would end a word is written in octal.
std::string one_word(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte > ' ' && byte != 0x7f && c != '\\') {
            out += c;
            continue;
        }
        std::array<char, 8> octal{};
        (void)std::snprintf(octal.data(), octal.size(), "\\%03o", byte);
        out += octal.data();
    }
    return out;
}

std::uint64_t ms(std::uint64_t ns) noexcept {
    return ns / kNsPerMs;
}

void add_number(std::string& out, std::uint64_t number) {
    out += ' ';
    out += std::to_string(number);
}

template <class Numbers>
std::string words_of(const Numbers& numbers) {
    std::string out;
    for (const std::uint64_t number : numbers)
        add_number(out, number);
    return out.empty() ? out : out.substr(1);
}

// The fields behind "xprt: rdma", in the kernel's order. All connections together: the tools
// read one such line a mount.
std::vector<std::uint64_t> xprt_fields(const Stats& stats) {
    const xprtrdma::TransportCounters& rdma = stats.rdma;
    return {
        stats.port,
        0,                                    // bind count
        stats.connections + rdma.reconnects,  // connect count
        rdma.recover_ns / kNsPerSec,          // connect time
        stats.idle_s,
        rdma.calls + rdma.resends,  // sends
        rdma.replies,               // receives
        rdma.bad_xids,
        0,                     // utilisation of requests
        rdma.waited_for_slot,  // backlog
        rdma.read_chunk_calls,
        rdma.write_chunk_calls,
        rdma.reply_chunk_calls,
        stats.bytes[static_cast<std::size_t>(Bytes::server_write)],
        stats.bytes[static_cast<std::size_t>(Bytes::server_read)],
        0,                          // bytes pulled up
        rdma.payload_copied_bytes,  // bytes fixed up
        0,                          // hardway registrations
        rdma.waited_for_key,        // calls that could not be marshalled at once
        rdma.bad_replies + rdma.short_replies + rdma.bad_versions,
        rdma.long_calls,
        rdma.keys_renewed,  // keys recycled
        0,                  // keys orphaned
        rdma.keys_bound,    // keys allocated: bound, in our way
        rdma.local_invalidations,
        rdma.waited_for_credit,  // no room to send
        0,
    };
}

// The columns of one procedure.
std::array<std::uint64_t, 9> columns(const ProcCounts& counts) noexcept {
    return {counts.ops,        counts.transmissions,  counts.timeouts,
            counts.bytes_sent, counts.bytes_received, ms(counts.queue_ns),
            ms(counts.rtt_ns), ms(counts.execute_ns), counts.errors};
}

std::string more_line(const std::vector<tool::Statistic>& more) {
    tool::JsonObject object;
    tool::add_to(object, more);
    std::string out = object.text();
    std::string line;
    for (const char c : out.substr(1, out.size() - 2)) {
        if (c == '"') continue;
        line += c == ':' ? '=' : c;
    }
    return line;
}

tool::JsonObject json_of(const ProcCounts& counts) {
    tool::JsonObject out;
    out.add("ops", counts.ops)
        .add("transmissions", counts.transmissions)
        .add("timeouts", counts.timeouts)
        .add("bytes_sent", counts.bytes_sent)
        .add("bytes_received", counts.bytes_received)
        .add("queue_ms", ms(counts.queue_ns))
        .add("rtt_ms", ms(counts.rtt_ns))
        .add("execute_ms", ms(counts.execute_ns))
        .add("errors", counts.errors);
    return out;
}

}  // namespace

std::string to_mountstats(const Stats& stats) {
    std::string out = "device " + one_word(stats.source) + " mounted on " +
                      one_word(stats.directory) + " with fstype nfs statvers=1.1\n";
    const auto line = [&](const char* name, const std::string& text) {
        out += '\t';
        out += name;
        out += ":\t" + text + "\n";
    };
    line("opts", stats.options);
    line("age", std::to_string(stats.age_s));
    line("caps", "caps=0x0,wtmult=" + std::to_string(stats.wtmult) +
                     ",dtsize=" + std::to_string(stats.dtsize) +
                     ",bsize=0,namlen=" + std::to_string(stats.namlen));
    line("sec", "flavor=1,pseudoflavor=1");
    line("events", words_of(stats.events));
    line("bytes", words_of(stats.bytes));
    if (!stats.more.empty()) line("nfsrdma", more_line(stats.more));
    out += "\tRPC iostats version: 1.1  p/v: 100003/3 (nfs)\n";
    line("xprt", "rdma " + words_of(xprt_fields(stats)));
    out += "\tper-op statistics\n";
    for (std::uint32_t proc = 0; proc < kProcs; ++proc) {
        std::array<char, 32> name{};
        (void)std::snprintf(name.data(), name.size(), "\t%12s: ", name_of_proc(proc));
        out += name.data() + words_of(columns(stats.procs[proc])) + "\n";
    }
    return out + "\n";
}

std::string to_json(const Stats& stats) {
    tool::JsonObject events, bytes, procs, rdma, more, all;
    for (std::uint32_t i = 0; i < kEvents; ++i)
        events.add(kEventNames[i], stats.events[i]);
    for (std::uint32_t i = 0; i < kByteKinds; ++i)
        bytes.add(kByteNames[i], stats.bytes[i]);
    for (std::uint32_t proc = 0; proc < kProcs; ++proc)
        procs.add_raw(name_of_proc(proc), json_of(stats.procs[proc]).text());
    const tool::Moved moved{static_cast<double>(stats.age_s),
                            stats.bytes[static_cast<std::size_t>(Bytes::server_read)] +
                                stats.bytes[static_cast<std::size_t>(Bytes::server_write)]};
    tool::add_to(rdma, tool::statistics_of(stats.rdma, stats.io, stats.rpc, stats.nfs, moved));
    tool::add_to(more, stats.more);
    all.add("source", stats.source)
        .add("directory", stats.directory)
        .add("options", stats.options)
        .add("age", stats.age_s)
        .add("port", stats.port)
        .add("connections", stats.connections)
        .add("dtsize", stats.dtsize)
        .add("namlen", stats.namlen)
        .add_raw("events", events.text())
        .add_raw("bytes", bytes.text())
        .add_raw("transport", rdma.text())
        .add_raw("mount", more.text())
        .add_raw("procedures", procs.text());
    return all.line();
}

}  // namespace nfsrdma::mount
