#include "tools/nfsrdmad/handles.hpp"

#include <cerrno>
#include <sys/stat.h>

namespace nfsrdma::nfsrdmad {

Result<void> make_state_dir(const HandleOptions& options) {
    if (options.state_dir.empty() || ::mkdir(options.state_dir.c_str(), 0700) == 0) return {};
    if (errno != EEXIST) return Error{Errc::system, errno, "make the state directory"};
    struct stat st {};
    if (::stat(options.state_dir.c_str(), &st) != 0) {
        return Error{Errc::system, errno, "stat of the state directory"};
    }
    if (!S_ISDIR(st.st_mode)) return Error{Errc::system, ENOTDIR, "the state directory"};
    return {};
}

Result<nfs::HandleKey> handle_key_of(const HandleOptions& options, std::string& where) {
    if (options.key_file.empty() && options.state_dir.empty()) {
        where = "a new key: those of earlier starts are refused (--state-dir, --handle-key)";
        return nfs::HandleKey::random();
    }
    where = options.key_file.empty() ? options.state_dir + "/handle-key" : options.key_file;
    return nfs::HandleKey::of_file(where);
}

}  // namespace nfsrdma::nfsrdmad
