#pragma once
#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "verbs/device.hpp"

namespace nfsrdma::xprtrdma {

// Asks whether anybody is there: a connect request that is meant to be refused. Whoever serves
// connection management at that address answers it at once, without a listener and without memory
// for a connection.
//
// Ownership. The id and its queue pair, on which nothing is posted, live as long as the Probe. On
// the loop; `told` runs at most once, never from inside create(), and may not destroy the Probe.
class Probe final : public verbs::CmHandler {
  public:
    struct Told {
        // Refused or, against expectation, accepted: both are an answer. Silence is never told.
        void (*answered)(void* arg) noexcept = nullptr;
        void* arg = nullptr;
    };
    // `pd` and `cq` outlive it.
    static Result<std::unique_ptr<Probe>> create(verbs::Device& device, verbs::ProtectionDomain& pd,
                                                 verbs::CompletionQueue& cq, const SockAddr& server,
                                                 const Told& told);
    Probe(const Probe&) = delete;
    Probe& operator=(const Probe&) = delete;
    ~Probe() = default;
    bool over() const noexcept { return over_; }  // answered, or nobody did

    void on_cm_event(verbs::CmId& id, const verbs::CmEvent& event) noexcept override;

  private:
    explicit Probe(const Told& told) noexcept : told_(told) {}
    Told told_;
    bool over_ = false;
    std::unique_ptr<verbs::CmId> id_;
};

}  // namespace nfsrdma::xprtrdma
