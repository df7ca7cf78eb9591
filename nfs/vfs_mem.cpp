#include "nfs/vfs_mem.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <thread>

namespace nfsrdma::nfs {
namespace {

constexpr std::uint32_t kNameMax = 255;
constexpr std::uint32_t kLinkMax = 32000;
constexpr std::uint64_t kCookieSelf = 1, kCookieParent = 2;
constexpr std::uint32_t kModeBits = 07777;
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

Attr like_of(ftype3 type, std::uint32_t mode) noexcept {
    Attr attr;
    attr.type = type;
    attr.mode = mode;
    return attr;
}

}  // namespace

VfsMem::VfsMem(const VfsMemOptions& options) : options_(options) {
    auto root = std::make_unique<Object>();
    root->attr = like_of(NF3DIR, 0755);
    root->attr.fsid = options_.fsid;
    root->attr.fileid = next_fileid_++;
    root->attr.nlink = 2;
    root->generation = root->attr.fileid;
    root->parent = root->attr.fileid;
    root->attr.atime = root->attr.mtime = root->attr.ctime = tick();
    root_ = NodeId{root->attr.fileid, root->generation};
    objects_.emplace(root_.fileid, std::move(root));
}

VfsMem::~VfsMem() = default;

VfsMem::Object* VfsMem::find(NodeId id) noexcept {
    const auto at = objects_.find(id.fileid);
    if (at == objects_.end() || at->second->generation != id.generation) return nullptr;
    return at->second.get();
}

nfsstat3 VfsMem::find_dir(NodeId id, Object*& out) noexcept {
    out = find(id);
    if (out == nullptr) return NFS3ERR_STALE;
    return out->attr.type == NF3DIR ? NFS3_OK : NFS3ERR_NOTDIR;
}

VfsMem::Object* VfsMem::child_of(Object& dir, std::string_view name) noexcept {
    const auto cookie = dir.cookies.find(std::string(name));
    if (cookie == dir.cookies.end()) return nullptr;
    return objects_.at(dir.children.at(cookie->second).fileid).get();
}

Time VfsMem::tick() noexcept {
    time_ += 1000;
    return {static_cast<std::int64_t>(1'700'000'000 + time_ / kNsPerSecond),
            static_cast<std::uint32_t>(time_ % kNsPerSecond)};
}

void VfsMem::touch(Object& object) noexcept {
    object.attr.mtime = object.attr.ctime = tick();
}

Node VfsMem::node_of(const Object& object) const noexcept {
    return Node{{object.attr.fileid, object.generation}, object.attr};
}

void VfsMem::inject(MemCall call, const MemFault& fault) {
    const std::lock_guard lock(faults_mutex_);
    faults_.at(static_cast<std::size_t>(call)) = fault;
    bool slow = false;
    for (const MemFault& each : faults_)
        slow = slow || each.delay_ns > 0;
    slow_.store(slow, std::memory_order_release);
}

void VfsMem::heal() {
    const std::lock_guard lock(faults_mutex_);
    faults_.fill({});
    slow_.store(false, std::memory_order_release);
}

std::uint64_t VfsMem::count(MemCall call) const {
    const std::lock_guard lock(faults_mutex_);
    return counts_.at(static_cast<std::size_t>(call));
}

nfsstat3 VfsMem::fault(MemCall call) noexcept {
    MemFault now;
    {
        const std::lock_guard lock(faults_mutex_);
        const auto index = static_cast<std::size_t>(call);
        ++counts_[index];
        MemFault& fault = faults_[index];
        if (fault.calls == 0) return NFS3_OK;
        if (fault.calls != ~0u) --fault.calls;
        now = fault;
    }
    // Others' calls go on meanwhile.
    if (now.delay_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(now.delay_ns));
    return now.status;
}

NodeId VfsMem::root() const noexcept {
    return root_;
}

nfsstat3 VfsMem::getattr(const Cred& /*cred*/, NodeId node, Attr& out) noexcept {
    const nfsstat3 injected = fault(MemCall::getattr);
    if (injected != NFS3_OK) return injected;
    const std::lock_guard lock(mutex_);
    const Object* object = find(node);
    if (object == nullptr) return NFS3ERR_STALE;
    out = object->attr;
    return NFS3_OK;
}

nfsstat3 VfsMem::resize(Object& object, std::uint64_t size) noexcept {
    if (size > options_.max_file_bytes) return NFS3ERR_FBIG;
    const std::uint64_t old = object.data.size();
    if (size > old && size - old > options_.capacity_bytes - used_bytes_) return NFS3ERR_NOSPC;
    if (size > object.data.capacity()) {
        object.data.reserve(std::max(size, std::min(2 * old, options_.max_file_bytes)));
    }
    object.data.resize(size);
    used_bytes_ += size - old;
    object.attr.size = object.attr.used = size;
    return NFS3_OK;
}

void VfsMem::apply(Object& object, const SetAttr& set) noexcept {
    const Time now = tick();
    if (set.mode) object.attr.mode = *set.mode & kModeBits;
    if (set.uid) object.attr.uid = *set.uid;
    if (set.gid) object.attr.gid = *set.gid;
    if (set.atime.how == SET_TO_SERVER_TIME) object.attr.atime = now;
    if (set.atime.how == SET_TO_CLIENT_TIME) object.attr.atime = set.atime.time;
    if (set.size || set.mtime.how == SET_TO_SERVER_TIME) object.attr.mtime = now;
    if (set.mtime.how == SET_TO_CLIENT_TIME) object.attr.mtime = set.mtime.time;
    object.attr.ctime = now;
}

nfsstat3 VfsMem::setattr(const Cred& /*cred*/, NodeId node, const SetAttr& set, const Time* guard,
                         Wcc& wcc) noexcept {
    const nfsstat3 injected = fault(MemCall::setattr);
    const std::lock_guard lock(mutex_);
    Object* object = find(node);
    if (object == nullptr) return NFS3ERR_STALE;
    wcc.before = object->attr;
    nfsstat3 status = injected;
    if (status == NFS3_OK && guard != nullptr && *guard != object->attr.ctime)
        status = NFS3ERR_NOT_SYNC;
    if (status == NFS3_OK && set.size) {
        if (object->attr.type == NF3REG) {
            status = resize(*object, *set.size);
        } else {
            status = object->attr.type == NF3DIR ? NFS3ERR_ISDIR : NFS3ERR_INVAL;
        }
    }
    if (status == NFS3_OK) {
        apply(*object, set);
        object->has_verifier = false;
    }
    wcc.after = object->attr;
    return status;
}

nfsstat3 VfsMem::lookup(const Cred& /*cred*/, const DirName& what, Node& out) noexcept {
    const nfsstat3 injected = fault(MemCall::lookup);
    if (injected != NFS3_OK) return injected;
    const std::lock_guard lock(mutex_);
    Object* dir = nullptr;
    const nfsstat3 status = find_dir(what.dir, dir);
    if (status != NFS3_OK) return status;
    Object* found = nullptr;
    if (what.name == ".") {
        found = dir;
    } else if (what.name == "..") {
        found = objects_.at(dir->parent).get();
    } else if (what.name.size() > kNameMax) {
        return NFS3ERR_NAMETOOLONG;
    } else {
        found = child_of(*dir, what.name);
    }
    if (found == nullptr) return NFS3ERR_NOENT;
    out = node_of(*found);
    return NFS3_OK;
}

nfsstat3 VfsMem::access(const Cred& /*cred*/, NodeId node, std::uint32_t wanted,
                        std::uint32_t& granted) noexcept {
    const nfsstat3 injected = fault(MemCall::access);
    if (injected != NFS3_OK) return injected;
    const std::lock_guard lock(mutex_);
    const Object* object = find(node);
    if (object == nullptr) return NFS3ERR_STALE;
    constexpr std::uint32_t kBoth = ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND;
    const bool is_dir = object->attr.type == NF3DIR;
    granted = wanted & (kBoth | (is_dir ? ACCESS3_LOOKUP | ACCESS3_DELETE : ACCESS3_EXECUTE));
    return NFS3_OK;
}

nfsstat3 VfsMem::readlink(const Cred& /*cred*/, NodeId node, std::span<char> room,
                          std::uint32_t& length) noexcept {
    const nfsstat3 injected = fault(MemCall::readlink);
    if (injected != NFS3_OK) return injected;
    const std::lock_guard lock(mutex_);
    const Object* object = find(node);
    if (object == nullptr) return NFS3ERR_STALE;
    if (object->attr.type != NF3LNK) return NFS3ERR_INVAL;
    if (object->text.size() > room.size()) return NFS3ERR_NAMETOOLONG;
    std::memcpy(room.data(), object->text.data(), object->text.size());
    length = static_cast<std::uint32_t>(object->text.size());
    return NFS3_OK;
}

void VfsMem::add_child(Object& dir, std::string_view name, std::uint64_t fileid) {
    const std::uint64_t cookie = next_cookie_++;
    dir.children.emplace(cookie, Child{std::string(name), fileid});
    dir.cookies.emplace(std::string(name), cookie);
    touch(dir);
}

void VfsMem::drop_child(Object& dir, const std::string& name) {
    const auto cookie = dir.cookies.find(name);
    dir.children.erase(cookie->second);
    dir.cookies.erase(cookie);
    touch(dir);
}

void VfsMem::unref(Object& object) {
    const bool is_dir = object.attr.type == NF3DIR;
    object.attr.nlink = is_dir ? 0 : object.attr.nlink - 1;
    object.attr.ctime = tick();
    if (object.attr.nlink > 0) return;
    used_bytes_ -= object.data.size();
    objects_.erase(object.attr.fileid);
}

// Makes the object and its entry; `dir` is set whenever the directory was found.
nfsstat3 VfsMem::make(const DirName& where, const Attr& like, Object*& out, Object*& dir, Wcc& wcc,
                      nfsstat3 injected) noexcept {
    const nfsstat3 status = find_dir(where.dir, dir);
    if (dir != nullptr) wcc.before = wcc.after = dir->attr;
    if (status != NFS3_OK) return status;
    if (injected != NFS3_OK) return injected;
    if (where.name == "." || where.name == "..") return NFS3ERR_EXIST;
    if (where.name.size() > kNameMax) return NFS3ERR_NAMETOOLONG;
    if (child_of(*dir, where.name) != nullptr) return NFS3ERR_EXIST;
    if (objects_.size() >= options_.max_nodes) return NFS3ERR_NOSPC;
    auto object = std::make_unique<Object>();
    object->attr = like;
    object->attr.mode &= kModeBits;
    object->attr.fsid = options_.fsid;
    object->attr.fileid = next_fileid_++;
    object->attr.nlink = like.type == NF3DIR ? 2 : 1;
    object->generation = object->attr.fileid;
    object->parent = dir->attr.fileid;
    object->attr.atime = object->attr.mtime = object->attr.ctime = tick();
    out = object.get();
    objects_.emplace(object->attr.fileid, std::move(object));
    add_child(*dir, where.name, out->attr.fileid);
    if (like.type == NF3DIR) ++dir->attr.nlink;
    wcc.after = dir->attr;
    return NFS3_OK;
}

nfsstat3 VfsMem::create(const Cred& /*cred*/, const DirName& where, const CreateHow& how, Node& out,
                        Wcc& dir) noexcept {
    const nfsstat3 injected = fault(MemCall::create);
    const std::lock_guard lock(mutex_);
    Object* object = nullptr;
    Object* parent = nullptr;
    const bool exclusive = how.mode == EXCLUSIVE;
    const Attr like = like_of(NF3REG, exclusive ? 0 : how.attr.mode.value_or(0644));
    nfsstat3 status = make(where, like, object, parent, dir, injected);
    if (status == NFS3_OK) {
        object->has_verifier = exclusive;
        object->verifier = how.verifier;
        if (!exclusive) {
            if (how.attr.size) status = resize(*object, *how.attr.size);
            apply(*object, how.attr);
        }
    } else if (status == NFS3ERR_EXIST && how.mode != GUARDED) {
        object = child_of(*parent, where.name);
        if (object == nullptr || object->attr.type != NF3REG) return NFS3ERR_EXIST;
        if (exclusive && !(object->has_verifier && object->verifier == how.verifier)) {
            return NFS3ERR_EXIST;
        }
        status = NFS3_OK;
        if (!exclusive && how.attr.size) {
            status = resize(*object, *how.attr.size);
            if (status == NFS3_OK) touch(*object);
        }
    }
    if (status == NFS3_OK) out = node_of(*object);
    return status;
}

nfsstat3 VfsMem::mkdir(const Cred& /*cred*/, const DirName& where, const SetAttr& attr, Node& out,
                       Wcc& dir) noexcept {
    const nfsstat3 injected = fault(MemCall::mkdir);
    const std::lock_guard lock(mutex_);
    Object* object = nullptr;
    Object* parent = nullptr;
    const nfsstat3 status =
        make(where, like_of(NF3DIR, attr.mode.value_or(0755)), object, parent, dir, injected);
    if (status != NFS3_OK) return status;
    apply(*object, attr);
    out = node_of(*object);
    return NFS3_OK;
}

nfsstat3 VfsMem::symlink(const Cred& /*cred*/, const DirName& where, std::string_view text,
                         Node& out, Wcc& dir) noexcept {
    const nfsstat3 injected = fault(MemCall::symlink);
    const std::lock_guard lock(mutex_);
    Object* object = nullptr;
    Object* parent = nullptr;
    const nfsstat3 status = make(where, like_of(NF3LNK, 0777), object, parent, dir, injected);
    if (status != NFS3_OK) return status;
    object->text = text;
    object->attr.size = text.size();
    out = node_of(*object);
    return NFS3_OK;
}

nfsstat3 VfsMem::mknod(const Cred& /*cred*/, const DirName& where, const Attr& like, Node& out,
                       Wcc& dir) noexcept {
    const nfsstat3 injected = fault(MemCall::mknod);
    const std::lock_guard lock(mutex_);
    Object* object = nullptr;
    Object* parent = nullptr;
    const nfsstat3 status = make(where, like, object, parent, dir, injected);
    if (status == NFS3_OK) out = node_of(*object);
    return status;
}

nfsstat3 VfsMem::remove(const Cred& /*cred*/, const DirName& what, Wcc& dir) noexcept {
    const nfsstat3 injected = fault(MemCall::remove);
    const std::lock_guard lock(mutex_);
    Object* parent = nullptr;
    const nfsstat3 status = find_dir(what.dir, parent);
    if (parent != nullptr) dir.before = dir.after = parent->attr;
    if (status != NFS3_OK) return status;
    if (injected != NFS3_OK) return injected;
    if (what.name.size() > kNameMax) return NFS3ERR_NAMETOOLONG;
    Object* object = child_of(*parent, what.name);
    if (object == nullptr) return NFS3ERR_NOENT;
    if (object->attr.type == NF3DIR) return NFS3ERR_ISDIR;
    drop_child(*parent, std::string(what.name));
    unref(*object);
    dir.after = parent->attr;
    return NFS3_OK;
}

nfsstat3 VfsMem::rmdir(const Cred& /*cred*/, const DirName& what, Wcc& dir) noexcept {
    const nfsstat3 injected = fault(MemCall::rmdir);
    const std::lock_guard lock(mutex_);
    Object* parent = nullptr;
    const nfsstat3 status = find_dir(what.dir, parent);
    if (parent != nullptr) dir.before = dir.after = parent->attr;
    if (status != NFS3_OK) return status;
    if (injected != NFS3_OK) return injected;
    if (what.name.size() > kNameMax) return NFS3ERR_NAMETOOLONG;
    Object* object = child_of(*parent, what.name);
    if (object == nullptr) return NFS3ERR_NOENT;
    if (object->attr.type != NF3DIR) return NFS3ERR_NOTDIR;
    if (!object->children.empty()) return NFS3ERR_NOTEMPTY;
    drop_child(*parent, std::string(what.name));
    --parent->attr.nlink;
    unref(*object);
    dir.after = parent->attr;
    return NFS3_OK;
}

nfsstat3 VfsMem::check_replace(Object& what, Object& target) noexcept {
    const bool from_dir = what.attr.type == NF3DIR;
    const bool to_dir = target.attr.type == NF3DIR;
    if (to_dir && !from_dir) return NFS3ERR_ISDIR;
    if (!to_dir && from_dir) return NFS3ERR_NOTDIR;
    return to_dir && !target.children.empty() ? NFS3ERR_NOTEMPTY : NFS3_OK;
}

bool VfsMem::is_under(std::uint64_t fileid, std::uint64_t ancestor) noexcept {
    while (fileid != ancestor) {
        if (fileid == root_.fileid) return false;
        fileid = objects_.at(fileid)->parent;
    }
    return true;
}

nfsstat3 VfsMem::rename(const Cred& /*cred*/, const DirName& from, const DirName& to, Wcc& from_dir,
                        Wcc& to_dir) noexcept {
    const nfsstat3 injected = fault(MemCall::rename);
    const std::lock_guard lock(mutex_);
    Object* source = nullptr;
    Object* target = nullptr;
    nfsstat3 status = find_dir(from.dir, source);
    const nfsstat3 to_status = find_dir(to.dir, target);
    if (source != nullptr) from_dir.before = from_dir.after = source->attr;
    if (target != nullptr) to_dir.before = to_dir.after = target->attr;
    if (status == NFS3_OK) status = to_status;
    if (status != NFS3_OK) return status;
    if (injected != NFS3_OK) return injected;
    if (std::max(from.name.size(), to.name.size()) > kNameMax) return NFS3ERR_NAMETOOLONG;
    Object* what = child_of(*source, from.name);
    if (what == nullptr) return NFS3ERR_NOENT;
    const bool is_dir = what->attr.type == NF3DIR;
    if (is_dir && is_under(target->attr.fileid, what->attr.fileid)) return NFS3ERR_INVAL;
    Object* old = child_of(*target, to.name);
    if (old == what) return NFS3_OK;
    if (old != nullptr) {
        status = check_replace(*what, *old);
        if (status != NFS3_OK) return status;
        drop_child(*target, std::string(to.name));
        if (is_dir) --target->attr.nlink;
        unref(*old);
    }
    drop_child(*source, std::string(from.name));
    add_child(*target, to.name, what->attr.fileid);
    what->parent = target->attr.fileid;
    what->attr.ctime = tick();
    if (is_dir) {
        --source->attr.nlink;
        ++target->attr.nlink;
    }
    from_dir.after = source->attr;
    to_dir.after = target->attr;
    return NFS3_OK;
}

nfsstat3 VfsMem::link(const Cred& /*cred*/, NodeId file, const DirName& where, Wcc& dir) noexcept {
    const nfsstat3 injected = fault(MemCall::link);
    const std::lock_guard lock(mutex_);
    Object* parent = nullptr;
    const nfsstat3 status = find_dir(where.dir, parent);
    if (parent != nullptr) dir.before = dir.after = parent->attr;
    if (status != NFS3_OK) return status;
    if (injected != NFS3_OK) return injected;
    Object* object = find(file);
    if (object == nullptr) return NFS3ERR_STALE;
    if (object->attr.type == NF3DIR) return NFS3ERR_PERM;
    if (where.name == "." || where.name == "..") return NFS3ERR_EXIST;
    if (where.name.size() > kNameMax) return NFS3ERR_NAMETOOLONG;
    if (child_of(*parent, where.name) != nullptr) return NFS3ERR_EXIST;
    if (object->attr.nlink >= kLinkMax) return NFS3ERR_MLINK;
    add_child(*parent, where.name, object->attr.fileid);
    ++object->attr.nlink;
    object->attr.ctime = tick();
    dir.after = parent->attr;
    return NFS3_OK;
}

nfsstat3 VfsMem::readdir(const Cred& /*cred*/, const ReadDir& what, DirSink& sink,
                         bool& eof) noexcept {
    const nfsstat3 injected = fault(MemCall::readdir);
    eof = false;
    if (injected != NFS3_OK) return injected;
    const std::lock_guard lock(mutex_);
    Object* dir = nullptr;
    const nfsstat3 status = find_dir(what.dir, dir);
    eof = false;
    if (status != NFS3_OK) return status;
    const auto offer = [&](std::string_view name, const Object& object, std::uint64_t cookie) {
        const Node node = node_of(object);
        return sink.add({name, node.attr.fileid, cookie, what.want_nodes ? &node : nullptr});
    };
    if (what.cookie < kCookieSelf && !offer(".", *dir, kCookieSelf)) return NFS3_OK;
    if (what.cookie < kCookieParent) {
        const Object& parent = *objects_.at(dir->parent);
        if (!offer("..", parent, kCookieParent)) return NFS3_OK;
    }
    for (auto at = dir->children.upper_bound(what.cookie); at != dir->children.end(); ++at) {
        const Object& child = *objects_.at(at->second.fileid);
        if (!offer(at->second.name, child, at->first)) return NFS3_OK;
    }
    eof = true;
    return NFS3_OK;
}

nfsstat3 VfsMem::statfs(const Cred& /*cred*/, NodeId node, StatFs& out) noexcept {
    const nfsstat3 injected = fault(MemCall::statfs);
    if (injected != NFS3_OK) return injected;
    const std::lock_guard lock(mutex_);
    if (find(node) == nullptr) return NFS3ERR_STALE;
    out.total_bytes = options_.capacity_bytes;
    out.free_bytes = out.available_bytes = options_.capacity_bytes - used_bytes_;
    out.total_files = options_.max_nodes;
    out.free_files = out.available_files = options_.max_nodes - objects_.size();
    out.link_max = kLinkMax;
    out.name_max = kNameMax;
    out.max_file_bytes = options_.max_file_bytes;
    return NFS3_OK;
}

nfsstat3 VfsMem::open_io(const Cred& /*cred*/, NodeId node, IoUse /*use*/, IoFile& out) noexcept {
    const nfsstat3 injected = fault(MemCall::open_io);
    if (injected != NFS3_OK) return injected;
    const std::lock_guard lock(mutex_);
    const Object* object = find(node);
    if (object == nullptr) return NFS3ERR_STALE;
    if (object->attr.type == NF3DIR) return NFS3ERR_ISDIR;
    if (object->attr.type != NF3REG) return NFS3ERR_INVAL;
    out = IoFile{};
    out.id = node;
    return NFS3_OK;
}

void VfsMem::close_io(IoFile& file) noexcept {
    file = IoFile{};
}

nfsstat3 VfsMem::io_attr(const IoFile& file, Attr& out) noexcept {
    const std::lock_guard lock(mutex_);
    const Object* object = find(file.id);
    if (object == nullptr) return NFS3ERR_STALE;
    out = object->attr;
    return NFS3_OK;
}

nfsstat3 VfsMem::sync_now(const IoFile& /*file*/) noexcept {
    return fault(MemCall::sync_now);
}

nfsstat3 VfsMem::read_now(const IoFile& file, std::uint64_t offset, std::span<std::byte> into,
                          std::uint32_t& moved) noexcept {
    const nfsstat3 injected = fault(MemCall::read_now);
    moved = 0;
    if (injected != NFS3_OK) return injected;
    const std::lock_guard lock(mutex_);
    Object* object = find(file.id);
    if (object == nullptr) return NFS3ERR_STALE;
    if (offset >= object->data.size()) return NFS3_OK;
    const std::size_t count = std::min<std::uint64_t>(into.size(), object->data.size() - offset);
    if (count > 0) std::memcpy(into.data(), object->data.data() + offset, count);
    moved = static_cast<std::uint32_t>(count);
    object->attr.atime = tick();
    return NFS3_OK;
}

nfsstat3 VfsMem::write_now(const IoFile& file, std::uint64_t offset,
                           std::span<const std::byte> from, std::uint32_t& moved) noexcept {
    const nfsstat3 injected = fault(MemCall::write_now);
    moved = 0;
    if (injected != NFS3_OK) return injected;
    const std::lock_guard lock(mutex_);
    Object* object = find(file.id);
    if (object == nullptr) return NFS3ERR_STALE;
    if (from.empty()) return NFS3_OK;
    if (offset > std::numeric_limits<std::uint64_t>::max() - from.size()) return NFS3ERR_FBIG;
    if (offset + from.size() > object->data.size()) {
        const nfsstat3 status = resize(*object, offset + from.size());
        if (status != NFS3_OK) return status;
    }
    std::memcpy(object->data.data() + offset, from.data(), from.size());
    moved = static_cast<std::uint32_t>(from.size());
    touch(*object);
    return NFS3_OK;
}

}  // namespace nfsrdma::nfs
