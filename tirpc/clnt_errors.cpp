#include "tirpc/clnt_errors.hpp"

#include <array>

namespace nfsrdma::tirpc {
namespace {

struct Entry {
    std::uint64_t client = 0;  // 0: none
    rpc_err error{};
};

struct Errors {
    std::array<Entry, kErrorsOfThread> entries;
    unsigned last = 0;  // where the last one was noted
};

Errors& errors_of_thread() noexcept {
    thread_local Errors errors{};
    return errors;
}

Entry* find_entry(Errors& errors, std::uint64_t client) noexcept {
    if (errors.entries[errors.last].client == client) return &errors.entries[errors.last];
    for (Entry& entry : errors.entries) {
        if (entry.client == client) return &entry;
    }
    return nullptr;
}

}  // namespace

void note_error(std::uint64_t client, const rpc_err& error) noexcept {
    Errors& errors = errors_of_thread();
    Entry* entry = find_entry(errors, client);
    if (entry == nullptr) {
        // The place behind the last one: the oldest, as long as CLIENTs take turns.
        errors.last = (errors.last + 1) % kErrorsOfThread;
        entry = &errors.entries[errors.last];
    } else {
        errors.last = static_cast<unsigned>(entry - errors.entries.data());
    }
    entry->client = client;
    entry->error = error;
}

const rpc_err* find_error(std::uint64_t client) noexcept {
    const Entry* const entry = find_entry(errors_of_thread(), client);
    return entry != nullptr ? &entry->error : nullptr;
}

}  // namespace nfsrdma::tirpc
