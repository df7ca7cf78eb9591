#include "tools/mount_nfsrdma/world.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <future>
#include <linux/fuse.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "tools/mount_nfsrdma/address.hpp"
#include "tools/mount_nfsrdma/file_data.hpp"
#include "tools/mount_nfsrdma/ops.hpp"
#include "tools/nfsrdma/patience.hpp"

extern char** environ;

namespace nfsrdma::mount {
namespace {

constexpr std::uint64_t kGoodbyeNs = 3 * kNsPerSec;
constexpr std::uint64_t kCourtesyNs = kNsPerSec;       // for calls of the end of a mount
constexpr std::uint64_t kWriteBackNs = 5 * kNsPerSec;  // for what was written and not closed
constexpr std::uint64_t kTurnNs = 2 * kNsPerMs;        // of one loop, while others run as well
constexpr double kMountMaxS = 10;
constexpr std::uint32_t kPage = 4096;
constexpr std::chrono::seconds kStatsPatience{2};

std::string system_trouble(const char* what) {
    return std::string(what) + ": " + ::strerrordesc_np(errno);
}

// Of libfuse: fsname, subtype and what the kernel is told.
std::string fuse_options(const MountOptions& options) {
    // A comma ends an option of libfuse, and a backslash takes that meaning from it.
    std::string name;
    for (const char c : options.source()) {
        if (c == ',' || c == '\\') name += '\\';
        name += c;
    }
    std::string text = "fsname=" + name + ",subtype=nfsrdma";
    if (options.allow_other) text += ",allow_other";
    if (options.default_permissions) text += ",default_permissions";
    if (options.read_only) text += ",ro";
    for (const std::string& option : options.kernel)
        text += "," + option;
    return text;
}

// The counters of one loop are its thread's own.
struct Snapshot final : Task {
    explicit Snapshot(Worker& of) noexcept : Task(on_run), worker(of) {}
    static void on_run(Task& task) noexcept {
        Snapshot& self = static_cast<Snapshot&>(task);
        self.rdma = self.worker.connections().counters();
        self.io = self.worker.connections().io_counters();
        self.rpc = self.worker.client().rpc_counters();
        self.nfs = self.worker.client().counters();
        self.channel = self.worker.channel().counters();
        self.jobs = self.worker.jobs();
        self.connected = self.worker.connections().connected();
        self.taken.set_value();
    }
    Worker& worker;
    xprtrdma::TransportCounters rdma;
    pools::IoCounters io;
    sunrpc::ClntCounters rpc;
    nfs::client::ClientCounters nfs;
    Channel::Counters channel;
    std::uint32_t jobs = 0, connected = 0;
    std::promise<void> taken;
};

}  // namespace

std::unique_ptr<World> World::open(const MountOptions& options, std::string& why, int& status,
                                   bool& again) {
    status = kExitFailed;
    again = false;
    std::unique_ptr<World> world(new World);
    world->options_ = options;
    Result<SockAddr> server = resolve_server(options);
    if (!server) {
        why = "unknown host '" + options.server + "': " + to_string(server.error());
        // A name that is known to be none will be none tomorrow; bg waits for the network as well.
        const Errc code = server.error().code;
        again = options.background || code == Errc::again || code == Errc::system;
        return nullptr;
    }
    for (std::uint32_t i = 0; i < options.loops; ++i) {
        auto worker = Worker::open(options, *server, why, again);
        // Not as many connections as asked for: those that are made serve.
        if (worker == nullptr && i != 0) break;
        if (worker == nullptr) return nullptr;
        world->workers_.push_back(std::move(worker));
    }
    why.clear();
    if (!world->ask(*server, why, again)) return nullptr;
    status = kExitOk;
    return world;
}

bool World::ask(const SockAddr& server, std::string& why, bool& again) {
    Worker& worker = *workers_.front();
    mounts_ = std::make_unique<tool::MountCalls>(
        [&worker](nfs::client::Op& op) { return worker.wait_for(op, tool::to_ns(kMountMaxS)); });
    tool::MountOptions how;
    how.proto = tool::mount_proto_of(options_.device.mount_proto);
    how.port = options_.device.mount_port;
    how.timeout_ns = tool::to_ns(kMountMaxS);
    bool truncated = false;
    mounts_->use(how, server, sunrpc::AuthSys::of_process(truncated));
    nfs::client::Outcome outcome = mounts_->mnt(options_.export_path, root_);
    if (!outcome.ok()) {
        const std::string trouble = mounts_->trouble();
        why = "cannot mount '" + options_.export_path +
              "': " + (outcome.rpc || trouble.empty() ? to_string(outcome) : trouble);
        if (outcome.rpc && outcome.status == NFS3ERR_ACCES)
            why += "; nfsrdma showmount tells to whom it is exported";
        again = !outcome.rpc;
        return false;
    }
    nfs::client::FsinfoOp fsinfo;
    fsinfo.args.fsroot = root_.view();
    outcome = worker.wait_for(fsinfo, tool::to_ns(kMountMaxS));
    const FSINFO3resok& info = fsinfo.res.FSINFO3res_u.resok;
    for (std::uint32_t i = 0; outcome.ok() && i < workers_.size(); ++i) {
        outcome.rpc = workers_[i]->client().set_sizes(info);
        workers_[i]->client().limit_sizes(options_.rsize, options_.wsize);
    }
    nfs::client::GetattrOp getattr;
    getattr.args.object = root_.view();
    if (outcome.ok()) outcome = worker.wait_for(getattr, tool::to_ns(kMountMaxS));
    if (!outcome.ok()) {
        why = "the server does not tell of '" + options_.export_path + "': " + to_string(outcome);
        again = !outcome.rpc;
        return false;
    }
    limits_.read = worker.client().sizes().read;
    limits_.write = worker.client().sizes().write;
    limits_.payload = worker.client().xprt().limits().max_payload;
    if (info.maxfilesize != 0)
        limits_.file_max = std::min<std::uint64_t>(info.maxfilesize, INT64_MAX);
    nfs::client::PathconfOp pathconf;
    pathconf.args.object = root_.view();
    if (worker.wait_for(pathconf, tool::to_ns(kMountMaxS)).ok()) {
        const std::uint32_t most = pathconf.res.PATHCONF3res_u.resok.name_max;
        if (most != 0) limits_.name_max = std::min<std::uint32_t>(most, NAME_MAX);
    }
    mount_ = std::make_unique<Mount>(options_, root_);
    mount_->limits = limits_;
    began_ns_ = mount_->now_ns();
    (void)mount_->take(mount_->nodes.root(), getattr.attributes(), mount_->next_order());
    for (std::uint32_t i = 0; i < workers_.size(); ++i)
        workers_[i]->join(*mount_, i);
    return true;
}

World::~World() {
    if (!close()) {
        (void)std::fflush(nullptr);
        ::_exit(status_);  // what does not end is the server's
    }
}

bool World::mount_here(std::string& why) {
    std::string options = fuse_options(options_);
    std::string program = "mount.nfsrdma", dash_o = "-o";
    std::array<char*, 3> argv{program.data(), dash_o.data(), options.data()};
    fuse_args args = FUSE_ARGS_INIT(static_cast<int>(argv.size()), argv.data());
    session_ = fuse_session_new(&args, &operations(), sizeof(fuse_lowlevel_ops), mount_.get());
    fuse_opt_free_args(&args);
    if (session_ == nullptr) {
        why = "libfuse does not take the options " + options;
        return false;
    }
    if (fuse_session_mount(session_, options_.directory.c_str()) != 0) {
        why = "cannot mount at " + options_.directory + " (the line above says why)";
        return false;
    }
    const int fd = fuse_session_fd(session_);
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        why = system_trouble("/dev/fuse");
        return false;
    }
    std::vector<int> fds{fd};
    for (std::size_t i = 1; i < workers_.size(); ++i) {
        const int cloned = clone(fd);
        if (cloned < 0) {
            why = system_trouble("cannot open /dev/fuse once more for another loop");
            return false;
        }
        fds.push_back(cloned);
    }
    if (fds.size() > 1 && mount_->routes.take_over(session_, fd) != 0) {
        why = "libfuse does not let answers go by several descriptors";
        return false;
    }
    mount_->notifier.start(session_);
    for (std::size_t i = 0; i < workers_.size(); ++i)
        workers_[i]->serve(fds[i], session_);
    status_ = kExitOk;
    return true;
}

// FUSE_INIT is read from the first one, and the others get nothing before that is answered.
int World::clone(int fd) {
    UniqueFd cloned(::open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK));
    std::uint32_t of = static_cast<std::uint32_t>(fd);
    if (!cloned || ::ioctl(cloned.get(), FUSE_DEV_IOC_CLONE, &of) != 0) return -1;
    return clones_.emplace_back(std::move(cloned)).get();
}

int World::run() {
    for (std::size_t i = 1; i < workers_.size(); ++i)
        threads_.emplace_back([this, i] { workers_[i]->run(); });
    workers_.front()->run();
    for (std::thread& thread : threads_)
        thread.join();
    threads_.clear();
    return kExitOk;
}

Stats World::stats() {
    Stats stats;
    stats.directory = options_.directory;
    stats.source = options_.source();
    stats.age_s = (mount_->now_ns() - began_ns_) / kNsPerSec;
    stats.wtmult = kPage;
    stats.dtsize = workers_.front()->client().sizes().directory;
    stats.namlen = limits_.name_max;
    stats.port = options_.port;
    std::uint64_t requests = 0, waited = 0, copied = 0, jobs = 0;
    for (const auto& worker : workers_) {
        auto taken = std::make_unique<Snapshot>(*worker);
        Snapshot& one = *taken;
        worker->loop().post(one);
        // A loop that has ended takes none any more, and who asks is waited for by the end itself.
        if (one.taken.get_future().wait_for(kStatsPatience) != std::future_status::ready) {
            (void)taken.release();  // the loop's: it may still run, and then writes into it
            stats.add(worker->stats());
            continue;
        }
        stats.add(worker->stats());
        stats.rdma = tool::sum_of(stats.rdma, one.rdma);
        stats.io = tool::sum_of(stats.io, one.io);
        stats.rpc = tool::sum_of(stats.rpc, one.rpc);
        stats.nfs = tool::sum_of(stats.nfs, one.nfs);
        stats.connections += one.connected;
        requests += one.channel.requests;
        waited += one.channel.waited_for_payload;
        copied += one.channel.copied_bytes;
        jobs += one.jobs;
    }
    std::uint64_t nodes = 0, told = 0;
    {
        const std::lock_guard guard(mount_->lock);
        nodes = mount_->nodes.size();
        told = mount_->notifier.told();
    }
    const auto count = [&](const char* name, std::uint64_t value) {
        stats.more.push_back({name, static_cast<double>(value), true});
    };
    count("fuse_requests", requests);
    count("fuse_requests_under_way", jobs);
    count("fuse_bytes_copied", copied);
    count("fuse_waited_for_payload", waited);
    count("fuse_notifications", told);
    count("nodes", nodes);
    return stats;
}

// From a thread that is none of ours: the kernel waits for us while it unmounts.
void World::unmount() {
    if (::geteuid() == 0) {
        (void)::umount2(options_.directory.c_str(), MNT_DETACH);
        return;
    }
    std::string program = "fusermount3", u = "-u", z = "-z", dashes = "--";
    std::array<char*, 6> argv{
        program.data(), u.data(), z.data(), dashes.data(), options_.directory.data(), nullptr};
    pid_t child = 0;
    if (::posix_spawnp(&child, "fusermount3", nullptr, nullptr, argv.data(), environ) == 0)
        (void)::waitpid(child, nullptr, 0);
}

// What was renamed because it was open, and will not be closed any more.
void World::remove_leftovers() {
    struct Leftover {
        nfs::client::FileHandle directory;
        std::string name;
        Caller who;
    };
    // Values: while one is waited for, a removal that was under way may end the node of another.
    std::vector<Leftover> leftovers;
    {
        const std::lock_guard guard(mount_->lock);
        for (const Node* const node : mount_->nodes.silly_ones())
            leftovers.push_back({node->silly_parent->handle, node->silly_name, node->silly_caller});
    }
    Worker& worker = *workers_.front();
    const std::uint64_t deadline = mount_->now_ns() + kCourtesyNs;
    for (Leftover& leftover : leftovers) {
        const std::uint64_t now = mount_->now_ns();
        if (!worker.client().xprt().connected() || now >= deadline) return;
        nfs::client::RemoveOp remove;
        remove.sys = leftover.who.get();
        remove.args.object.dir = leftover.directory.view();
        remove.args.object.name = leftover.name.data();
        if (!worker.wait_for(remove, deadline - now).rpc) return;
    }
}

bool World::run_until(std::function<bool()> done, std::uint64_t deadline_ns) {
    const RealClock clock;
    const auto is_done = [](void* arg) { return (*static_cast<std::function<bool()>*>(arg))(); };
    while (!done()) {
        if (clock.now_ns() >= deadline_ns) return false;
        for (const auto& worker : workers_)
            (void)worker->loop().run_until(is_done, &done, kTurnNs);
    }
    return true;
}

// What was written through mmap(2) and closed, or whose close(2) was given up, and is not durable:
// nobody waits for it any more, but whoever wrote it believes it safe.
void World::write_back() {
    struct Waiter final : nfs::client::WriteBehind::Waiter {
        FileData* data = nullptr;
        bool waits = true;
    };
    std::vector<std::unique_ptr<Waiter>> waiters;
    {
        const std::lock_guard guard(mount_->lock);
        for (Node* const node : mount_->nodes.with_data()) {
            if (node->file->durable()) continue;
            Waiter& waiter = *waiters.emplace_back(std::make_unique<Waiter>());
            waiter.data = &FileData::of(*mount_, *node, *node->home);
            waiter.done = [](nfs::client::WriteBehind::Waiter& done) noexcept {
                static_cast<Waiter&>(done).waits = false;
            };
            waiter.waits = !waiter.data->writes().sync(waiter);
        }
    }
    // While it waits, its file stays, and the node.
    const auto all_done = [&] {
        const std::lock_guard guard(mount_->lock);
        return std::none_of(waiters.begin(), waiters.end(), [](const auto& waiter) {
            return waiter->waits && waiter->data->home().client().xprt().connected();
        });
    };
    (void)run_until(all_done, mount_->now_ns() + kWriteBackNs);
    const std::lock_guard guard(mount_->lock);
    std::size_t lost = 0;
    for (const auto& waiter : waiters) {
        if (!waiter->waits) continue;
        ++lost;
        waiter->data->writes().stop_waiting(*waiter);
    }
    if (lost != 0) log::warn("{} files are not written: the server does not answer", lost);
}

bool World::close() {
    if (mount_ != nullptr) {
        mount_->end();
        for (const auto& worker : workers_)
            worker->channel().stop();
        mount_->notifier.stop();
        write_back();
        remove_leftovers();
    }
    if (mounts_ != nullptr && workers_.front()->client().xprt().connected()) {
        mounts_->set_timeout(kCourtesyNs);
        (void)mounts_->umnt(options_.export_path);
    }
    for (const auto& worker : workers_)
        worker->hang_up();
    const auto all_home = [this] {
        return std::all_of(workers_.begin(), workers_.end(),
                           [](const auto& worker) { return worker->idle(); });
    };
    if (!run_until(all_home, RealClock().now_ns() + kGoodbyeNs)) return false;
    if (session_ != nullptr) {
        fuse_session_unmount(session_);
        fuse_session_destroy(session_);
    }
    mount_.reset();
    workers_.clear();
    return true;
}

}  // namespace nfsrdma::mount
