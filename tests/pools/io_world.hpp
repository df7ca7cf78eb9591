#pragma once
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/loop.hpp"
#include "base/prng.hpp"
#include "pools/buffer_pool.hpp"
#include "pools/io.hpp"
#include "pools/page_list.hpp"
#include "verbs/softroce/device.hpp"
#include "verbs/softroce/loop_wire.hpp"
#include "verbs/softroce/qp.hpp"

// Two soft devices on one in-process net in virtual time, a connected queue pair and an Io on each.
namespace nfsrdma::pools::test {

namespace soft = verbs::softroce;

// A soft protection domain that says something else of its device than the device itself: what
// pools/ does where a device can do less, with a device that still checks every access.
class CapsPd final : public verbs::ProtectionDomain {
  public:
    explicit CapsPd(std::unique_ptr<verbs::ProtectionDomain> pd)
        : pd_(std::move(pd)), caps_(pd_->caps()) {}
    const verbs::DeviceCaps& caps() const noexcept override { return caps_; }
    Result<std::unique_ptr<verbs::Mr>> register_memory(std::span<std::byte> memory,
                                                       verbs::Access access) override {
        if (register_errno != 0) return Error{Errc::system, register_errno, "register memory"};
        return pd_->register_memory(memory, access);
    }
    Result<std::unique_ptr<verbs::FastMr>> alloc_fast_mr(std::uint32_t pages_max) override {
        return pd_->alloc_fast_mr(pages_max);
    }
    verbs::ProtectionDomain& inner() noexcept { return *pd_; }
    verbs::DeviceCaps& edit() noexcept { return caps_; }
    int register_errno = 0;  // what the operating system says

  private:
    std::unique_ptr<verbs::ProtectionDomain> pd_;
    verbs::DeviceCaps caps_;
};

struct HostOptions {
    IoOptions io{.keys = 8, .pages_per_key = 300, .transfers = 4, .read_depth = 16};
    std::size_t arena_bytes = 8 << 20;
    verbs::QpOptions qp{.send_wrs = 64, .recv_wrs = 32};
    void (*edit_caps)(verbs::DeviceCaps&) = nullptr;
};

class Host {
  public:
    Host(Loop& loop, soft::LoopNet& net, std::uint8_t number, const HostOptions& options)
        : address(SockAddr::v4(0x7F000100u + number, soft::kRoceV2Port)),
          options_(options),
          loop_(loop) {
        device = std::move(
            *soft::SoftDevice::create(loop, net.add_host(address), {.seed = 77u + number}));
        pd = std::make_unique<CapsPd>(std::move(*device->alloc_pd()));
        if (options.edit_caps != nullptr) options.edit_caps(pd->edit());
        cq = std::move(*device->create_cq(256));
        loop_.add(*cq);
        arena = std::move(*Arena::create(*pd, options.arena_bytes, options.io.registration));
        recv_memory_ = *arena->carve(options.qp.recv_wrs * kRecvBytes);
        auto made = Io::create(*pd, *arena, options.io);
        EXPECT_TRUE(made) << to_string(made.error());
        io = std::move(*made);
        make_qp();
    }
    ~Host() {
        if (qp != nullptr) {
            qp->set_error();
            drain();
            io->on_disconnect();
        }
        io.reset();
        qp.reset();
        loop_.remove(*cq);
    }
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    void make_qp() {
        qp = std::move(*device->create_qp(pd->inner(), *cq, options_.qp));
        io->set_qp(qp.get());
        recvs_.resize(options_.qp.recv_wrs);
        for (std::uint32_t i = 0; i < recvs_.size(); ++i) {
            recvs_[i].host = this;
            recvs_[i].done = &Recv::on_done;
            recvs_[i].sge = io->sge(recv_memory_.subspan(std::size_t{i} * kRecvBytes, kRecvBytes));
            recvs_[i].post();
        }
    }
    void connect_to(const Host& peer) {
        EXPECT_TRUE(qp->connect({.path = {address, peer.address},
                                 .dest_qpn = peer.qp->qpn(),
                                 .sq_psn = qp->initial_psn(),
                                 .rq_psn = peer.qp->initial_psn(),
                                 .pmtu = 4096}));
    }
    // Polls until nothing that was posted is left.
    void drain() {
        for (int i = 0; i < 1000 && qp->outstanding() > 0; ++i)
            (void)cq->poll();
        EXPECT_EQ(qp->outstanding(), 0u);
    }
    // The end of a connection as a transport does it: error, drain, on_disconnect.
    void end_connection() {
        qp->set_error();
        drain();
        io->on_disconnect();
        qp.reset();
    }

    SockAddr address;
    std::unique_ptr<soft::SoftDevice> device;
    std::unique_ptr<CapsPd> pd;
    std::unique_ptr<verbs::CompletionQueue> cq;
    std::unique_ptr<Arena> arena;
    std::unique_ptr<Io> io;
    std::unique_ptr<soft::SoftQp> qp;
    std::uint32_t received = 0;
    std::vector<Exposure*> invalidated;  // what on_remote_invalidate answered
    std::vector<verbs::Rkey> invalidated_keys;
    verbs::WcStatus last_recv_error = verbs::WcStatus::success;

  private:
    static constexpr std::size_t kRecvBytes = 64;
    struct Recv : verbs::Cqe {
        Host* host = nullptr;
        verbs::RecvWr wr;
        verbs::Sge sge;
        void post() {
            wr.cqe = this;
            wr.next = nullptr;
            wr.sgl = {&sge, 1};
            EXPECT_TRUE(host->qp->post_recv(wr));
        }
        static void on_done(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
            auto& self = static_cast<Recv&>(cqe);
            if (wc.status != verbs::WcStatus::success) {
                if (wc.status != verbs::WcStatus::flushed) self.host->last_recv_error = wc.status;
                return;
            }
            ++self.host->received;
            if (wc.with_invalidate) {
                self.host->invalidated_keys.push_back(wc.invalidated);
                self.host->invalidated.push_back(
                    self.host->io->on_remote_invalidate(wc.invalidated));
            }
            self.post();
        }
    };
    HostOptions options_;
    Loop& loop_;
    std::span<std::byte> recv_memory_;
    std::vector<Recv> recvs_;
};

// A signaled SEND of a few bytes with what goes in front of it.
struct Message : verbs::Cqe {
    explicit Message(Host& h) : host(h) {
        done = &on_done;
        memory = *h.arena->carve(16);
        sge = h.io->sge(memory);
        wr.cqe = this;
        wr.signaled = true;
        wr.sgl = {&sge, 1};
        posting.message = this;
        posting.posted = [](Posting& p, Result<void> result) noexcept {
            auto& self = *static_cast<OwnPosting&>(p).message;
            self.posted = true;
            self.post_error = result ? Errc::closed : result.error().code;
            self.accepted = static_cast<bool>(result);
        };
    }
    // Behind what the chain holds already; what is exposed later goes in front.
    verbs::WrChain& add() {
        posting.chain.push_back(wr);
        return posting.chain;
    }
    void post() { host.io->post(posting); }
    static void on_done(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
        auto& self = static_cast<Message&>(cqe);
        self.completed = true;
        self.status = wc.status;
        self.host.io->on_send_room();
    }
    struct OwnPosting : Posting {
        Message* message = nullptr;
    };
    Host& host;
    std::span<std::byte> memory;
    verbs::Sge sge;
    verbs::SendWr wr;
    OwnPosting posting;
    bool posted = false, accepted = false, completed = false;
    Errc post_error = Errc::closed;
    verbs::WcStatus status = verbs::WcStatus::success;
};

class World {
  public:
    explicit World(const HostOptions& a_options = {}, const HostOptions& b_options = {},
                   const soft::LoopFaults& faults = {})
        : loop(std::move(*Loop::create({.backend = LoopBackend::simulated, .clock = &clock}))),
          net(*loop, 7, faults),
          a(*loop, net, 1, a_options),
          b(*loop, net, 2, b_options) {
        connect();
    }
    void connect() {
        a.connect_to(b);
        b.connect_to(a);
    }
    // Both ends in error, drained, and connected afresh.
    void reconnect() {
        a.end_connection();
        b.end_connection();
        EXPECT_TRUE(a.io->renew());
        EXPECT_TRUE(b.io->renew());
        a.make_qp();
        b.make_qp();
        connect();
    }
    template <class F>
    bool until(F finished, std::uint64_t timeout_ns = 20 * kNsPerSec) {
        return loop->run_until([](void* f) { return (*static_cast<F*>(f))(); }, &finished,
                               timeout_ns);
    }
    void settle(std::uint64_t ns = 10 * kNsPerMs) {
        (void)until([] { return false; }, ns);
    }

    ManualClock clock;
    std::unique_ptr<Loop> loop;
    soft::LoopNet net;
    Host a, b;
};

inline void fill(std::span<std::byte> memory, std::uint64_t seed) {
    Prng prng(seed);
    for (std::byte& b : memory)
        b = static_cast<std::byte>(prng.next());
}
inline void wipe(std::span<std::byte> memory) {
    for (std::byte& b : memory)
        b = std::byte{0xEE};
}
inline bool wiped(std::span<const std::byte> memory) {
    for (const std::byte b : memory) {
        if (b != std::byte{0xEE}) return false;
    }
    return true;
}
inline bool same(std::span<const std::byte> x, std::span<const std::byte> y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

// What a fence said.
struct Fenced {
    int calls = 0;
    bool ok = false;
    static void on(Exposure& exposure, bool ok) noexcept {
        auto& self = *static_cast<Fenced*>(exposure.user);
        ++self.calls;
        self.ok = ok;
    }
};

// What a pull said.
struct Done {
    int calls = 0;
    bool ok = false;
    static void on(Transfer& transfer, bool ok) noexcept {
        auto& self = *static_cast<Done*>(transfer.user);
        ++self.calls;
        self.ok = ok;
    }
};

}  // namespace nfsrdma::pools::test
