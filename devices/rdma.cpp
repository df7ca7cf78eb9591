#include "devices/rdma.hpp"

namespace nfsrdma::devices {

const char* name_of(verbs::rdmacore::Transport transport) noexcept {
    switch (transport) {
        case verbs::rdmacore::Transport::infiniband:
            return "InfiniBand";
        case verbs::rdmacore::Transport::roce:
            return "RoCE";
        case verbs::rdmacore::Transport::iwarp:
            return "iWARP";
        case verbs::rdmacore::Transport::other:
            return "another transport";
    }
    return "";
}

const char* name_of(verbs::rdmacore::Strategy strategy) noexcept {
    switch (strategy) {
        case verbs::rdmacore::Strategy::automatic:
            return "what the device can do best";
        case verbs::rdmacore::Strategy::windows:
            return "memory windows";
        case verbs::rdmacore::Strategy::umr:
            return "UMR of mlx5";
        case verbs::rdmacore::Strategy::register_each:
            return "registration of each call's memory";
    }
    return "";
}

#if NR_WITH_RDMACORE

namespace {

namespace rdma = verbs::rdmacore;

class Group final : public RdmaDevices {
  public:
    explicit Group(std::unique_ptr<rdma::DeviceGroup> group) noexcept : group_(std::move(group)) {}
    verbs::Device& device(std::uint32_t index) noexcept override { return group_->device(index); }

  private:
    std::unique_ptr<rdma::DeviceGroup> group_;
};

}  // namespace

bool built_with_rdmacore() noexcept {
    return true;
}

std::vector<rdma::DeviceInfo> list_rdma_devices() {
    return rdma::list_devices();
}

rdma::MemlockLimit memlock_limit() noexcept {
    return rdma::memlock_limit();
}

Result<std::unique_ptr<verbs::Device>> open_rdma_device(Loop& loop, const rdma::Options& options) {
    return rdma::open_device(loop, options);
}

Result<std::unique_ptr<RdmaDevices>> RdmaDevices::create(std::span<Loop* const> loops,
                                                         const rdma::Options& options) {
    NR_TRY_ASSIGN(std::unique_ptr<rdma::DeviceGroup> group,
                  rdma::DeviceGroup::create(loops, options));
    return std::unique_ptr<RdmaDevices>(std::make_unique<Group>(std::move(group)));
}

std::string keys_of(const verbs::Device& device) {
    return std::string("keys are made by ") + name_of(rdma::strategy_of(device));
}

#else

namespace {

Error missing() noexcept {
    return Error{
        Errc::unsupported, 0,
        "this program was built without rdma-core (libibverbs, librdmacm) and has softroce "
        "only"};
}

}  // namespace

bool built_with_rdmacore() noexcept {
    return false;
}

std::vector<verbs::rdmacore::DeviceInfo> list_rdma_devices() {
    return {};
}

verbs::rdmacore::MemlockLimit memlock_limit() noexcept {
    return {UINT64_MAX, UINT64_MAX, true};
}

Result<std::unique_ptr<verbs::Device>> open_rdma_device(
    Loop& /*loop*/, const verbs::rdmacore::Options& /*options*/) {
    return missing();
}

Result<std::unique_ptr<RdmaDevices>> RdmaDevices::create(
    std::span<Loop* const> /*loops*/, const verbs::rdmacore::Options& /*options*/) {
    return missing();
}

std::string keys_of(const verbs::Device& /*device*/) {
    return {};
}

#endif

}  // namespace nfsrdma::devices
