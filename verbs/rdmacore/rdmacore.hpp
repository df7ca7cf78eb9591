#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "base/result.hpp"
#include "verbs/device.hpp"

// Any RDMA device of the machine, by libibverbs and librdmacm: hardware and Linux soft-RoCE.
namespace nfsrdma::verbs::rdmacore {

// How a REG_MR is done: libibverbs has no such work request.
enum class Strategy : std::uint8_t {
    automatic,      // windows, else register_each; decided when it is opened
    windows,        // a type-2B memory window bound over registered memory
    umr,            // a key of mlx5, laid over a list of runs of registered memory; never automatic
    register_each,  // ibv_reg_mr in each FastMr::map: slow, and the peer cannot invalidate
};
const char* to_string(Strategy strategy) noexcept;

struct Options {
    // A device ("rxe0", "mlx5_0") or a local address of one ("10.9.0.1", "fe80::1%eth0"); empty:
    // the first with an active port.
    std::string device;
    Strategy strategy = Strategy::automatic;
    // 4.096 us x 2^n until a packet without an answer is sent again; 16 is 268 ms. The default of
    // connection management, some 4 s, turns every lost packet into a stall that users see.
    std::uint8_t ack_timeout_exp = 16;
};

enum class Transport : std::uint8_t { infiniband, roce, iwarp, other };
const char* to_string(Transport transport) noexcept;

struct GidInfo {
    std::uint32_t index = 0;
    std::string address;  // "::ffff:10.9.0.1", "fe80::..."
    std::string type;     // "RoCE v2", "IB/RoCE v1", as the kernel says it; may be empty
    std::string netdev;   // may be empty
};

struct PortInfo {
    std::uint32_t number = 0;
    bool active = false;
    std::string state;                          // "PORT_ACTIVE"
    std::uint32_t active_mtu = 0, max_mtu = 0;  // bytes
    std::vector<GidInfo> gids;                  // those that are set
};

// What there is to know of one device without using it.
struct DeviceInfo {
    std::string name;      // "rxe0"
    std::string firmware;  // may be empty
    Transport transport = Transport::other;
    std::uint32_t vendor_id = 0, part_id = 0;
    std::string family;  // the row of the quirk table that applies: "rxe", "siw"; else empty
    std::vector<std::string> quirks;          // sentences
    Strategy strategy = Strategy::automatic;  // what `automatic` would take; never `automatic`
    DeviceCaps caps;                          // as open_device would say
    bool reliable = true;     // it has reliable connections; if not, `error` says so
    bool windows_2b = false;  // it makes memory windows of type 2B
    int window_error = 0;     // errno: it says that it has them, and makes none
    std::uint64_t max_mr_size = 0;
    std::uint32_t max_qp = 0, max_qp_wr = 0, max_cq = 0, max_cqe = 0, max_mr = 0, max_mw = 0;
    std::uint32_t max_sge = 0, max_sge_rd = 0, max_rd_atom = 0;
    std::vector<PortInfo> ports;
    std::string error;  // why it cannot be opened; then only `name` is valid
};

// All devices of the machine; empty where it has none, or no kernel support for them.
std::vector<DeviceInfo> list_devices();

struct MemlockLimit {
    std::uint64_t soft = 0, hard = 0;  // bytes; UINT64_MAX: no limit
    bool exempt = false;               // CAP_IPC_LOCK: the limit does not count
};
MemlockLimit memlock_limit() noexcept;

// Errc::unsupported: no such device, or none at all. Errc::system: it cannot be opened. The log
// says at level info which device was taken and how keys are bound; at level warn when that is
// slow. The device outlives everything made from it.
Result<std::unique_ptr<Device>> open_device(Loop& loop, const Options& options);

// What open_device decided; `device` is one of ours.
Strategy strategy_of(const Device& device) noexcept;

// One process, several loops: device k is of loop k. The same address may be listened at by each of
// them; connect requests then go to them in turn, for as long as the listener that was the first
// lives. Made, and dies, with no loop running, after everything made from the devices.
class DeviceGroup {
  public:
    static Result<std::unique_ptr<DeviceGroup>> create(std::span<Loop* const> loops,
                                                       const Options& options);
    ~DeviceGroup();
    DeviceGroup(const DeviceGroup&) = delete;
    DeviceGroup& operator=(const DeviceGroup&) = delete;
    std::uint32_t size() const noexcept;
    Device& device(std::uint32_t index) noexcept;

  private:
    struct State;
    explicit DeviceGroup(std::unique_ptr<State> state) noexcept;
    std::unique_ptr<State> state_;
};

}  // namespace nfsrdma::verbs::rdmacore
