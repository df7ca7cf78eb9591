#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "base/loop.hpp"
#include "base/sock_addr.hpp"
#include "devices/choice.hpp"
#include "nfs/exports_file.hpp"
#include "nfs/posix_handles.hpp"
#include "pools/page_list.hpp"
#include "tools/nfsrdmad/service_options.hpp"
#include "verbs/softroce/fault_spec.hpp"

namespace nfsrdma::nfsrdmad {

inline constexpr std::uint16_t kNfsRdmaPort = 20049;

struct ExportOption {
    std::string path, name;
    bool has_options = false;
    nfs::OptionList list;
};

// How file handles are signed, and found after a restart.
struct HandleOptions {
    std::string key_file, state_dir;  // empty: none
    std::uint64_t places_max = nfs::PosixHandles::kCapacity;
};

struct Options {
    std::vector<ExportOption> exports;
    std::string exports_file;  // empty: none
    bool check = false;        // say what would be served, and end
    bool manage_gids = false;
    SockAddr listen;
    devices::Choice device;
    std::uint32_t loops = 1;
    LoopBackend loop = LoopBackend::automatic;
    pools::Registration registration = pools::Registration::automatic;
    std::uint16_t roce_port = 4791;
    verbs::softroce::FaultSpec faults{};  // of the softroce device; none by default
    log::Level log_level = log::Level::warn;
    std::string stats_file;
    ServiceOptions services;
    HandleOptions handles;
};

// PATH[=NAME][:OPTIONS] with a NAME that begins with '/'. A directory that has such a name itself
// is meant as it stands. Without a NAME it is the absolute path. `why` says what is wrong with the
// options, if anything.
ExportOption parse_export(const std::string& text, std::string& why);

// What the command line says. False: it is to end with `exit_status` (0 after --help, 2 for bad
// usage); what there was to say has been printed.
bool parse_options(int argc, const char* const* argv, Options& out, int& exit_status);

}  // namespace nfsrdma::nfsrdmad
