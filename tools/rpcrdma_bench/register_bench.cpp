#include "tools/rpcrdma_bench/register_bench.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sys/mman.h>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/loop.hpp"
#include "devices/open.hpp"
#include "verbs/device.hpp"

// Operation. One device with both ends of a connection, since a key belongs to a connection. 32
// keys are bound by one post and invalidated by the same; then their completion is waited for. A
// registration has no work request: 32 are made, then ended.
//
// Errors. A completion that is none ends the measurement.
namespace nfsrdma::bench {
namespace {

constexpr std::uint32_t kKeys = 32, kPage = 4096;
constexpr std::uint32_t k4KiB = 4u << 10, k64KiB = 64u << 10, k1MiB = 1u << 20;
constexpr std::uint64_t kWaitNs = 20 * kNsPerSec;

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

template <class F>
bool run_until(Loop& loop, F finished) {
    return loop.run_until([](void* f) { return (*static_cast<F*>(f))(); }, &finished, kWaitNs);
}

// Memory of whole pages that are there.
class Pages {
  public:
    explicit Pages(std::size_t bytes) : size_(bytes) {
        void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (at != MAP_FAILED) data_ = static_cast<std::byte*>(at);
    }
    ~Pages() {
        if (data_ != nullptr) ::munmap(data_, size_);
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    std::span<std::byte> of(std::uint32_t key, std::uint32_t bytes) const {
        return {data_ + std::size_t{key} * k1MiB, bytes};
    }
    std::span<std::byte> all() const { return {data_, data_ == nullptr ? 0 : size_}; }

  private:
    std::byte* data_ = nullptr;
    std::size_t size_;
};

// The passive end: takes one connection and leaves it alone.
class Peer final : public verbs::ListenHandler, public verbs::CmHandler {
  public:
    Result<void> start(verbs::Device& device, const SockAddr& at) {
        loop_ = &device.loop();
        NR_TRY_ASSIGN(pd_, device.alloc_pd());
        NR_TRY_ASSIGN(cq_, device.create_cq(16));
        loop_->add(*cq_);
        NR_TRY_ASSIGN(listener_, device.listen(at, *this));
        return {};
    }
    ~Peer() {
        listener_.reset();
        if (id_ != nullptr && id_->qp() != nullptr) {
            id_->qp()->set_error();
            (void)run_until(*loop_, [this] { return id_->qp()->outstanding() == 0; });
        }
        id_.reset();
        if (cq_ != nullptr) loop_->remove(*cq_);
    }
    Peer() = default;
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    SockAddr address() const { return listener_->local(); }

    void on_connect_request(std::unique_ptr<verbs::CmId> id,
                            const verbs::ConnectRequest& /*request*/) noexcept override {
        id->set_handler(*this);
        if (!id->create_qp(*pd_, *cq_, verbs::QpOptions{4, 4, 1, 1})) return;
        if (id->accept({})) id_ = std::move(id);
    }
    void on_cm_event(verbs::CmId& /*id*/, const verbs::CmEvent& /*event*/) noexcept override {}

  private:
    Loop* loop_ = nullptr;
    std::unique_ptr<verbs::ProtectionDomain> pd_;
    std::unique_ptr<verbs::CompletionQueue> cq_;
    std::unique_ptr<verbs::Listener> listener_;
    std::unique_ptr<verbs::CmId> id_;
};

class RegisterBench final : public verbs::CmHandler {
  public:
    Result<void> start(const RegisterOptions& options);
    ~RegisterBench();
    RegisterBench() = default;
    RegisterBench(const RegisterBench&) = delete;
    RegisterBench& operator=(const RegisterBench&) = delete;
    const std::string& device_line() const { return line_; }

    // Microseconds of one key, opened and closed; negative after a failure.
    double bind(std::uint32_t bytes, double seconds);
    double reg(std::uint32_t bytes, double seconds);

    void on_cm_event(verbs::CmId& /*id*/, const verbs::CmEvent& event) noexcept override {
        event_ = event.type;
        told_ = true;
    }

  private:
    struct Key {
        std::unique_ptr<verbs::FastMr> mr;
        std::vector<std::byte*> pages;  // its 1 MiB of the memory: written once, bound many times
        verbs::SendWr open, close;
    };
    struct Last : verbs::Cqe {
        bool done_once = false, good = true;
    };
    Result<void> open_devices(const RegisterOptions& options, const SockAddr& address);
    Result<void> connect(const SockAddr& address);
    bool bind_all(std::uint32_t bytes);
    bool reg_all(std::uint32_t bytes);
    bool post_and_wait(const verbs::WrChain& chain);

    Pages memory_{std::size_t{kKeys} * k1MiB};
    std::unique_ptr<Loop> loop_;
    std::unique_ptr<verbs::Device> passive_device_, device_;
    std::unique_ptr<Peer> peer_;
    std::unique_ptr<verbs::ProtectionDomain> pd_;
    std::unique_ptr<verbs::CompletionQueue> cq_;
    std::unique_ptr<verbs::CmId> id_;
    std::unique_ptr<verbs::Mr> arena_;
    std::array<Key, kKeys> keys_;
    Last last_;
    verbs::CmEventType event_ = verbs::CmEventType::unreachable;
    bool told_ = false;
    std::string line_;
};

Result<void> RegisterBench::open_devices(const RegisterOptions& options, const SockAddr& address) {
    devices::Request request;
    request.choice = devices::parse_choice(options.device).value_or(devices::Choice{});
    request.address = address;
    request.passive = true;
    Result<devices::Opened> passive = devices::open(*loop_, request);
    if (!passive) {
        (void)std::fprintf(stderr, "rpcrdma-bench: %s\n",
                           devices::explain(request, passive.error()).c_str());
        return passive.error();
    }
    line_ = passive->line;
    passive_device_ = std::move(passive->device);
    request.passive = false;
    if (request.choice.kind == devices::Kind::softroce) request.bind = address.with_port(0);
    NR_TRY_ASSIGN(auto active, devices::open(*loop_, request));
    device_ = std::move(active.device);
    if (!device_->caps().fast_reg)
        return Error{Errc::unsupported, 0, "the device has no keys that are bound"};
    return {};
}

Result<void> RegisterBench::connect(const SockAddr& address) {
    peer_ = std::make_unique<Peer>();
    NR_TRY(peer_->start(*passive_device_, address.with_port(0)));
    NR_TRY_ASSIGN(pd_, device_->alloc_pd());
    NR_TRY_ASSIGN(cq_, device_->create_cq(4 * kKeys));
    loop_->add(*cq_);
    NR_TRY_ASSIGN(arena_, pd_->register_memory(memory_.all(), verbs::Access::local_write));
    NR_TRY_ASSIGN(id_, device_->create_id(*this));
    NR_TRY(id_->create_qp(*pd_, *cq_, verbs::QpOptions{4 * kKeys, 4, 1, 1}));
    NR_TRY(id_->connect(peer_->address(), {}));
    (void)run_until(*loop_, [this] { return told_; });
    if (event_ != verbs::CmEventType::established)
        return Error{Errc::refused, 0, "the device does not connect to itself"};
    for (std::uint32_t i = 0; i < kKeys; ++i) {
        NR_TRY_ASSIGN(keys_[i].mr, pd_->alloc_fast_mr(k1MiB / kPage));
        for (std::uint32_t at = 0; at < k1MiB; at += kPage)
            keys_[i].pages.push_back(memory_.of(i, k1MiB).data() + at);
    }
    last_.done = [](verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
        auto& last = static_cast<Last&>(cqe);
        last.done_once = true;
        last.good = last.good && wc.status == verbs::WcStatus::success;
    };
    return {};
}

Result<void> RegisterBench::start(const RegisterOptions& options) {
    NR_TRY_ASSIGN(loop_, Loop::create({}));
    NR_TRY_ASSIGN(const SockAddr address, SockAddr::parse(options.address, 0));
    if (memory_.all().empty()) return Error{Errc::system, ENOMEM, "memory to register"};
    NR_TRY(open_devices(options, address));
    return connect(address);
}

RegisterBench::~RegisterBench() {
    if (id_ != nullptr && id_->qp() != nullptr) {
        id_->qp()->set_error();
        (void)run_until(*loop_, [this] { return id_->qp()->outstanding() == 0; });
    }
    for (Key& key : keys_)
        key.mr.reset();
    id_.reset();
    arena_.reset();
    if (cq_ != nullptr) loop_->remove(*cq_);
    cq_.reset();
    pd_.reset();
    peer_.reset();
}

bool RegisterBench::post_and_wait(const verbs::WrChain& chain) {
    last_.done_once = false;
    if (!id_->qp()->post_send(chain)) return false;
    return run_until(*loop_, [this] { return last_.done_once; }) && last_.good;
}

bool RegisterBench::bind_all(std::uint32_t bytes) {
    verbs::WrChain chain;
    for (std::uint32_t i = 0; i < kKeys; ++i) {
        Key& key = keys_[i];
        const auto pages = std::span(key.pages).first(bytes / kPage);
        if (!key.mr->map(pages, kPage, 0, bytes, address_of(pages[0]), verbs::Access::remote_read))
            return false;
        key.open = {};
        key.open.cqe = &last_;
        key.open.op = verbs::SendOp::reg_mr;
        key.open.mr = key.mr.get();
        key.open.rkey = key.mr->rkey();
        chain.push_back(key.open);
    }
    for (std::uint32_t i = 0; i < kKeys; ++i) {
        Key& key = keys_[i];
        key.close = {};
        key.close.cqe = &last_;
        key.close.op = verbs::SendOp::local_inv;
        key.close.mr = key.mr.get();
        key.close.rkey = key.mr->rkey();
        key.close.signaled = i + 1 == kKeys;
        chain.push_back(key.close);
    }
    return post_and_wait(chain);
}

bool RegisterBench::reg_all(std::uint32_t bytes) {
    std::array<std::unique_ptr<verbs::Mr>, kKeys> regions;
    for (std::uint32_t i = 0; i < kKeys; ++i) {
        auto made = pd_->register_memory(memory_.of(i, bytes), verbs::Access::remote_read);
        if (!made) return false;
        regions[i] = *std::move(made);
    }
    return true;
}

double RegisterBench::bind(std::uint32_t bytes, double seconds) {
    const double begin = now_s();
    std::uint64_t rounds = 0;
    double spent = 0;
    do {
        if (!bind_all(bytes)) return -1;
        ++rounds;
        spent = now_s() - begin;
    } while (spent < seconds);
    return spent * 1e6 / static_cast<double>(rounds * kKeys);
}

double RegisterBench::reg(std::uint32_t bytes, double seconds) {
    const double begin = now_s();
    std::uint64_t rounds = 0;
    double spent = 0;
    do {
        if (!reg_all(bytes)) return -1;
        ++rounds;
        spent = now_s() - begin;
    } while (spent < seconds);
    return spent * 1e6 / static_cast<double>(rounds * kKeys);
}

}  // namespace

int run_register(const RegisterOptions& options) {
    RegisterBench bench;
    if (const Result<void> started = bench.start(options); !started) {
        (void)std::fprintf(stderr, "rpcrdma-bench: register: %s\n",
                           to_string(started.error()).c_str());
        return 1;
    }
    (void)std::fprintf(stderr, "rpcrdma-bench: %s\n", bench.device_line().c_str());
    const auto bind = [&](std::uint32_t bytes) {
        return [&bench, bytes](double seconds) { return bench.bind(bytes, seconds); };
    };
    const auto reg = [&](std::uint32_t bytes) {
        return [&bench, bytes](double seconds) { return bench.reg(bytes, seconds); };
    };
    bool all = true;
    const std::pair<const char*, std::uint32_t> sizes[] = {
        {"bind_vs_reg_4KiB", k4KiB}, {"bind_vs_reg_64KiB", k64KiB}, {"bind_vs_reg_1MiB", k1MiB}};
    for (const auto& [name, bytes] : sizes) {
        all = print(measure_pairs(name, "us", reg(bytes), bind(bytes), options.pairs),
                    options.json) &&
              all;
    }
    all = print(measure_pairs("bind_1MiB_vs_4KiB", "us", bind(k1MiB), bind(k4KiB), options.pairs),
                options.json) &&
          all;
    return all ? 0 : 1;
}

}  // namespace nfsrdma::bench
