#include "nfs/server/server.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sys/random.h>

#include "nfs/mount3.hpp"
#include "nfs/server/table.hpp"

namespace nfsrdma::nfs {

std::string normal_export_name(std::string_view name) {
    std::string out = "/";
    for (const char c : name) {
        if (c != '/' || out.back() != '/') out.push_back(c);
    }
    if (out.size() > 1 && out.back() == '/') out.pop_back();
    return out;
}

Server::Server() {
    // Differs from that of every earlier start, even within one second.
    if (::getrandom(write_verifier_.data(), write_verifier_.size(), 0) !=
        static_cast<ssize_t>(write_verifier_.size())) {
        const auto now = std::chrono::system_clock::now().time_since_epoch().count();
        std::memcpy(write_verifier_.data(), &now, sizeof now);
    }
}

Server::~Server() = default;

Result<void> Server::add_export(std::string_view name, std::shared_ptr<Vfs> vfs,
                                ExportRules rules) {
    if (name.empty()) return Error{Errc::invalid_argument, 0, "an export needs a name"};
    auto entry = std::make_shared<Export>();
    entry->name = normal_export_name(name);
    entry->id = export_id_of(entry->name);
    entry->vfs = std::move(vfs);
    entry->key = &handle_key_;
    entry->rules = std::move(rules);
    const std::unique_lock lock(exports_mutex_);
    for (const auto& other : exports_) {
        if (other->id == entry->id) {
            return Error{Errc::invalid_argument, 0, "two exports have the same name"};
        }
    }
    exports_.push_back(std::move(entry));
    return {};
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
