#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "verbs/rdmacore/rdmacore.hpp"

// verbs/rdmacore where this program was built with it; elsewhere no device, with an error that says
// so.
namespace nfsrdma::devices {

bool built_with_rdmacore() noexcept;
// For people, with rdma-core and without.
const char* name_of(verbs::rdmacore::Transport transport) noexcept;
const char* name_of(verbs::rdmacore::Strategy strategy) noexcept;
std::vector<verbs::rdmacore::DeviceInfo> list_rdma_devices();
verbs::rdmacore::MemlockLimit memlock_limit() noexcept;  // without rdma-core: no limit
Result<std::unique_ptr<verbs::Device>> open_rdma_device(Loop& loop,
                                                        const verbs::rdmacore::Options& options);

// One for each loop.
class RdmaDevices {
  public:
    static Result<std::unique_ptr<RdmaDevices>> create(std::span<Loop* const> loops,
                                                       const verbs::rdmacore::Options& options);
    virtual ~RdmaDevices() = default;
    virtual verbs::Device& device(std::uint32_t index) noexcept = 0;
};

// "keys are made by ..."; of a device that is one of rdma-core's.
std::string keys_of(const verbs::Device& device);

}  // namespace nfsrdma::devices
