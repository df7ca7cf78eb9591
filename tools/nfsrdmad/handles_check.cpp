#include "tools/nfsrdmad/handles_check.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nfs/handle_key.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

constexpr mode_t kOthers = 077, kOthersWrite = 022, kBits = 07777;

bool may(const std::string& path, int how) {
    return ::faccessat(AT_FDCWD, path.c_str(), how, AT_EACCESS) == 0;
}
bool is_ours(const struct stat& st) {
    return st.st_uid == ::geteuid() || st.st_uid == 0;
}
std::string parent_of(const std::string& path) {
    std::filesystem::path whole(path);
    if (!whole.has_filename()) whole = whole.parent_path();  // "state/"
    const std::string parent = whole.parent_path().string();
    return parent.empty() ? "." : parent;
}

// One option's file or directory, and what is wrong with it.
class Place {
  public:
    Place(const char* option, std::string path, HandlesCheck& out)
        : option_(option), path_(std::move(path)), out_(out) {}

    // False with an error where it is neither there nor can be made. `there` tells which.
    bool there_or_makeable(struct stat& st, bool& there) {
        there = ::stat(path_.c_str(), &st) == 0;
        if (there) return true;
        const std::string parent = parent_of(path_);
        if (errno != ENOENT) return wrong(fmt::format("{}: look at {}", sys(), parent));
        struct stat ignored {};
        if (::lstat(path_.c_str(), &ignored) == 0)
            return wrong("a symbolic link to nothing: make what it leads to, or remove it");
        if (::stat(parent.c_str(), &ignored) != 0) {
            return wrong(fmt::format("{}: make the directory that it is to be in: mkdir -p {}",
                                     sys(), parent));
        }
        if (!S_ISDIR(ignored.st_mode)) {
            return wrong(fmt::format("{} is no directory: name another place", parent));
        }
        if (may(parent, W_OK | X_OK)) return true;
        return wrong(
            fmt::format("it is not there, and user {} cannot make it in {} ({}): make it, "
                        "and give it to that user",
                        ::geteuid(), parent, sys()));
    }
    bool wrong(const std::string& what) {
        out_.errors.push_back(fmt::format("{} {}: {}", option_, path_, what));
        return false;
    }
    bool not_ours(const struct stat& st) {
        return wrong(
            fmt::format("it belongs to user {}: chown {} {}", st.st_uid, ::geteuid(), path_));
    }
    const std::string& path() const { return path_; }
    static std::string sys() { return strerrordesc_np(errno); }

  private:
    const char* option_;
    std::string path_;
    HandlesCheck& out_;
};

void check_state_dir(const std::string& path, HandlesCheck& out) {
    Place place("--state-dir", path, out);
    struct stat st {};
    bool there = false;
    if (!place.there_or_makeable(st, there)) return;
    if (!there) {
        out.plan.push_back(fmt::format("state directory {}, which would be made", path));
        return;
    }
    if (!S_ISDIR(st.st_mode)) {
        place.wrong("Not a directory: name one, or a place where one can be made");
    } else if (!is_ours(st)) {
        place.not_ours(st);
    } else if ((st.st_mode & kOthersWrite) != 0) {
        place.wrong(fmt::format("others may write to it (mode {:04o}): chmod 0700 {}",
                                st.st_mode & kBits, path));
    } else if (!may(path, R_OK | W_OK | X_OK)) {
        place.wrong(fmt::format("{} for user {}: chown {} {} and chmod 0700 {}", Place::sys(),
                                ::geteuid(), ::geteuid(), path, path));
    } else {
        out.plan.push_back(fmt::format("state directory {}", path));
    }
}

void check_key(const char* option, const std::string& path, HandlesCheck& out) {
    Place place(option, path, out);
    struct stat st {};
    bool there = false;
    if (!place.there_or_makeable(st, there)) return;
    if (!there) {
        out.plan.push_back(fmt::format("file handles signed by {}, which would be made", path));
        return;
    }
    if (!S_ISREG(st.st_mode)) {
        place.wrong("it is no regular file: name another, or remove it and one is made");
    } else if (!is_ours(st)) {
        place.not_ours(st);
    } else if ((st.st_mode & kOthers) != 0) {
        place.wrong(fmt::format("others may read it or write to it (mode {:04o}): chmod 0600 {}",
                                st.st_mode & kBits, path));
    } else if (!may(path, R_OK)) {
        place.wrong(fmt::format("{} for user {}: chown {} {} and chmod 0600 {}", Place::sys(),
                                ::geteuid(), ::geteuid(), path, path));
    } else if (st.st_size != static_cast<off_t>(nfs::HandleKey::kFileBytes)) {
        place.wrong(
            fmt::format("it has {} bytes, not {} bytes: put the right one back, or remove it and a "
                        "new one is made, by which file handles from before are refused",
                        st.st_size, nfs::HandleKey::kFileBytes));
    } else {
        out.plan.push_back(fmt::format("file handles signed by {}", path));
    }
}

}  // namespace

HandlesCheck check_handles(const HandleOptions& options) {
    HandlesCheck out;
    if (!options.state_dir.empty()) check_state_dir(options.state_dir, out);
    if (!options.key_file.empty()) {
        check_key("--handle-key", options.key_file, out);
    } else if (options.state_dir.empty()) {
        out.plan.emplace_back(
            "file handles signed by a new key at each start: those from before are refused "
            "(--state-dir, --handle-key)");
    } else if (std::error_code ignored; std::filesystem::exists(options.state_dir, ignored)) {
        if (out.errors.empty())
            check_key("key of --state-dir", options.state_dir + "/handle-key", out);
    }
    return out;
}

}  // namespace nfsrdma::nfsrdmad
