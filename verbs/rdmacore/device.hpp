#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include <infiniband/verbs.h>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "base/sock_addr.hpp"
#include "verbs/device.hpp"
#include "verbs/rdmacore/handles.hpp"
#include "verbs/rdmacore/quirks.hpp"
#include "verbs/rdmacore/rdmacore.hpp"

namespace nfsrdma::verbs::rdmacore {

class Cm;
class ListenGroup;
class RdmaQp;
struct Probed;

// One device, opened for one loop: its own context, completion channel and event channels, so that
// several loops of a process share nothing.
class RdmaDevice final : public Device {
  public:
    static Result<std::unique_ptr<RdmaDevice>> open(Loop& loop, const Options& options);
    ~RdmaDevice() override;
    RdmaDevice(const RdmaDevice&) = delete;
    RdmaDevice& operator=(const RdmaDevice&) = delete;

    Loop& loop() noexcept override { return loop_; }
    const DeviceCaps& caps() const noexcept override { return caps_; }
    const char* name() const noexcept override { return name_.c_str(); }
    Result<std::unique_ptr<ProtectionDomain>> alloc_pd() override;
    Result<std::unique_ptr<CompletionQueue>> create_cq(std::uint32_t entries) override;
    Result<std::unique_ptr<CmId>> create_id(CmHandler& handler) override;
    Result<std::unique_ptr<Listener>> listen(const SockAddr& local,
                                             ListenHandler& handler) override;

    ibv_context& context() const noexcept { return *context_; }
    ibv_comp_channel& comp_channel() const noexcept { return *comp_channel_; }
    Strategy strategy() const noexcept { return strategy_; }
    const Quirks& quirks() const noexcept { return quirks_; }
    const Options& options() const noexcept { return options_; }
    std::uint32_t max_cqe() const noexcept { return max_cqe_; }
    std::uint8_t first_port() const noexcept { return first_port_; }
    // The local address by which the device was named; unspecified when by its name.
    const SockAddr& source() const noexcept { return source_; }
    Cm& cm() noexcept { return *cm_; }
    void add(RdmaQp& qp) noexcept;
    void remove(RdmaQp& qp) noexcept;
    // Every queue pair of it is in error from now on.
    void on_gone() noexcept;
    bool gone() const noexcept { return gone_; }

  private:
    struct Watch : FdWatch {
        using FdWatch::FdWatch;
        RdmaDevice* device = nullptr;
    };
    RdmaDevice(Loop& loop, const Options& options) noexcept;
    Result<void> start(ContextHandle context);
    Result<void> start_watches();
    void unwatch() noexcept;
    void say_what_was_taken(const Probed& probed) const noexcept;
    void on_completion_events() noexcept;
    void on_async_events() noexcept;
    void on_async_event(const ibv_async_event& event) noexcept;

    Loop& loop_;
    Options options_;
    std::string name_;
    ContextHandle context_;
    CompChannelHandle comp_channel_;
    DeviceCaps caps_;
    Quirks quirks_;
    Strategy strategy_ = Strategy::automatic;
    std::uint32_t max_cqe_ = 0;
    std::uint8_t first_port_ = 1;
    SockAddr source_;
    bool gone_ = false;
    List<RdmaQp, RdmaDevice> qps_;
    Watch comp_watch_, async_watch_;
    std::unique_ptr<Cm> cm_;
};

// Every read of `fd` returns at once.
Result<void> set_nonblocking(int fd) noexcept;

}  // namespace nfsrdma::verbs::rdmacore
