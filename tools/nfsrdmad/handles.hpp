#pragma once
#include <string>

#include "base/result.hpp"
#include "nfs/handle_key.hpp"
#include "tools/nfsrdmad/options.hpp"

namespace nfsrdma::nfsrdmad {

// Makes the state directory (mode 0700) if there is none yet; nothing without --state-dir.
Result<void> make_state_dir(const HandleOptions& options);
// The key of --handle-key, else the one in the state directory, else a new one; `where` says which,
// for people.
Result<nfs::HandleKey> handle_key_of(const HandleOptions& options, std::string& where);

}  // namespace nfsrdma::nfsrdmad
