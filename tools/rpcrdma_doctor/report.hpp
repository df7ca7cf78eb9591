#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/rpcrdma_doctor/advice.hpp"

// How it is told.
namespace nfsrdma::doctor {

struct Report {
    std::optional<Machine> machine;
    std::string device;  // of the machine, the only one that was asked for; empty: all
    std::optional<Peer> peer;
    std::vector<Finding> findings;
};

std::string to_text(const Report& report);
std::string to_json(const Report& report);  // one line

const char* to_string(MountWay way) noexcept;

}  // namespace nfsrdma::doctor
