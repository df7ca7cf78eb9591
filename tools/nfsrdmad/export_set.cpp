#include "tools/nfsrdmad/export_set.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.hpp"
#include "base/unique_fd.hpp"
#include "nfs/exports_host.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

constexpr std::size_t kFileMax = 4 << 20;  // bytes of an exports file
constexpr rlim_t kFilesWanted = 16384, kFilesReserved = 256;
constexpr std::size_t kSummaryMax = 8;  // exports, and hosts of each

std::string describe(int sys) {
    return strerrordesc_np(sys) == nullptr ? "error " + std::to_string(sys) : strerrordesc_np(sys);
}

// Objects that each export may keep open, from the process's limit of descriptors, which is raised
// as far as allowed.
std::uint32_t open_files_each(std::size_t exports) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
    const rlim_t wanted = std::min(limit.rlim_max, kFilesWanted);
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted;
        if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::getrlimit(RLIMIT_NOFILE, &limit);
    }
    const rlim_t usable =
        limit.rlim_cur > 2 * kFilesReserved ? limit.rlim_cur - kFilesReserved : limit.rlim_cur / 2;
    constexpr rlim_t kDescriptorsEach = 3;
    return static_cast<std::uint32_t>(
        std::clamp<rlim_t>(usable / kDescriptorsEach / std::max<rlim_t>(exports, 1), 16, 4096));
}

// False with errno when the file cannot be read; a file that is too long is EFBIG.
bool read_file(const std::string& path, std::string& out) {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!fd) return false;
    std::array<char, 16384> part{};
    for (;;) {
        const ssize_t got = ::read(fd.get(), part.data(), part.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return false;
        if (got == 0) return true;
        out.append(part.data(), static_cast<std::size_t>(got));
        if (out.size() > kFileMax) {
            errno = EFBIG;
            return false;
        }
    }
}

// False with errno.
bool is_directory(const std::string& path, struct stat& out) {
    if (::stat(path.c_str(), &out) != 0) return false;
    errno = ENOTDIR;
    return S_ISDIR(out.st_mode);
}

// In the export's handles, as nfs::Server makes it; the fsid has been found good.
std::uint32_t id_of(const nfs::ExportSpec& spec) {
    if (!spec.fsid.empty()) {
        Result<std::uint32_t> id = nfs::export_id_of_fsid(spec.fsid);
        if (id) return *id;
    }
    return nfs::export_id_of(spec.name);
}

const char* squash_name(nfs::Squash squash) {
    switch (squash) {
        case nfs::Squash::none:
            return "no_root_squash";
        case nfs::Squash::root:
            return "root_squash";
        case nfs::Squash::all:
            return "all_squash";
    }
    return "";
}

}  // namespace

nfs::ExportRules own_rules() {
    nfs::ExportRules rules = nfs::ExportRules::open();
    nfs::ClientOptions& all = rules.clients.front().options;
    all.squash = nfs::Squash::all;
    all.anon_uid = ::geteuid();
    all.anon_gid = ::getegid();
    return rules;
}

bool ExportSet::add_file(std::vector<nfs::ExportSpec>& specs, nfs::ExportIssues& issues) const {
    std::string text;
    if (!read_file(options_.exports_file, text)) {
        issues.errors.push_back(options_.exports_file + ": " + describe(errno));
        return false;
    }
    std::vector<nfs::ExportSpec> more = nfs::parse_exports(text, options_.exports_file, issues);
    std::ranges::move(more, std::back_inserter(specs));
    return true;
}

LoadStatus ExportSet::plan(std::vector<nfs::ExportSpec>& specs, nfs::ExportIssues& issues) const {
    for (const ExportOption& option : options_.exports) {
        nfs::ExportSpec spec;
        spec.path = option.path;
        spec.name = nfs::normal_export_name(option.name);
        spec.fsid = option.list.fsid;
        spec.rules = own_rules();
        if (option.has_options) spec.rules = {{{{}, option.list.options}}};
        spec.where = "--export " + option.path;
        specs.push_back(std::move(spec));
    }
    if (!options_.exports_file.empty()) add_file(specs, issues);
    std::map<std::uint32_t, std::string> ids;
    for (const nfs::ExportSpec& spec : specs) {
        const auto [other, is_new] = ids.try_emplace(id_of(spec), spec.where);
        if (is_new) continue;
        issues.errors.push_back(spec.where + ": " + spec.name +
                                (spec.fsid.empty() ? "" : ", fsid=" + spec.fsid + ",") +
                                " is exported twice: see " + other->second);
    }
    if (!issues.errors.empty()) return LoadStatus::bad_config;
    if (specs.empty()) issues.warnings.emplace_back("nothing is exported");
    for (nfs::ExportSpec& spec : specs) {
        for (const std::string& told : nfs::resolve_hosts(spec.rules))
            issues.warnings.push_back(spec.where + ": " + told);
        struct stat found {};
        if (!is_directory(spec.path, found)) {
            issues.errors.push_back(spec.where + ": cannot export " + spec.path + ": " +
                                    describe(errno));
        }
    }
    return issues.errors.empty() ? LoadStatus::ok : LoadStatus::bad_directory;
}

bool ExportSet::serve(const nfs::ExportSpec& spec, nfs::VfsPosixOptions posix,
                      std::map<std::string, Served>& next, nfs::ExportIssues& issues) const {
    struct stat found {};
    const bool there = is_directory(spec.path, found);
    Served served{spec.path, spec.fsid, found.st_dev, found.st_ino, nullptr};
    const auto before = served_.find(spec.name);
    // The same directory: a reload must not lose what the backend knows of it.
    if (there && before != served_.end() && before->second.path == served.path &&
        before->second.fsid == served.fsid && before->second.device == served.device &&
        before->second.inode == served.inode) {
        served.vfs = before->second.vfs;
    } else {
        posix.fsid = id_of(spec);
        auto made = nfs::VfsPosix::create(spec.path, posix);
        if (!made) {
            const Error& error = made.error();
            issues.errors.push_back(spec.where + ": cannot export " + spec.path + ": " +
                                    (error.code == Errc::system && error.sys != 0
                                         ? describe(error.sys)
                                         : nfsrdma::to_string(error)));
            return false;
        }
        log::info("{}: file handles are opened by {}{}", spec.name, (*made)->handles_by(),
                  (*made)->survives_restart() ? "" : ", and not after a restart (--state-dir)");
        served.vfs = *std::move(made);
    }
    next[spec.name] = std::move(served);
    return true;
}

LoadStatus ExportSet::load(nfs::Server& server, nfs::ExportIssues& issues) {
    std::vector<nfs::ExportSpec> specs;
    const LoadStatus status = plan(specs, issues);
    if (status != LoadStatus::ok) return status;
    nfs::VfsPosixOptions posix = posix_;
    posix.open_files = open_files_each(specs.size());
    std::map<std::string, Served> next;
    std::vector<nfs::ExportParts> parts;
    for (const nfs::ExportSpec& spec : specs) {
        if (!serve(spec, posix, next, issues)) return LoadStatus::bad_directory;
        parts.push_back({spec.name, next[spec.name].vfs, spec.rules, spec.fsid});
    }
    const Result<void> set = server.set_exports(std::move(parts));
    if (!set) {
        issues.errors.emplace_back(set.error().what);
        return LoadStatus::bad_config;
    }
    served_ = std::move(next);
    return LoadStatus::ok;
}

std::string to_string(const nfs::ClientOptions& options) {
    return std::string(options.read_only ? "ro," : "rw,") + squash_name(options.squash) +
           (options.secure ? ",secure" : ",insecure") +
           ",anonuid=" + std::to_string(options.anon_uid) +
           ",anongid=" + std::to_string(options.anon_gid);
}

std::string summary(const nfs::Server& server) {
    const nfs::ExportList exports = server.exports();
    if (exports.empty()) return "nothing";
    std::string out;
    for (std::size_t i = 0; i < exports.size() && i < kSummaryMax; ++i) {
        const auto& clients = exports[i]->rules.clients;
        out += (i == 0 ? "" : ", ") + exports[i]->name + " (";
        for (std::size_t c = 0; c < clients.size() && c < kSummaryMax; ++c) {
            const nfs::ClientOptions& may = clients[c].options;
            out += (c == 0 ? "" : "; ") + clients[c].host.text + (may.read_only ? " ro" : " rw");
            if (may.squash == nfs::Squash::all)
                out += ", all as uid " + std::to_string(may.anon_uid);
        }
        out += clients.size() > kSummaryMax ? "; ...)" : ")";
    }
    if (exports.size() > kSummaryMax) {
        out += " and " + std::to_string(exports.size() - kSummaryMax) + " more";
    }
    return out;
}

std::string listing(const std::vector<nfs::ExportSpec>& specs) {
    std::string out;
    for (const nfs::ExportSpec& spec : specs) {
        out += spec.name;
        if (spec.name != spec.path) out += " = " + spec.path;
        if (!spec.fsid.empty()) out += " fsid=" + spec.fsid;
        out += "\n";
        for (const nfs::ClientRule& client : spec.rules.clients)
            out += "    " + client.host.text + "(" + to_string(client.options) + ")\n";
    }
    return out;
}

}  // namespace nfsrdma::nfsrdmad
