#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/loop.hpp"
#include "tests/verbs/cm_events.hpp"
#include "verbs/cm.hpp"
#include "verbs/device.hpp"
#include "verbs/rdmacore/rdmacore.hpp"

// Two ends of connections over an RDMA device of this machine, in one process. The device talks to
// itself: nothing leaves the machine.
namespace nfsrdma::verbs::rdmacore::test {

inline constexpr std::uint64_t kWaitNs = 30 * kNsPerSec;  // of a slow machine
inline constexpr std::size_t kPage = 4096;

using verbs::test::bytes_of;
using verbs::test::run_for;

template <class F>
bool run_until(Loop& loop, F finished, std::uint64_t timeout_ns = kWaitNs) {
    return verbs::test::run_until(loop, std::move(finished), timeout_ns);
}

// A completion, remembered.
struct Done : Cqe {
    Done() noexcept {
        done = [](Cqe& cqe, const Wc& wc) noexcept {
            auto& self = static_cast<Done&>(cqe);
            self.last = wc;
            ++self.count;
        };
    }
    Wc last;
    std::uint32_t count = 0;
    bool good() const { return count > 0 && last.status == WcStatus::success; }
};

// Page-aligned memory.
class Pages {
  public:
    explicit Pages(std::size_t bytes) : size_(bytes) {
        void* const at =
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at != MAP_FAILED) data_ = static_cast<std::byte*>(at);
    }
    ~Pages() {
        if (data_ != nullptr) ::munmap(data_, size_);
    }
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    std::span<std::byte> span() const { return {data_, size_}; }
    std::byte* at(std::size_t offset) const { return data_ + offset; }
    std::vector<std::byte*> list(std::size_t offset, std::size_t bytes) const {
        std::vector<std::byte*> out;
        for (std::size_t i = offset / kPage; i * kPage < offset + bytes; ++i)
            out.push_back(data_ + i * kPage);
        return out;
    }

  private:
    std::byte* data_ = nullptr;
    std::size_t size_;
};

// One end: its domain, queue, id and registered memory.
class End final : public verbs::test::CmEvents {
  public:
    explicit End(Device& device, std::size_t bytes = std::size_t{4} << 20)
        : memory(bytes), device_(device) {
        cq = std::move(*device.create_cq(64));
        pd = std::move(*device.alloc_pd());
        device.loop().add(*cq);
        mr = std::move(*pd->register_memory(memory.span(), Access::local_write));
    }
    ~End() {
        close();
        mr.reset();
        device_.loop().remove(*cq);
    }
    End(const End&) = delete;
    End& operator=(const End&) = delete;

    // The connection ends; its queue pair has flushed.
    void close() {
        if (id == nullptr) return;
        if (id->qp() != nullptr) {
            id->qp()->set_error();
            EXPECT_TRUE(run_until(device_.loop(), [&] { return id->qp()->outstanding() == 0; }));
        }
        id.reset();
    }
    void make_qp(const QpOptions& options = {64, 64, 4, 1}) {
        auto made = id->create_qp(*pd, *cq, options);
        ASSERT_TRUE(made) << to_string(made.error());
        qp = *made;
    }
    Result<void> connect(const SockAddr& peer, const ConnParams& params = {}) {
        id = std::move(*device_.create_id(*this));
        make_qp();
        return id->connect(peer, params);
    }
    Sge sge(std::size_t offset, std::uint32_t length) const {
        return {address_of(memory.at(offset)), length, mr->lkey()};
    }
    Device& device() { return device_; }

    Pages memory;
    std::unique_ptr<CompletionQueue> cq;
    std::unique_ptr<ProtectionDomain> pd;
    std::unique_ptr<Mr> mr;
    QueuePair* qp = nullptr;

  private:
    Device& device_;
};

// Takes one connect request after the other; accepts or rejects as told.
class Acceptor final : public ListenHandler {
  public:
    explicit Acceptor(End& end) : end_(end) {}
    void on_connect_request(std::unique_ptr<CmId> id,
                            const ConnectRequest& request) noexcept override {
        ++requests;
        private_data.assign(request.private_data.begin(), request.private_data.end());
        initiator_depth = request.initiator_depth;
        responder_resources = request.responder_resources;
        if (drop) return;
        if (reject) {
            EXPECT_TRUE(id->reject(answer));
            return;
        }
        end_.id = std::move(id);
        end_.id->set_handler(end_);
        end_.make_qp();
        if (before_accept != nullptr) before_accept(end_);
        ConnParams params;
        params.private_data = answer;
        params.initiator_depth = initiator_depth;
        const auto accepted = end_.id->accept(params);
        EXPECT_TRUE(accepted) << to_string(accepted.error());
    }
    std::uint32_t requests = 0;
    bool reject = false, drop = false;
    std::vector<std::byte> private_data, answer;
    std::uint8_t initiator_depth = 0, responder_resources = 0;
    void (*before_accept)(End&) = nullptr;

  private:
    End& end_;
};

// The address that NFSRDMA_TEST_ADDRESS names (iWARP devices do not tell theirs); else the first
// IPv4 address of a device that has one; unspecified without a device.
inline SockAddr device_address() {
    if (const char* const named = std::getenv("NFSRDMA_TEST_ADDRESS"); named != nullptr) {
        auto address = SockAddr::parse(named, 0);
        EXPECT_TRUE(address && address->is_v4())
            << "NFSRDMA_TEST_ADDRESS is no IPv4 address: '" << named << "'";
        return address ? *address : SockAddr{};
    }
    for (const DeviceInfo& device : list_devices()) {
        for (const PortInfo& port : device.ports) {
            for (const GidInfo& gid : port.gids) {
                const std::string mapped = "::ffff:";
                if (!port.active || gid.address.rfind(mapped, 0) != 0) continue;
                auto address = SockAddr::parse(gid.address.substr(mapped.size()), 0);
                if (address) return *address;
            }
        }
    }
    return {};
}

class HwTest : public ::testing::Test {
  protected:
    void SetUp() override {
        address = device_address();
        ASSERT_FALSE(HasFailure());
        if (!address.is_v4()) GTEST_SKIP() << "needs qemu: no RDMA device";
        loop = std::move(*Loop::create({}));
        open(client_device, options());
        open(server_device, options());
    }
    Options options() const {
        Options out;
        if (std::getenv("NFSRDMA_TEST_ADDRESS") != nullptr)
            out.device = address.address_to_string();
        return out;
    }
    void open(std::unique_ptr<Device>& device, const Options& options) {
        device.reset();
        auto opened = open_device(*loop, options);
        ASSERT_TRUE(opened) << to_string(opened.error());
        device = std::move(*opened);
    }
    // A connection, with Receives of `recv_bytes` posted at both ends.
    void make_ends() {
        client = std::make_unique<End>(*client_device);
        server = std::make_unique<End>(*server_device);
        acceptor = std::make_unique<Acceptor>(*server);
    }
    void listen() {
        auto made = server_device->listen(address, *acceptor);
        ASSERT_TRUE(made) << to_string(made.error());
        listener = std::move(*made);
    }
    void connect() {
        make_ends();
        listen();
        const auto asked = client->connect(listener->local());
        ASSERT_TRUE(asked) << to_string(asked.error());
        ASSERT_TRUE(
            run_until(*loop, [&] { return client->established() && server->established(); }))
            << "client " << client->events.size() << " server " << server->events.size();
    }
    // Lives until the queues have flushed, whatever becomes of the test.
    Done& fresh() { return dones.emplace_back(); }
    void TearDown() override {
        if (client != nullptr) client->close();
        if (server != nullptr) server->close();
    }

    std::deque<Done> dones;
    SockAddr address;
    std::unique_ptr<Loop> loop;
    std::unique_ptr<Device> client_device, server_device;
    std::unique_ptr<End> client, server;
    std::unique_ptr<Acceptor> acceptor;
    std::unique_ptr<Listener> listener;
};

}  // namespace nfsrdma::verbs::rdmacore::test
