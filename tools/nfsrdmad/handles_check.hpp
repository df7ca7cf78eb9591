#pragma once
#include <string>
#include <vector>

#include "tools/nfsrdmad/options.hpp"

namespace nfsrdma::nfsrdmad {

struct HandlesCheck {
    std::vector<std::string> errors;  // each names the option, what is wrong, and what to do
    std::vector<std::string> plan;    // what signs and finds file handles, a line each
};

// Looks at --handle-key and --state-dir with the rights of this process, and changes nothing.
HandlesCheck check_handles(const HandleOptions& options);

}  // namespace nfsrdma::nfsrdmad
