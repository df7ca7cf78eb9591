#pragma once
#include <string>

#include "tools/rpcrdma_stress/stress.hpp"

namespace nfsrdma::stress {

// One object on one line.
std::string to_json(const StressResult& result, const Options& options);
// For people: several lines.
std::string to_text(const StressResult& result, const Options& options);

}  // namespace nfsrdma::stress
