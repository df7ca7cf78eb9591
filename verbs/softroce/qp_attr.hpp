#pragma once
#include <cstdint>

#include "verbs/softroce/wire.hpp"

// What connection management and the queue pairs of the soft device know of each other.
namespace nfsrdma::verbs::softroce {

class SoftQp;

// As agreed by the CM exchange; moves a queue pair from init to ready-to-send in one step.
struct QpAttr {
    Path path;
    std::uint32_t dest_qpn = 0;
    std::uint32_t sq_psn = 0;  // our first
    std::uint32_t rq_psn = 0;  // the peer's first
    std::uint32_t pmtu = 1024;
    std::uint8_t ack_timeout_exp = 14;
    std::uint8_t retry_count = 7, rnr_retry_count = 7;
    std::uint8_t read_depth = 16;      // READs that we keep in flight
    std::uint8_t read_responses = 16;  // READs that the peer keeps in flight towards us
};

// The CM end that a queue pair belongs to. Called on the loop, never from inside post_send or
// post_recv.
class QpOwner {
  public:
    virtual void on_first_packet(
        SoftQp& qp) noexcept = 0;  // data before the RTU establishes the passive side
    virtual void on_fatal(SoftQp& qp) noexcept = 0;  // the queue pair went to error by itself

  protected:
    ~QpOwner() = default;
};

}  // namespace nfsrdma::verbs::softroce
