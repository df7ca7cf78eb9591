// A server that is killed in the middle of writes and started again, and a client that goes on:
// restart NFSRDMAD DIR ADDRESS MODE
//
// MODE says by what handles survive: `kernel` (CAP_DAC_READ_SEARCH), `state` (--state-dir, and the
// server has lost that capability), `twins` (another server of the same directory, with the same
// key and fsid=), or `nothing` (they do not). Exit status 0: all was as it should be.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "nfs/client/client.hpp"
#include "sunrpc/auth.hpp"
#include "tests/e2e/daemon.hpp"
#include "tests/e2e/soft_host.hpp"
#include "xprtrdma/transport.hpp"

namespace nfsrdma::restart {
namespace {

using nfs::client::Client;
using nfs::client::CommitOp;
using nfs::client::CreateOp;
using nfs::client::FileHandle;
using nfs::client::GetattrOp;
using nfs::client::LookupOp;
using nfs::client::MkdirOp;
using nfs::client::MountFlow;
using nfs::client::Op;
using nfs::client::Outcome;
using nfs::client::ReadOp;
using nfs::client::RenameOp;
using nfs::client::WriteOp;
using testing::Daemon;

constexpr std::uint32_t kWrites = 1000, kFiles = 20, kBytes = 4096;
constexpr std::uint32_t kAnsweredBefore = 200;  // of kWrites, when the server is killed
constexpr std::uint64_t kLimitNs = 60 * kNsPerSec;

[[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "restart: %s\n", what.c_str());
    std::exit(1);
}
void expect(bool good, const std::string& what) {
    if (!good) fail(what);
}

template <class T>
T take(Result<T> result, const char* what) {
    if (!result) fail(std::string(what) + ": " + to_string(result.error()));
    return *std::move(result);
}

// One connection, and calls one after the other over it.
class Connection {
  public:
    Connection(const SockAddr& server, const char* mount_path) {
        auto host = take(testing::SoftHost::beside(server), "loop and device");
        loop_ = std::move(host.loop);
        device_ = std::move(host.device);
        xprtrdma::TransportOptions options;
        options.demand.credits = 32;
        options.demand.max_payload = 128 << 10;
        options.demand.max_message = 16 << 10;
        options.connect_timeout_ns = kLimitNs;
        auto transport = xprtrdma::Transport::create(
            *device_, server, options,
            [](void* arg, Result<void> outcome) noexcept {
                static_cast<Connection*>(arg)->waiting_ = false;
                expect(static_cast<bool>(outcome), "cannot connect");
            },
            this);
        transport_ = take(std::move(transport), "transport");
        wait();
        bool truncated = false;
        sys_ = sunrpc::AuthSys::of_process(truncated);
        client_ = std::make_unique<Client>(*transport_, &sys_);
        if (mount_path == nullptr) return;
        MountFlow mount(*client_);
        mount.start(
            mount_path,
            [](MountFlow& flow) noexcept { static_cast<Connection*>(flow.user)->waiting_ = false; },
            this);
        wait();
        expect(mount.outcome.ok(), "cannot mount: " + to_string(mount.outcome));
        root = mount.root;
    }
    ~Connection() { close(); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    void close() {
        if (transport_ == nullptr) return;
        transport_->close();
        loop_->run_until(
            [](void* arg) { return static_cast<Connection*>(arg)->transport_->idle(); }, this,
            kLimitNs);
        client_.reset();
        transport_.reset();
        device_.reset();
    }
    const Outcome& call(Op& op) {
        op.user = this;
        op.done = [](Op& o) noexcept { static_cast<Connection*>(o.user)->waiting_ = false; };
        client_->start(op);
        wait();
        return op.outcome;
    }
    void run_until(bool (*done)(void*), void* arg) {
        expect(loop_->run_until(done, arg, kLimitNs), "the answer did not come in time");
    }
    Client& client() { return *client_; }
    xprtrdma::Transport& transport() { return *transport_; }
    FileHandle root;

  private:
    void wait() {
        run_until([](void* arg) { return !static_cast<Connection*>(arg)->waiting_; }, this);
        waiting_ = true;
    }
    std::unique_ptr<Loop> loop_;
    std::unique_ptr<verbs::Device> device_;
    std::unique_ptr<xprtrdma::Transport> transport_;
    std::unique_ptr<Client> client_;
    sunrpc::AuthSys sys_;
    bool waiting_ = true;
};

std::byte pattern(std::uint32_t file, std::uint64_t offset) {
    return static_cast<std::byte>(file * 7 + offset / kBytes * 13 + offset % 251);
}

struct Write {
    WriteOp op;
    std::uint32_t file = 0;
    bool good = false;  // answered before the end
};

class Test {
  public:
    Test(std::string nfsrdmad, std::string dir, std::string address, std::string mode)
        : nfsrdmad_(std::move(nfsrdmad)),
          dir_(std::move(dir)),
          address_(std::move(address)),
          mode_(std::move(mode)) {}

    void run() {
        auto daemon = std::make_unique<Daemon>(options(address_, "/data"));
        auto connection = std::make_unique<Connection>(parse(address_), "/data");
        make_tree(*connection);
        if (mode_ == "twins") {
            // While the first one still serves.
            const std::string other = "127.254" + address_.substr(address_.find('.', 4));
            const Daemon second(options(other, "/another/name"));
            Connection to_second(parse(other), nullptr);
            expect_handles(to_second);
            return;
        }
        write_and_kill(*connection, *daemon);
        connection.reset();
        daemon = std::make_unique<Daemon>(options(address_, "/data"));
        Connection again(parse(address_), nullptr);
        if (mode_ == "nothing") {
            GetattrOp op;
            op.args.object = files_.front().view();
            expect(again.call(op).status == NFS3ERR_BADHANDLE, "a handle of another key is good");
            return;
        }
        expect_handles(again);
        expect_data(again);
        expect_new_verifier(again);
    }

  private:
    static SockAddr parse(const std::string& text) {
        auto address = SockAddr::parse(text, 20049);
        expect(static_cast<bool>(address), "bad address " + text);
        return *address;
    }
    testing::DaemonOptions options(const std::string& address, const std::string& name) const {
        testing::DaemonOptions all;
        all.opens_by_handle = mode_ != "state";
        std::vector<std::string>& out = all.words;
        out = {nfsrdmad_,
               "--listen",
               address,
               "--log-level",
               "warn",
               "--export",
               dir_ + "/export=" + name + ":rw,no_root_squash,fsid=1234"};
        if (mode_ != "nothing") {
            out.insert(out.end(), {"--handle-key", dir_ + "/key"});
        }
        if (mode_ == "state") out.insert(out.end(), {"--state-dir", dir_ + "/state"});
        return all;
    }

    // Directories and files below each other, one of them renamed.
    void make_tree(Connection& connection) {
        FileHandle in = connection.root;
        for (std::uint32_t i = 0; i < kFiles; ++i) {
            if (i % 4 == 0) {
                MkdirOp mkdir;
                const std::string name = "dir" + std::to_string(i);
                mkdir.args.where = {in.view(), const_cast<char*>(name.c_str())};
                expect(connection.call(mkdir).ok(), "MKDIR: " + to_string(mkdir.outcome));
                in = mkdir.object;
                directories_.push_back(in);
            }
            CreateOp create;
            const std::string name = "file" + std::to_string(i);
            create.args.where = {in.view(), const_cast<char*>(name.c_str())};
            expect(connection.call(create).ok(), "CREATE: " + to_string(create.outcome));
            files_.push_back(create.object);
        }
        RenameOp rename;
        char from[] = "dir0", to[] = "moved";
        rename.args.from = {connection.root.view(), from};
        rename.args.to = {connection.root.view(), to};
        expect(connection.call(rename).ok(), "RENAME: " + to_string(rename.outcome));
    }

    void write_and_kill(Connection& connection, Daemon& daemon) {
        sunrpc::Payload payload =
            take(connection.transport().get_payload(kBytes * kFiles), "payload");
        writes_ = std::vector<Write>(kWrites);
        for (std::uint32_t i = 0; i < kWrites; ++i) {
            Write& write = writes_[i];
            write.file = i % kFiles;
            write.op.args.file = files_[write.file].view();
            write.op.args.offset = std::uint64_t{i / kFiles} * kBytes;
            write.op.args.stable = UNSTABLE;
            write.op.user = this;
            write.op.done = [](Op& op) noexcept {
                auto& self = *static_cast<Test*>(op.user);
                ++self.ended_;
                if (!op.outcome.ok()) return;
                ++self.answered_;
                auto& answer = static_cast<WriteOp&>(op).res.WRITE3res_u.resok;
                std::copy_n(answer.verf, self.verifier_.size(), self.verifier_.begin());
                for (Write& w : self.writes_)
                    w.good = w.good || &w.op == &op;
            };
        }
        // Each round's data is its own: a round goes when the one before has been answered.
        for (std::uint32_t i = 0; i < kAnsweredBefore; i += kFiles) {
            start_round(connection, payload, i);
            connection.run_until(
                [](void* arg) {
                    auto& self = *static_cast<Test*>(arg);
                    return self.ended_ == self.started_;
                },
                this);
        }
        expect(answered_ == kAnsweredBefore, "writes failed before the server was killed");
        for (std::uint32_t i = kAnsweredBefore; i < kWrites; i += kFiles)
            start_round(connection, payload, i);
        connection.run_until(
            [](void* arg) { return static_cast<Test*>(arg)->answered_ > kAnsweredBefore + 50; },
            this);
        daemon.end(SIGKILL);
        expect(answered_ < kWrites, "all writes were answered before the server was killed");
        payload.reset();
        connection.transport().close();
        connection.run_until([](void* arg) { return static_cast<Test*>(arg)->ended_ == kWrites; },
                             this);
    }
    void start_round(Connection& connection, sunrpc::Payload& payload, std::uint32_t first) {
        for (std::uint32_t i = first; i < first + kFiles; ++i) {
            Write& write = writes_[i];
            const auto data = payload.memory().subspan(write.file * kBytes, kBytes);
            for (std::uint32_t at = 0; at < kBytes && first < kAnsweredBefore; ++at)
                data[at] = pattern(write.file, write.op.args.offset + at);
            write.op.set_data(data);
            connection.client().start(write.op);
            ++started_;
        }
    }

    void expect_handles(Connection& connection) {
        for (const auto* handles : {&files_, &directories_}) {
            for (const FileHandle& handle : *handles) {
                GetattrOp op;
                op.args.object = handle.view();
                expect(connection.call(op).ok(), "GETATTR: " + to_string(op.outcome));
                const ftype3 type = handles == &files_ ? NF3REG : NF3DIR;
                expect(op.attributes().type == type, "a handle is of something else");
            }
        }
        LookupOp op;
        char name[] = "file0", up[] = "..";
        op.args.what = {directories_.front().view(), name};
        expect(connection.call(op).ok() && op.object == files_.front(), "LOOKUP in a directory");
        op.args.what = {directories_[1].view(), up};
        expect(connection.call(op).ok() && op.object == directories_[0], "LOOKUP of ..");
    }
    // Killing a process loses nothing that it had written.
    void expect_data(Connection& connection) {
        sunrpc::Payload payload = take(connection.transport().get_payload(kBytes), "payload");
        for (std::uint32_t i = 0; i < kAnsweredBefore; ++i) {
            const Write& write = writes_[i];
            ReadOp op;
            op.args.file = files_[write.file].view();
            op.args.offset = write.op.args.offset;
            op.args.count = kBytes;
            op.room = payload.memory().first(kBytes);
            expect(write.good && connection.call(op).ok(), "READ: " + to_string(op.outcome));
            bool same = op.data().size() == kBytes;
            for (std::uint32_t at = 0; same && at < kBytes; ++at)
                same = op.data()[at] == pattern(write.file, write.op.args.offset + at);
            expect(same, "other data was read than written");
        }
    }
    void expect_new_verifier(Connection& connection) {
        std::array<char, 8> now{};
        for (const FileHandle& file : files_) {
            CommitOp op;
            op.args.file = file.view();
            expect(connection.call(op).ok(), "COMMIT: " + to_string(op.outcome));
            std::copy_n(op.res.COMMIT3res_u.resok.verf, now.size(), now.begin());
            expect(now != verifier_, "the write verifier is that of the killed server");
        }
        sunrpc::Payload payload = take(connection.transport().get_payload(kBytes), "payload");
        WriteOp op;
        op.args.file = files_.front().view();
        op.args.stable = UNSTABLE;
        op.set_data(payload.memory().first(kBytes));
        expect(connection.call(op).ok(), "WRITE: " + to_string(op.outcome));
        expect(std::equal(now.begin(), now.end(), op.res.WRITE3res_u.resok.verf),
               "WRITE and COMMIT tell different verifiers");
    }

    const std::string nfsrdmad_, dir_, address_, mode_;
    std::vector<FileHandle> files_, directories_;
    std::vector<Write> writes_;
    std::uint32_t started_ = 0, ended_ = 0, answered_ = 0;
    std::array<char, 8> verifier_{};
};

}  // namespace
}  // namespace nfsrdma::restart

int main(int argc, char** argv) {
    if (argc != 5) return 2;
    nfsrdma::restart::Test(argv[1], argv[2], argv[3], argv[4]).run();
    return 0;
}
