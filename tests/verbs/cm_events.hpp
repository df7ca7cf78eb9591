#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/loop.hpp"
#include "verbs/cm.hpp"
#include "verbs/device.hpp"

// What the tests of both devices' connection management share.
namespace nfsrdma::verbs::test {

inline std::vector<std::byte> bytes_of(const std::string& text) {
    return {as_bytes(text.data()), as_bytes(text.data()) + text.size()};
}

template <class F>
bool run_until(Loop& loop, F finished, std::uint64_t timeout_ns) {
    return loop.run_until([](void* f) { return (*static_cast<F*>(f))(); }, &finished, timeout_ns);
}

inline void run_for(Loop& loop, std::uint64_t ns) {
    const std::uint64_t end = loop.now_ns() + ns;
    run_until(
        loop, [&] { return loop.now_ns() >= end; }, ns);
}

// One end of a connection, and what it was told.
class CmEvents : public CmHandler {
  public:
    CmEvents() = default;
    CmEvents(const CmEvents&) = delete;
    CmEvents& operator=(const CmEvents&) = delete;
    void on_cm_event(CmId& from, const CmEvent& event) noexcept override {
        EXPECT_EQ(&from, id.get());
        events.push_back(event.type);
        reason = event.reason;
        if (event.type != CmEventType::disconnected) {
            private_data.assign(event.private_data.begin(), event.private_data.end());
            initiator_depth = event.initiator_depth;
            responder_resources = event.responder_resources;
        }
        if (destroy_on_event) id.reset();
    }
    std::uint32_t count(CmEventType type) const {
        return static_cast<std::uint32_t>(std::count(events.begin(), events.end(), type));
    }
    bool established() const { return count(CmEventType::established) == 1; }
    bool over() const { return !events.empty() && events.back() != CmEventType::established; }

    std::unique_ptr<CmId> id;
    std::vector<CmEventType> events;
    std::vector<std::byte> private_data;
    std::uint16_t reason = 0;
    std::uint8_t initiator_depth = 0, responder_resources = 0;
    bool destroy_on_event = false;

  protected:
    ~CmEvents() = default;
};

}  // namespace nfsrdma::verbs::test
