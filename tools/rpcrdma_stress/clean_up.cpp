#include <utility>
#include <vector>

#include "tools/rpcrdma_stress/stress.hpp"

// The run's directory goes with all that is in it.
namespace nfsrdma::stress {
namespace {

constexpr std::uint64_t kConnectNs = 10 * kNsPerSec;
constexpr int kTries = 20;  // calls that were given up may still be executed meanwhile
constexpr std::uint64_t kBetweenNs = 250 * kNsPerMs;
constexpr std::uint64_t kAllNs = 300 * kNsPerSec;

}  // namespace

void Stress::clean_up() {
    if (directory_.empty()) return;
    result_.directory = url_.path + (url_.ends_in_slash() ? "" : "/") + name_;
    if (options_.keep) return;
    if (silent_) return not_removed("the server does not answer");
    Connection& connection = *connections_.front();
    const std::uint64_t end = loop().now_ns() + kAllNs;
    for (int i = 0; i < kTries && loop().now_ns() < end; ++i) {
        if (i > 0) (void)wait_until([] { return false; }, kBetweenNs);
        if (!wait_until([&] { return connection.up(); }, kConnectNs))
            return not_removed("no connection");
        calls_ = std::make_unique<tool::Calls>(connection.client(), url_);
        if (!remove_tree(directory_)) continue;
        nfs::client::RmdirOp op;
        op.args.object = {parent_.view(), name_.data()};
        const auto outcome = run(op);
        if (!outcome.ok() && outcome.status != NFS3ERR_NOENT) continue;
        result_.directory.clear();
        return;
    }
    not_removed("what is in it does not go");
}

// What went wrong before says more.
void Stress::not_removed(const std::string& why) {
    if (result_.ok) result_.trouble = "cannot remove " + result_.directory + ": " + why;
    result_.ok = false;
}

bool Stress::remove_tree(const nfs::client::FileHandle& directory) {
    std::vector<tool::Entry> entries;
    if (!calls_->list(directory, entries, {}).ok()) return false;
    bool all = true;
    for (const tool::Entry& entry : entries)
        all = remove_entry(directory, entry) && all;
    return all;
}

bool Stress::remove_entry(const nfs::client::FileHandle& directory, const tool::Entry& entry) {
    if (!nfs::client::is_plain_name(entry.name.c_str())) return true;
    std::string name = entry.name;
    if (entry.attributes.type == NF3DIR) {
        if (!remove_tree(entry.handle)) return false;
        nfs::client::RmdirOp op;
        op.args.object = {directory.view(), name.data()};
        return run(op).ok() || op.outcome.status == NFS3ERR_NOENT;
    }
    nfs::client::RemoveOp op;
    op.args.object = {directory.view(), name.data()};
    return run(op).ok() || op.outcome.status == NFS3ERR_NOENT;
}

}  // namespace nfsrdma::stress
