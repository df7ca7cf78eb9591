#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tools/nfsrdma/session.hpp"
#include "tools/nfsrdma/tree_get.hpp"

// What several subcommands need.
namespace nfsrdma::tool {

// The URLs of a command's arguments; false after complaint.
bool parse_urls(const std::vector<std::string>& texts, std::vector<Url>& urls);
// Parses, opens a session for the first and checks that it holds the others; nullptr and `status`
// after complaint.
std::unique_ptr<Session> open_for(const Options& options, std::vector<Url>& urls, int& status);

void complain(const Url& url, const nfs::client::Outcome& outcome);
void complain(const Url& url, std::string_view below, const nfs::client::Outcome& outcome);

inline constexpr std::uint32_t kDepth = 8;  // READs or WRITEs of one file in flight

}  // namespace nfsrdma::tool
