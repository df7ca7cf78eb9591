#pragma once
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.hpp"
#include "base/loop.hpp"
#include "tests/verbs/cm_events.hpp"
#include "verbs/cm.hpp"
#include "verbs/device.hpp"
#include "verbs/softroce/cm.hpp"
#include "verbs/softroce/cm_mad.hpp"
#include "verbs/softroce/device.hpp"
#include "verbs/softroce/loop_wire.hpp"
#include "verbs/softroce/udp_wire.hpp"

// Two or more ends of connections on soft devices, with what connection management told them.
namespace nfsrdma::verbs::softroce::test {

using verbs::test::bytes_of;
using verbs::test::run_for;

template <class F>
bool run_until(Loop& loop, F finished, std::uint64_t timeout_ns = 10 * kNsPerSec) {
    return verbs::test::run_until(loop, std::move(finished), timeout_ns);
}

// One end: an id, its queue pair and its protection domain.
class End final : public verbs::test::CmEvents {
  public:
    explicit End(Device& device) : device_(device) {
        cq_ = std::move(*device.create_cq(64));
        pd_ = std::move(*device.alloc_pd());
        device.loop().add(*cq_);
    }
    ~End() {
        id.reset();
        device_.loop().remove(*cq_);
    }
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    Result<QueuePair*> try_qp() { return id->create_qp(*pd_, *cq_, QpOptions{8, 8, 4, 1}); }
    void make_qp() {
        auto qp = try_qp();
        EXPECT_TRUE(qp) << to_string(qp.error());
    }
    Result<void> connect(const SockAddr& peer, const ConnParams& params = {}) {
        id = std::move(*device_.create_id(*this));
        make_qp();
        return id->connect(peer, params);
    }
    Device& device() { return device_; }
    ProtectionDomain& pd() { return *pd_; }

  private:
    Device& device_;
    std::unique_ptr<CompletionQueue> cq_;
    std::unique_ptr<ProtectionDomain> pd_;
};

class Server final : public ListenHandler {
  public:
    enum class Mode { accept, reject, hold, drop };
    Server(Device& device, const SockAddr& local) : device_(device) {
        auto made = device.listen(local, *this);
        EXPECT_TRUE(made) << to_string(made.error());
        listener = std::move(*made);
        at_ = listener->local();
    }
    void on_connect_request(std::unique_ptr<CmId> id,
                            const ConnectRequest& request) noexcept override {
        ++requests;
        request_data.assign(request.private_data.begin(), request.private_data.end());
        initiator_depth = request.initiator_depth;
        responder_resources = request.responder_resources;
        if (mode == Mode::drop) return;
        if (mode == Mode::reject) {
            EXPECT_TRUE(id->reject(answer));
            return;
        }
        auto end = std::make_unique<End>(device_);
        end->id = std::move(id);
        end->id->set_handler(*end);
        if (mode == Mode::accept) accept(*end);
        ends.push_back(std::move(end));
    }
    void accept(End& end) {
        end.make_qp();
        ConnParams own = params;
        own.private_data = answer;
        EXPECT_TRUE(end.id->accept(own));
    }
    SockAddr at() const { return at_; }

    Mode mode = Mode::accept;
    ConnParams params;
    std::vector<std::byte> answer = bytes_of("answer");
    std::vector<std::byte> request_data;
    std::uint8_t initiator_depth = 0, responder_resources = 0;
    std::uint32_t requests = 0;
    std::vector<std::unique_ptr<End>> ends;
    std::unique_ptr<Listener> listener;

  private:
    Device& device_;
    SockAddr at_;
};

inline const SockAddr kHostA = SockAddr::v4(0x0A000001, kRoceV2Port);
inline const SockAddr kHostB = SockAddr::v4(0x0A000002, kRoceV2Port);

// Hosts in one process in virtual time.
class SimWorld {
  public:
    explicit SimWorld(std::uint64_t seed = 1, const LoopFaults& faults = {})
        : loop_(std::move(*Loop::create({.backend = LoopBackend::simulated, .clock = &clock_}))),
          net(*loop_, seed, faults),
          seed_(seed) {}
    Loop& loop() { return *loop_; }
    std::unique_ptr<SoftDevice> make_device(const SockAddr& address) {
        SoftOptions options;
        options.seed = ++seed_ * 7919;
        auto device = SoftDevice::create(*loop_, net.add_host(address), options);
        EXPECT_TRUE(device);
        return std::move(*device);
    }

  private:
    ManualClock clock_;
    std::unique_ptr<Loop> loop_;

  public:
    LoopNet net;

  private:
    std::uint64_t seed_;
};

inline SoftDevice& soft(Device& device) {
    return static_cast<SoftDevice&>(device);
}

inline constexpr std::uint16_t kPort = 20049;

// Offsets in a frame on the LoopWire: BTH 12, DETH 8, MAD.
inline constexpr std::size_t kMadAt = 20;

inline bool is_mad(const LoopFrame& frame, CmAttr attr) {
    if (frame.bytes.size() != kMadAt + kMadBytes || frame.bytes[0] != std::byte{0x64}) return false;
    auto header = decode_header(frame.bytes.subspan(kMadAt));
    return header && header->attr == attr;
}

// Drops the first `drops` messages of one kind.
class Dropper final : public LoopTap {
  public:
    Dropper(LoopNet& net, CmAttr attr, std::uint32_t drops) : net_(net), attr_(attr), left(drops) {
        net.set_tap(this);
    }
    ~Dropper() { net_.set_tap(nullptr); }
    Dropper(const Dropper&) = delete;
    Dropper& operator=(const Dropper&) = delete;
    bool on_frame(LoopFrame& frame) noexcept override {
        if (!is_mad(frame, attr_)) return true;
        ++seen;
        if (left == 0) return true;
        --left;
        return false;
    }

  private:
    LoopNet& net_;
    CmAttr attr_;

  public:
    std::uint32_t left, seen = 0;
};

// A MAD from an address where nobody listens, as a UD SEND_ONLY to queue pair 1.
inline std::vector<std::byte> ud_frame(std::span<const std::byte> mad) {
    std::vector<std::byte> frame(kMadAt + mad.size());
    store_u8(frame.data(), 0x64);
    store_be16(frame.data() + 2, 0xFFFF);
    store_be24(frame.data() + 5, 1);
    store_be32(frame.data() + 12, 0x80010000);
    store_be24(frame.data() + 17, 1);
    std::copy(mad.begin(), mad.end(), frame.begin() + kMadAt);
    return frame;
}

class CmTest : public ::testing::Test {
  protected:
    CmTest() : a(world.make_device(kHostA)), b(world.make_device(kHostB)) {
        server = std::make_unique<Server>(*b, kHostB.with_port(kPort));
        client = std::make_unique<End>(*a);
    }
    Loop& loop() { return world.loop(); }
    SockAddr at() const { return server->at(); }
    void establish(const ConnParams& params = {}) {
        ASSERT_TRUE(client->connect(at(), params));
        ASSERT_TRUE(run_until(loop(), [&] {
            return !client->events.empty() && !server->ends.empty() &&
                   !server->ends[0]->events.empty();
        }));
        ASSERT_TRUE(client->established());
        ASSERT_TRUE(server->ends[0]->established());
    }

    SimWorld world;
    std::unique_ptr<SoftDevice> a, b;
    std::unique_ptr<Server> server;
    std::unique_ptr<End> client;
};

}  // namespace nfsrdma::verbs::softroce::test
