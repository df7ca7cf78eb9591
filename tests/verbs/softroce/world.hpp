#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "verbs/softroce/cq.hpp"
#include "verbs/softroce/device.hpp"
#include "verbs/softroce/loop_wire.hpp"
#include "verbs/softroce/packet.hpp"

// Two hosts with one connected pair of soft queue pairs over a LoopNet, in virtual time.
namespace nfsrdma::verbs::softroce {

struct WorldOptions {
    std::uint64_t seed = 1;
    LoopFaults faults;
    LoopNetOptions net;
    QpOptions qp{.send_wrs = 64, .recv_wrs = 64, .send_sges = 4, .recv_sges = 4};
    SoftOptions soft;
    std::uint32_t psn_a = 0x123456, psn_b = 0x654321, pmtu = 1024;
    std::uint8_t retry = 7, rnr_retry = 7, read_depth = 16, read_responses = 16;
    std::uint8_t ack_timeout_exp = 14;
    std::size_t memory = 4 * 1024 * 1024;
    bool connect = true;
};

// All completions of one end, in order.
struct Log {
    struct Entry {
        std::uint64_t id;
        Wc wc;
    };
    std::vector<Entry> entries;
    std::vector<std::uint64_t> ids() const {
        std::vector<std::uint64_t> out;
        for (const Entry& e : entries)
            out.push_back(e.id);
        return out;
    }
    std::vector<WcStatus> statuses() const {
        std::vector<WcStatus> out;
        for (const Entry& e : entries)
            out.push_back(e.wc.status);
        return out;
    }
};

struct LoggedCqe : Cqe {
    LoggedCqe(Log& l, std::uint64_t i) : log(l), id(i) {
        done = [](Cqe& cqe, const Wc& wc) noexcept {
            auto& self = static_cast<LoggedCqe&>(cqe);
            self.log.entries.push_back({self.id, wc});
        };
    }
    Log& log;
    std::uint64_t id;
};

struct Owner final : QpOwner {
    void on_first_packet(SoftQp&) noexcept override { ++first_packets; }
    void on_fatal(SoftQp&) noexcept override { ++fatals; }
    int first_packets = 0, fatals = 0;
};

struct End {
    SockAddr address;
    std::unique_ptr<SoftDevice> device;
    std::unique_ptr<ProtectionDomain> pd;
    std::unique_ptr<CompletionQueue> cq;
    std::unique_ptr<SoftQp> qp;
    std::vector<std::byte> storage;
    std::byte* memory = nullptr;  // page-aligned
    std::size_t memory_size = 0;
    std::unique_ptr<Mr> mr;
    Log log;
    Owner owner;
    std::vector<std::unique_ptr<LoggedCqe>> cqes;

    Cqe* cqe(std::uint64_t id) {
        cqes.push_back(std::make_unique<LoggedCqe>(log, id));
        return cqes.back().get();
    }
    Sge sge(std::size_t offset, std::size_t length) const {
        return {address_of(memory + offset), static_cast<std::uint32_t>(length), mr->lkey()};
    }
    Result<void> post(SendOp op, std::uint64_t id, std::vector<Sge> sges, std::uint64_t remote = 0,
                      Rkey rkey = {}, bool signaled = true, bool fenced = false) {
        SendWr wr;
        wr.cqe = cqe(id);
        wr.op = op;
        wr.sgl = sges;
        wr.remote_addr = remote;
        wr.rkey = rkey;
        wr.signaled = signaled;
        wr.fenced = fenced;
        WrChain chain;
        chain.push_back(wr);
        return qp->post_send(chain);
    }
    Result<void> post_local(SendOp op, std::uint64_t id, FastMr& fast, Rkey key,
                            bool signaled = true, bool fenced = false) {
        SendWr wr;
        wr.cqe = cqe(id);
        wr.op = op;
        wr.mr = &fast;
        wr.rkey = key;
        wr.signaled = signaled;
        wr.fenced = fenced;
        WrChain chain;
        chain.push_back(wr);
        return qp->post_send(chain);
    }
    Result<void> recv(std::uint64_t id, std::vector<Sge> sges) {
        RecvWr wr;
        wr.cqe = cqe(id);
        wr.sgl = sges;
        return qp->post_recv(wr);
    }
    // A key over [offset, offset + length) of the memory, mapped by 4 KiB pages but not yet bound.
    std::unique_ptr<FastMr> fast(std::size_t offset, std::uint32_t length, Access access,
                                 std::uint64_t iova = 0x7000'0000'0000) {
        auto made = pd->alloc_fast_mr(257);
        EXPECT_TRUE(made);
        auto mr_made = *std::move(made);
        map(*mr_made, offset, length, access, iova);
        return mr_made;
    }
    void map(FastMr& fast_mr, std::size_t offset, std::uint32_t length, Access access,
             std::uint64_t iova = 0x7000'0000'0000) {
        std::vector<std::byte*> pages;
        const std::size_t first = align_down(offset, 4096);
        for (std::size_t at = first; at < offset + length; at += 4096)
            pages.push_back(memory + at);
        const auto mapped = fast_mr.map(pages, 4096, static_cast<std::uint32_t>(offset - first),
                                        length, iova, access);
        ASSERT_TRUE(mapped) << to_string(mapped.error());
    }
    void fill(std::uint64_t seed) {
        Prng prng(seed);
        for (std::size_t i = 0; i + 8 <= memory_size; i += 8)
            store_be64(memory + i, prng.next());
    }
};

class World {
  public:
    explicit World(const WorldOptions& o = {}) : options(o) {
        LoopOptions loop_options;
        loop_options.backend = LoopBackend::simulated;
        loop_options.clock = &clock;
        auto made = Loop::create(loop_options);
        EXPECT_TRUE(made);
        loop = *std::move(made);
        net = std::make_unique<LoopNet>(*loop, o.seed, o.faults, o.net);
        make_end(a, SockAddr::v4(0x7F000001, kRoceV2Port), o.seed * 2 + 1);
        make_end(b, SockAddr::v4(0x7F000002, kRoceV2Port), o.seed * 2 + 2);
        if (o.connect) {
            connect(a, b, o.psn_a, o.psn_b);
            connect(b, a, o.psn_b, o.psn_a);
        }
    }
    ~World() {
        stop();
        for (End* end : {&a, &b}) {
            end->qp.reset();
            loop->remove(*end->cq);
            end->cq.reset();
            end->mr.reset();
            end->pd.reset();
            end->device.reset();
        }
    }
    // Flushes everything that is posted; for tests whose own completion entries die before the
    // world.
    void stop() {
        for (End* end : {&a, &b}) {
            if (end->qp == nullptr) continue;
            end->qp->set_error();
            while (end->cq->poll() > 0) {
            }
            EXPECT_EQ(end->qp->outstanding(), 0u);
        }
    }
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    QpAttr attr(End& from, End& to, std::uint32_t sq_psn, std::uint32_t rq_psn) const {
        QpAttr at;
        at.path = {from.address, to.address};
        at.dest_qpn = to.qp->qpn();
        at.sq_psn = sq_psn;
        at.rq_psn = rq_psn;
        at.pmtu = options.pmtu;
        at.retry_count = options.retry;
        at.rnr_retry_count = options.rnr_retry;
        at.read_depth = options.read_depth;
        at.read_responses = options.read_responses;
        at.ack_timeout_exp = options.ack_timeout_exp;
        return at;
    }
    void connect(End& from, End& to, std::uint32_t sq_psn, std::uint32_t rq_psn) {
        const auto connected = from.qp->connect(attr(from, to, sq_psn, rq_psn));
        ASSERT_TRUE(connected) << to_string(connected.error());
    }
    template <class F>
    bool run_until(F finished, std::uint64_t timeout_ns = 60 * kNsPerSec) {
        return loop->run_until([](void* f) { return (*static_cast<F*>(f))(); }, &finished,
                               timeout_ns);
    }
    void run_for(std::uint64_t ns) {
        run_until([] { return false; }, ns == 0 ? 1 : ns);
    }
    bool run_until_logged(End& end, std::size_t entries) {
        return run_until([&] { return end.log.entries.size() >= entries; });
    }
    // One frame to `to` as if its peer had sent it.
    void inject(End& to, const std::vector<std::byte>& bytes) {
        net->inject(&to == &a ? b.address : a.address, to.address, bytes);
    }

    WorldOptions options;
    ManualClock clock;
    std::unique_ptr<Loop> loop;
    std::unique_ptr<LoopNet> net;
    End a, b;

  private:
    void make_end(End& end, const SockAddr& address, std::uint64_t seed) {
        end.address = address;
        SoftOptions soft = options.soft;
        soft.seed = seed;
        auto device = SoftDevice::create(*loop, net->add_host(address), soft);
        ASSERT_TRUE(device);
        end.device = *std::move(device);
        end.pd = *end.device->alloc_pd();
        end.cq = *end.device->create_cq(16);
        loop->add(*end.cq);
        end.storage.resize(options.memory + 4096);
        end.memory = bytes_at(align_up(address_of(end.storage.data()), 4096));
        end.memory_size = options.memory;
        end.mr = *end.pd->register_memory({end.memory, options.memory}, Access::local_write);
        auto qp = end.device->create_qp(*end.pd, *end.cq, options.qp);
        ASSERT_TRUE(qp);
        end.qp = *std::move(qp);
        end.qp->set_owner(&end.owner);
    }
};

// Builders of request frames for packet-level scripts.
inline std::vector<std::byte> frame(Opcode opcode, std::uint32_t qpn, std::uint32_t psn,
                                    bool ack_request = true, std::uint8_t pad = 0) {
    std::vector<std::byte> out(kBthSize);
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(opcode);
    bth.dest_qpn = qpn;
    bth.psn = psn;
    bth.ack_request = ack_request;
    bth.pad = pad;
    store_bth(out.data(), bth);
    return out;
}
inline void add_reth(std::vector<std::byte>& out, std::uint64_t addr, std::uint32_t rkey,
                     std::uint32_t length) {
    out.resize(out.size() + kRethSize);
    store_reth(&out[out.size() - kRethSize], {addr, rkey, length});
}
inline void add_payload(std::vector<std::byte>& out, std::size_t size, std::uint8_t value) {
    out.insert(out.end(), size, std::byte{value});
}

// Sees every frame; a test says what to do with each.
template <class F>
class Tap final : public LoopTap {
  public:
    explicit Tap(F f) : f_(std::move(f)) {}
    bool on_frame(LoopFrame& seen) noexcept override {
        return f_(seen, load_bth(seen.bytes.data()));
    }

  private:
    F f_;
};

}  // namespace nfsrdma::verbs::softroce
