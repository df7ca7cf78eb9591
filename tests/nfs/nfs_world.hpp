#pragma once
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "nfs/server/server.hpp"
#include "nfs/vfs_mem.hpp"
#include "nfs/vfs_posix.hpp"
#include "tests/nfs/nfs_calls.hpp"
#include "tests/support/direct_xprt.hpp"

// An NFS server over a backend in memory or on a directory, and a client of it, in one process and
// in virtual time.
namespace nfsrdma::testing {

enum class Backend { mem, posix };

class NfsWorld : public NfsCalls {
  public:
    explicit NfsWorld(Backend kind, const DirectOptions& options = {},
                      const nfs::VfsMemOptions& mem = {},
                      const nfs::VfsPosixOptions& posix_options = {})
        : backend(kind) {
        std::unique_ptr<nfs::Vfs> made;
        if (kind == Backend::mem) {
            made = std::make_unique<nfs::VfsMem>(mem);
        } else {
            auto posix = nfs::VfsPosix::create(dir.path(), posix_options);
            NR_ASSERT(static_cast<bool>(posix));
            made = *std::move(posix);
        }
        vfs = made.get();
        NR_ASSERT(static_cast<bool>(server.add_export("/export", std::move(made))));
        server.add_to(dispatcher);
        xprt = std::make_unique<DirectXprt>(*world.loop, dispatcher, options);
        sunrpc::AuthSys sys;
        sys.uid = ::geteuid();
        sys.gid = ::getegid();
        nfs = std::make_unique<sunrpc::Clnt>(*xprt, NFS3_PROGRAM, NFS_V3, &sys);
        mount = std::make_unique<sunrpc::Clnt>(*xprt, MOUNT3_PROGRAM, MOUNT_V3, &sys);
        nfs::FhBytes fh =
            nfs::encode_fh(server.handle_key(), {nfs::export_id_of("/export"), vfs->root()});
        root = Handle::of(nfs::to_fh3(fh));
    }
    ~NfsWorld() override {
        EXPECT_EQ(xprt->counters().over_reply_max, 0u);  // nfs/binding.cpp's bounds are true
        EXPECT_EQ(xprt->payloads_in_use(), 0u);
        nfs.reset();
        mount.reset();
    }

    const Backend backend;
    DirectWorld world;
    // The server's resolver: every host is client.example, told when nothing holds the answer.
    inline static std::atomic<bool> names_held{false};
    static nfs::HostNames::Names names_of(const SockAddr& /*peer*/) {
        while (names_held)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return {"client.example"};
    }
    nfs::Server server{{.lookup = names_of}};
    nfs::Vfs* vfs = nullptr;
    sunrpc::SvcDispatcher dispatcher;
    std::unique_ptr<DirectXprt> xprt;

  private:
    sunrpc::Payload get_payload(std::uint32_t bytes) override { return *xprt->get_payload(bytes); }
    bool run_until(const std::function<bool()>& finished) override {
        return world.run_until(finished);
    }
};

// Tests that run on each backend: class B71 : public NfsTest {}; NR_ON_BACKENDS(B71);
class NfsTest : public ::testing::TestWithParam<Backend> {
  protected:
    NfsWorld w{GetParam()};
};
#define NR_ON_BACKENDS(Suite)                                                                    \
    INSTANTIATE_TEST_SUITE_P(                                                                    \
        On, Suite,                                                                               \
        ::testing::Values(::nfsrdma::testing::Backend::mem, ::nfsrdma::testing::Backend::posix), \
        [](const auto& param_info) {                                                             \
            return std::string(param_info.param == ::nfsrdma::testing::Backend::mem ? "mem"      \
                                                                                    : "posix");  \
        })

}  // namespace nfsrdma::testing
