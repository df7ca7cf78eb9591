// links: nr_softroce
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "tests/fuzz/keep.hpp"
#include "verbs/softroce/device.hpp"
#include "verbs/softroce/loop_wire.hpp"
#include "verbs/softroce/packet.hpp"

// Frames of any bytes into a live pair of queue pairs. The input is a list of frames: a byte of
// flags, a byte of hint, a length (16 bits), then the bytes from the BTH on. The flags let a fuzzer
// that knows no random number get far:
//
//   1 the QPN of the target      4 its key, where a RETH or IETH has one
//   2 the PSN expected + hint    8 the address inside that key's memory + hint     16 to the
//   requester's end, from its peer
//
// Nothing may crash, and only the memory under the key and the Receives may change.
namespace nfsrdma::verbs::softroce {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kIova = 0x10000;
// Memory of the responder: canary, the keyed page, canary, the Receives, canary.
constexpr std::size_t kKeyed = kPage, kReceives = 3 * kPage, kMemory = 5 * kPage;
constexpr std::uint32_t kPsn = 0xFFFFF0;

template <class T>
T must(Result<T> result) {
    NR_ASSERT(result);
    return *std::move(result);
}

struct End {
    End(Loop& l, LoopNet& net, const SockAddr& at, std::uint64_t seed)
        : loop(l),
          address(at),
          device(must(SoftDevice::create(l, net.add_host(at), SoftOptions{.seed = seed}))),
          pd(must(device->alloc_pd())),
          cq(must(device->create_cq(64))),
          storage(kMemory + kPage, std::byte{0x5C}),
          memory(bytes_at(align_up(address_of(storage.data()), std::uint64_t{kPage}))),
          mr(must(pd->register_memory({memory, kMemory}, Access::local_write))) {
        loop.add(*cq);
    }
    ~End() { loop.remove(*cq); }
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    // A queue pair and a key for one execution.
    void begin() {
        fast = must(pd->alloc_fast_mr(1));
        qp = must(device->create_qp(
            *pd, *cq, {.send_wrs = 8, .recv_wrs = 4, .send_sges = 1, .recv_sges = 2}));
    }
    void end() {
        qp->set_error();
        while (cq->poll() > 0) {
        }
        NR_ASSERT(qp->outstanding() == 0);
        qp.reset();
        fast.reset();
    }
    void connect(const End& to) {
        QpAttr attr;
        attr.path = {address, to.address};
        attr.dest_qpn = to.qp->qpn();
        attr.sq_psn = attr.rq_psn = kPsn;
        attr.pmtu = 256;
        attr.read_responses = 2;
        NR_ASSERT(qp->connect(attr));
    }
    void post(SendOp op, std::size_t offset, std::uint32_t length, FastMr* region = nullptr) {
        SendWr wr;
        const Sge sge{address_of(memory + offset), length, mr->lkey()};
        wr.cqe = &cqe;
        wr.op = op;
        wr.mr = region;
        if (region == nullptr) wr.sgl = {&sge, 1};
        wr.remote_addr = kIova;
        wr.rkey = region == nullptr ? peer_key : Rkey{0};
        wr.signaled = true;
        WrChain chain;
        chain.push_back(wr);
        (void)qp->post_send(chain);
    }
    void receive() {
        RecvWr wr;
        const Sge sges[] = {{address_of(memory + kReceives), 100, mr->lkey()},
                            {address_of(memory + kReceives + 100), 900, mr->lkey()}};
        wr.cqe = &cqe;
        wr.sgl = sges;
        (void)qp->post_recv(wr);
    }
    bool canaries_live() const {
        static const std::vector<std::byte> canary(kMemory, std::byte{0x5C});
        const auto live = [this](std::size_t from, std::size_t to) {
            return std::memcmp(memory + from, canary.data(), to - from) == 0;
        };
        return live(0, kKeyed) && live(kKeyed + kPage, kReceives) &&
               live(kReceives + 1000, kMemory);
    }

    Loop& loop;
    SockAddr address;
    std::unique_ptr<SoftDevice> device;
    std::unique_ptr<ProtectionDomain> pd;
    std::unique_ptr<CompletionQueue> cq;
    std::vector<std::byte> storage;
    std::byte* memory;
    std::unique_ptr<Mr> mr;
    std::unique_ptr<FastMr> fast;
    std::unique_ptr<SoftQp> qp;
    Cqe cqe;
    Rkey peer_key{};
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

// The next frame, made fit for `to` as its flags say; empty: no more.
std::vector<std::byte> next_frame(Input& input, const End& to, std::uint8_t flags,
                                  std::uint32_t psn) {
    const std::uint8_t hint = input.take();
    const std::size_t asked = std::size_t{input.take()} << 8 | input.take();
    const std::size_t size = std::min({asked, input.size, std::size_t{4200}});
    std::vector<std::byte> bytes(size);
    for (std::byte& b : bytes)
        b = std::byte{input.take()};
    if (size < kBthSize) return bytes;
    if ((flags & 1) != 0) store_be24(&bytes[5], to.qp->qpn());
    if ((flags & 2) != 0) store_be24(&bytes[9], (psn + hint) & kPsnMask);
    const std::uint8_t opcode = load_u8(bytes.data());
    const OpcodeInfo& info = info_of(opcode);
    if (size < info.header_size) return bytes;
    const bool reth = info.header_size == kBthSize + kRethSize;
    const auto key = static_cast<std::uint32_t>(to.fast->rkey());
    if ((flags & 4) != 0 && reth) store_be32(&bytes[kBthSize + 8], key);
    if ((flags & 4) != 0 && info.invalidate) store_be32(&bytes[kBthSize], key);
    if ((flags & 8) != 0 && reth) store_be64(&bytes[kBthSize], kIova + hint);
    return bytes;
}

void run_for(Loop& loop, std::uint64_t ns) {
    loop.run_until([](void*) { return false; }, nullptr, ns);
}

struct Pair {
    Pair() : loop(must(Loop::create({.backend = LoopBackend::simulated, .clock = &clock}))) {}
    ManualClock clock;
    std::unique_ptr<Loop> loop;
    LoopNet net{*loop, 1, {}, {.frames = 128, .receive_window = 64 * 1024, .mtu = 256}};
    End requester{*loop, net, SockAddr::v4(0x7F000001, kRoceV2Port), 1};
    End responder{*loop, net, SockAddr::v4(0x7F000002, kRoceV2Port), 2};

    void run(Input input) {
        requester.begin();
        responder.begin();
        requester.connect(responder);
        responder.connect(requester);
        begin_traffic();
        std::uint32_t psn = kPsn;
        for (int frames = 0; input.size > 0 && frames < 64; ++frames) {
            const std::uint8_t flags = input.take();
            End& to = (flags & 16) != 0 ? requester : responder;
            const End& from = (flags & 16) != 0 ? responder : requester;
            const auto bytes = next_frame(input, to, flags, psn);
            net.inject(from.address, to.address, bytes);
            run_for(*loop, 10 * kNsPerUs);
            if ((flags & 32) != 0) ++psn;
        }
        run_for(*loop, 10 * kNsPerMs);
        NR_ASSERT(responder.canaries_live() && requester.canaries_live());
        requester.end();
        responder.end();
        run_for(*loop, kNsPerSec);
        NR_ASSERT(net.frames_in_use() == 0);
    }
    void begin_traffic() {
        std::byte* page = responder.memory + kKeyed;
        NR_ASSERT(responder.fast->map({&page, 1}, kPage, 0, kPage, kIova,
                                      Access::remote_read | Access::remote_write));
        responder.post(SendOp::reg_mr, 0, 0, responder.fast.get());
        for (int i = 0; i < 3; ++i)
            responder.receive();
        run_for(*loop, kNsPerUs);
        // Something is under way, so that answers can meet it: a READ of the keyed page and a SEND,
        // whose packets are lost.
        requester.peer_key = responder.fast->rkey();
        requester.post(SendOp::rdma_read, kReceives, 1000);
        requester.post(SendOp::send, kPage, 600);
        net.set_faults({.loss_ppm = 1'000'000});
        run_for(*loop, kNsPerUs);
        net.set_faults({});
    }
};

void run(Input input) {
    static fuzz::Keep<Pair> pairs;
    pairs.get(0).run(input);
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    nfsrdma::verbs::softroce::run({data, size});
    return 0;
}
