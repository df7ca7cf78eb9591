#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "nfs/nfs3_types.hpp"
#include "tools/nfsrdma/json.hpp"

// How things are shown to people.
namespace nfsrdma::tool {

// Control characters become '?': names come from a server, and a terminal obeys what it is sent.
std::string printable(std::string_view text);
// For output that programs read as well: as it is, but on a terminal printable.
std::string for_stdout(std::string_view text);
std::string human_bytes(double bytes);                   // "1.5 MiB"
std::string mode_text(ftype3 type, std::uint32_t mode);  // "drwxr-xr-x"
const char* type_text(ftype3 type) noexcept;             // "directory"
std::string time_text(const nfstime3& time);             // local: "2026-11-29 19:43:07"
const char* type_word(ftype3 type) noexcept;             // for programs: "file", "directory" ...
// What --json tells of an object. Times are seconds, and nanoseconds apart.
void add_attributes(JsonObject& object, const fattr3& attributes);

// "nfsrdma: PLACE: WHAT" on standard error.
void complain(std::string_view place, std::string_view what);
std::string errno_text(int error);

}  // namespace nfsrdma::tool
