#pragma once
#include <chrono>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/loop.hpp"
#include "nfs/fh.hpp"
#include "nfs/handle_key.hpp"
#include "tests/e2e/daemon.hpp"
#include "tests/e2e/soft_host.hpp"
#include "tests/nfs/nfs_calls.hpp"
#include "xprtrdma/transport.hpp"

// A running nfsrdmad on an address of its own that serves a directory as /export, and a client of
// it over RDMA. The test knows the key of the handles, so that it can forge them.
namespace nfsrdma::testing {

class WireWorld : public NfsCalls {
  public:
    // By the kernel's handles, or by the database in --state-dir.
    explicit WireWorld(bool kernel_handles)
        : address_(random_address()), key_(take(nfs::HandleKey::of_file(state_.path() + "/key"))) {
        write_exports({});
        DaemonOptions options;
        options.words = {NR_NFSRDMAD,
                         "--listen",
                         address_.address_to_string(),
                         "--log-level",
                         "error",
                         "--export",
                         dir.path() + "=/export",
                         "--exports-file",
                         exports_path(),
                         "--handle-key",
                         state_.path() + "/key",
                         "--state-dir",
                         state_.path() + "/state"};
        options.opens_by_handle = kernel_handles;
        options.descriptors_max = 448;  // it keeps some 70 objects open
        daemon_ = std::make_unique<Daemon>(options);
        connect();
        auto mounted = call_mount<mountargs3, mountres3>(MOUNTPROC3_MNT, {path_.data()});
        NR_ASSERT(mounted->fhs_status == MNT3_OK);
        root = handle_of(mounted->mountres3_u.mountinfo.fhandle);
    }
    ~WireWorld() override {
        transport_->close();
        EXPECT_TRUE(run_until([this] { return transport_->idle(); }));
        nfs.reset();
        mount.reset();
        transport_.reset();
        device_.reset();
        EXPECT_EQ(daemon_->end(), 0) << "nfsrdmad did not end in order";
    }

    const nfs::HandleKey& key() const { return key_; }
    // What the server takes for granted for a moment (VfsPosixOptions::recheck_ns) is over.
    void settle() {
        constexpr auto kMoment = std::chrono::milliseconds(150);
        std::this_thread::sleep_for(kMoment);
    }
    // By a reload: also the directory `path`, and the handle of its root.
    Handle export_also(const std::string& path) {
        write_exports(path);
        daemon_->reload();
        Handle out;
        EXPECT_TRUE(eventually([&] {
            std::string name = path;
            auto mounted = call_mount<mountargs3, mountres3>(MOUNTPROC3_MNT, {name.data()});
            if (mounted->fhs_status != MNT3_OK) return false;
            out = handle_of(mounted->mountres3_u.mountinfo.fhandle);
            return true;
        }));
        return out;
    }
    // By a reload: /export alone, and `path` no more.
    void export_no_more(const std::string& path) {
        write_exports({});
        daemon_->reload();
        EXPECT_TRUE(eventually([&] {
            std::string name = path;
            auto mounted = call_mount<mountargs3, mountres3>(MOUNTPROC3_MNT, {name.data()});
            return mounted->fhs_status == MNT3ERR_NOENT;
        }));
    }

  private:
    template <class T>
    static T take(Result<T> result) {
        NR_ASSERT(static_cast<bool>(result));
        return *std::move(result);
    }
    static SockAddr random_address() {
        std::random_device source;
        std::uniform_int_distribution<std::uint32_t> byte(1, 253);
        const std::uint32_t low = byte(source) << 16 | byte(source) << 8 | byte(source);
        constexpr std::uint32_t kLoopback = 127u << 24;
        return SockAddr::v4(kLoopback | low, 20049);
    }
    static Handle handle_of(const fhandle3& fh) {
        return {{fh.fhandle3_val, fh.fhandle3_val + fh.fhandle3_len}};
    }
    static bool eventually(const std::function<bool()>& true_now) {
        constexpr auto kStep = std::chrono::milliseconds(10);
        for (int i = 0; i < 5000; ++i) {
            if (true_now()) return true;
            std::this_thread::sleep_for(kStep);
        }
        return false;
    }
    std::string exports_path() const { return state_.path() + "/exports"; }
    void write_exports(const std::string& path) const {
        std::ofstream file(exports_path());
        if (!path.empty()) file << path << " *(rw,no_root_squash)\n";
    }
    void connect() {
        auto host = take(SoftHost::beside(address_));
        loop_ = std::move(host.loop);
        device_ = std::move(host.device);
        xprtrdma::TransportOptions options;
        options.demand.max_message = 128 << 10;
        options.connect_timeout_ns = kLimitNs;
        transport_ = take(xprtrdma::Transport::create(
            *device_, address_, options,
            [](void* arg, Result<void> outcome) noexcept {
                NR_ASSERT(static_cast<bool>(outcome));
                static_cast<WireWorld*>(arg)->connected_ = true;
            },
            this));
        NR_ASSERT(run_until([this] { return connected_; }));
        bool truncated = false;
        const sunrpc::AuthSys sys = sunrpc::AuthSys::of_process(truncated);
        nfs = std::make_unique<sunrpc::Clnt>(*transport_, NFS3_PROGRAM, NFS_V3, &sys);
        mount = std::make_unique<sunrpc::Clnt>(*transport_, MOUNT3_PROGRAM, MOUNT_V3, &sys);
    }
    sunrpc::Payload get_payload(std::uint32_t bytes) override {
        return take(transport_->get_payload(bytes));
    }
    bool run_until(const std::function<bool()>& finished) override {
        auto* const arg = const_cast<std::function<bool()>*>(&finished);  // only called
        return loop_->run_until([](void* f) { return (*static_cast<std::function<bool()>*>(f))(); },
                                arg, kLimitNs);
    }

    static constexpr std::uint64_t kLimitNs = 60 * kNsPerSec;
    const TempDir state_;
    const SockAddr address_;
    const nfs::HandleKey key_;
    std::string path_ = "/export";
    std::unique_ptr<Daemon> daemon_;
    std::unique_ptr<Loop> loop_;
    std::unique_ptr<verbs::Device> device_;
    std::unique_ptr<xprtrdma::Transport> transport_;
    bool connected_ = false;
};

}  // namespace nfsrdma::testing
