#include "tools/nfsrdmad/stats.hpp"

#include <cerrno>
#include <cstdio>
#include <memory>

#include "nfs/nfs3_types.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

class JsonObject {
  public:
    explicit JsonObject(std::string& out) : out_(out) { out_ += '{'; }
    ~JsonObject() { out_ += '}'; }
    JsonObject(const JsonObject&) = delete;
    JsonObject& operator=(const JsonObject&) = delete;
    void key(const char* name) {
        if (!first_) out_ += ',';
        first_ = false;
        out_ += '"';
        out_ += name;
        out_ += "\":";
    }
    void add(const char* name, std::uint64_t value) {
        key(name);
        out_ += std::to_string(value);
    }

  private:
    std::string& out_;
    bool first_ = true;
};

void write_loop(std::string& out, const LoopCounters& c) {
    JsonObject object(out);
    object.add("iterations", c.iterations);
    object.add("sleeps", c.sleeps);
    object.add("file_ops", c.file_ops);
}

void write_rpc(std::string& out, const sunrpc::SvcCounters& c) {
    JsonObject object(out);
    object.add("calls", c.calls);
    object.add("replies", c.replies);
    object.add("bad_calls", c.bad_calls);
    object.add("dropped", c.dropped);
    object.add("auth_errors", c.auth_errors);
    object.add("prog_unavail", c.prog_unavail);
    object.add("garbage_args", c.garbage_args);
    object.add("off_loop", c.off_loop);
    object.add("payload_copied_bytes", c.payload_copied_bytes);
}

void write_rdma(std::string& out, const svcrdma::ServerCounters& c) {
    JsonObject object(out);
    object.add("accepted", c.accepted);
    object.add("rejected", c.rejected);
    object.add("closed", c.closed);
    object.add("inline_calls", c.inline_calls);
    object.add("read_chunk_calls", c.read_chunk_calls);
    object.add("long_calls", c.long_calls);
    object.add("write_chunk_replies", c.write_chunk_replies);
    object.add("long_replies", c.long_replies);
    object.add("sends_with_inv", c.sends_with_inv);
    object.add("err_vers", c.err_vers);
    object.add("err_chunk", c.err_chunk);
    object.add("bad_headers", c.bad_headers);
    object.add("waited_for_payload", c.waited_for_payload);
    object.add("waited_for_send_room", c.waited_for_send_room);
    object.add("waited_for_transfer", c.waited_for_transfer);
    object.add("in_flight_max", c.in_flight_max);
    object.add("refused_quarantined", c.refused_quarantined);
    object.add("refused_per_peer", c.refused_per_peer);
    object.add("refused_too_fast", c.refused_too_fast);
    object.add("refused_full", c.refused_full);
    object.add("refused_handshakes", c.refused_handshakes);
    object.add("peer_faults", c.peer_faults);
    object.add("quarantines", c.quarantines);
    object.add("waited_for_peer", c.waited_for_peer);
    object.add("keepalives", c.keepalives);
    object.add("peers_lost", c.peers_lost);
    object.add("payload_copied_bytes", c.payload_copied_bytes);
}

void write_io(std::string& out, const pools::IoCounters& c) {
    JsonObject object(out);
    object.add("binds", c.binds);
    object.add("local_invalidations", c.local_invalidations);
    object.add("remote_invalidations", c.remote_invalidations);
    object.add("exposures", c.exposures);
    object.add("pulls", c.pulls);
    object.add("pushes", c.pushes);
    object.add("keyed_pulls", c.keyed_pulls);
    object.add("keyed_pushes", c.keyed_pushes);
    object.add("doorbells", c.doorbells);
    object.add("waited_for_read_depth", c.waited_for_read_depth);
    object.add("bytes_pulled", c.bytes_pulled);
    object.add("bytes_pushed", c.bytes_pushed);
}

void write_device(std::string& out, const verbs::softroce::SoftCounters& c) {
    JsonObject object(out);
    object.add("rx_payload_bytes", c.rx_payload_bytes);
    object.add("rx_copied_bytes", c.rx_copied_bytes);
    object.add("tx_payload_bytes", c.tx_payload_bytes);
    object.add("tx_copied_bytes", c.tx_copied_bytes);
    object.add("retransmits", c.retransmits);
    object.add("duplicates", c.duplicates);
    object.add("naks_sent", c.naks_sent);
    object.add("rnr_naks_sent", c.rnr_naks_sent);
    object.add("rnr_naks_received", c.rnr_naks_received);
    object.add("rx_dropped", c.rx_dropped);
    object.add("access_refused", c.access_refused);
}

// Those that were called.
void write_procedures(std::string& out, std::span<const ProcedureStats> procedures) {
    JsonObject object(out);
    for (const ProcedureStats& one : procedures) {
        if (one.stats.calls == 0) continue;
        object.key((std::string(one.program) + "." + one.name).c_str());
        JsonObject inner(out);
        inner.add("calls", one.stats.calls);
        inner.add("errors", one.stats.errors);
        inner.add("bytes_in", one.stats.bytes_in);
        inner.add("bytes_out", one.stats.bytes_out);
        inner.add("latency_sum_ns", one.stats.latency.sum_ns);
    }
}

struct CloseFile {
    void operator()(std::FILE* file) const noexcept { static_cast<void>(std::fclose(file)); }
};

}  // namespace

void take_procedures(const sunrpc::SvcDispatcher& dispatcher, std::vector<ProcedureStats>& out) {
    out.clear();
    for (std::size_t i = 0; i < dispatcher.programs().size(); ++i) {
        const sunrpc::SvcProgram& program = dispatcher.programs()[i];
        const auto counted = dispatcher.stats(i);
        for (std::size_t proc = 0; proc < counted.size(); ++proc) {
            const char* const name = program.procedures[proc].info.name;
            if (name == nullptr) continue;
            out.push_back({program.prog == MOUNT3_PROGRAM ? "mount" : "nfs", name, counted[proc]});
        }
    }
}

std::string to_json(std::span<const LoopStats> loops) {
    std::string out = "{\"loops\":[";
    for (std::size_t i = 0; i < loops.size(); ++i) {
        if (i != 0) out += ',';
        JsonObject object(out);
        object.add("connections", loops[i].connections);
        object.key("loop");
        write_loop(out, loops[i].loop);
        object.key("rpc");
        write_rpc(out, loops[i].rpc);
        object.key("rdma");
        write_rdma(out, loops[i].rdma);
        object.key("io");
        write_io(out, loops[i].io);
        object.key("device");
        write_device(out, loops[i].device);
        object.key("procedures");
        write_procedures(out, loops[i].procedures);
    }
    out += "]}\n";
    return out;
}

Result<void> write_file(const std::string& path, const std::string& text) {
    const std::string beside = path + ".new";
    std::unique_ptr<std::FILE, CloseFile> file(std::fopen(beside.c_str(), "w"));
    if (file == nullptr) return Error{Errc::system, errno, "open the file of counters"};
    const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() &&
                         std::fflush(file.get()) == 0;
    file.reset();
    if (!written || std::rename(beside.c_str(), path.c_str()) != 0) {
        return Error{Errc::system, errno, "write the file of counters"};
    }
    return {};
}

}  // namespace nfsrdma::nfsrdmad
