#pragma once
#include <string>

#include "tools/nfsrdma/calls.hpp"
#include "tools/nfsrdma/copy_report.hpp"
#include "tools/nfsrdma/progress.hpp"

namespace nfsrdma::tool {

// What comes out of `fd`, a pipe or a terminal, up to its end becomes the file `target.name` in
// `target.handle`. It cannot be read twice, so that it is written stably: nothing is to be sent
// again when the server restarts. False after a failure, which has been said.
bool put_stream(Calls& calls, int fd, const Found& target, const std::string& label,
                Progress& progress, CopyReport& report);

}  // namespace nfsrdma::tool
