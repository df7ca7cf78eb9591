#include "tools/rpcrdma_bench/device_bench.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/loop.hpp"
#include "verbs/device.hpp"
#include "verbs/softroce/udp_wire.hpp"

namespace nfsrdma::bench {
namespace {

namespace soft = verbs::softroce;

constexpr std::uint32_t kBytes = 1u << 20, kDepth = 8;
constexpr std::uint64_t kConnectNs = 5 * kNsPerSec;

// What the server tells in its private data.
constexpr std::size_t kTargetInfo = 12;  // address 8, key 4

Result<std::unique_ptr<verbs::Device>> open_device(Loop& loop, const std::string& address,
                                                   std::uint16_t port) {
    NR_TRY_ASSIGN(const SockAddr local, SockAddr::parse(address, port));
    NR_TRY_ASSIGN(auto wire, soft::create_udp_wire({.bind = local}));
    return soft::create_device(loop, std::move(wire), {});
}

std::span<std::byte> page_aligned(std::vector<std::byte>& memory, std::size_t size) {
    memory.resize(size + 4096);
    const std::uint64_t start = align_up(address_of(memory.data()), 4096u);
    return {bytes_at(start), size};
}

template <class F>
bool run_until(Loop& loop, F finished, std::uint64_t timeout_ns) {
    return loop.run_until([](void* f) { return (*static_cast<F*>(f))(); }, &finished, timeout_ns);
}

// The passive side: one memory for all connections.
class DeviceServer final : public verbs::ListenHandler, public verbs::CmHandler {
  public:
    Result<void> start(Loop& loop, const std::string& address) {
        NR_TRY_ASSIGN(device_, open_device(loop, address, soft::kRoceV2Port));
        NR_TRY_ASSIGN(pd_, device_->alloc_pd());
        NR_TRY_ASSIGN(cq_, device_->create_cq(64));
        loop.add(*cq_);
        memory_ = page_aligned(storage_, std::size_t{kBytes} * kDepth);
        NR_TRY_ASSIGN(mr_, pd_->register_memory(memory_, verbs::Access::local_write |
                                                             verbs::Access::remote_read |
                                                             verbs::Access::remote_write));
        NR_TRY_ASSIGN(const SockAddr at, SockAddr::parse(address, 0));
        NR_TRY_ASSIGN(listener_, device_->listen(at, *this));
        return {};
    }
    std::uint16_t port() const { return listener_->local().port(); }

    void on_connect_request(std::unique_ptr<verbs::CmId> id,
                            const verbs::ConnectRequest&) noexcept override {
        id->set_handler(*this);
        if (!id->create_qp(*pd_, *cq_, verbs::QpOptions{8, 8, 1, 1})) return;
        std::array<std::byte, kTargetInfo> info;
        store_be64(info.data(), address_of(memory_.data()));
        store_be32(info.data() + 8, static_cast<std::uint32_t>(mr_->rkey()));
        verbs::ConnParams params;
        params.private_data = info;
        if (id->accept(params)) ids_.push_back(std::move(id));
    }
    void on_cm_event(verbs::CmId& id, const verbs::CmEvent& event) noexcept override {
        if (event.type == verbs::CmEventType::established) return;
        const auto at = std::find_if(ids_.begin(), ids_.end(),
                                     [&](const auto& own) { return own.get() == &id; });
        if (at != ids_.end()) ids_.erase(at);
    }

  private:
    std::unique_ptr<verbs::Device> device_;
    std::unique_ptr<verbs::ProtectionDomain> pd_;
    std::unique_ptr<verbs::CompletionQueue> cq_;
    std::vector<std::byte> storage_;
    std::span<std::byte> memory_;
    std::unique_ptr<verbs::Mr> mr_;
    std::unique_ptr<verbs::Listener> listener_;
    std::vector<std::unique_ptr<verbs::CmId>> ids_;
};

}  // namespace

int serve_device(const std::string& address) {
    auto loop = Loop::create({});
    if (!loop) return 1;
    DeviceServer server;
    if (auto started = server.start(**loop, address); !started) {
        (void)std::fprintf(stderr, "device bench: %s\n", to_string(started.error()).c_str());
        return 1;
    }
    (void)std::printf("%d\n", server.port());
    (void)std::fflush(stdout);
    (*loop)->run();
    return 0;
}

struct DeviceClient::State final : verbs::CmHandler {
    // One work request that is posted again as soon as it completes.
    struct Slot : verbs::Cqe {
        State* state = nullptr;
        verbs::SendWr wr;
        verbs::Sge sge;
    };

    ~State() {
        if (id != nullptr && id->qp() != nullptr) {
            id->disconnect();
            id->qp()->set_error();
            while (cq->poll() > 0) {
            }
        }
        id.reset();
        if (cq != nullptr) loop->remove(*cq);
    }
    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    Result<void> connect(const std::string& address, int port, const std::string& local);
    void prepare_slots();
    bool post(Slot& slot);
    double rate(verbs::SendOp op, double seconds);
    static void on_done(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    void on_cm_event(verbs::CmId&, const verbs::CmEvent& event) noexcept override {
        outcome = event.type;
        told = true;
        if (event.type == verbs::CmEventType::established) {
            std::copy_n(event.private_data.begin(), kTargetInfo, target.begin());
        } else {
            failed = true;
        }
    }

    std::unique_ptr<Loop> loop;
    std::unique_ptr<verbs::Device> device;
    std::unique_ptr<verbs::ProtectionDomain> pd;
    std::unique_ptr<verbs::CompletionQueue> cq;
    std::vector<std::byte> storage;
    std::span<std::byte> memory;
    std::unique_ptr<verbs::Mr> mr;
    std::unique_ptr<verbs::CmId> id;
    std::array<std::byte, kTargetInfo> target{};
    verbs::CmEventType outcome = verbs::CmEventType::unreachable;
    bool told = false, failed = false;

    std::array<Slot, kDepth> slots;
    std::uint32_t running = 0;
    std::uint64_t bytes_done = 0, deadline_ns = 0;
    verbs::SendOp op = verbs::SendOp::rdma_write;
};

Result<void> DeviceClient::State::connect(const std::string& address, int port,
                                          const std::string& local) {
    NR_TRY_ASSIGN(loop, Loop::create({}));
    NR_TRY_ASSIGN(device, open_device(*loop, local, 0));
    NR_TRY_ASSIGN(pd, device->alloc_pd());
    NR_TRY_ASSIGN(cq, device->create_cq(4 * kDepth));
    loop->add(*cq);
    memory = page_aligned(storage, std::size_t{kBytes} * kDepth);
    for (std::size_t i = 0; i < memory.size(); ++i)
        memory[i] = static_cast<std::byte>(i * 31 >> 3);
    NR_TRY_ASSIGN(mr, pd->register_memory(memory, verbs::Access::local_write));
    NR_TRY_ASSIGN(id, device->create_id(*this));
    NR_TRY_ASSIGN(auto* qp, id->create_qp(*pd, *cq, verbs::QpOptions{2 * kDepth, 8, 1, 1}));
    (void)qp;
    NR_TRY_ASSIGN(const SockAddr peer, SockAddr::parse(address, static_cast<std::uint16_t>(port)));
    NR_TRY(id->connect(peer, {}));
    run_until(
        *loop, [this] { return told; }, kConnectNs);
    if (outcome != verbs::CmEventType::established) {
        return Error{Errc::refused, 0, "device bench: connect"};
    }
    prepare_slots();
    return {};
}

void DeviceClient::State::prepare_slots() {
    for (std::uint32_t i = 0; i < kDepth; ++i) {
        Slot& slot = slots[i];
        slot.state = this;
        slot.done = &on_done;
        slot.sge = {address_of(memory.data()) + std::uint64_t{i} * kBytes, kBytes, mr->lkey()};
        slot.wr.cqe = &slot;
        slot.wr.signaled = true;
        slot.wr.sgl = {&slot.sge, 1};
        slot.wr.remote_addr = load_be64(target.data()) + std::uint64_t{i} * kBytes;
        slot.wr.rkey = verbs::Rkey{load_be32(target.data() + 8)};
    }
}

bool DeviceClient::State::post(Slot& slot) {
    slot.wr.op = op;
    verbs::WrChain chain;
    chain.push_back(slot.wr);
    if (failed || !id->qp()->post_send(chain)) {
        failed = true;
        return false;
    }
    ++running;
    return true;
}

void DeviceClient::State::on_done(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    auto& slot = static_cast<Slot&>(cqe);
    State& state = *slot.state;
    --state.running;
    if (wc.status != verbs::WcStatus::success) {
        state.failed = true;
        return;
    }
    state.bytes_done += kBytes;
    if (state.loop->now_ns() < state.deadline_ns) state.post(slot);
}

double DeviceClient::State::rate(verbs::SendOp with, double seconds) {
    op = with;
    bytes_done = 0;
    const std::uint64_t start = loop->now_ns();
    deadline_ns = start + static_cast<std::uint64_t>(seconds * 1e9);
    for (Slot& slot : slots)
        post(slot);
    run_until(
        *loop, [this] { return running == 0; }, deadline_ns - start + 10 * kNsPerSec);
    if (failed || running > 0) return -1;
    return static_cast<double>(bytes_done) * 1e9 / static_cast<double>(loop->now_ns() - start);
}

Result<std::unique_ptr<DeviceClient>> DeviceClient::create(const std::string& address, int port,
                                                           const std::string& local) {
    auto state = std::make_unique<State>();
    NR_TRY(state->connect(address, port, local));
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    return std::unique_ptr<DeviceClient>(new DeviceClient(std::move(state)));
}

DeviceClient::DeviceClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
DeviceClient::~DeviceClient() = default;

double DeviceClient::write_rate(double seconds) {
    return state_->rate(verbs::SendOp::rdma_write, seconds);
}

double DeviceClient::read_rate(double seconds) {
    return state_->rate(verbs::SendOp::rdma_read, seconds);
}

bool DeviceClient::verify() {
    const std::vector<std::byte> before(state_->memory.begin(), state_->memory.end());
    if (write_rate(0) <= 0) return false;
    std::fill(state_->memory.begin(), state_->memory.end(), std::byte{0});
    if (read_rate(0) <= 0) return false;
    return std::equal(before.begin(), before.end(), state_->memory.begin());
}

const soft::SoftCounters& DeviceClient::counters() const {
    return soft::counters(*state_->device);
}

const soft::WireCounters& DeviceClient::wire_counters() const {
    return soft::wire_counters(*state_->device);
}

}  // namespace nfsrdma::bench
