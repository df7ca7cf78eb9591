#pragma once
#include <cstdint>
#include <memory>

#include "verbs/device.hpp"
#include "verbs/softroce/qp_attr.hpp"

namespace nfsrdma::verbs::softroce {

class SoftDevice;

// One reliable connection's queue pair of the soft device. States: init (receives may be posted),
// ready (after connect), error. Belongs to its device's loop.
class SoftQp final : public QueuePair {
  public:
    ~SoftQp()
        override;  // drops what is still posted; completions that were not polled are lost with it

    std::uint32_t qpn() const noexcept { return qpn_; }
    // Drawn at random when the queue pair was made; QpAttr::sq_psn of a connection that CM makes.
    std::uint32_t initial_psn() const noexcept { return initial_psn_; }
    // From init to ready to send and receive. Errc::invalid_argument: an attribute out of range, or
    // not in the init state.
    Result<void> connect(const QpAttr& attr) noexcept;
    bool connected() const noexcept;
    const QpAttr& attr() const noexcept { return attr_; }
    // Told of the first packet and of the fatal error, never from inside a call of this class;
    // nullptr: nobody.
    void set_owner(QpOwner* owner) noexcept { owner_ = owner; }

    void set_error() noexcept override;
    bool in_error() const noexcept override;
    std::uint32_t outstanding() const noexcept override;

  protected:
    Result<void> do_post_send(SendWr& first) noexcept override;
    Result<void> do_post_recv(RecvWr& first) noexcept override;

  private:
    friend class SoftDevice;
    SoftQp(SoftDevice& device, std::uint32_t qpn, const QpOptions& options);

    std::uint32_t qpn_;
    std::uint32_t initial_psn_;
    QpAttr attr_;
    QpOwner* owner_ = nullptr;
};

}  // namespace nfsrdma::verbs::softroce
