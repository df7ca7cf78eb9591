#pragma once
#include <cstdint>
#include <memory>

#include "tools/rpcrdma_ping/endpoint.hpp"

namespace nfsrdma::ping {

struct ClientOptions {
    std::uint32_t size = kDefaultSize;
    std::uint64_t count = 0;  // 0: until interrupted
    bool verbose = false;     // shows the data, as rping -v does
    std::uint64_t interval_ns = 0;
};

struct RoundTrips {
    std::uint64_t count = 0, min_ns = 0, max_ns = 0, sum_ns = 0;
};

class PingClient final : public Endpoint {
  public:
    static Result<std::unique_ptr<PingClient>> create(verbs::Device& device, const SockAddr& peer,
                                                      const ClientOptions& options);
    ~PingClient() override { finish(); }
    PingClient(const PingClient&) = delete;
    PingClient& operator=(const PingClient&) = delete;
    void stop() noexcept;  // after the ping that is under way
    const RoundTrips& round_trips() const noexcept { return trips_; }

  private:
    class Pause : public Timer {
      public:
        explicit Pause(PingClient& owner) noexcept
            : Timer([](Timer& t) noexcept { static_cast<Pause&>(t).client.begin_ping(); }),
              client(owner) {}
        PingClient& client;
    };
    PingClient(verbs::Device& device, std::unique_ptr<verbs::CmId> id,
               const ClientOptions& options) noexcept;
    void on_established() noexcept override { begin_ping(); }
    void on_step(const Advert& advert) noexcept override;
    void on_over() noexcept override { exposure_.reset(); }
    void begin_ping() noexcept;
    void fill_source() noexcept;
    void advertise(std::span<std::byte> memory, bool for_write) noexcept;
    void end_ping() noexcept;
    static void on_fenced(pools::Exposure& exposure, bool ok) noexcept;

    ClientOptions options_;
    Loop& loop_;
    pools::Lease<pools::Exposure> exposure_;
    bool sink_told_ = false, stopped_ = false;
    std::uint64_t started_ns_ = 0;
    std::uint32_t first_char_ = 'A';
    RoundTrips trips_;
    Pause pause_;
};

}  // namespace nfsrdma::ping
