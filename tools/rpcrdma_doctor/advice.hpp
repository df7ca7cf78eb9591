#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/rpcrdma_doctor/machine.hpp"
#include "tools/rpcrdma_doctor/peer.hpp"

// What follows from what was found: pure functions.
namespace nfsrdma::doctor {

enum class Level : std::uint8_t {
    fine,
    note,     // good to know
    warning,  // works, but not as well as it could
    failure,  // does not work
};
const char* to_string(Level level) noexcept;

struct Finding {
    Level level = Level::fine;
    std::string text;
    std::string advice;  // what to do; may be empty
};

// `device`: only what matters to this one ("softroce", "rxe0"); empty: all.
std::vector<Finding> judge(const Machine& machine, const std::string& device);
std::vector<Finding> judge(const Peer& peer);
bool any_failure(const std::vector<Finding>& findings) noexcept;

}  // namespace nfsrdma::doctor
