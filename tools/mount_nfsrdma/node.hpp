#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/list.hpp"
#include "nfs/client/client.hpp"
#include "tools/mount_nfsrdma/access_cache.hpp"
#include "tools/mount_nfsrdma/attributes.hpp"
#include "tools/mount_nfsrdma/file_state.hpp"

// The objects of the server that the kernel knows, and under which names. Everything here is read
// and changed with Mount::lock held.
namespace nfsrdma::mount {

class Node;
class Worker;
struct InParent;
struct OfChild;

// One name of one node, as far as the kernel, or a call of ours, has asked for it.
struct Name : ListHook<InParent>, ListHook<OfChild> {
    Node* parent = nullptr;
    Node* child = nullptr;
    std::string text;
};

// One object. Lives while the kernel counts a lookup of it, or a job or an open file pins it.
class Node {
  public:
    Node(std::uint64_t number, const nfs::client::FileHandle& fh) noexcept;
    ~Node();
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    const std::uint64_t ino;  // the kernel's number of it; 1: the root
    const nfs::client::FileHandle handle;
    std::uint64_t generation = 0;
    Attributes attributes;
    ftype3 type() const noexcept { return attributes.now().type; }
    bool is_dir() const noexcept { return type() == NF3DIR; }

    std::uint64_t lookups = 0;  // the kernel's count
    std::uint32_t pins = 0;     // NodePin
    std::uint32_t opens = 0;    // open files and directories
    // The pages that the kernel has of it are of these (mtime, size): keep_cache at the next open.
    bool data_valid = false;
    bool data_told = false;  // the kernel may have pages of it
    // Another has changed it since the kernel was last answered an open of it: the attributes that
    // the kernel believes may be older than that, whatever the notifier has got to.
    bool attributes_stale = false;
    bool unwritten = false;       // WRITEs of it have no answer yet: `file` knows when they have
    bool silly_going = false;     // its hidden name is being removed
    bool silly_in_doubt = false;  // nobody knows whether it has got its hidden name
    // Unlinks of it, and renames over it, that are under way and do not hide it: none of them saw
    // it open.
    std::uint32_t removals = 0;
    // Its loop: where reads and writes of it are done. nullptr: not opened yet.
    Worker* home = nullptr;
    std::unique_ptr<FileState> file;
    std::unique_ptr<AccessCache> access;  // since somebody asked for it
    // The name under which it waits for its last close, and who unlinked it; empty: it has an
    // ordinary one. While it is not, this node and that directory are pinned (silly.hpp).
    std::string silly_name;
    Node* silly_parent = nullptr;
    std::shared_ptr<const sunrpc::AuthSys> silly_caller;
    // Of a directory: such names in it, and those of them that are being removed.
    std::uint32_t silly_children = 0, silly_removals = 0;

    List<Name, InParent> children;  // of a directory
    List<Name, OfChild> names;
    std::uint64_t expired_at_ns = 0;  // names were expired last
    // In the notifier's queue, for what.
    bool invalidate_data = false, invalidate_attributes = false, expire_names = false;
    bool queued = false;
};

struct FileHandleHash {
    std::size_t operator()(const nfs::client::FileHandle& handle) const noexcept;
};

class NodeTable {
  public:
    NodeTable();
    ~NodeTable();
    NodeTable(const NodeTable&) = delete;
    NodeTable& operator=(const NodeTable&) = delete;

    // The node of a handle; made when there is none. The first one is the root.
    Node& get(const nfs::client::FileHandle& handle);
    Node* find(const nfs::client::FileHandle& handle) noexcept;
    // What the kernel calls it; nullptr: it is none (the kernel does not send such).
    Node* at(std::uint64_t ino) noexcept;
    Node& root() noexcept { return *nodes_.front(); }

    // `parent` has `child` under `text` now, instead of whom it had.
    void set_name(Node& parent, std::string_view text, Node& child);
    void drop_name(Node& parent, std::string_view text) noexcept;
    // rename(2) has succeeded; `exchange` is none that NFSv3 knows.
    void move_name(Node& from, std::string_view text, Node& to, std::string_view new_text);
    Node* child(Node& parent, std::string_view text) noexcept;  // nullptr: not known

    void pin(Node& node) noexcept { ++node.pins; }
    void unpin(Node& node) noexcept;                          // may end it
    void forget(Node& node, std::uint64_t lookups) noexcept;  // may end it
    std::size_t size() const noexcept { return by_handle_.size(); }
    // Those that are renamed and wait for their last close, at the end of the mount.
    std::vector<Node*> silly_ones();
    // Those that have `file`.
    std::vector<Node*> with_data();
    // Runs before a node dies: whoever has it queued takes it out.
    void (*ending)(void* arg, Node& node) noexcept = nullptr;
    void* arg = nullptr;

  private:
    struct Key {
        std::uint64_t parent = 0;
        std::string_view text;  // of the Name
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const noexcept;
    };
    void maybe_end(Node& node) noexcept;
    void erase(Name& name) noexcept;

    std::vector<std::unique_ptr<Node>> nodes_;  // by ino - 1
    std::vector<std::uint64_t> free_;           // places in nodes_
    std::unordered_map<nfs::client::FileHandle, Node*, FileHandleHash> by_handle_;
    std::unordered_map<Key, std::unique_ptr<Name>, KeyHash> names_;
    std::uint64_t generation_ = 0;
};

// Keeps a node while a job needs it.
class NodePin {
  public:
    NodePin() = default;
    NodePin(NodeTable& table, Node& node) noexcept : table_(&table), node_(&node) {
        table.pin(node);
    }
    NodePin(NodePin&& other) noexcept
        : table_(other.table_), node_(std::exchange(other.node_, nullptr)) {}
    NodePin& operator=(NodePin&& other) noexcept {
        reset();
        table_ = other.table_;
        node_ = std::exchange(other.node_, nullptr);
        return *this;
    }
    NodePin(const NodePin&) = delete;
    NodePin& operator=(const NodePin&) = delete;
    ~NodePin() { reset(); }
    void reset() noexcept {
        if (node_ != nullptr) table_->unpin(*std::exchange(node_, nullptr));
    }
    Node& operator*() const noexcept { return *node_; }
    Node* operator->() const noexcept { return node_; }
    Node* get() const noexcept { return node_; }
    explicit operator bool() const noexcept { return node_ != nullptr; }

  private:
    NodeTable* table_ = nullptr;
    Node* node_ = nullptr;
};

}  // namespace nfsrdma::mount
