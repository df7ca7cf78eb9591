// Reads a file over NFS and RDMA into this program's own memory, without a copy:
// nfs_read SERVER[:PORT] EXPORT PATH [DEVICE]
// Prints the digest, and what it cost. Exit status 0: read, and not one byte was copied.
#include <vector>

#include "example.hpp"
#include "nfs/client/read_file.hpp"
#include "nfs/client/walk.hpp"
#include "xprtrdma/transport.hpp"

namespace {

using namespace nfsrdma;               // NOLINT(google-build-using-namespace): an example
using namespace nfsrdma::nfs::client;  // NOLINT(google-build-using-namespace)

// Each step tells its end by a callback: here the loop runs until it has.
void wait_for(Loop& loop, const bool& ended) {
    while (!ended)
        (void)loop.run_once(kNsPerSec);
}

// Fills `memory`, which outlives the transport: see main.
int read_file(xprtrdma::Transport& transport, const char* export_path, const char* path,
              std::vector<std::byte>& memory) {
    Client client(transport, nullptr);
    bool ended = false;
    MountFlow mount(client);
    mount.start(
        export_path, [](MountFlow& flow) noexcept { *static_cast<bool*>(flow.user) = true; },
        &ended);
    wait_for(transport.loop(), ended);
    if (!mount.outcome.ok()) return failed("mount", to_string(mount.outcome));

    PathWalk walk(client);
    walk.user = &(ended = false);
    walk.done = [](PathWalk& flow) noexcept { *static_cast<bool*>(flow.user) = true; };
    walk.start({mount.root, path});
    wait_for(transport.loop(), ended);
    if (!walk.outcome.ok()) return failed(path, to_string(walk.outcome));

    // Our own memory, registered once; each READ is placed where its bytes belong in it.
    // The size is what the server says.
    constexpr std::uint64_t kMost = 1 << 30;
    if (walk.attributes.size == 0 || walk.attributes.size > kMost)
        return failed(path, "the file is empty, or larger than 1 GiB");
    memory.resize(walk.attributes.size);
    if (const auto done = transport.register_memory(memory); !done)
        return failed("register", done.error());
    const std::uint64_t keys_before = transport.counters().keys_bound;
    FileReader reader(client, 8);  // READs in flight
    reader.user = &(ended = false);
    reader.on_data = [](FileReader& r, FileReader::Slot& slot) noexcept { r.consumed(slot); };
    reader.done = [](FileReader& r) noexcept { *static_cast<bool*>(r.user) = true; };
    const std::uint64_t begun = client.rpc_counters().calls;
    reader.start({.file = walk.object, .size_hint = memory.size(), .into = memory});
    wait_for(transport.loop(), ended);
    // It is given back at once, unless a READ was given up: one that timed out may still be
    // answered, into this memory, until the connection ends (Errc::again).
    const auto given_back = transport.deregister_memory(memory);
    if (!reader.outcome.ok()) return failed("read", to_string(reader.outcome));
    if (!given_back) return failed("deregister", given_back.error());

    std::uint64_t digest = 0xcbf29ce484222325;  // FNV-1a
    for (const std::byte b : memory)
        digest = (digest ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3;
    const double reads = static_cast<double>(client.rpc_counters().calls - begun);
    const double keys = static_cast<double>(transport.counters().keys_bound - keys_before);
    const auto copied = client.rpc_counters().payload_copied_bytes;
    std::printf(
        "%zu bytes, digest %016llx, %.0f READs, %.2f keys each, payload_copied_bytes %llu\n",
        memory.size(), ull(digest), reads, keys / reads, ull(copied));
    return copied == 0 && reader.bytes() == memory.size() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) return failed("usage", "nfs_read SERVER[:PORT] EXPORT PATH [DEVICE]");
    auto place = Place::open(argv[1], 20049, argc > 4 ? argv[4] : nullptr, false);
    if (!place) return failed("device", place.error());
    // Declared before the transport, so that it dies after it: as long as a connection is there,
    // its peer may write into what a call that was given up has named.
    std::vector<std::byte> memory;
    xprtrdma::TransportOptions options;
    options.min_chunk_bytes = 1;  // even the smallest rest of a file is placed, not copied
    auto transport = xprtrdma::Transport::connect(*place->device.device, place->address, options);
    if (!transport) return failed("connect", transport.error());
    const int status = read_file(**transport, argv[2], argv[3], memory);
    (*transport)->finish();
    return status;
}
