#include "tools/nfsrdma/mount_calls.hpp"

namespace nfsrdma::tool {

using nfs::client::ExportedDirectory;
using nfs::client::MountedDirectory;
using nfs::client::Outcome;

MountProto mount_proto_of(const std::string& text) {
    if (text == "rdma") return MountProto::rdma;
    if (text == "tcp") return MountProto::tcp;
    if (text == "udp") return MountProto::udp;
    return MountProto::automatic;
}

void MountCalls::use(const MountOptions& options, const SockAddr& server,
                     const sunrpc::AuthSys& sys) {
    automatic_ = options.proto == MountProto::automatic;
    if (options.proto == MountProto::rdma) return;
    nfs::client::MountSocketOptions how;
    how.server = server;
    how.tcp = options.proto != MountProto::udp;
    how.udp = options.proto != MountProto::tcp;
    how.port = options.port;
    how.rpcbind_port = options.rpcbind_port;
    how.patience = {options.timeout_ns, options.interrupt_fd};
    socket_ = std::make_unique<nfs::client::MountSocket>(how, &sys);
    // Who names the port of mountd means mountd.
    by_socket_ = !automatic_ || options.port != 0;
}

bool MountCalls::turn_to_socket(const Outcome& outcome) noexcept {
    if (!automatic_ || socket_ == nullptr || outcome.rpc) return false;
    const bool none = outcome.rpc.error().code == Errc::refused &&
                      (outcome.rpc_status == sunrpc::RpcStatus::prog_unavail ||
                       outcome.rpc_status == sunrpc::RpcStatus::prog_mismatch ||
                       outcome.rpc_status == sunrpc::RpcStatus::proc_unavail);
    by_socket_ = turned_ = none;
    return none;
}

Outcome MountCalls::mnt(const std::string& path, nfs::client::FileHandle& root) {
    if (!by_socket_) {
        nfs::client::MntOp op;
        std::string copy = path;
        op.args.dirpath = copy.data();
        const Outcome outcome = run_(op);
        if (outcome.ok()) root = op.root;
        if (!turn_to_socket(outcome)) return outcome;
    }
    return socket_->mnt(path, root);
}

Outcome MountCalls::umnt(const std::string& path) {
    if (by_socket_) return socket_->umnt(path);
    nfs::client::UmntOp op;
    std::string copy = path;
    op.args.dirpath = copy.data();
    return run_(op);
}

Outcome MountCalls::exports(std::vector<ExportedDirectory>& out) {
    out.clear();
    if (!by_socket_) {
        nfs::client::ExportOp op;
        const Outcome outcome = run_(op);
        if (!turn_to_socket(outcome)) {
            const mountexport3* entry = outcome.ok() ? op.res.entries : nullptr;
            for (; entry != nullptr; entry = entry->ex_next) {
                ExportedDirectory& to = out.emplace_back();
                if (entry->ex_dir != nullptr) to.path = entry->ex_dir;
                for (const mountgroup3* g = entry->ex_groups; g != nullptr; g = g->gr_next)
                    to.clients.emplace_back(g->gr_name == nullptr ? "" : g->gr_name);
            }
            return outcome;
        }
    }
    return socket_->exports(out);
}

Outcome MountCalls::dump(std::vector<MountedDirectory>& out) {
    out.clear();
    if (!by_socket_) {
        nfs::client::DumpOp op;
        const Outcome outcome = run_(op);
        if (!turn_to_socket(outcome)) {
            const mountentry3* entry = outcome.ok() ? op.res.entries : nullptr;
            for (; entry != nullptr; entry = entry->ml_next) {
                MountedDirectory& to = out.emplace_back();
                if (entry->ml_hostname != nullptr) to.client = entry->ml_hostname;
                if (entry->ml_directory != nullptr) to.path = entry->ml_directory;
            }
            return outcome;
        }
    }
    return socket_->dump(out);
}

void MountCalls::set_timeout(std::uint64_t ns) noexcept {
    if (socket_ != nullptr) socket_->set_timeout(ns);
}

std::string MountCalls::trouble() const {
    if (!by_socket_) return {};
    const std::string text = nfs::client::to_string(socket_->troubles());
    return text.empty() || !turned_ ? text : "no MOUNT over RDMA there; " + text;
}

}  // namespace nfsrdma::tool
