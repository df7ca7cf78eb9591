#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/rpcrdma_ping/endpoint.hpp"

namespace nfsrdma::ping {

// One client's connection.
class PingSession final : public Endpoint {
  public:
    // Accepts `id`.
    static Result<std::unique_ptr<PingSession>> create(verbs::Device& device,
                                                       std::unique_ptr<verbs::CmId> id);
    ~PingSession() override { finish(); }
    PingSession(const PingSession&) = delete;
    PingSession& operator=(const PingSession&) = delete;

  private:
    PingSession(verbs::Device& device, std::unique_ptr<verbs::CmId> id) noexcept
        : Endpoint(device, std::move(id)) {}
    void on_step(const Advert& advert) noexcept override;
    void on_over() noexcept override { transfer_.reset(); }
    void read_source(const Advert& advert) noexcept;
    void write_sink(const Advert& advert) noexcept;
    static void on_pulled(pools::Transfer& transfer, bool ok) noexcept;

    pools::Lease<pools::Transfer> transfer_;
    std::uint32_t size_ = 0;  // of what was read
    bool has_read_ = false;
};

class PingServer final : public verbs::ListenHandler {
  public:
    static Result<std::unique_ptr<PingServer>> create(verbs::Device& device, const SockAddr& local);
    SockAddr local() const noexcept { return listener_->local(); }
    // Prints and forgets the sessions that ended; how many clients are gone, and whether one of
    // them failed.
    std::uint32_t reap();
    bool any_failed() const noexcept { return any_failed_; }
    std::uint64_t pings() const noexcept;  // of sessions that are alive
    void on_connect_request(std::unique_ptr<verbs::CmId> id,
                            const verbs::ConnectRequest& request) noexcept override;

  private:
    explicit PingServer(verbs::Device& device) noexcept : device_(device) {}
    static constexpr std::size_t kSessionsMax = 64;
    verbs::Device& device_;
    std::unique_ptr<verbs::Listener> listener_;
    std::vector<std::unique_ptr<PingSession>> sessions_;
    bool any_failed_ = false;
};

}  // namespace nfsrdma::ping
