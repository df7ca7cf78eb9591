// Reading directories: complete, each name once, at any size and while they change.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/e2e/posix.hpp"

namespace nfsrdma::posix {
namespace {

struct CloseDir {
    void operator()(DIR* dir) const { ::closedir(dir); }
};
using Dir = std::unique_ptr<DIR, CloseDir>;

Dir open_dir(const std::string& name) {
    return Dir(::opendir(name.c_str()));
}
std::map<std::string, int> counted(DIR* dir) {
    std::map<std::string, int> names;
    while (const dirent* entry = ::readdir(dir))
        ++names[entry->d_name];
    return names;
}
std::string numbered(int i) {
    return "entry-with-a-name-" + std::to_string(i);
}
// Several processes at once: what each waits for takes its time on a busy machine.
void shared_out(Checks& t, int count, const std::function<bool(int)>& one) {
    constexpr int kProcesses = 8;
    std::vector<pid_t> children;
    for (int p = 0; p < kProcesses; ++p) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            for (int i = p; i < count; i += kProcesses)
                if (!one(i)) ::_exit(1);
            ::_exit(0);
        }
        children.push_back(pid);
    }
    for (const pid_t pid : children) {
        int status = 0;
        NR_OK(::waitpid(pid, &status, 0));
        NR_EQ(0, status);
    }
}
void fill(Checks& t, const std::string& directory, int count) {
    NR_OK(::mkdir(directory.c_str(), 0755));
    shared_out(t, count, [&](int i) {
        const std::string name = directory + "/" + numbered(i);
        return static_cast<bool>(open_file(name, O_WRONLY | O_CREAT | O_EXCL));
    });
}

void small(Checks& t) {
    NR_OK(::mkdir("d", 0755));
    const auto empty = counted(open_dir("d").get());
    NR_EQ(2, static_cast<int>(empty.size()));
    NR_EQ(1, static_cast<int>(empty.count(".")));
    NR_EQ(1, static_cast<int>(empty.count("..")));
    NR_HOLDS(put("d/f", ""));
    NR_OK(::mkdir("d/sub", 0755));
    NR_OK(::symlink("f", "d/s"));
    NR_OK(::mkfifo("d/p", 0644));
    const Dir dir = open_dir("d");
    std::map<std::string, unsigned char> types;
    ino_t self = 0;
    ino_t parent = 0;
    while (const dirent* entry = ::readdir(dir.get())) {
        types[entry->d_name] = entry->d_type;
        if (std::string_view(entry->d_name) == ".") self = entry->d_ino;
        if (std::string_view(entry->d_name) == "..") parent = entry->d_ino;
    }
    NR_EQ(6, static_cast<int>(types.size()));
    // DT_UNKNOWN is allowed.
    NR_HOLDS(types["f"] == DT_REG || types["f"] == DT_UNKNOWN);
    NR_HOLDS(types["sub"] == DT_DIR || types["sub"] == DT_UNKNOWN);
    NR_HOLDS(types["s"] == DT_LNK || types["s"] == DT_UNKNOWN);
    NR_HOLDS(types["p"] == DT_FIFO || types["p"] == DT_UNKNOWN);
    NR_HOLDS(self == stat_of("d").st_ino);
    NR_HOLDS(parent == stat_of(".").st_ino);
    NR_HOLDS(stat_of("d/.").st_ino == self);
    NR_HOLDS(stat_of("d/..").st_ino == parent);
    NR_HOLDS(::opendir("none") == nullptr && errno == ENOENT);
    NR_HOLDS(::opendir("d/f") == nullptr && errno == ENOTDIR);
}

void ten_thousand(Checks& t) {
    constexpr int kCount = 10000;
    constexpr int kLeft = 2000;
    fill(t, "d", kCount);
    const Dir dir = open_dir("d");
    auto names = counted(dir.get());
    NR_EQ(kCount + 2, static_cast<int>(names.size()));
    const auto once =
        std::all_of(names.begin(), names.end(), [](const auto& name) { return name.second == 1; });
    NR_HOLDS(once);
    ::rewinddir(dir.get());
    NR_HOLDS(counted(dir.get()) == names);
    // They have their attributes, as ls -l asks.
    int wrong = 0;
    for (int i = 0; i < kCount; i += 7)
        if (!S_ISREG(lstat_of("d/" + numbered(i)).st_mode)) ++wrong;
    NR_EQ(0, wrong);
    shared_out(t, kCount - kLeft,
               [](int i) { return ::unlink(("d/" + numbered(i)).c_str()) == 0; });
    // The rest while it is read.
    const Dir removing = open_dir("d");
    int removed = 0;
    while (const dirent* entry = ::readdir(removing.get())) {
        if (entry->d_name[0] == '.') continue;
        if (::unlinkat(::dirfd(removing.get()), entry->d_name, 0) == 0) ++removed;
    }
    NR_EQ(kLeft, removed);
    NR_EQ(0, static_cast<int>(names_in("d").size()));
    NR_OK(::rmdir("d"));
}

void positions(Checks& t) {
    constexpr int kCount = 500;
    fill(t, "d", kCount);
    const Dir dir = open_dir("d");
    std::vector<long> at;
    std::vector<std::string> names;
    for (;;) {
        const long position = ::telldir(dir.get());
        const dirent* entry = ::readdir(dir.get());
        if (entry == nullptr) break;
        at.push_back(position);
        names.emplace_back(entry->d_name);
    }
    NR_EQ(kCount + 2, static_cast<int>(names.size()));
    for (const std::size_t i : {std::size_t{400}, std::size_t{3}, std::size_t{0}, std::size_t{250},
                                names.size() - 1, std::size_t{1}}) {
        ::seekdir(dir.get(), at[i]);
        const dirent* entry = ::readdir(dir.get());
        if (!NR_HOLDS(entry != nullptr)) continue;
        NR_EQ(names[i], entry->d_name);
    }
    // From the middle to the end.
    ::seekdir(dir.get(), at[100]);
    NR_EQ(static_cast<int>(names.size()) - 100, static_cast<int>(counted(dir.get()).size()));
    NR_HOLDS(::readdir(dir.get()) == nullptr);
    ::rewinddir(dir.get());
    NR_EQ(names[0], ::readdir(dir.get())->d_name);
    // Two readers do not disturb each other.
    const Dir one = open_dir("d");
    const Dir two = open_dir("d");
    int same = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const dirent* a = ::readdir(one.get());
        const dirent* b = ::readdir(two.get());
        if (a != nullptr && b != nullptr && std::string_view(a->d_name) == b->d_name) ++same;
    }
    NR_EQ(static_cast<int>(names.size()), same);
}

// By hand: the smallest buffers, and one too small.
void small_buffers(Checks& t) {
    fill(t, "d", 100);
    const UniqueFd dir = open_file("d", O_RDONLY | O_DIRECTORY);
    int calls = 0;
    std::vector<char> buffer(64);
    long got = 0;
    while ((got = ::syscall(SYS_getdents64, dir.get(), buffer.data(), buffer.size())) > 0)
        ++calls;
    NR_EQ(0, got);
    NR_HOLDS(calls >= 52);  // no two entries of this length fit, but for the first two
    NR_EQ(0, ::lseek(dir.get(), 0, SEEK_SET));
    NR_ERR(EINVAL, ::syscall(SYS_getdents64, dir.get(), buffer.data(), 8));
    const UniqueFd file = open_file("f", O_RDONLY | O_CREAT);
    NR_ERR(ENOTDIR, ::syscall(SYS_getdents64, file.get(), buffer.data(), buffer.size()));
}

void changing(Checks& t) {
    constexpr int kCount = 1000;
    fill(t, "d", kCount);
    const Dir dir = open_dir("d");
    std::map<std::string, int> seen;
    int step = 0;
    while (const dirent* entry = ::readdir(dir.get())) {
        ++seen[entry->d_name];
        // New names may be shown or not; what stays all the time must be, and once.
        if (++step % 10 == 0) {
            if (!put("d/new" + std::to_string(step), "")) NR_OK(-1);
            if (::unlink(("d/new" + std::to_string(step - 10)).c_str()) != 0 && step > 10)
                NR_OK(-1);
        }
        if (step > 5 * kCount) break;
    }
    int missing = 0;
    int twice = 0;
    for (int i = 0; i < kCount; ++i) {
        const auto found = seen.find(numbered(i));
        if (found == seen.end()) ++missing;
        if (found != seen.end() && found->second != 1) ++twice;
    }
    NR_EQ(0, missing);
    NR_EQ(0, twice);
}

// The names in a directory but those that NFS gives to what was open when it was removed: the last
// close may reach a FUSE file system after it has returned.
std::string shown_in(const std::string& directory) {
    std::string out;
    for (const std::string& name : names_in(directory))
        if (name.rfind(".nfs", 0) != 0) out += name + "/";
    return out;
}

// A listing after a change shows the change at once.
void at_once(Checks& t) {
    NR_OK(::mkdir("d", 0755));
    for (int i = 0; i < 30; ++i) {
        NR_EQ("", shown_in("d"));
        NR_HOLDS(put("d/f", ""));
        NR_EQ("f/", shown_in("d"));
        NR_OK(::rename("d/f", "d/g"));
        NR_EQ("g/", shown_in("d"));
        NR_HOLDS(!exists("d/f"));
        NR_OK(::unlink("d/g"));
        NR_HOLDS(!exists("d/g"));
    }
}

// A directory that is open but gone reads as empty or says so.
void removed(Checks& t) {
    NR_OK(::mkdir("d", 0755));
    const Dir dir = open_dir("d");
    NR_OK(::rmdir("d"));
    ::rewinddir(dir.get());
    int shown = 0;
    while (const dirent* entry = ::readdir(dir.get()))
        if (entry->d_name[0] != '.') ++shown;
    NR_EQ(0, shown);
    NR_OK(::mkdir("d", 0755));
    NR_HOLDS(put("d/f", ""));
    NR_EQ(1, static_cast<int>(names_in("d").size()));
}

}  // namespace

std::vector<Case> directory_cases() {
    return {{"directories.small", small},         {"directories.ten_thousand", ten_thousand},
            {"directories.positions", positions}, {"directories.small_buffers", small_buffers},
            {"directories.changing", changing},   {"directories.at_once", at_once},
            {"directories.removed", removed}};
}

}  // namespace nfsrdma::posix
