#include "tools/mount_nfsrdma/mount.hpp"

#include <algorithm>

#include "tools/mount_nfsrdma/worker.hpp"

namespace nfsrdma::mount {
namespace {

// Names of a directory that many change at once are asked for anew so often, at most.
constexpr std::uint64_t kExpireEveryNs = 200 * kNsPerMs;
// For so long, at most, are names believed that come before they may be expired again.
constexpr double kBetweenExpiriesS = 1;

double seconds(std::uint64_t ns) noexcept {
    return static_cast<double>(ns) / static_cast<double>(kNsPerSec);
}

// One handle is one object for ever (RFC 1813 s2.6): what Node::file is depends on its type.
bool is_of_another_type(const Node& node, const fattr3& told) noexcept {
    return node.attributes.known() &&
           nfs::client::raw_value(told.type) != nfs::client::raw_value(node.attributes.now().type);
}

}  // namespace

Mount::Mount(const MountOptions& how, const nfs::client::FileHandle& root)
    : options(how), notifier(*this) {
    nodes.arg = this;
    nodes.ending = [](void* arg, Node& node) noexcept {
        static_cast<Mount*>(arg)->notifier.drop(node);
    };
    nodes.get(root).lookups = 1;
}

Mount::~Mount() = default;

void Mount::end() noexcept {
    ended_ = true;
    for (Worker* const worker : workers)
        worker->stop();
}

CacheRange Mount::range(const Node& node) const noexcept {
    return cache_range(options, node.type());
}

Change Mount::take(Node& node, const fattr3& told, std::uint64_t order,
                   const Before& before) noexcept {
    if (told.type == 0) return Change::none;
    if (is_of_another_type(node, told)) {
        node.attributes.expire();
        return Change::none;
    }
    const bool first = !node.attributes.known();
    const std::uint64_t written = node.attributes.now().size;
    const Change change =
        node.attributes.take(told, order, now_ns(), cache_range(options, told.type), before);
    // What the server has not got yet is ours to know.
    if (node.unwritten) node.attributes.note_written(written);
    if (!first && change == Change::foreign) {
        invalidate_data(node);
        if (node.is_dir()) expire_names(node);
    }
    return change;
}

Change Mount::take(Node& node, const post_op_attr& told, std::uint64_t order) noexcept {
    if (told.attributes_follow == FALSE) return Change::none;
    return take(node, told.post_op_attr_u.attributes, order);
}

Change Mount::take(Node& node, const wcc_data& told, std::uint64_t order) noexcept {
    if (told.after.attributes_follow == FALSE) {
        node.attributes.expire();
        return Change::none;
    }
    return take(node, told.after.post_op_attr_u.attributes, order, Before(told.before));
}

void Mount::invalidate_data(Node& node) noexcept {
    node.data_valid = false;
    if (node.file != nullptr) node.file->drop_ahead();
    node.invalidate_attributes = node.attributes_stale = true;
    node.invalidate_data = node.invalidate_data || node.data_told;
    notifier.add(node);
}

void Mount::expire_names(Node& directory) noexcept {
    const std::uint64_t now = now_ns();
    if (directory.children.empty() || now - directory.expired_at_ns < kExpireEveryNs) return;
    directory.expired_at_ns = now;
    directory.expire_names = true;
    notifier.add(directory);
}

Node* Mount::node_of(const nfs::client::FileHandle& handle, const fattr3* told,
                     std::uint64_t order) {
    if (told != nullptr && told->type == 0) return nullptr;
    Node* node = nodes.find(handle);
    if (node == nullptr && told == nullptr) return nullptr;
    if (node == nullptr) node = &nodes.get(handle);
    if (told != nullptr && is_of_another_type(*node, *told)) {
        node->attributes.expire();
        return nullptr;
    }
    if (told != nullptr) take(*node, *told, order);
    return node->attributes.known() ? node : nullptr;
}

struct stat Mount::stat_of(const Node& node) const noexcept {
    struct stat out = to_stat(node.attributes.now(), limits.write);
    if (!node.silly_name.empty() && !node.silly_in_doubt && out.st_nlink != 0) --out.st_nlink;
    return out;
}

double Mount::attribute_seconds(const Node& node) const noexcept {
    return seconds(node.attributes.valid_for_ns(now_ns()));
}

double Mount::name_seconds(const Node& directory) const noexcept {
    if (options.lookup_cache == LookupCache::none) return 0;
    const double all =
        seconds(std::max(directory.attributes.timeout_ns(), range(directory).min_ns));
    const std::uint64_t expired = directory.expired_at_ns;
    const bool just_now = expired != 0 && now_ns() - expired < kExpireEveryNs;
    return just_now ? std::min(all, kBetweenExpiriesS) : all;
}

double Mount::negative_seconds(const Node& directory) const noexcept {
    return std::min(options.times.negative, seconds(range(directory).min_ns));
}

}  // namespace nfsrdma::mount
