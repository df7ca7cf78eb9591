// A server that is killed and started again every few seconds, under a load that makes, renames and
// removes: recover NFSRDMAD DIR ADDRESS SECONDS EVERY_MS [CONNECTIONS]
//
// Each call must succeed: what a server that was started again makes of a call that it had done
// already is the client library's to tell apart. Serves DIR/export as /data to others as well, for
// as long. Prints how long it took from the server's being ready to the first answer, or to the
// next kill when there was none before. Exit status 0: all was as it should be.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/loop.hpp"
#include "nfs/client/client.hpp"
#include "sunrpc/auth.hpp"
#include "sunrpc/xprt_group.hpp"
#include "tests/e2e/daemon.hpp"
#include "tests/e2e/soft_host.hpp"
#include "xprtrdma/transport.hpp"

namespace nfsrdma::recover {
namespace {

using nfs::client::Client;
using nfs::client::ClientCounters;
using nfs::client::CreateOp;
using nfs::client::FileHandle;
using nfs::client::LinkOp;
using nfs::client::LookupOp;
using nfs::client::MkdirOp;
using nfs::client::MountFlow;
using nfs::client::Op;
using nfs::client::RemoveOp;
using nfs::client::RenameOp;
using nfs::client::RmdirOp;
using nfs::client::SetattrOp;
using nfs::client::SymlinkOp;
using testing::Daemon;

constexpr std::uint32_t kWorkers = 8;
constexpr std::uint64_t kPatienceNs = 120 * kNsPerSec;  // on a machine that is slow and busy

[[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "recover: %s\n", what.c_str());
    std::_Exit(1);
}
template <class T>
T take(Result<T> result, const char* what) {
    if (!result) fail(std::string(what) + ": " + to_string(result.error()));
    return *std::move(result);
}
std::uint64_t now_ns() {
    return RealClock{}.now_ns();
}
void set_mode(sattr3& attributes, std::uint32_t mode) {
    attributes.mode.set_it = TRUE;
    attributes.mode.set_mode3_u.mode = mode;
}

class Load;

// One row of calls after the other, in a directory of its own. Each step counts on the one before.
class Worker {
  public:
    Worker(Load& load, std::uint32_t number) : load_(load), base_("w" + std::to_string(number)) {
        for (Op* op :
             {static_cast<Op*>(&mkdir_), static_cast<Op*>(&create_), static_cast<Op*>(&exclusive_),
              static_cast<Op*>(&symlink_), static_cast<Op*>(&link_), static_cast<Op*>(&rename_),
              static_cast<Op*>(&remove_), static_cast<Op*>(&rmdir_), static_cast<Op*>(&lookup_),
              static_cast<Op*>(&setattr_)}) {
            op->user = this;
            op->done = on_done;
        }
    }
    void go_on();
    bool idle = false;
    std::uint64_t rounds = 0;

  private:
    static void on_done(Op& op) noexcept { static_cast<Worker*>(op.user)->done(op); }
    void done(Op& op) noexcept;
    void start(Op& op, const char* what, nfsstat3 expected = NFS3_OK);
    void remove(std::string& name);
    diropargs3 in_dir(std::string& name) { return {mkdir_.object.view(), name.data()}; }

    Load& load_;
    const std::string base_;
    std::uint32_t step_ = 0;
    const char* what_ = "";
    nfsstat3 expected_ = NFS3_OK;
    std::string dir_, file_ = "file", exclusive_name_ = "exclusive", link_name_ = "hard link";
    std::string symlink_name_ = "symbolic link", text_ = "../somewhere/else", moved_ = "moved";
    MkdirOp mkdir_;
    CreateOp create_, exclusive_;
    SymlinkOp symlink_;
    LinkOp link_;
    RenameOp rename_;
    RemoveOp remove_;
    RmdirOp rmdir_;
    LookupOp lookup_;
    SetattrOp setattr_;
};

// The connections, and what is done over them, on the loop of the main thread.
class Load {
  public:
    Load(const SockAddr& server, std::uint32_t connections) {
        auto host = take(testing::SoftHost::beside(server), "loop and device");
        loop_ = std::move(host.loop);
        device_ = std::move(host.device);
        xprtrdma::TransportOptions options;
        options.demand.credits = 16;
        options.demand.max_payload = 64 << 10;
        options.demand.max_message = 16 << 10;
        options.connect_timeout_ns = kPatienceNs;
        options.recovery.on = true;
        std::vector<sunrpc::Xprt*> xprts;
        for (std::uint32_t i = 0; i < connections; ++i) {
            auto transport = xprtrdma::Transport::create(
                *device_, server, options,
                [](void* arg, Result<void> outcome) noexcept {
                    if (!outcome) fail("cannot connect: " + to_string(outcome.error()));
                    ++static_cast<Load*>(arg)->connected_;
                },
                this);
            xprts.push_back(
                transports_.emplace_back(take(std::move(transport), "transport")).get());
        }
        wait([&] { return connected_ == connections; }, "connect");
        group_ = std::make_unique<sunrpc::XprtGroup>(xprts);
        bool truncated = false;
        const sunrpc::AuthSys sys = sunrpc::AuthSys::of_process(truncated);
        client = std::make_unique<Client>(*group_, &sys);
        client->timeout_ns = client->jukebox_ns = 3600 * kNsPerSec;
        mount();
        for (std::uint32_t i = 0; i < kWorkers; ++i)
            workers_.push_back(std::make_unique<Worker>(*this, i));
    }
    ~Load() {
        workers_.clear();
        client.reset();
        group_.reset();
        for (const auto& transport : transports_)
            transport->close();
        wait(
            [this] {
                return std::all_of(transports_.begin(), transports_.end(),
                                   [](const auto& t) { return t->idle(); });
            },
            "disconnect");
        transports_.clear();
        device_.reset();
    }
    Load(const Load&) = delete;
    Load& operator=(const Load&) = delete;

    void run(const std::atomic<bool>& stop) {
        for (const auto& worker : workers_)
            worker->go_on();
        std::uint64_t last = 0, since = now_ns();
        while (!stop.load()) {
            (void)loop_->run_once(100 * kNsPerMs);
            // A load that stands still is a load that has lost a call.
            if (answers_ != last) {
                last = answers_;
                since = now_ns();
            } else if (now_ns() - since > kPatienceNs) {
                fail("no answer for two minutes");
            }
        }
        stopping = true;
        wait(
            [this] {
                return std::all_of(workers_.begin(), workers_.end(),
                                   [](const auto& worker) { return worker->idle; });
            },
            "finish the last rounds");
    }
    void answered() {
        ++answers_;
        const std::uint64_t ready = ready_at.exchange(0);
        if (ready != 0) recover_ms_.push_back(static_cast<double>(now_ns() - ready) / 1e6);
    }
    // By the thread that kills, just before it does: who was not answered until now counts as well.
    void before_kill() {
        const std::uint64_t ready = ready_at.exchange(0);
        if (ready != 0) unanswered_ms_.push_back(static_cast<double>(now_ns() - ready) / 1e6);
        ++kills_;
    }
    // When no more is killed.
    void report() {
        const std::size_t unanswered = unanswered_ms_.size();
        recover_ms_.insert(recover_ms_.end(), unanswered_ms_.begin(), unanswered_ms_.end());
        std::sort(recover_ms_.begin(), recover_ms_.end());
        const auto at = [&](double part) {
            if (recover_ms_.empty()) return 0.0;
            return recover_ms_[static_cast<std::size_t>(
                part * static_cast<double>(recover_ms_.size() - 1))];
        };
        std::uint64_t rounds = 0;
        for (const auto& worker : workers_)
            rounds += worker->rounds;
        const ClientCounters& counters = client->counters();
        std::printf(
            "recover: restarts=%zu unanswered=%zu answers=%llu rounds=%llu resent=%llu "
            "resolved=%llu "
            "unresolved=%llu recover_ms_median=%.1f recover_ms_p90=%.1f recover_ms_max=%.1f\n",
            recover_ms_.size(), unanswered, static_cast<unsigned long long>(answers_),
            static_cast<unsigned long long>(rounds),
            static_cast<unsigned long long>(client->rpc_counters().resends),
            static_cast<unsigned long long>(counters.resolved),
            static_cast<unsigned long long>(counters.unresolved), at(0.5), at(0.9), at(1));
        if (recover_ms_.empty()) fail("the server was never restarted");
        if (recover_ms_.size() != kills_) {
            fail(std::to_string(kills_) + " kills, but " + std::to_string(recover_ms_.size()) +
                 " recoveries");
        }
        if (client->rpc_counters().resends == 0) fail("no call was ever sent again");
    }
    std::unique_ptr<Client> client;
    FileHandle root;
    bool stopping = false;
    std::atomic<std::uint64_t> ready_at{
        0};  // the server serves again since, and nobody was answered

  private:
    template <class Done>
    void wait(Done done, const char* what) {
        const auto ask = [](void* arg) { return (*static_cast<Done*>(arg))(); };
        if (!loop_->run_until(ask, &done, kPatienceNs)) fail(std::string("no end of: ") + what);
    }
    void mount() {
        MountFlow flow(*client);
        bool finished = false;
        flow.start(
            "/data", [](MountFlow& f) noexcept { *static_cast<bool*>(f.user) = true; }, &finished);
        wait([&] { return finished; }, "mount");
        if (!flow.outcome.ok()) fail("cannot mount: " + to_string(flow.outcome));
        root = flow.root;
    }
    std::unique_ptr<Loop> loop_;
    std::unique_ptr<verbs::Device> device_;
    std::vector<std::unique_ptr<xprtrdma::Transport>> transports_;
    std::unique_ptr<sunrpc::XprtGroup> group_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::uint32_t connected_ = 0;
    std::uint64_t answers_ = 0;
    std::vector<double> recover_ms_;
    // Of the thread that kills, until it does no more.
    std::vector<double> unanswered_ms_;
    std::size_t kills_ = 0;
};

void Worker::start(Op& op, const char* what, nfsstat3 expected) {
    what_ = what;
    expected_ = expected;
    load_.client->start(op);
}

void Worker::done(Op& op) noexcept {
    load_.answered();
    const bool as_expected = op.outcome.rpc && op.outcome.status == expected_;
    if (!as_expected)
        fail(base_ + ", round " + std::to_string(rounds) + ": " + what_ + ": " +
             to_string(op.outcome));
    ++step_;
    go_on();
}

void Worker::remove(std::string& name) {
    remove_.args.object = in_dir(name);
    start(remove_, "REMOVE");
}

void Worker::go_on() {
    switch (step_) {
        case 0:
            if (load_.stopping) {
                idle = true;
                return;
            }
            dir_ = base_ + "-" + std::to_string(rounds);
            mkdir_.args.where = {load_.root.view(), dir_.data()};
            set_mode(mkdir_.args.attributes, 0750);
            return start(mkdir_, "MKDIR");
        case 1:
            create_.args.where = in_dir(file_);
            create_.args.how.mode = GUARDED;
            set_mode(create_.args.how.createhow3_u.obj_attributes, 0640);
            return start(create_, "CREATE, guarded");
        case 2:
            exclusive_.args.where = in_dir(exclusive_name_);
            exclusive_.args.how.mode = EXCLUSIVE;
            std::memcpy(exclusive_.args.how.createhow3_u.verf, &rounds, NFS3_CREATEVERFSIZE);
            return start(exclusive_, "CREATE, exclusive");
        case 3:
            setattr_.args.object = exclusive_.object.view();
            set_mode(setattr_.args.new_attributes, 0600);
            return start(setattr_, "SETATTR");
        case 4:
            symlink_.args.where = in_dir(symlink_name_);
            symlink_.args.symlink.symlink_data = text_.data();
            return start(symlink_, "SYMLINK");
        case 5:
            link_.args.file = create_.object.view();
            link_.args.link = in_dir(link_name_);
            return start(link_, "LINK");
        case 6:
            rename_.object = create_.object;
            rename_.args.from = in_dir(file_);
            rename_.args.to = in_dir(moved_);
            return start(rename_, "RENAME");
        case 7:
            lookup_.args.what = in_dir(file_);
            return start(lookup_, "LOOKUP of what was renamed", NFS3ERR_NOENT);
        case 8:
            return remove(moved_);
        case 9:
            return remove(link_name_);
        case 10:
            return remove(symlink_name_);
        case 11:
            return remove(exclusive_name_);
        default:
            // Succeeds only when nothing is left behind.
            rmdir_.args.object = {load_.root.view(), dir_.data()};
            step_ = UINT32_MAX;
            ++rounds;
            return start(rmdir_, "RMDIR");
    }
}

struct Arguments {
    std::string nfsrdmad, dir, address;
    std::uint64_t seconds = 0, every_ms = 0;
    std::uint32_t connections = 1;
};

testing::DaemonOptions daemon_options(const Arguments& arguments) {
    testing::DaemonOptions options;
    options.words = {arguments.nfsrdmad,
                     "--listen",
                     arguments.address,
                     "--log-level",
                     "warn",
                     "--export",
                     arguments.dir + "/export=/data:rw,no_root_squash,fsid=1234",
                     "--handle-key",
                     arguments.dir + "/key",
                     "--state-dir",
                     arguments.dir + "/state"};
    return options;
}

int run(const Arguments& arguments) {
    auto address = SockAddr::parse(arguments.address, 20049);
    if (!address) fail("bad address " + arguments.address);
    auto daemon = std::make_unique<Daemon>(daemon_options(arguments));
    std::printf("recover: ready\n");
    (void)std::fflush(stdout);
    std::atomic<bool> stop{false};
    Load load(*address, arguments.connections);
    std::thread killer([&] {
        const std::uint64_t end = now_ns() + arguments.seconds * kNsPerSec;
        while (now_ns() < end) {
            std::this_thread::sleep_for(std::chrono::milliseconds(arguments.every_ms));
            load.before_kill();
            daemon->end(SIGKILL);
            daemon = std::make_unique<Daemon>(daemon_options(arguments));
            load.ready_at.store(now_ns());
        }
        // The last restart is survived as well.
        for (int i = 0; i < 1200 && load.ready_at.load() != 0; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        stop.store(true);
        // Others, and the last rounds, still need the server: it ends with this thread.
        while (stop.load())
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
    });
    load.run(stop);
    load.report();
    (void)std::fflush(stdout);
    // Until standard input ends somebody else still uses the server.
    for (char c = 0; ::read(STDIN_FILENO, &c, 1) == 1;) {
    }
    stop.store(false);
    killer.join();
    return 0;
}

}  // namespace
}  // namespace nfsrdma::recover

int main(int argc, char** argv) {
    if (argc < 6) return 2;
    nfsrdma::recover::Arguments arguments;
    arguments.nfsrdmad = argv[1];
    arguments.dir = argv[2];
    arguments.address = argv[3];
    arguments.seconds = std::strtoull(argv[4], nullptr, 10);
    arguments.every_ms = std::strtoull(argv[5], nullptr, 10);
    if (argc > 6)
        arguments.connections = static_cast<std::uint32_t>(std::strtoul(argv[6], nullptr, 10));
    return nfsrdma::recover::run(arguments);
}
