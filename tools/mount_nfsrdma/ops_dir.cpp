#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/bytes.hpp"
#include "tools/mount_nfsrdma/access_cache.hpp"
#include "tools/mount_nfsrdma/job.hpp"
#include "tools/mount_nfsrdma/open_dir.hpp"
#include "tools/mount_nfsrdma/ops.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

namespace nfsrdma::mount {
namespace {

// For so long names are believed that are older than another's change of their directory.
constexpr double kBriefS = 1;

OpenDir& dir_of(const fuse_file_info& info) noexcept {
    return *static_cast<OpenDir*>(static_cast<void*>(bytes_at(info.fh)));
}

bool is_dots(const char* name) noexcept {
    return std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0;
}

// Opens, for who may read it. Where the kernel checks that, or the server has said so before, the
// server is asked whether the directory is still there, and still as it was (close-to-open): when
// another has its place, the kernel looks up again at ESTALE.
class OpendirJob final : public Job {
  public:
    OpendirJob(Worker& at, fuse_req_t request, fuse_ino_t ino, const fuse_file_info& info)
        : Job(at, request), node_(mount().nodes, node_at(mount(), ino)), info_(info) {}
    void start() noexcept override {
        Node& node = *node_;
        if (mount().options.default_permissions) {
            revalidate();
            return;
        }
        if (node.access != nullptr) {
            const auto rights =
                node.access->find(caller(), node.attributes.now().ctime, mount().now_ns());
            if (rights) {
                if ((*rights & ACCESS3_READ) != 0) {
                    revalidate();
                } else {
                    fail(EACCES);
                }
                return;
            }
        }
        op_.args.object = node.handle.view();
        op_.args.access = access_rights(NF3DIR);
        call<&OpendirJob::answered>(op_);
    }

  private:
    void answered() noexcept {
        if (!op_.outcome.ok()) {
            fail(op_);
            return;
        }
        Node& node = *node_;
        const ACCESS3resok& granted = op_.res.ACCESS3res_u.resok;
        mount().take(node, granted.obj_attributes, order());
        if (node.access == nullptr) node.access = std::make_unique<AccessCache>();
        node.access->note(caller(), node.attributes.now().ctime, granted.access,
                          mount().now_ns() + node.attributes.timeout_ns());
        conclude(granted.access);
    }
    void conclude(std::uint32_t rights) noexcept {
        if ((rights & ACCESS3_READ) != 0) {
            open();
        } else {
            fail(EACCES);
        }
    }
    void revalidate() noexcept {
        if (!mount().options.cto) {
            open();
            return;
        }
        getattr_.args.object = node_->handle.view();
        call<&OpendirJob::revalidated>(getattr_);
    }
    void revalidated() noexcept {
        if (!getattr_.outcome.ok()) {
            node_->attributes.expire();
            fail(getattr_);
            return;
        }
        mount().take(*node_, getattr_.attributes(), order());
        open();
    }
    void open() noexcept {
        Node& node = *node_;
        OpenDir& dir = OpenDirs::of(node).add(
            std::make_unique<OpenDir>(mount(), node, worker().client(), caller()));
        dir.home = &worker();
        mount().nodes.pin(node);
        ++node.opens;
        info_.fh = address_of(&dir);
        // The kernel's own cache of listings does not know of others' changes.
        info_.keep_cache = 0;
        reply_open(info_);
    }
    NodePin node_;
    fuse_file_info info_;
    nfs::client::AccessOp op_;
    nfs::client::GetattrOp getattr_;
};

// Keeps a directory that is closed until calls of it that are under way have ended.
class ReleasedirJob final : public Job {
  public:
    ReleasedirJob(Worker& at, fuse_req_t request, std::unique_ptr<OpenDir> dir)
        : Job(at, request), node_(dir->node()), dir_(std::move(dir)) {
        waiter_.job = this;
        waiter_.ready = [](OpenDir::Waiter& waiter, const nfs::client::Outcome&) noexcept {
            static_cast<Waiter&>(waiter).job->finish();
        };
        (void)fuse_reply_err(take_request(), 0);
    }
    ~ReleasedirJob() override {
        dir_.reset();
        mount().nodes.unpin(node_);
    }
    ReleasedirJob(const ReleasedirJob&) = delete;
    ReleasedirJob& operator=(const ReleasedirJob&) = delete;
    void start() noexcept override {
        if (&worker() != dir_->home) {
            move_to(*dir_->home);
        } else if (dir_->busy()) {
            dir_->when_idle(waiter_);
        } else {
            finish();
        }
    }

  private:
    struct Waiter final : OpenDir::Waiter {
        ReleasedirJob* job = nullptr;
    };
    Node& node_;
    std::unique_ptr<OpenDir> dir_;
    Waiter waiter_;
};

class ReaddirJob final : public Job {
  public:
    ReaddirJob(Worker& at, fuse_req_t request, OpenDir& dir, std::size_t size, off_t offset,
               bool plus)
        : Job(at, request),
          dir_(dir),
          size_(size),
          offset_(static_cast<std::uint64_t>(offset)),
          plus_(plus) {
        waiter_.job = this;
        waiter_.ready = [](OpenDir::Waiter& waiter, const nfs::client::Outcome& why) noexcept {
            static_cast<Waiter&>(waiter).job->answered(why);
        };
    }
    void start() noexcept override {
        const OpenDir::Where where = dir_.seek(offset_);
        const bool at_home = &worker() == dir_.home;
        if (where == OpenDir::Where::end) {
            reply_buffer(nullptr, 0);
        } else if (!at_home && (where == OpenDir::Where::later || dir_.wants_ahead())) {
            move_to(*dir_.home);
        } else if (where == OpenDir::Where::later) {
            waiting_ = true;
            dir_.wait(waiter_);
        } else {
            reply_entries();
        }
    }
    void give_up() noexcept override {
        if (!std::exchange(waiting_, false)) return;
        dir_.stop_waiting(waiter_);
        fail(EINTR);
    }

  private:
    struct Waiter final : OpenDir::Waiter {
        ReaddirJob* job = nullptr;
    };
    void answered(const nfs::client::Outcome& why) noexcept {
        waiting_ = false;
        if (why.ok()) {
            start();
        } else {
            fail(errno_of(why));
        }
    }

    // As many as there is room for. The kernel counts a lookup of each node that it is shown, if it
    // takes the answer.
    void reply_entries() noexcept {
        fuse_req_t req = take_request();
        if (dir_.room.size() < size_) dir_.room.resize(size_);
        const std::span<char> room(dir_.room.data(), size_);
        belief_ = dir_.belief();
        std::size_t used = 0;
        while (const DirItem* const item = dir_.item()) {
            const std::span<char> left = room.subspan(used);
            const std::size_t takes =
                plus_ ? fuse_add_direntry_plus(req, nullptr, 0, item->name, nullptr, 0)
                      : fuse_add_direntry(req, nullptr, 0, item->name, nullptr, 0);
            if (takes > left.size()) break;
            if (plus_) {
                put_plus(req, left, *item);
            } else {
                put(req, left, *item);
            }
            used += takes;
            dir_.advance();
        }
        const int sent = used != 0 ? fuse_reply_buf(req, room.data(), used)
                                   : fuse_reply_err(req, EINVAL);  // no room for even one
        if (sent != 0) forget_shown();
        if (dir_.wants_ahead()) dir_.ask_ahead();
        finish();
    }
    void put(fuse_req_t req, std::span<char> to, const DirItem& item) noexcept {
        const struct stat shown = stat_of(item);
        (void)fuse_add_direntry(req, to.data(), to.size(), item.name, &shown,
                                static_cast<off_t>(item.cookie));
    }
    void put_plus(fuse_req_t req, std::span<char> to, const DirItem& item) noexcept {
        fuse_entry_param entry{};
        entry.attr = stat_of(item);
        if (item.handle != nullptr && !is_dots(item.name)) show_node(item, entry);
        (void)fuse_add_direntry_plus(req, to.data(), to.size(), item.name, &entry,
                                     static_cast<off_t>(item.cookie));
    }
    // Without a number of ours the kernel takes an entry for its name and type alone.
    void show_node(const DirItem& item, fuse_entry_param& entry) noexcept {
        nfs::client::FileHandle handle;
        if (belief_ == OpenDir::Belief::none || !handle.assign(*item.handle)) return;
        NodeTable& nodes = mount().nodes;
        if (belief_ == OpenDir::Belief::known_names) {
            const Node* const known = nodes.child(dir_.node(), item.name);
            if (known == nullptr || !(known->handle == handle)) return;
        }
        Node* const node = mount().node_of(handle, item.attributes, dir_.order());
        if (node == nullptr) return;
        ++node->lookups;
        shown_.push_back(node);
        nodes.set_name(dir_.node(), item.name, *node);
        entry.ino = node->ino;
        entry.generation = node->generation;
        entry.attr = to_stat(node->attributes.now(), mount().limits.write);
        entry.attr_timeout = mount().attribute_seconds(*node);
        entry.entry_timeout = mount().name_seconds(dir_.node());
        if (belief_ == OpenDir::Belief::briefly)
            entry.entry_timeout = std::min(entry.entry_timeout, kBriefS);
    }
    void forget_shown() noexcept {
        for (Node* const node : shown_)
            mount().nodes.forget(*node, 1);
    }
    struct stat stat_of(const DirItem& item) noexcept {
        struct stat out {};
        if (item.attributes != nullptr) out = to_stat(*item.attributes, mount().limits.write);
        out.st_ino = item.fileid;
        return out;
    }

    OpenDir& dir_;
    const std::size_t size_;
    const std::uint64_t offset_;
    const bool plus_;
    bool waiting_ = false;
    OpenDir::Belief belief_ = OpenDir::Belief::none;
    Waiter waiter_;
    std::vector<Node*> shown_;
};

void on_opendir(fuse_req_t req, fuse_ino_t ino, fuse_file_info* info) {
    begin<OpendirJob>(req, ino, *info);
}

void on_readdir(fuse_req_t req, fuse_ino_t /*ino*/, std::size_t size, off_t offset,
                fuse_file_info* info) {
    begin<ReaddirJob>(req, dir_of(*info), size, offset, false);
}

void on_readdirplus(fuse_req_t req, fuse_ino_t /*ino*/, std::size_t size, off_t offset,
                    fuse_file_info* info) {
    begin<ReaddirJob>(req, dir_of(*info), size, offset, true);
}

void on_releasedir(fuse_req_t req, fuse_ino_t /*ino*/, fuse_file_info* info) {
    Mount& mount = worker_of(req).mount();
    OpenDir& open = dir_of(*info);
    Node& node = open.node();
    --node.opens;
    std::unique_ptr<OpenDir> dir = OpenDirs::of(node).remove(open);
    if (dir->busy()) {
        begin<ReleasedirJob>(req, std::move(dir));
        return;
    }
    dir.reset();
    (void)fuse_reply_err(req, 0);
    mount.nodes.unpin(node);
}

// Every change of a directory is at the server, and as safe as the server makes it, when its call
// has been answered (RFC 1813 s4.8).
void on_fsyncdir(fuse_req_t req, fuse_ino_t /*ino*/, int /*datasync*/, fuse_file_info* /*info*/) {
    (void)fuse_reply_err(req, 0);
}

}  // namespace

void add_directory_operations(fuse_lowlevel_ops& ops) noexcept {
    ops.opendir = on_opendir;
    ops.readdir = on_readdir;
    ops.readdirplus = on_readdirplus;
    ops.releasedir = on_releasedir;
    ops.fsyncdir = on_fsyncdir;
}

}  // namespace nfsrdma::mount
