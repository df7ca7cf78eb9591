#pragma once
#include <array>
#include <deque>
#include <memory>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/loop.hpp"
#include "tests/verbs/rdmacore/provider/provider.hpp"
#include "verbs/rdmacore/cq.hpp"
#include "verbs/rdmacore/device.hpp"
#include "verbs/rdmacore/mr.hpp"
#include "verbs/rdmacore/qp.hpp"

// Queue pairs on the device of provider.hpp, ready to send, without a connection.
namespace nfsrdma::verbs::rdmacore::test {

// A completion, remembered, with its place among all.
struct Done : Cqe {
    Done() noexcept {
        done = [](Cqe& cqe, const Wc& wc) noexcept {
            auto& self = static_cast<Done&>(cqe);
            self.status = wc.status;
            ++self.count;
            self.place = ++places;
        };
    }
    WcStatus status = WcStatus::success;
    std::uint32_t count = 0, place = 0;
    static inline std::uint32_t places = 0;
    bool flushed() const { return count == 1 && status == WcStatus::flushed; }
};

struct Owner final : QpOwner {
    void on_first_receive() noexcept override {}
    void on_fatal() noexcept override { ++fatal; }
    std::uint32_t fatal = 0;
};

class ProviderTest : public ::testing::Test {
  protected:
    void SetUp() override {
        provider.reset();
        Done::places = 0;
        open();
    }
    // Anew, after `provider.attr` has changed.
    void open() {
        device.reset();
        loop = std::move(*Loop::create({}));
        auto opened = RdmaDevice::open(*loop, {});
        ASSERT_TRUE(opened) << to_string(opened.error());
        device = std::move(*opened);
        provider.forget();  // it may have tried something out
    }
    std::unique_ptr<RdmaCq> make_cq(std::uint32_t entries) {
        auto made = RdmaCq::create(*device, entries);
        EXPECT_TRUE(made) << to_string(made.error());
        return std::move(*made);
    }
    Result<std::unique_ptr<RdmaQp>> make_qp(RdmaCq& on, const QpOptions& options = {64, 64, 4, 1}) {
        if (pd == nullptr) pd = std::move(*device->alloc_pd());
        return RdmaQp::create(*device, static_cast<RdmaPd&>(*pd), on, options);
    }
    // One queue and one queue pair that may send.
    void make_ends() {
        cq = make_cq(128);
        auto made = make_qp(*cq);
        ASSERT_TRUE(made) << to_string(made.error());
        qp = std::move(*made);
        qp->set_owner(&owner);
        qp->set_ready();
    }
    FakeQp& fake(std::size_t index = 0) { return provider.qps[index]; }
    // `flags`: 's' for signaled, '.' for not; each has its Done.
    Result<void> post(const char* flags, RdmaQp& on) {
        WrChain chain;
        for (; *flags != 0; ++flags) {
            SendWr& wr = wrs.emplace_back();
            wr.cqe = &sends.emplace_back();
            wr.signaled = *flags == 's';
            chain.push_back(wr);
        }
        return on.post_send(chain);
    }
    Result<void> post(const char* flags) { return post(flags, *qp); }
    Result<void> post_recvs(int count) {
        RecvWr* first = nullptr;
        std::deque<RecvWr> chain(static_cast<std::size_t>(count));
        for (auto wr = chain.rbegin(); wr != chain.rend(); ++wr) {
            wr->next = first;
            first = &*wr;
        }
        for (RecvWr& wr : chain)
            wr.cqe = &recvs.emplace_back();
        return qp->post_recv(*first);
    }
    void poll(RdmaCq& on) {
        while (on.poll() > 0) {
        }
    }
    void poll() { poll(*cq); }
    // The owner's tasks, and whatever the descriptors have to say.
    void run(std::uint64_t ns = 2 * kNsPerMs) {
        const auto never = +[](void*) { return false; };
        loop->run_once(0);  // once at least, however slow the machine is
        static_cast<void>(loop->run_until(never, nullptr, ns));
    }
    void TearDown() override {
        key.reset();
        qp.reset();
        cq.reset();
        pd.reset();
        device.reset();
        EXPECT_EQ(provider.regions, 0u);
        EXPECT_EQ(provider.destroyed_too_early, 0u);
    }

    Provider& provider = Provider::get();
    std::unique_ptr<Loop> loop;
    std::unique_ptr<RdmaDevice> device;
    std::unique_ptr<ProtectionDomain> pd;
    std::unique_ptr<RdmaCq> cq;
    std::unique_ptr<RdmaQp> qp;
    std::unique_ptr<FastMr> key;
    Owner owner;
    std::deque<Done> sends, recvs;
    std::deque<SendWr> wrs;
};

}  // namespace nfsrdma::verbs::rdmacore::test
