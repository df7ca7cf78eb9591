#include "nfs/posix_handles.hpp"

#include <algorithm>

namespace nfsrdma::nfs {

void PosixHandles::learn(NodeId node, std::uint64_t parent, std::string_view name) {
    Shard& shard = shard_of(node.fileid);
    const std::lock_guard lock(shard.mutex);
    Known& known = shard.known[node.fileid];
    if (known.generation != node.generation) {
        known.generation = node.generation;
        known.places.clear();
    }
    auto& places = known.places;
    for (auto at = places.begin(); at != places.end(); ++at) {
        if (at->parent != parent || at->name != name) continue;
        std::rotate(at, at + 1, places.end());
        return;
    }
    if (places.size() == kPlacesMax) places.erase(places.begin());
    places.push_back({parent, std::string(name)});
}

void PosixHandles::forget_place(std::uint64_t fileid, std::uint64_t parent, std::string_view name) {
    Shard& shard = shard_of(fileid);
    const std::lock_guard lock(shard.mutex);
    const auto known = shard.known.find(fileid);
    if (known == shard.known.end()) return;
    auto& places = known->second.places;
    std::erase_if(places, [&](const Place& p) { return p.parent == parent && p.name == name; });
    if (places.empty()) shard.known.erase(known);
}

void PosixHandles::forget(std::uint64_t fileid) {
    Shard& shard = shard_of(fileid);
    const std::lock_guard lock(shard.mutex);
    shard.known.erase(fileid);
}

std::vector<PosixHandles::Place> PosixHandles::places(std::uint64_t fileid,
                                                      std::uint64_t& generation) const {
    const Shard& shard = shard_of(fileid);
    const std::lock_guard lock(shard.mutex);
    const auto known = shard.known.find(fileid);
    if (known == shard.known.end()) return {};
    generation = known->second.generation;
    return {known->second.places.rbegin(), known->second.places.rend()};
}

bool PosixHandles::generation_of(std::uint64_t fileid, std::uint64_t& generation) const {
    const Shard& shard = shard_of(fileid);
    const std::lock_guard lock(shard.mutex);
    const auto known = shard.known.find(fileid);
    if (known == shard.known.end()) return false;
    generation = known->second.generation;
    return true;
}

bool PosixHandles::parent_of(NodeId node, NodeId& parent) const {
    {
        const Shard& shard = shard_of(node.fileid);
        const std::lock_guard lock(shard.mutex);
        const auto known = shard.known.find(node.fileid);
        if (known == shard.known.end() || known->second.generation != node.generation) return false;
        if (known->second.places.empty()) return false;
        parent.fileid = known->second.places.back().parent;
    }
    return generation_of(parent.fileid, parent.generation);
}

std::size_t PosixHandles::size() const {
    std::size_t sum = 0;
    for (const Shard& shard : shards_) {
        const std::lock_guard lock(shard.mutex);
        sum += shard.known.size();
    }
    return sum;
}

}  // namespace nfsrdma::nfs
