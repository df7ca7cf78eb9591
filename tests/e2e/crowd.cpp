// Many connections of several processes to one server, each doing mixed work:
// crowd SERVER:PORT EXPORT SERVER-PID PROCESSES CONNECTIONS SECONDS
//
// Prints one line of JSON: what an idle connection costs the server in resident memory, and how the
// work was shared out among the connections. Exit status 0: every call succeeded with the right
// data.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/bytes.hpp"
#include "base/loop.hpp"
#include "nfs/client/client.hpp"
#include "sunrpc/auth.hpp"
#include "tests/e2e/soft_host.hpp"
#include "xprtrdma/transport.hpp"

namespace nfsrdma::crowd {
namespace {

using nfs::client::Client;
using nfs::client::CreateOp;
using nfs::client::GetattrOp;
using nfs::client::LookupOp;
using nfs::client::MountFlow;
using nfs::client::Op;
using nfs::client::Outcome;
using nfs::client::ReadOp;
using nfs::client::RemoveOp;
using nfs::client::WriteOp;

constexpr std::uint32_t kDepth = 2;  // files at a time on each connection
constexpr std::uint32_t kBytes = 32 << 10;
constexpr std::uint64_t kConnectNs = 60 * kNsPerSec;

struct Plan {
    SockAddr server;
    std::string export_path;
    int server_pid = 0;
    std::uint32_t processes = 0, connections = 0;
    std::uint64_t seconds = 0;
};

struct Connection;

// One file after the other: create, write, look up, read, compare, remove.
struct Chain {
    Connection* connection = nullptr;
    std::uint32_t number = 0, round = 0;
    std::string name;
    CreateOp create;
    WriteOp write;
    LookupOp lookup;
    GetattrOp getattr;
    ReadOp read;
    RemoveOp remove;
    sunrpc::Payload out, in;
    bool busy = false;
};

struct Connection {
    std::uint32_t number = 0;
    std::unique_ptr<xprtrdma::Transport> transport;
    std::unique_ptr<Client> client;
    std::unique_ptr<MountFlow> mount;
    std::array<Chain, kDepth> chains;
    std::uint64_t done = 0, failed = 0;
    bool connected = false, mounted = false, work = false;
};

void fail(Connection& connection, const char* what, const Outcome& outcome) {
    ++connection.failed;
    std::fprintf(stderr, "crowd: connection %u: %s: %s\n", connection.number, what,
                 to_string(outcome).c_str());
}

std::byte pattern(const Chain& chain, std::size_t at) {
    return static_cast<std::byte>(at * 31 + chain.number * 7 + chain.round + (at >> 9));
}

Chain& chain_of(Op& op) {
    return *static_cast<Chain*>(op.user);
}

// True when `op` succeeded; counts it.
bool good(Op& op, const char* what) {
    Chain& chain = chain_of(op);
    if (op.outcome.ok()) {
        ++chain.connection->done;
        return true;
    }
    fail(*chain.connection, what, op.outcome);
    chain.busy = false;
    return false;
}

void start(Chain& chain, Op& op, Op::Done done) {
    op.user = &chain;
    op.done = done;
    chain.connection->client->start(op);
}

void begin(Chain& chain) noexcept;

void on_remove(Op& op) noexcept {
    if (good(op, "REMOVE")) begin(chain_of(op));
}
void on_read(Op& op) noexcept {
    if (!good(op, "READ")) return;
    Chain& chain = chain_of(op);
    const auto data = chain.read.data();
    bool same = data.size() == kBytes;
    for (std::size_t i = 0; same && i < kBytes; ++i)
        same = data[i] == pattern(chain, i);
    if (!same) {
        ++chain.connection->failed;
        std::fprintf(stderr, "crowd: connection %u: other data was read than written\n",
                     chain.connection->number);
    }
    chain.remove.args.object = {chain.connection->mount->root.view(), chain.name.data()};
    start(chain, chain.remove, on_remove);
}
void on_getattr(Op& op) noexcept {
    if (!good(op, "GETATTR")) return;
    Chain& chain = chain_of(op);
    chain.read.args.file = chain.create.object.view();
    chain.read.args.offset = 0;
    chain.read.args.count = kBytes;
    chain.read.room = chain.in.memory().first(kBytes);
    start(chain, chain.read, on_read);
}
void on_lookup(Op& op) noexcept {
    if (!good(op, "LOOKUP")) return;
    Chain& chain = chain_of(op);
    chain.getattr.args.object = chain.lookup.object.view();
    start(chain, chain.getattr, on_getattr);
}
void on_write(Op& op) noexcept {
    if (!good(op, "WRITE")) return;
    Chain& chain = chain_of(op);
    chain.lookup.args.what = {chain.connection->mount->root.view(), chain.name.data()};
    start(chain, chain.lookup, on_lookup);
}
void on_create(Op& op) noexcept {
    if (!good(op, "CREATE")) return;
    Chain& chain = chain_of(op);
    const auto memory = chain.out.memory().first(kBytes);
    for (std::size_t i = 0; i < kBytes; ++i)
        memory[i] = pattern(chain, i);
    chain.write.args.file = chain.create.object.view();
    chain.write.args.offset = 0;
    chain.write.args.stable = UNSTABLE;
    chain.write.set_data(memory);
    start(chain, chain.write, on_write);
}

void begin(Chain& chain) noexcept {
    if (!chain.connection->work) {
        chain.busy = false;
        return;
    }
    ++chain.round;
    chain.busy = true;
    chain.name = "crowd-" + std::to_string(chain.connection->number) + "-" +
                 std::to_string(chain.number) + "-" + std::to_string(chain.round);
    chain.create.args = {};
    chain.create.args.where = {chain.connection->mount->root.view(), chain.name.data()};
    start(chain, chain.create, on_create);
}

class Process {
  public:
    Process(const Plan& plan, std::uint32_t index) : plan_(plan) {
        connections_.resize(plan.connections / plan.processes);
        for (std::uint32_t i = 0; i < connections_.size(); ++i) {
            connections_[i] = std::make_unique<Connection>();
            connections_[i]->number = index * narrow<std::uint32_t>(connections_.size()) + i;
        }
    }
    ~Process() {
        for (auto& connection : connections_) {
            for (Chain& chain : connection->chains) {
                chain.out.reset();
                chain.in.reset();
            }
            if (connection->transport != nullptr) connection->transport->close();
        }
        wait([](const Connection& c) { return c.transport == nullptr || c.transport->idle(); },
             10 * kNsPerSec);
        connections_.clear();
        device_.reset();
    }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    bool connect() {
        auto host = testing::SoftHost::beside(plan_.server);
        if (!host) return false;
        loop_ = std::move(host->loop);
        device_ = std::move(host->device);
        for (auto& connection : connections_) {
            if (!open(*connection)) return false;
        }
        if (!wait([](const Connection& c) { return c.connected || c.failed > 0; }, kConnectNs))
            return false;
        for (auto& connection : connections_) {
            if (connection->failed > 0) return false;
            mount(*connection);
        }
        return wait([](const Connection& c) { return c.mounted; }, kConnectNs);
    }
    void work() {
        for (auto& connection : connections_) {
            connection->work = true;
            for (std::uint32_t i = 0; i < kDepth; ++i) {
                Chain& chain = connection->chains[i];
                chain.connection = connection.get();
                chain.number = i;
                chain.in = *connection->transport->get_payload(kBytes);
                chain.out = *connection->transport->get_payload(kBytes);
                begin(chain);
            }
        }
        loop_->run_until([](void*) { return false; }, nullptr, plan_.seconds * kNsPerSec);
        for (auto& connection : connections_)
            connection->work = false;
        wait(
            [](const Connection& c) {
                return std::none_of(c.chains.begin(), c.chains.end(),
                                    [](const Chain& chain) { return chain.busy; });
            },
            60 * kNsPerSec);
    }
    // Calls done and failed, of each connection.
    std::vector<std::uint64_t> results() const {
        std::vector<std::uint64_t> out;
        for (const auto& connection : connections_) {
            out.push_back(connection->done);
            out.push_back(connection->failed);
        }
        return out;
    }

  private:
    template <class Pred>
    bool wait(Pred pred, std::uint64_t limit_ns) {
        struct Waiting {
            Process& self;
            Pred pred;
        } waiting{*this, pred};
        if (loop_ == nullptr) return false;
        return loop_->run_until(
            [](void* arg) {
                auto& w = *static_cast<Waiting*>(arg);
                return std::all_of(w.self.connections_.begin(), w.self.connections_.end(),
                                   [&](const auto& c) { return w.pred(*c); });
            },
            &waiting, limit_ns);
    }
    bool open(Connection& connection) {
        xprtrdma::TransportOptions options;
        options.demand.credits = 8;
        options.demand.max_payload = 64 << 10;
        options.demand.max_message = 16 << 10;
        options.connect_timeout_ns = kConnectNs;
        auto made = xprtrdma::Transport::create(
            *device_, plan_.server, options,
            [](void* arg, Result<void> outcome) noexcept {
                auto& c = *static_cast<Connection*>(arg);
                c.connected = static_cast<bool>(outcome);
                if (!outcome) fail(c, "connect", Outcome::failed(outcome.error()));
            },
            &connection);
        if (!made) return false;
        connection.transport = *std::move(made);
        return true;
    }
    void mount(Connection& connection) {
        bool truncated = false;
        static const sunrpc::AuthSys sys = sunrpc::AuthSys::of_process(truncated);
        connection.client = std::make_unique<Client>(*connection.transport, &sys);
        connection.mount = std::make_unique<MountFlow>(*connection.client);
        connection.mount->start(
            plan_.export_path.c_str(),
            [](MountFlow& flow) noexcept {
                auto& c = *static_cast<Connection*>(flow.user);
                c.mounted = flow.outcome.ok();
                if (!c.mounted) fail(c, "MNT", flow.outcome);
            },
            &connection);
    }

    const Plan& plan_;
    std::unique_ptr<Loop> loop_;
    std::unique_ptr<verbs::Device> device_;
    std::vector<std::unique_ptr<Connection>> connections_;
};

std::int64_t resident_bytes(int pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmRSS:", 0) == 0) return std::atoll(line.c_str() + 6) * 1024;
    }
    return 0;
}

struct Child {
    pid_t pid = 0;
    int from = -1, to = -1;  // pipes
};

bool say(int fd, char word) {
    return ::write(fd, &word, 1) == 1;
}
bool hear(int fd) {
    char word = 0;
    return ::read(fd, &word, 1) == 1 && word == '+';
}

// Connected; told to work; done; told to go.
int run_child(const Plan& plan, std::uint32_t index, int from_parent, int to_parent) {
    Process process(plan, index);
    if (!process.connect()) {
        static_cast<void>(say(to_parent, '-'));
        return 1;
    }
    if (!say(to_parent, '+') || !hear(from_parent)) return 1;
    process.work();
    const auto results = process.results();
    const std::size_t bytes = results.size() * sizeof results[0];
    if (::write(to_parent, results.data(), bytes) != static_cast<ssize_t>(bytes)) return 1;
    return hear(from_parent) ? 0 : 1;
}

Child start_child(const Plan& plan, std::uint32_t index) {
    int up[2], down[2];
    if (::pipe(up) != 0 || ::pipe(down) != 0) std::exit(1);
    Child child;
    child.pid = ::fork();
    if (child.pid == 0) std::exit(run_child(plan, index, down[0], up[1]));
    ::close(up[1]);
    ::close(down[0]);
    child.from = up[0];
    child.to = down[1];
    return child;
}

// Of each connection, in order; false when a child said nothing.
bool collect(const Plan& plan, const std::vector<Child>& children, std::vector<std::uint64_t>& done,
             std::uint64_t& failed) {
    std::vector<std::uint64_t> results(plan.connections / plan.processes * 2);
    for (const Child& child : children) {
        const std::size_t bytes = results.size() * sizeof results[0];
        if (::read(child.from, results.data(), bytes) != static_cast<ssize_t>(bytes)) return false;
        for (std::size_t i = 0; i < results.size(); i += 2) {
            done.push_back(results[i]);
            failed += results[i + 1];
        }
    }
    return true;
}

int run(const Plan& plan) {
    const std::int64_t before = resident_bytes(plan.server_pid);
    std::vector<Child> children;
    for (std::uint32_t i = 0; i < plan.processes; ++i)
        children.push_back(start_child(plan, i));
    for (const Child& child : children) {
        if (!hear(child.from)) return 1;
    }
    const std::int64_t idle = resident_bytes(plan.server_pid);
    bool good = true;
    for (const Child& child : children)
        good = say(child.to, '+') && good;
    std::vector<std::uint64_t> done;
    std::uint64_t failed = 0;
    good = collect(plan, children, done, failed) && good;
    const std::int64_t after = resident_bytes(plan.server_pid);
    for (const Child& child : children)
        good = say(child.to, '+') && good;
    for (const Child& child : children) {
        int status = 0;
        good = ::waitpid(child.pid, &status, 0) == child.pid && status == 0 && good;
    }
    if (done.empty()) return 1;
    std::sort(done.begin(), done.end());
    std::uint64_t sum = 0;
    for (const std::uint64_t count : done)
        sum += count;
    std::printf(
        "{\"connections\":%zu,\"idle_bytes_per_connection\":%" PRId64
        ",\"used_bytes_per_connection\":%" PRId64 ",\"calls\":%" PRIu64 ",\"failed\":%" PRIu64
        ",\"slowest\":%" PRIu64 ",\"median\":%" PRIu64 ",\"fastest\":%" PRIu64 "}\n",
        done.size(), (idle - before) / plan.connections, (after - before) / plan.connections, sum,
        failed, done.front(), done[done.size() / 2], done.back());
    return good && failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace nfsrdma::crowd

int main(int argc, char** argv) {
    using nfsrdma::crowd::Plan;
    if (argc != 7) return 2;
    Plan plan;
    auto server = nfsrdma::SockAddr::parse(argv[1], 20049);
    if (!server) return 2;
    plan.server = *server;
    plan.export_path = argv[2];
    plan.server_pid = std::atoi(argv[3]);
    plan.processes = static_cast<std::uint32_t>(std::atoi(argv[4]));
    plan.connections = static_cast<std::uint32_t>(std::atoi(argv[5]));
    plan.seconds = static_cast<std::uint64_t>(std::atoi(argv[6]));
    if (plan.processes == 0 || plan.connections % plan.processes != 0) return 2;
    return nfsrdma::crowd::run(plan);
}
