// utimensat, and what sets times besides.
#include <array>
#include <chrono>
#include <sys/time.h>
#include <thread>

#include "tests/e2e/posix.hpp"

namespace nfsrdma::posix {
namespace {

bool before(const timespec& a, const timespec& b) {
    return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}
bool same(const timespec& a, const timespec& b) {
    return !before(a, b) && !before(b, a);
}
int set_times(const char* name, timespec read, timespec written, int flags = 0) {
    const std::array<timespec, 2> times = {read, written};
    return ::utimensat(AT_FDCWD, name, times.data(), flags);
}
// File systems stamp by a coarse clock: longer than any tick of it.
void tick() {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
}

void set(Checks& t) {
    NR_HOLDS(put("f", "x"));
    NR_OK(set_times("f", {1000000000, 123456789}, {1500000000, 987654321}));
    struct stat st = stat_of("f");
    NR_EQ(1000000000, st.st_atim.tv_sec);
    NR_EQ(123456789, st.st_atim.tv_nsec);
    NR_EQ(1500000000, st.st_mtim.tv_sec);
    NR_EQ(987654321, st.st_mtim.tv_nsec);
    NR_OK(set_times("f", {7, 0}, {0, UTIME_OMIT}));
    st = stat_of("f");
    NR_EQ(7, st.st_atim.tv_sec);
    NR_EQ(1500000000, st.st_mtim.tv_sec);
    NR_OK(set_times("f", {0, UTIME_OMIT}, {8, 1}));
    st = stat_of("f");
    NR_EQ(7, st.st_atim.tv_sec);
    NR_EQ(8, st.st_mtim.tv_sec);
    NR_EQ(1, st.st_mtim.tv_nsec);
    NR_OK(set_times("f", {0, UTIME_OMIT}, {0, UTIME_OMIT}));
    NR_EQ(8, stat_of("f").st_mtim.tv_sec);
    NR_HOLDS(put("now", ""));
    NR_OK(set_times("f", {0, UTIME_NOW}, {0, UTIME_NOW}));
    st = stat_of("f");
    const timespec about = stat_of("now").st_mtim;
    NR_HOLDS(st.st_mtim.tv_sec >= about.tv_sec && st.st_mtim.tv_sec <= about.tv_sec + 60);
    NR_HOLDS(st.st_atim.tv_sec >= about.tv_sec && st.st_atim.tv_sec <= about.tv_sec + 60);
    NR_OK(::utimensat(AT_FDCWD, "f", nullptr, 0));
    NR_ERR(EINVAL, set_times("f", {0, 1000000000}, {0, 0}));
    NR_ERR(EINVAL, set_times("f", {0, -1}, {0, 0}));
    NR_ERR(ENOENT, set_times("none", {0, 0}, {0, 0}));
    NR_OK(::symlink("f", "s"));
    NR_OK(set_times("s", {11, 0}, {12, 0}, AT_SYMLINK_NOFOLLOW));
    NR_EQ(12, lstat_of("s").st_mtim.tv_sec);
    NR_HOLDS(stat_of("f").st_mtim.tv_sec != 12);
    NR_OK(set_times("s", {13, 0}, {14, 0}));
    NR_EQ(14, stat_of("f").st_mtim.tv_sec);
    const UniqueFd file = open_file("f", O_RDWR);
    const std::array<timespec, 2> times = {timespec{15, 5}, timespec{16, 6}};
    NR_OK(::futimens(file.get(), times.data()));
    NR_EQ(16, stat_of("f").st_mtim.tv_sec);
    NR_OK(::mkdir("d", 0755));
    NR_OK(set_times("d", {17, 0}, {18, 0}));
    NR_EQ(18, stat_of("d").st_mtim.tv_sec);
}

void far(Checks& t) {
    NR_HOLDS(put("f", ""));
    // NFSv3's times are 32 bits without a sign (RFC 1813 s2.5).
    for (const time_t second :
         {time_t{0}, time_t{1}, time_t{INT32_MAX}, time_t{INT32_MAX} + 1, time_t{UINT32_MAX}}) {
        NR_OK(set_times("f", {second, 1}, {second, 999999999}));
        NR_EQ(second, stat_of("f").st_mtim.tv_sec);
        NR_EQ(second, stat_of("f").st_atim.tv_sec);
        // Linux' NFSv3 client has no fraction at the ends of that time.
        const long nanoseconds = stat_of("f").st_mtim.tv_nsec;
        const bool end = second == 0 || second == time_t{UINT32_MAX};
        NR_HOLDS(nanoseconds == 999999999 || (end && nanoseconds == 0));
    }
    if (t.options.nfs) return;
    for (const time_t second : {time_t{-1}, time_t{UINT32_MAX} + 1}) {
        NR_OK(set_times("f", {second, 0}, {second, 0}));
        NR_EQ(second, stat_of("f").st_mtim.tv_sec);
    }
}

// Set while data is on its way: the WRITE that comes after must not undo it.
void set_over_writes(Checks& t) {
    const UniqueFd file = open_file("f", O_RDWR | O_CREAT);
    const std::string data = pattern(300000, 1);
    const std::array<timespec, 2> times = {timespec{1000, 1}, timespec{2000, 2}};
    for (int i = 0; i < 10; ++i) {
        NR_EQ(300000, ::pwrite(file.get(), data.data(), data.size(), 0));
        NR_OK(::futimens(file.get(), times.data()));
        NR_EQ(2000, stat_of(file.get()).st_mtim.tv_sec);
        NR_OK(::fsync(file.get()));
        NR_EQ(2000, stat_of("f").st_mtim.tv_sec);
    }
    // As tar and cp -p: write, set, close.
    for (int i = 0; i < 10; ++i) {
        UniqueFd copy = open_file("copy", O_WRONLY | O_CREAT | O_TRUNC);
        NR_EQ(300000, ::write(copy.get(), data.data(), data.size()));
        NR_OK(::futimens(copy.get(), times.data()));
        NR_OK(::fchmod(copy.get(), 0604));
        NR_OK(::close(copy.release()));
        NR_EQ(2000, stat_of("copy").st_mtim.tv_sec);
        NR_EQ(2, stat_of("copy").st_mtim.tv_nsec);
    }
}

void by_writes(Checks& t) {
    NR_HOLDS(put("f", "x"));
    NR_OK(set_times("f", {1000, 0}, {1000, 0}));
    const struct stat old = stat_of("f");
    tick();
    {
        UniqueFd file = open_file("f", O_RDWR);
        NR_EQ(1, ::write(file.get(), "y", 1));
        NR_OK(::close(file.release()));
    }
    const struct stat written = stat_of("f");
    NR_HOLDS(before(old.st_mtim, written.st_mtim));
    NR_HOLDS(before(old.st_ctim, written.st_ctim));
    tick();
    NR_OK(::chmod("f", 0600));
    const struct stat changed = stat_of("f");
    NR_HOLDS(same(written.st_mtim, changed.st_mtim));
    NR_HOLDS(before(written.st_ctim, changed.st_ctim));
    tick();
    NR_OK(::truncate("f", 0));
    const struct stat cut = stat_of("f");
    NR_HOLDS(before(changed.st_mtim, cut.st_mtim));
    tick();
    // Nothing is written by a write of nothing, nor by an open.
    UniqueFd file = open_file("f", O_RDWR);
    NR_EQ(0, ::write(file.get(), "", 0));
    NR_OK(::close(file.release()));
    NR_HOLDS(same(cut.st_mtim, stat_of("f").st_mtim));
    tick();
    NR_OK(::link("f", "g"));
    NR_HOLDS(before(cut.st_ctim, stat_of("f").st_ctim));
}

void of_directories(Checks& t) {
    NR_OK(::mkdir("d", 0755));
    struct Step {
        const char* what;
        int (*change)();
    };
    const std::array<Step, 9> steps = {{
        {"create", [] { return put("d/f", "") ? 0 : -1; }},
        {"link", [] { return ::link("d/f", "d/g"); }},
        {"rename", [] { return ::rename("d/g", "d/h"); }},
        {"unlink", [] { return ::unlink("d/h"); }},
        {"mkdir", [] { return ::mkdir("d/sub", 0755); }},
        {"rmdir", [] { return ::rmdir("d/sub"); }},
        {"symlink", [] { return ::symlink("x", "d/s"); }},
        {"mkfifo", [] { return ::mkfifo("d/p", 0644); }},
        {"rename out", [] { return ::rename("d/f", "f"); }},
    }};
    for (const Step& step : steps) {
        const struct stat old = stat_of("d");
        tick();
        NR_OK(step.change());
        if (!before(old.st_mtim, stat_of("d").st_mtim))
            t.fail(std::string(step.what) + " does not touch the directory", __LINE__);
    }
    // A file's contents are not its directory's.
    NR_HOLDS(put("d/f", "x"));
    const struct stat old = stat_of("d");
    tick();
    NR_HOLDS(put("d/f", "other"));
    NR_HOLDS(same(old.st_mtim, stat_of("d").st_mtim));
}

void of_now(Checks& t) {
    timespec now{};
    NR_OK(::clock_gettime(CLOCK_REALTIME, &now));
    NR_HOLDS(put("f", "x"));
    const struct stat st = stat_of("f");
    for (const timespec& time : {st.st_atim, st.st_mtim, st.st_ctim})
        NR_HOLDS(time.tv_sec >= now.tv_sec - 60 && time.tv_sec <= now.tv_sec + 60);
    NR_HOLDS(!before(st.st_ctim, st.st_mtim) || same(st.st_ctim, st.st_mtim));
}

}  // namespace

std::vector<Case> time_cases() {
    return {{"times.set", set},
            {"times.far", far},
            {"times.set_over_writes", set_over_writes},
            {"times.by_writes", by_writes},
            {"times.of_directories", of_directories},
            {"times.of_now", of_now}};
}

}  // namespace nfsrdma::posix
