#pragma once
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include <rpc/rpc.h>

#include "base/sock_addr.hpp"
#include "base/unique_fd.hpp"
#include "tirpc/clnt_call.hpp"
#include "tirpc/clnt_link.hpp"

// A CLIENT of libtirpc over one ClntLink: its operations, as those of clnt_vc.
namespace nfsrdma::tirpc {

class ClntRdma {
  public:
    // The CLIENT belongs to who called, until clnt_destroy. nullptr without memory.
    static CLIENT* create(std::unique_ptr<ClntLink> link, const SockAddr& server,
                          const Options& options, rpcprog_t prog, rpcvers_t vers);
    // nullptr when it is none of ours.
    static ClntRdma* of(CLIENT* clnt) noexcept;
    ~ClntRdma();
    ClntRdma(const ClntRdma&) = delete;
    ClntRdma& operator=(const ClntRdma&) = delete;

    enum clnt_stat call(CallRequest request, const timeval& timeout) noexcept;
    void last_error(rpc_err& error) noexcept;
    bool free_results(xdrproc_t routine, void* object) noexcept;
    bool control(unsigned request, void* info) noexcept;
    // Waits until the calls that other threads are in have returned, and ends it.
    static void destroy(CLIENT* clnt) noexcept;
    // Memory of the connection, counted as a call. nullptr: rpcrdma_strerror says why.
    void* alloc(std::uint32_t bytes) noexcept;
    void free(const void* memory) noexcept { static_cast<void>(link_->free(memory)); }

  private:
    // What a call begins with, of settings that other threads may change meanwhile.
    struct Begun {
        std::uint64_t patience_ns = 0;
        bool one_way = false;
    };
    ClntRdma(std::unique_ptr<ClntLink> link, const SockAddr& server, const Options& options);
    Begun begin(CallRequest& request, const timeval& timeout) noexcept;
    std::uint32_t next_xid() noexcept;
    enum clnt_stat end(const rpc_err& error) noexcept;
    bool ask_for_credits(const CallRequest& like, rpc_err& error) noexcept;
    void leave() noexcept;
    bool control_time(unsigned request, void* info) noexcept;
    bool control_address(unsigned request, void* info) noexcept;
    bool control_number(unsigned request, void* info) noexcept;
    bool control_ours(unsigned request, void* info) noexcept;
    bool copy_stats(void* info) noexcept;

    CLIENT client_{};
    std::unique_ptr<ClntLink> link_;
    CallShare share_;
    SockAddr server_;
    const std::uint64_t serial_;  // no other CLIENT's, ever
    UniqueFd fd_;                 // for programs that ask for one: it says who the two ends are

    std::mutex mutex_;  // guards all that follows
    std::condition_variable unused_;
    std::uint32_t users_ = 0;  // calls in progress, and allocs
    std::uint32_t xid_ = 0;    // of the last call
    std::uint32_t prog_ = 0, vers_ = 0;
    timeval wait_{25, 0};
    bool wait_set_ = false;  // by clnt_control: calls do not bring their own
    bool close_fd_ = true;
    rpc_err error_{};
};

}  // namespace nfsrdma::tirpc
