#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/nfsrdma/session.hpp"

// What several subcommands need.
namespace nfsrdma::tool {

// The URLs of a command's arguments; false after complaint.
bool parse_urls(const std::vector<std::string>& texts, std::vector<Url>& urls);
// Parses, opens a session for the first and checks that it holds the others; nullptr and `status`
// after complaint.
std::unique_ptr<Session> open_for(const Options& options, std::vector<Url>& urls, int& status);
// A session with a server alone, without a mount.
std::unique_ptr<Session> open_server(const Options& options, const std::string& server,
                                     int& status);

// Does `work` to one URL after the other until interrupted, then prints the summary; the exit
// status. `work` complains itself and returns whether it went well.
int for_each(Session& session, const std::vector<Url>& urls,
             const std::function<bool(const Url&)>& work);

// Where a name goes: into `to` when that is a directory, else to be `to` itself.
Found destination(Session& session, const Url& to, const std::string& name);

inline constexpr std::uint32_t kDepth = 8;  // READs or WRITEs of one file in flight

}  // namespace nfsrdma::tool
