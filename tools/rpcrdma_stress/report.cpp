#include "tools/rpcrdma_stress/report.hpp"

#include <array>
#include <cstdio>

#include "tools/nfsrdma/json.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::stress {
namespace {

std::string number(double value) {
    std::array<char, 32> out{};
    (void)std::snprintf(out.data(), out.size(), "%.1f", value);
    return out.data();
}

std::string hex(std::uint64_t value) {
    std::array<char, 20> out{};
    (void)std::snprintf(out.data(), out.size(), "%016llx", static_cast<unsigned long long>(value));
    return out.data();
}

std::string json_list(const std::vector<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines)
        text += (text.empty() ? "" : ",") + tool::json_string(line);
    return "[" + text + "]";
}

std::string steps_by_kind(const Tally& tally) {
    tool::JsonObject kinds;
    for (std::size_t i = 0; i < kKinds; ++i)
        kinds.add(to_string(static_cast<Kind>(i)), tally.steps[i]);
    return kinds.text();
}

std::string faults_of(const StressResult& result) {
    const verbs::softroce::FaultCounters& faults = result.faults;
    return tool::JsonObject()
        .add("lost", faults.lost)
        .add("duplicated", faults.duplicated)
        .add("reordered", faults.reordered)
        .add("corrupted", faults.corrupted)
        .add("delayed", faults.delayed)
        .add("overflows", faults.overflows)
        .add("cm_dropped", faults.cm_dropped)
        .add("cm_rejected", faults.cm_rejected)
        .add("rnr_refused", faults.rnr_refused)
        .add("queue_pairs_killed", faults.qps_killed)
        .add("server_kills", result.server_kills)
        .add("server_stops", result.server_stops)
        .text();
}

}  // namespace

std::string to_json(const StressResult& result, const Options& options) {
    const Tally& tally = result.tally;
    tool::JsonObject object;
    object.add("ok", result.ok)
        .add("seed", options.seed)
        .add("sequence", hex(result.fingerprint))
        .add("seconds", result.seconds)
        .add("connections", options.connections)
        .add("depth", options.depth)
        .add("files", options.files)
        .add("file_bytes", options.file_bytes)
        .add("steps", result.steps)
        .add_raw("steps_by_kind", steps_by_kind(tally))
        .add("calls", tally.calls)
        .add("bytes_read", tally.bytes_read)
        .add("bytes_written", tally.bytes_written)
        .add("bytes_verified", tally.bytes_verified)
        .add("short_transfers", tally.short_transfers)
        .add("cancelled", tally.cancelled)
        .add("cancelled_too_late", tally.cancelled_too_late)
        .add("disconnected", tally.disconnected)
        .add("lost", tally.lost)
        .add("connects", result.connects)
        .add("fate_unknown", tally.fate_unknown)
        .add("files_given_up", tally.files_given_up)
        .add("stripes_given_up", tally.stripes_given_up)
        .add("write_verifiers_changed", tally.write_verifiers)
        .add("hard", options.hard)
        .add("reconnects", result.rdma.reconnects)
        .add("resends", result.rdma.resends)
        .add_raw("faults", faults_of(result))
        .add("keys_bound", result.rdma.keys_bound)
        .add("local_invalidations", result.rdma.local_invalidations)
        .add("remote_invalidations", result.rdma.remote_invalidations)
        .add("bad_replies", result.rdma.bad_replies)
        .add("bad_xids", result.rdma.bad_xids);
    if (!result.directory.empty()) object.add("directory", result.directory);
    if (!result.trouble.empty()) object.add("trouble", result.trouble);
    if (!result.mismatch.empty()) {
        object.add("mismatch", result.mismatch);
        object.add_raw("before", json_list(result.before));
    }
    return object.line();
}

std::string to_text(const StressResult& result, const Options& options) {
    const Tally& tally = result.tally;
    std::string text;
    if (!result.mismatch.empty()) {
        text += "MISMATCH: " + result.mismatch + "\nwhat this worker did before:\n";
        for (const std::string& line : result.before)
            text += "  " + line + "\n";
    }
    if (!result.trouble.empty()) text += "TROUBLE: " + result.trouble + "\n";
    if (!result.directory.empty()) text += "left behind: " + result.directory + "\n";
    text += std::string(result.ok ? "ok" : "FAILED") + ": seed " + std::to_string(options.seed) +
            ", " + std::to_string(result.steps) + " steps in " + number(result.seconds) + " s, " +
            std::to_string(tally.calls) + " calls, sequence " + hex(result.fingerprint) + "\n";
    text += "read " + tool::human_bytes(static_cast<double>(tally.bytes_read)) + ", written " +
            tool::human_bytes(static_cast<double>(tally.bytes_written)) + ", every byte compared\n";
    text += "cancelled " + std::to_string(tally.cancelled) + " calls (" +
            std::to_string(tally.cancelled_too_late) + " too late), disconnected " +
            std::to_string(tally.disconnected) + " times, lost " + std::to_string(tally.lost) +
            "; " + std::to_string(result.connects) + " connections, " +
            std::to_string(tally.fate_unknown) + " calls of unknown fate\n";
    if (options.faults.on_device() || options.faults.on_server())
        text += "faults: " + faults_of(result) + "\n";
    return text;
}

}  // namespace nfsrdma::stress
