#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nfs/exports_file.hpp"
#include "nfs/server/server.hpp"
#include "nfs/vfs_posix.hpp"
#include "tools/nfsrdmad/options.hpp"

namespace nfsrdma::nfsrdmad {

// Whom `--export PATH` without options is for: everybody, who all act as this process.
nfs::ExportRules own_rules();

enum class LoadStatus : std::uint8_t {
    ok,
    bad_config,     // the command line or the file
    bad_directory,  // what they name cannot be exported
};

// What the command line and the exports file say, and the directories that are served by it. Used
// by the main thread alone; loads again while the server serves.
class ExportSet {
  public:
    ExportSet(const Options& options, const nfs::VfsPosixOptions& posix)
        : options_(options), posix_(posix) {}

    // Reads the file, resolves host names (may wait) and opens the directories; then the server has
    // these exports, and where nothing about a directory has changed, its backend is the one that
    // it was. On failure the server has the exports that it had, and `issues.errors` says why.
    LoadStatus load(nfs::Server& server, nfs::ExportIssues& issues);

    // Reads only: what would be served.
    LoadStatus plan(std::vector<nfs::ExportSpec>& specs, nfs::ExportIssues& issues) const;

  private:
    struct Served {
        std::string path, fsid;
        std::uint64_t device = 0, inode = 0;
        std::shared_ptr<nfs::Vfs> vfs;
    };
    bool add_file(std::vector<nfs::ExportSpec>& specs, nfs::ExportIssues& issues) const;
    bool serve(const nfs::ExportSpec& spec, nfs::VfsPosixOptions posix,
               std::map<std::string, Served>& next, nfs::ExportIssues& issues) const;

    const Options& options_;
    const nfs::VfsPosixOptions posix_;
    std::map<std::string, Served> served_;  // by name
};

// "ro,root_squash,secure,anonuid=65534,anongid=65534"
std::string to_string(const nfs::ClientOptions& options);
// "/srv (*.example.org rw; 10.0.0.0/8 ro), /home (* rw, all as uid 65534)"; cut after a handful.
std::string summary(const nfs::Server& server);
// Every export with every host, a line each: for --check.
std::string listing(const std::vector<nfs::ExportSpec>& specs);

}  // namespace nfsrdma::nfsrdmad
