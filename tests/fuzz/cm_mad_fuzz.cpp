// links: nr_softroce
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "tests/fuzz/keep.hpp"
#include "verbs/softroce/cm.hpp"
#include "verbs/softroce/cm_id.hpp"
#include "verbs/softroce/device.hpp"
#include "verbs/softroce/loop_wire.hpp"

// Connection management messages of any bytes into a live device: one that listens, has a
// connection, and waits for the answer to a request of its own. The input is a list of messages: a
// byte of flags, the low byte of the attribute, a length, then the bytes behind the MAD header. The
// flags let a fuzzer that knows no random number get far:
//
//   1 ids of the connection     4 a QPN that fits     16 the transaction of our request
//   2 ids of our own request    8 our service id      32 from a stranger's address     64 time
//   passes
//
// Nothing may crash, each id is told at most one outcome and one end, and nothing may be left over.
namespace nfsrdma::verbs::softroce {
namespace {

const SockAddr kHere = SockAddr::v4(0x7F000001, kRoceV2Port);
const SockAddr kPeer = SockAddr::v4(0x7F000002, kRoceV2Port);
const SockAddr kStranger = SockAddr::v4(0x7F000003, kRoceV2Port);
constexpr std::uint16_t kPort = 20049;
constexpr std::size_t kUdHeader = 20;

template <class T>
T must(Result<T> result) {
    NR_ASSERT(result);
    return *std::move(result);
}

struct Side final : CmHandler {
    Side(SoftDevice& d, ProtectionDomain& p, CompletionQueue& c) : device(d), pd(p), cq(c) {}
    void on_cm_event(CmId&, const CmEvent& event) noexcept override {
        if (event.type == CmEventType::disconnected) {
            NR_ASSERT(++ends == 1 && outcomes == 1);
        } else {
            NR_ASSERT(++outcomes == 1 && ends == 0);
        }
    }
    void make_qp() { (void)id->create_qp(pd, cq, QpOptions{4, 4, 1, 1}); }
    SoftDevice& device;
    ProtectionDomain& pd;
    CompletionQueue& cq;
    std::unique_ptr<CmId> id;
    std::uint32_t outcomes = 0, ends = 0;
};

// Accepts some, rejects some, keeps some waiting, drops some.
struct World final : ListenHandler {
    World()
        : loop(must(Loop::create({.backend = LoopBackend::simulated, .clock = &clock}))),
          net(*loop, 1, {}, {.frames = 256, .mtu = 256}),
          device(must(SoftDevice::create(*loop, net.add_host(kHere), SoftOptions{.seed = 1}))),
          other(must(SoftDevice::create(*loop, net.add_host(kPeer), SoftOptions{.seed = 2}))),
          pd(must(device->alloc_pd())),
          other_pd(must(other->alloc_pd())),
          cq(must(device->create_cq(64))),
          other_cq(must(other->create_cq(64))),
          listener(must(device->listen(kHere.with_port(kPort), *this))) {
        loop->add(*cq);
        loop->add(*other_cq);
    }
    // Of one execution: nothing of it is left.
    void end() {
        net.set_tap(nullptr);
        sides.clear();
        run_for(kNsPerMs);
        NR_ASSERT(device->cm().half_open() == 0 && device->cm().ids() == 0);
        requests = 0;
    }
    ~World() {
        listener.reset();
        loop->remove(*cq);
        loop->remove(*other_cq);
    }
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    void on_connect_request(std::unique_ptr<CmId> id, const ConnectRequest&) noexcept override {
        ++requests;
        if (requests % 4 == 3) return;
        auto side = std::make_unique<Side>(*device, *pd, *cq);
        id->set_handler(*side);
        side->id = std::move(id);
        if (requests % 4 == 2) {
            (void)side->id->reject({});
        } else if (requests % 4 == 1) {
            side->make_qp();
            (void)side->id->accept({});
        }
        sides.push_back(std::move(side));
    }
    Side& connect(SoftDevice& from, ProtectionDomain& with, CompletionQueue& to,
                  const SockAddr& peer) {
        sides.push_back(std::make_unique<Side>(from, with, to));
        Side& side = *sides.back();
        side.id = must(from.create_id(side));
        side.make_qp();
        NR_ASSERT(side.id->connect(peer, {}));
        return side;
    }
    void run_for(std::uint64_t ns) {
        loop->run_until([](void*) { return false; }, nullptr, ns);
    }

    ManualClock clock;
    std::unique_ptr<Loop> loop;
    LoopNet net;
    std::unique_ptr<SoftDevice> device, other;
    std::unique_ptr<ProtectionDomain> pd, other_pd;
    std::unique_ptr<CompletionQueue> cq, other_cq;
    std::unique_ptr<Listener> listener;
    std::vector<std::unique_ptr<Side>> sides;
    std::uint32_t requests = 0;
};

struct Input {
    const std::uint8_t* data;
    std::size_t size;
    std::uint8_t take() {
        if (size == 0) return 0;
        --size;
        return *data++;
    }
};

// Writes what the flags ask for over the body of a MAD.
void fit(std::byte* mad, std::uint8_t flags, const SoftCmId& made, const SoftCmId& asked) {
    std::byte* body = mad + kMadHeaderBytes;
    if ((flags & 1) != 0) {
        store_be32(body, made.remote_comm());
        store_be32(body + 4, made.local_comm());
    }
    if ((flags & 2) != 0) store_be32(body + 4, asked.local_comm());
    const auto attr = static_cast<CmAttr>(load_be16(mad + 16));
    const std::size_t qpn_at = attr == CmAttr::req ? 32 : attr == CmAttr::dreq ? 8 : 12;
    if ((flags & 4) != 0) store_be24(body + qpn_at, made.remote_qpn());
    if ((flags & 8) != 0 && attr == CmAttr::req) store_be64(body + 8, kServiceIdTcp + kPort);
}

std::vector<std::byte> next_frame(Input& input, std::uint8_t flags, std::uint64_t tid,
                                  const SoftCmId& made, const SoftCmId& asked) {
    std::vector<std::byte> frame(kUdHeader + kMadBytes);
    store_u8(frame.data(), 0x64);
    store_be16(frame.data() + 2, 0xFFFF);
    store_be24(frame.data() + 5, kGsiQpn);
    store_be32(frame.data() + 12, kGsiQkey);
    store_be24(frame.data() + 17, kGsiQpn);
    std::byte* mad = frame.data() + kUdHeader;
    store_be32(mad, 0x01070203);
    store_be64(mad + 8, (flags & 16) != 0 ? tid : 7);
    store_be16(mad + 16, input.take());
    const std::size_t size = std::min<std::size_t>(input.take(), kMadBytes - kMadHeaderBytes);
    for (std::size_t i = 0; i < size; ++i)
        mad[kMadHeaderBytes + i] = std::byte{input.take()};
    fit(mad, flags, made, asked);
    return frame;
}

void run(Input input) {
    static fuzz::Keep<World> worlds;
    World& world = worlds.get(0);
    // A request that nobody answers, and whose transaction we see pass.
    class Eye final : public LoopTap {
      public:
        bool on_frame(LoopFrame& frame) noexcept override {
            if (frame.bytes.size() == kUdHeader + kMadBytes && frame.to == kStranger) {
                tid = load_be64(frame.bytes.data() + kUdHeader + 8);
            }
            return true;
        }
        std::uint64_t tid = 0;
    } eye;
    world.net.set_tap(&eye);
    const auto made_of = [](Side& side) -> SoftCmId& { return static_cast<SoftCmId&>(*side.id); };
    world.connect(*world.other, *world.other_pd, *world.other_cq, kHere.with_port(kPort));
    world.run_for(kNsPerMs);
    NR_ASSERT(world.sides.size() == 2);
    const SoftCmId& made = made_of(*world.sides[1]);
    NR_ASSERT(made.state() == SoftCmId::State::established);
    Side& asking = world.connect(*world.device, *world.pd, *world.cq, kStranger.with_port(kPort));
    const SoftCmId& asked = made_of(asking);
    world.run_for(kNsPerUs);
    for (int messages = 0; input.size > 0 && messages < 24; ++messages) {
        const std::uint8_t flags = input.take();
        const auto frame = next_frame(input, flags, eye.tid, made, asked);
        world.net.inject((flags & 32) != 0 ? kStranger : kPeer, kHere, frame);
        world.run_for((flags & 64) != 0 ? 50 * kNsPerMs : 10 * kNsPerUs);
    }
    world.run_for(20 * kNsPerMs);
    world.end();
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size <= 8192) nfsrdma::verbs::softroce::run({data, size});
    return 0;
}
