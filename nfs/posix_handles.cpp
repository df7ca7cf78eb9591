#include "nfs/posix_handles.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::size_t kShardMin = 64;
// So that the names of a shard, half of them garbage, are within 32 bits.
constexpr std::size_t kShardMax = std::size_t{4} << 20;

// Grows by a quarter: what is big should have little slack.
template <class T>
void make_space(std::vector<T>& vector, std::size_t more) {
    if (vector.size() + more <= vector.capacity()) return;
    vector.reserve(vector.size() + vector.size() / 4 + more + 64);
}

}  // namespace

PosixHandles::PosixHandles(std::size_t capacity)
    : shard_capacity_(std::clamp(capacity / kShards, kShardMin, kShardMax)) {}

PlaceRecord PosixHandles::record_of(const Shard& shard, const Entry& entry) noexcept {
    return {PlaceRecord::Kind::learn, entry.fileid, entry.generation, entry.parent,
            name_of(shard, entry)};
}

void PosixHandles::learn(NodeId node, std::uint64_t parent, std::string_view name, bool more) {
    Shard& shard = shard_of(node.fileid);
    {
        const std::lock_guard lock(shard.mutex);
        if (!learn_locked(shard, node, parent, name) || log_ == nullptr) return;
        log_->note({PlaceRecord::Kind::learn, node.fileid, node.generation, parent, name});
    }
    if (!more) log_->flush();
}

void PosixHandles::flush() noexcept {
    if (log_ != nullptr) log_->flush();
}

void PosixHandles::forget_place(std::uint64_t fileid, std::uint64_t parent, std::string_view name) {
    Shard& shard = shard_of(fileid);
    {
        const std::lock_guard lock(shard.mutex);
        if (!unplace_locked(shard, fileid, parent, name) || log_ == nullptr) return;
        log_->note({PlaceRecord::Kind::unplace, fileid, 0, parent, name});
    }
    log_->flush();
}

void PosixHandles::forget(std::uint64_t fileid) {
    Shard& shard = shard_of(fileid);
    {
        const std::lock_guard lock(shard.mutex);
        if (head_of(shard, fileid) == kNone) return;
        forget_locked(shard, fileid);
        if (log_ == nullptr) return;
        log_->note({PlaceRecord::Kind::forget, fileid, 0, 0, {}});
    }
    log_->flush();
}

void PosixHandles::replay(const PlaceRecord& record) {
    Shard& shard = shard_of(record.fileid);
    const std::lock_guard lock(shard.mutex);
    switch (record.kind) {
        case PlaceRecord::Kind::learn:
            learn_locked(shard, {record.fileid, record.generation}, record.parent, record.name);
            break;
        case PlaceRecord::Kind::unplace:
            unplace_locked(shard, record.fileid, record.parent, record.name);
            break;
        case PlaceRecord::Kind::forget:
            forget_locked(shard, record.fileid);
            break;
    }
}

std::vector<PosixHandles::Place> PosixHandles::places(std::uint64_t fileid,
                                                      std::uint64_t& generation) const {
    Shard& shard = shards_[fileid % kShards];
    const std::lock_guard lock(shard.mutex);
    std::vector<Place> out;
    const std::uint32_t head = head_of(shard, fileid);
    if (head == kNone) return out;
    generation = shard.entries[head].generation;
    shard.entries[head].used = true;
    for (std::uint32_t at = head; at != kNone; at = shard.entries[at].next)
        out.push_back({shard.entries[at].parent, std::string(name_of(shard, shard.entries[at]))});
    return out;
}

bool PosixHandles::generation_of(std::uint64_t fileid, std::uint64_t& generation) const {
    Shard& shard = shards_[fileid % kShards];
    const std::lock_guard lock(shard.mutex);
    const std::uint32_t head = head_of(shard, fileid);
    if (head == kNone) return false;
    shard.entries[head].used = true;
    generation = shard.entries[head].generation;
    return true;
}

std::size_t PosixHandles::size() const {
    std::size_t sum = 0;
    for (const Shard& shard : shards_) {
        const std::lock_guard lock(shard.mutex);
        sum += shard.live;
    }
    return sum;
}

std::size_t PosixHandles::memory_bytes() const {
    std::size_t sum = sizeof *this;
    for (const Shard& shard : shards_) {
        const std::lock_guard lock(shard.mutex);
        sum += shard.index.capacity() * sizeof(std::uint32_t) +
               shard.entries.capacity() * sizeof(Entry) + shard.names.capacity();
    }
    return sum;
}

// News, or not.
bool PosixHandles::learn_locked(Shard& shard, NodeId node, std::uint64_t parent,
                                std::string_view name) {
    if (name.empty() || name.size() > kNameMax) return false;
    std::uint32_t head = head_of(shard, node.fileid);
    if (head != kNone && shard.entries[head].generation != node.generation) {
        forget_locked(shard, node.fileid);
        head = kNone;
    }
    std::uint32_t before = kNone;
    std::size_t count = 0;
    for (std::uint32_t at = head; at != kNone; at = shard.entries[at].next, ++count) {
        Entry& entry = shard.entries[at];
        entry.used = true;
        if (entry.parent == parent && name_of(shard, entry) == name) {
            if (before == kNone) return false;
            // Known, but not as the newest.
            shard.entries[before].next = entry.next;
            entry.next = head;
            set_head(shard, node.fileid, at);
            return false;
        }
        before = at;
    }
    if (count == kPlacesMax) drop_oldest(shard, head);
    if (shard.live >= shard_capacity_) {
        make_room(shard);
        head = head_of(shard, node.fileid);
    }
    const std::uint32_t at = take_entry(shard);
    Entry& entry = shard.entries[at];
    entry.fileid = node.fileid;
    entry.generation = node.generation;
    entry.parent = parent;
    entry.next = head;
    add_name(shard, entry, name);
    set_head(shard, node.fileid, at);
    return true;
}

bool PosixHandles::unplace_locked(Shard& shard, std::uint64_t fileid, std::uint64_t parent,
                                  std::string_view name) noexcept {
    std::uint32_t before = kNone;
    for (std::uint32_t at = head_of(shard, fileid); at != kNone; at = shard.entries[at].next) {
        const Entry& entry = shard.entries[at];
        if (entry.parent != parent || name_of(shard, entry) != name) {
            before = at;
            continue;
        }
        const std::uint32_t next = entry.next;
        if (before != kNone) {
            shard.entries[before].next = next;
        } else if (next != kNone) {
            set_head(shard, fileid, next);
        } else {
            clear_slot(shard, slot_of(shard, fileid));
        }
        free_entry(shard, at);
        return true;
    }
    return false;
}

void PosixHandles::forget_locked(Shard& shard, std::uint64_t fileid) noexcept {
    std::uint32_t at = head_of(shard, fileid);
    if (at == kNone) return;
    clear_slot(shard, slot_of(shard, fileid));
    while (at != kNone) {
        const std::uint32_t next = shard.entries[at].next;
        free_entry(shard, at);
        at = next;
    }
}

void PosixHandles::drop_oldest(Shard& shard, std::uint32_t head) noexcept {
    std::uint32_t before = head, at = shard.entries[head].next;
    while (shard.entries[at].next != kNone) {
        before = at;
        at = shard.entries[at].next;
    }
    shard.entries[before].next = kNone;
    free_entry(shard, at);
}

// Second chance: an object that was asked for since the hand came by stays this time.
void PosixHandles::make_room(Shard& shard) noexcept {
    constexpr std::size_t kLooksMax = 256;
    std::size_t looks = 0;
    for (;;) {
        if (shard.hand >= shard.entries.size()) shard.hand = 0;
        Entry& entry = shard.entries[shard.hand++];
        if (entry.name_size == 0) continue;
        Entry& head = shard.entries[head_of(shard, entry.fileid)];
        if (std::exchange(head.used, false) && ++looks < kLooksMax) continue;
        forget_locked(shard, head.fileid);
        return;
    }
}

std::size_t PosixHandles::slot_of(const Shard& shard, std::uint64_t fileid) noexcept {
    const std::size_t mask = shard.index.size() - 1;
    std::size_t slot = (fileid / kShards * 0x9e3779b97f4a7c15ull >> 20) & mask;
    while (shard.index[slot] != kNone && shard.entries[shard.index[slot]].fileid != fileid)
        slot = (slot + 1) & mask;
    return slot;
}

std::uint32_t PosixHandles::head_of(const Shard& shard, std::uint64_t fileid) noexcept {
    return shard.index.empty() ? kNone : shard.index[slot_of(shard, fileid)];
}

void PosixHandles::set_head(Shard& shard, std::uint64_t fileid, std::uint32_t head) {
    if (4 * (shard.objects + 1) > 3 * shard.index.size()) grow_index(shard);
    const std::size_t slot = slot_of(shard, fileid);
    if (shard.index[slot] == kNone) ++shard.objects;
    shard.index[slot] = head;
}

// Those behind it that probed past the slot move up.
void PosixHandles::clear_slot(Shard& shard, std::size_t slot) noexcept {
    const std::size_t mask = shard.index.size() - 1;
    shard.index[slot] = kNone;
    --shard.objects;
    for (std::size_t at = (slot + 1) & mask; shard.index[at] != kNone; at = (at + 1) & mask) {
        const std::uint32_t head = std::exchange(shard.index[at], kNone);
        shard.index[slot_of(shard, shard.entries[head].fileid)] = head;
    }
}

void PosixHandles::grow_index(Shard& shard) {
    constexpr std::size_t kFirst = 64;
    const std::size_t size = std::max(kFirst, 2 * shard.index.size());
    const std::vector<std::uint32_t> old = std::exchange(shard.index, {});
    shard.index.assign(size, kNone);
    for (const std::uint32_t head : old) {
        if (head != kNone) shard.index[slot_of(shard, shard.entries[head].fileid)] = head;
    }
}

std::uint32_t PosixHandles::take_entry(Shard& shard) {
    ++shard.live;
    if (shard.free != kNone) {
        const std::uint32_t at = shard.free;
        shard.free = shard.entries[at].next;
        return at;
    }
    make_space(shard.entries, 1);
    shard.entries.emplace_back();
    return static_cast<std::uint32_t>(shard.entries.size() - 1);
}

void PosixHandles::free_entry(Shard& shard, std::uint32_t at) noexcept {
    Entry& entry = shard.entries[at];
    NR_ASSERT(entry.name_size != 0);
    shard.live_names -= entry.name_size;
    --shard.live;
    entry = Entry{};
    entry.next = std::exchange(shard.free, at);
}

void PosixHandles::add_name(Shard& shard, Entry& entry, std::string_view name) {
    constexpr std::size_t kSlack = std::size_t{4} << 10;
    if (shard.names.size() > 2 * shard.live_names + kSlack) pack_names(shard);
    make_space(shard.names, name.size());
    entry.name_at = static_cast<std::uint32_t>(shard.names.size());
    entry.name_size = static_cast<std::uint8_t>(name.size());
    shard.names.insert(shard.names.end(), name.begin(), name.end());
    shard.live_names += name.size();
}

void PosixHandles::pack_names(Shard& shard) {
    std::vector<char> packed;
    packed.reserve(shard.live_names + shard.live_names / 4 + 64);
    for (Entry& entry : shard.entries) {
        if (entry.name_size == 0) continue;
        const std::string_view name = name_of(shard, entry);
        entry.name_at = static_cast<std::uint32_t>(packed.size());
        packed.insert(packed.end(), name.begin(), name.end());
    }
    shard.names.swap(packed);
}

}  // namespace nfsrdma::nfs
