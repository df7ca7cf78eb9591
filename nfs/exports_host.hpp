#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "nfs/exports.hpp"

namespace nfsrdma::nfs {

// A name, an address, a network, a wildcard or "*"; false with the reason in `why`, to be read
// behind the text itself. The addresses of a name are not there yet.
bool parse_host(std::string_view text, HostPattern& out, std::string& why);

// Fills in the addresses of hosts that are given by name; may wait for the resolver. Tells who has
// none and so matches nobody.
std::vector<std::string> resolve_hosts(ExportRules& rules);

}  // namespace nfsrdma::nfs
