#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tools/nfsrdma/copy_report.hpp"
#include "tools/nfsrdma/progress.hpp"
#include "tools/nfsrdma/session.hpp"
#include "tools/nfsrdma/tree_get.hpp"

namespace nfsrdma::tool {

// What get and put have in common: progress on a terminal, the summary, the exit status. `copy`
// returns whether all went well. `total_bytes`: 0 when that is not known.
using Copy = std::function<bool(const CopyOptions& how, Progress& progress, CopyReport& report)>;
int copy_with(Session& session, const Options& options, std::uint64_t total_bytes,
              const Copy& copy);

// With --continue the same command is given once more, and what it has made the first time is there
// by now: a directory is taken for the copy itself, and not for where the copy is to go, when it
// has names of the source and no others, and the source's own name is not among them. Both sorted.
bool is_copy_itself(const std::string& own_name, const std::vector<std::string>& there,
                    const std::vector<std::string>& in_source);
// Names in a directory at the server, sorted; none after a failure, which comes to light later.
std::vector<std::string> remote_names(Session& session, const nfs::client::FileHandle& directory);

}  // namespace nfsrdma::tool
