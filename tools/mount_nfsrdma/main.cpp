// mount.nfsrdma: an export of an NFS server, over RDMA, as a file system of this machine.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.hpp"
#include "tools/mount_nfsrdma/directory.hpp"
#include "tools/mount_nfsrdma/end_signals.hpp"
#include "tools/mount_nfsrdma/launch.hpp"
#include "tools/mount_nfsrdma/stats_server.hpp"
#include "tools/mount_nfsrdma/world.hpp"

namespace nfsrdma::mount {
namespace {

// What a signal ends: the attempts to mount, or the mount.
class Ending {
  public:
    // Puts it into the tree: a signal meanwhile waits, and ends what stands then.
    bool mount(World& world, std::string& why) {
        const std::lock_guard guard(lock_);
        const bool mounted = world.mount_here(why);
        if (mounted) {
            world_ = &world;
        } else {
            unmounted_ = true;
        }
        return mounted;
    }
    void unmounted() {
        const std::lock_guard guard(lock_);
        unmounted_ = true;
    }
    void on_signal(int number) {
        const std::lock_guard guard(lock_);
        if (unmounted_) return;  // it ends by itself
        if (world_ == nullptr) ::_exit(128 + number);
        log::info("signal {}: unmounting", number);
        world_->unmount();
    }

  private:
    std::mutex lock_;
    World* world_ = nullptr;
    bool unmounted_ = false;
};

// What libfuse has to say goes where our log goes.
[[gnu::format(printf, 2, 0)]] void log_of_fuse(fuse_log_level level, const char* format,
                                               std::va_list arguments) {
    std::array<char, 512> text{};
    (void)std::vsnprintf(text.data(), text.size(), format, arguments);
    std::string_view line(text.data());
    while (!line.empty() && line.back() == '\n')
        line.remove_suffix(1);
    if (level <= FUSE_LOG_WARNING) log::warn("libfuse: {}", line);
}

std::string counters_of(World& world, const MountOptions& options, bool json) {
    Stats stats = world.stats();
    const ServerLimits& limits = world.mount().limits;
    stats.events[static_cast<std::size_t>(Event::delay)] += stats.nfs.jukebox;
    stats.options = options_text(options, limits.read, limits.write);
    return json ? to_json(stats) : to_mountstats(stats);
}

Attempt open_world(const MountOptions& options, std::unique_ptr<World>& world) {
    Attempt attempt;
    world = World::open(options, attempt.why, attempt.status, attempt.again);
    attempt.ok = world != nullptr;
    attempt.why = options.source() + ": " + attempt.why;
    return attempt;
}

// In the process that serves the mount: from the first attempt to its end.
int serve(const MountOptions& options, Launch& launch) {
    Ending ending;
    const EndSignals signals(!launch.in_background(),
                             [&ending](int number) { ending.on_signal(number); });
    std::unique_ptr<World> world;
    const Attempt last = keep_trying(options, launch, [&] { return open_world(options, world); });
    if (!last.ok) {
        launch.tell_failed(last.status);
        return last.status;
    }
    fuse_set_log_func(log_of_fuse);
    std::string why;
    if (!ending.mount(*world, why)) {
        say(launch, why);
        launch.tell_failed(kExitFailed);
        return kExitFailed;
    }
    auto counters = StatsServer::at_directory(
        options.directory, [&](bool json) { return counters_of(*world, options, json); });
    if (!counters) log::warn("nfsrdma stats will not work: {}", to_string(counters.error()));
    launch.detach();
    const int status = world->run();
    ending.unmounted();
    if (counters) counters->reset();
    return status;
}

int run(int argc, char** argv) {
    MountOptions options;
    switch (parse_options(argc, argv, ::geteuid() == 0, options)) {
        case Parsed::done:
            return kExitOk;
        case Parsed::wrong:
            return kExitUsage;
        case Parsed::mount:
            break;
    }
    std::string why;
    if (!settle_directory(options, why)) {
        (void)std::fprintf(stderr, "mount.nfsrdma: %s\n", why.c_str());
        return kExitFailed;
    }
    if (options.fake) return kExitOk;
    if (options.verbose > 0)
        log::set_level(options.verbose > 1 ? log::Level::debug : log::Level::info);
    Launch launch;
    int status = kExitOk;
    if (!options.foreground && !launch.to_child(status)) return status;
    ::umask(0);  // modes are the callers' business
    // mount(8) may have left none; libfuse looks for fusermount3 there.
    constexpr const char* kPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    (void)::setenv("PATH", kPath, 0);  // NOLINT(concurrency-mt-unsafe): there is one thread
    // The kernel writes through us to free memory: our own memory must not wait for that.
    if (::geteuid() == 0 && ::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) != 0)
        log::info("the kernel does not know this process as one that writes for it");
    return serve(options, launch);
}

}  // namespace
}  // namespace nfsrdma::mount

int main(int argc, char** argv) {
    try {
        return nfsrdma::mount::run(argc, argv);
    } catch (const std::exception& error) {  // of libraries: out of memory
        (void)std::fprintf(stderr, "mount.nfsrdma: %s\n", error.what());
        return nfsrdma::mount::kExitBug;
    }
}
