#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nfs/exports.hpp"

// The text of an exports file, by the grammar of exports(5), to values. Pure.
namespace nfsrdma::nfs {

// One exported directory; lines for the same path are one.
struct ExportSpec {
    std::string path;  // absolute, without "//" and without '/' at the end
    std::string name;  // what clients mount
    std::string fsid;  // as it was written; empty: none
    ExportRules rules;
    std::string where;  // "FILE:LINE", for what goes wrong with it later
};

// Lines of text for people, each with file, line and reason.
struct ExportIssues {
    std::vector<std::string> errors;    // the text is not usable
    std::vector<std::string> warnings;  // is it what was meant?
    std::vector<std::string> notes;     // options that are known and mean nothing here
};

// `origin` is the file's name. Errors are told by `issues`: the whole text is read, whatever is
// wrong with one line of it.
std::vector<ExportSpec> parse_exports(std::string_view text, const std::string& origin,
                                      ExportIssues& issues);

// What may stand between parentheses, for one client.
struct OptionList {
    ClientOptions options;
    std::string fsid;
};
// Adds the options in `text` to those in `out`; false with the reason in `why`. `notes` are the
// options that mean nothing here.
bool parse_client_options(std::string_view text, OptionList& out, std::vector<std::string>& notes,
                          std::string& why);

}  // namespace nfsrdma::nfs
