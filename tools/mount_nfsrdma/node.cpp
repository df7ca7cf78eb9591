#include "tools/mount_nfsrdma/node.hpp"

#include <algorithm>
#include <functional>

#include "base/assert.hpp"

namespace nfsrdma::mount {

using nfs::client::FileHandle;

Node::Node(std::uint64_t number, const FileHandle& fh) noexcept : ino(number), handle(fh) {}

Node::~Node() {
    NR_DCHECK(children.empty() && names.empty());
}

std::size_t FileHandleHash::operator()(const FileHandle& handle) const noexcept {
    const nfs_fh3 view = handle.view();
    return std::hash<std::string_view>()(std::string_view(view.data.data_val, view.data.data_len));
}

std::size_t NodeTable::KeyHash::operator()(const Key& key) const noexcept {
    return std::hash<std::string_view>()(key.text) ^ (key.parent * 0x9E3779B97F4A7C15u);
}

NodeTable::NodeTable() = default;

NodeTable::~NodeTable() {
    // What ends with the data of a file looks at the node, and pins: no node goes before all have.
    for (const auto& node : nodes_)
        if (node != nullptr) ++node->pins;
    for (const auto& node : nodes_)
        if (node != nullptr) node->file.reset();
    for (auto& entry : names_) {
        entry.second->parent->children.erase(*entry.second);
        entry.second->child->names.erase(*entry.second);
    }
    names_.clear();
}

Node& NodeTable::get(const FileHandle& handle) {
    const auto found = by_handle_.find(handle);
    if (found != by_handle_.end()) return *found->second;
    std::uint64_t place = nodes_.size();
    if (free_.empty()) {
        nodes_.emplace_back();
    } else {
        place = free_.back();
        free_.pop_back();
    }
    nodes_[place] = std::make_unique<Node>(place + 1, handle);
    Node& node = *nodes_[place];
    node.generation = ++generation_;
    by_handle_.emplace(handle, &node);
    return node;
}

Node* NodeTable::find(const FileHandle& handle) noexcept {
    const auto found = by_handle_.find(handle);
    return found != by_handle_.end() ? found->second : nullptr;
}

Node* NodeTable::at(std::uint64_t ino) noexcept {
    if (ino == 0 || ino > nodes_.size()) return nullptr;
    return nodes_[ino - 1].get();
}

void NodeTable::set_name(Node& parent, std::string_view text, Node& child) {
    const auto found = names_.find(Key{parent.ino, text});
    if (found != names_.end()) {
        Name& name = *found->second;
        if (name.child == &child) return;
        Node& before = *name.child;
        before.names.erase(name);
        name.child = &child;
        child.names.push_back(name);
        return;
    }
    auto made = std::make_unique<Name>();
    Name& name = *made;
    name.parent = &parent;
    name.child = &child;
    name.text = text;
    // A directory lives as long as there are names in it.
    ++parent.pins;
    parent.children.push_back(name);
    child.names.push_back(name);
    names_.emplace(Key{parent.ino, name.text}, std::move(made));
}

void NodeTable::erase(Name& name) noexcept {
    Node& parent = *name.parent;
    parent.children.erase(name);
    name.child->names.erase(name);
    names_.erase(names_.find(Key{parent.ino, name.text}));
    unpin(parent);
}

void NodeTable::drop_name(Node& parent, std::string_view text) noexcept {
    const auto found = names_.find(Key{parent.ino, text});
    if (found != names_.end()) erase(*found->second);
}

void NodeTable::move_name(Node& from, std::string_view text, Node& to, std::string_view new_text) {
    Node* const moved = child(from, text);
    if (&from == &to && text == new_text) return;
    if (moved == nullptr) {
        drop_name(to, new_text);
        return;
    }
    set_name(to, new_text, *moved);
    drop_name(from, text);
}

Node* NodeTable::child(Node& parent, std::string_view text) noexcept {
    const auto found = names_.find(Key{parent.ino, text});
    return found != names_.end() ? found->second->child : nullptr;
}

void NodeTable::unpin(Node& node) noexcept {
    NR_ASSERT(node.pins != 0);
    --node.pins;
    maybe_end(node);
}

void NodeTable::forget(Node& node, std::uint64_t lookups) noexcept {
    node.lookups -= std::min(node.lookups, lookups);
    maybe_end(node);
}

void NodeTable::maybe_end(Node& node) noexcept {
    if (node.lookups != 0 || node.pins != 0 || node.ino == 1) return;
    if (ending != nullptr) ending(arg, node);
    ++node.pins;  // while its names go, and their directories perhaps
    while (!node.names.empty())
        erase(node.names.front());
    by_handle_.erase(node.handle);
    free_.push_back(node.ino - 1);
    nodes_[node.ino - 1].reset();
}

std::vector<Node*> NodeTable::silly_ones() {
    std::vector<Node*> found;
    for (const auto& node : nodes_)
        if (node != nullptr && !node->silly_name.empty()) found.push_back(node.get());
    return found;
}

std::vector<Node*> NodeTable::with_data() {
    std::vector<Node*> found;
    for (const auto& node : nodes_)
        if (node != nullptr && node->file != nullptr) found.push_back(node.get());
    return found;
}

}  // namespace nfsrdma::mount
