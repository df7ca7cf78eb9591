#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "nfs/exports.hpp"
#include "nfs/host_names.hpp"
#include "nfs/vfs.hpp"
#include "sunrpc/svc.hpp"

namespace nfsrdma::nfs {

struct Export {
    std::string name;      // "/srv/data": begins with '/', no '/' at the end but for "/" itself
    std::uint32_t id = 0;  // in its handles
    std::shared_ptr<Vfs> vfs;
    const HandleKey* key = nullptr;  // the server's
    ExportRules rules;
};
// A moment's exports. A reload makes another; who still works with an export of an earlier one
// keeps it alive.
using ExportList = std::vector<std::shared_ptr<const Export>>;

// What an export is made of.
struct ExportParts {
    std::string name;
    std::shared_ptr<Vfs> vfs;
    ExportRules rules = ExportRules::open();
    std::string fsid;  // with it the handles hang on this and not on the name
};

// One row of MOUNT's DUMP: who said that it mounted what. Told by clients, and so only informative.
struct MountEntry {
    std::string host, directory;
};

// The NFSv3 and MOUNT v3 service over its exports: what all loops share. The exports and the list
// of mounts may change while it serves, each under its own lock, so that a SvcDispatcher of each
// loop may use it at once.
class Server {
  public:
    // A new write verifier: unstable data of an earlier Server may be lost.
    explicit Server(const HostNames::Options& host_names = {});
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // Errc::invalid_argument: no name, or one (or an fsid) that is exported already. Any thread.
    Result<void> add_export(std::string_view name, std::shared_ptr<Vfs> vfs,
                            ExportRules rules = ExportRules::open());
    // All exports anew, as add_export; on an error the old ones stay. Calls under way keep theirs;
    // handles of an export that is no more are stale, of one that is still there they are not.
    Result<void> set_exports(std::vector<ExportParts> parts);
    // Of all handles; a random one until set. Before the first export is added.
    void set_handle_key(const HandleKey& key) noexcept { handle_key_ = key; }
    const HandleKey& handle_key() const noexcept { return handle_key_; }
    // Adds both programs. The server outlives the dispatcher.
    void add_to(sunrpc::SvcDispatcher& dispatcher) noexcept;
    // Any thread.
    ExportList exports() const;
    std::shared_ptr<const Export> find_export(std::uint32_t id) const noexcept;
    // Another at every start, and from the moment on when unstable data may have been lost.
    std::uint64_t write_verifier() const noexcept {
        return write_verifier_.load(std::memory_order_acquire);
    }
    // A flush failed. Any thread.
    void lose_unstable() noexcept;
    // Every second or so, by one thread.
    void tidy() noexcept;

    // Of peers, for rules about names.
    HostNames& host_names() noexcept { return host_names_; }
    // The list of mounts. Any thread.
    void note_mount(std::string_view host, std::string_view directory);
    void note_unmount(std::string_view host, std::string_view directory);
    void note_unmount_all(std::string_view host);
    std::vector<MountEntry> mounts() const;

    static constexpr std::size_t kMountsMax = 1024;  // the oldest are forgotten

  private:
    Result<std::shared_ptr<const Export>> make_export(ExportParts parts) const;
    HandleKey handle_key_ = HandleKey::random();
    mutable std::shared_mutex exports_mutex_;
    ExportList exports_;
    HostNames host_names_;
    std::atomic<std::uint64_t> write_verifier_{0};
    mutable std::mutex mounts_mutex_;
    std::vector<MountEntry> mounts_;
};

}  // namespace nfsrdma::nfs
