#include "nfs/server/server.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sys/random.h>

#include "nfs/mount3.hpp"
#include "nfs/server/table.hpp"

namespace nfsrdma::nfs {

namespace {

bool has_id(const ExportList& list, std::uint32_t id) noexcept {
    return std::ranges::any_of(list, [&](const auto& entry) { return entry->id == id; });
}

constexpr Error kSameExport{Errc::invalid_argument, 0, "two exports have the same name or fsid"};

}  // namespace

Server::Server(const HostNames::Options& host_names) : host_names_(host_names) {
    lose_unstable();
}

// Differs from that of every earlier start, even within one second.
void Server::lose_unstable() noexcept {
    std::uint64_t verifier = 0;
    if (::getrandom(&verifier, sizeof verifier, 0) != static_cast<ssize_t>(sizeof verifier)) {
        verifier =
            static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
    }
    write_verifier_.store(verifier, std::memory_order_release);
}

Server::~Server() = default;

Result<std::shared_ptr<const Export>> Server::make_export(ExportParts parts) const {
    if (parts.name.empty()) return Error{Errc::invalid_argument, 0, "an export needs a name"};
    auto entry = std::make_shared<Export>();
    entry->name = normal_export_name(parts.name);
    entry->id = export_id_of(entry->name);
    if (!parts.fsid.empty()) {
        NR_TRY_ASSIGN(entry->id, export_id_of_fsid(parts.fsid));
    }
    entry->vfs = std::move(parts.vfs);
    entry->key = &handle_key_;
    entry->rules = std::move(parts.rules);
    return std::shared_ptr<const Export>(std::move(entry));
}

Result<void> Server::add_export(std::string_view name, std::shared_ptr<Vfs> vfs,
                                ExportRules rules) {
    NR_TRY_ASSIGN(std::shared_ptr<const Export> entry,
                  make_export({std::string(name), std::move(vfs), std::move(rules), {}}));
    const std::unique_lock lock(exports_mutex_);
    if (has_id(exports_, entry->id)) return kSameExport;
    exports_.push_back(std::move(entry));
    return {};
}

Result<void> Server::set_exports(std::vector<ExportParts> parts) {
    ExportList list;
    for (ExportParts& each : parts) {
        NR_TRY_ASSIGN(std::shared_ptr<const Export> entry, make_export(std::move(each)));
        if (has_id(list, entry->id)) return kSameExport;
        list.push_back(std::move(entry));
    }
    {
        const std::unique_lock lock(exports_mutex_);
        exports_.swap(list);
    }
    host_names_.forget_all();
    return {};  // what only the old list held goes here, and not under the lock
}

void Server::add_to(sunrpc::SvcDispatcher& dispatcher) noexcept {
    dispatcher.add(nfs3_program(*this));
    dispatcher.add(mount3_program(*this));
}

ExportList Server::exports() const {
    const std::shared_lock lock(exports_mutex_);
    return exports_;
}

std::shared_ptr<const Export> Server::find_export(std::uint32_t id) const noexcept {
    const std::shared_lock lock(exports_mutex_);
    for (const auto& entry : exports_) {
        if (entry->id == id) return entry;
    }
    return nullptr;
}

void Server::tidy() noexcept {
    for (const auto& entry : exports())
        entry->vfs->tidy();
}

void Server::note_mount(std::string_view host, std::string_view directory) {
    const std::lock_guard lock(mounts_mutex_);
    std::erase_if(mounts_, [&](const MountEntry& entry) {
        return entry.host == host && entry.directory == directory;
    });
    if (mounts_.size() == kMountsMax) mounts_.erase(mounts_.begin());
    mounts_.push_back({std::string(host), std::string(directory)});
}

void Server::note_unmount(std::string_view host, std::string_view directory) {
    const std::lock_guard lock(mounts_mutex_);
    std::erase_if(mounts_, [&](const MountEntry& entry) {
        return entry.host == host && entry.directory == directory;
    });
}

void Server::note_unmount_all(std::string_view host) {
    const std::lock_guard lock(mounts_mutex_);
    std::erase_if(mounts_, [&](const MountEntry& entry) { return entry.host == host; });
}

std::vector<MountEntry> Server::mounts() const {
    const std::lock_guard lock(mounts_mutex_);
    return mounts_;
}

}  // namespace nfsrdma::nfs
