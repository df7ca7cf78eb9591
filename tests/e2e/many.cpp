// Many processes at once on one file system:
// nfsrdma_many DIR [--processes N] [--seconds N] [--seed N]
//
// First, for the time asked for, each process makes, writes, reads, renames, links, unlinks and
// lists at random, in a directory of its own, where it knows what must be there and what it must
// hold, and in one of all, where each file says by itself what it must hold. Then all write one
// file in 4 KiB records, each its own, and eight threads write one file in blocks of 64 KiB in a
// random order (B125): both are compared byte by byte. Exit status 0: all was as it should be.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/prng.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::many {
namespace {

constexpr std::size_t kFileMax = 300000;
constexpr std::size_t kNamesMax = 40;  // of a process' own directory
constexpr std::size_t kSharedNames = 30;
constexpr std::size_t kRecord = 4096;
constexpr std::size_t kRecords = 4096;  // of the shared file: 16 MiB
constexpr std::size_t kBlock = 65536;
constexpr std::size_t kBlocks = 256;  // 16 MiB
constexpr unsigned kThreads = 8;

struct Arguments {
    std::string directory;
    std::uint64_t processes = 16;
    std::uint64_t seconds = 10;
    std::uint64_t seed = 1;
};

[[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "many: %s\n", what.c_str());
    std::_Exit(1);
}
void check(bool good, const std::string& what) {
    if (!good) fail(what + ": " + std::strerror(errno));
}

// What a file must hold: its first 16 bytes say of which seed and length all of it is.
std::string contents(std::uint64_t seed, std::size_t len) {
    std::string out(std::max<std::size_t>(len, 16), 0);
    const std::uint64_t size = out.size();
    std::memcpy(out.data(), &seed, 8);
    std::memcpy(out.data() + 8, &size, 8);
    Prng prng(seed ^ size);
    for (std::size_t i = 16; i < out.size(); i += 8) {
        const std::uint64_t word = prng.next();
        std::memcpy(out.data() + i, &word, std::min<std::size_t>(8, out.size() - i));
    }
    return out;
}
// Why this is not what `contents` gave, or nothing.
std::string wrong(const std::string& got) {
    if (got.size() < 16) return std::to_string(got.size()) + " bytes only";
    std::uint64_t seed = 0;
    std::uint64_t size = 0;
    std::memcpy(&seed, got.data(), 8);
    std::memcpy(&size, got.data() + 8, 8);
    if (size != got.size())
        return std::to_string(got.size()) + " bytes, not " + std::to_string(size);
    const std::string expected = contents(seed, got.size());
    if (got == expected) return {};
    const auto at = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
    return "wrong from byte " + std::to_string(at) + " of " + std::to_string(size);
}

void write_all(int fd, std::string_view data, const std::string& name) {
    while (!data.empty()) {
        const ssize_t written = ::write(fd, data.data(), data.size());
        check(written > 0, "write " + name);
        data.remove_prefix(static_cast<std::size_t>(written));
    }
}
// The file's contents; false where it cannot be opened (errno).
bool read_all(const std::string& name, std::string& out) {
    const UniqueFd file(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return false;
    out.clear();
    std::array<char, 65536> piece{};
    for (;;) {
        const ssize_t got = ::read(file.get(), piece.data(), piece.size());
        check(got >= 0, "read " + name);
        if (got == 0) return true;
        out.append(piece.data(), static_cast<std::size_t>(got));
    }
}
void put(const std::string& name, std::string_view data, int flags) {
    UniqueFd file(::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644));
    check(static_cast<bool>(file), "open " + name);
    write_all(file.get(), data, name);
    check(::close(file.release()) == 0, "close " + name);
}
std::set<std::string> names_in(const std::string& directory) {
    std::set<std::string> names;
    DIR* dir = ::opendir(directory.c_str());
    check(dir != nullptr, "opendir " + directory);
    while (const dirent* entry = ::readdir(dir)) {
        const std::string_view name = entry->d_name;
        if (name == "." || name == ".." || name.substr(0, 4) == ".nfs") continue;
        if (!names.emplace(name).second) fail(directory + " lists twice: " + std::string(name));
    }
    ::closedir(dir);
    return names;
}

// One process: what it knows of its own directory, and what all do in the shared one.
class Process {
  public:
    Process(const Arguments& arguments, std::uint64_t number)
        : prng_(arguments.seed * 1000 + number),
          own_(arguments.directory + "/p" + std::to_string(number) + "/"),
          shared_(arguments.directory + "/shared/"),
          tag_(std::to_string(number)) {}
    void run(std::chrono::steady_clock::time_point until) {
        check(::mkdir(own_.c_str(), 0755) == 0, "mkdir " + own_);
        while (std::chrono::steady_clock::now() < until) {
            for (int i = 0; i < 20; ++i) {
                own_step();
                shared_step();
                ++steps_;
            }
            verify_listing();
        }
        for (const auto& [name, file] : files_)
            verify(name);
        std::printf("many: process %s: %llu rounds\n", tag_.c_str(),
                    static_cast<unsigned long long>(steps_));
        std::fflush(stdout);
    }

  private:
    using File = std::shared_ptr<std::string>;  // names that are links share their contents

    std::string fresh() { return "n" + std::to_string(next_name_++); }
    std::string any() {
        auto it = files_.begin();
        std::advance(it, static_cast<std::ptrdiff_t>(prng_.below(files_.size())));
        return it->first;
    }
    std::size_t some_size() {
        return prng_.below(4) == 0 ? prng_.below(kFileMax) : prng_.below(5000);
    }
    void own_step();
    void change(const std::string& name);
    void verify(const std::string& name);
    void verify_listing();
    void directories();
    void shared_step();
    void shared_read(const std::string& name);

    Prng prng_;
    const std::string own_, shared_, tag_;
    std::map<std::string, File> files_;
    std::uint64_t next_name_ = 0;
    std::uint64_t steps_ = 0;
};

void Process::verify(const std::string& name) {
    std::string got;
    check(read_all(own_ + name, got), "open " + own_ + name);
    const std::string& expected = *files_.at(name);
    if (got != expected) {
        const std::size_t common = std::min(got.size(), expected.size());
        const auto at =
            std::mismatch(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(common),
                          expected.begin())
                .first -
            got.begin();
        fail(own_ + name + ": " + std::to_string(got.size()) + " bytes, not " +
             std::to_string(expected.size()) + ", different at " + std::to_string(at));
    }
    struct stat st {};
    check(::stat((own_ + name).c_str(), &st) == 0, "stat " + own_ + name);
    if (st.st_size != static_cast<off_t>(expected.size())) fail(own_ + name + ": stat's size");
    if (st.st_nlink != static_cast<nlink_t>(files_.at(name).use_count()))
        fail(own_ + name + ": " + std::to_string(st.st_nlink) + " links, not " +
             std::to_string(files_.at(name).use_count()));
}

void Process::verify_listing() {
    const std::set<std::string> names = names_in(own_);
    for (const auto& [name, file] : files_)
        if (names.count(name) == 0) fail(own_ + " does not list " + name);
    if (names.size() != files_.size())
        fail(own_ + " lists " + std::to_string(names.size()) + ", not " +
             std::to_string(files_.size()));
}

// Appends to it, writes in it or cuts it.
void Process::change(const std::string& name) {
    std::string& model = *files_.at(name);
    const std::string path = own_ + name;
    const std::string data = contents(prng_.next(), some_size());
    switch (prng_.below(3)) {
        case 0:
            put(path, data, O_APPEND);
            model += data;
            if (model.size() > 2 * kFileMax) {
                model.resize(kFileMax);
                check(::truncate(path.c_str(), kFileMax) == 0, "truncate " + path);
            }
            break;
        case 1: {
            const std::size_t at = prng_.below(model.size() + 1);
            if (model.size() < at + data.size()) model.resize(at + data.size());
            data.copy(model.data() + at, data.size());
            UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
            check(static_cast<bool>(file), "open " + path);
            check(::lseek(file.get(), static_cast<off_t>(at), SEEK_SET) >= 0, "lseek");
            write_all(file.get(), data, path);
            check(::close(file.release()) == 0, "close " + path);
            break;
        }
        default:
            model.resize(prng_.below(model.size() + 1000));
            check(::truncate(path.c_str(), static_cast<off_t>(model.size())) == 0,
                  "truncate " + path);
    }
}

void Process::own_step() {
    const std::uint64_t dice = prng_.below(100);
    if (files_.size() < 3 || (dice < 20 && files_.size() < kNamesMax)) {
        const std::string name = fresh();
        const auto file = std::make_shared<std::string>(contents(prng_.next(), some_size()));
        put(own_ + name, *file, O_EXCL);
        files_[name] = file;
    } else if (dice < 45) {
        verify(any());
    } else if (dice < 60) {
        change(any());
    } else if (dice < 72) {
        // Onto a new name, or over one that is there.
        const std::string from = any();
        const std::string to = prng_.below(2) == 0 ? fresh() : any();
        check(::rename((own_ + from).c_str(), (own_ + to).c_str()) == 0, "rename " + own_ + from);
        // Two names of one file stay both.
        if (files_.count(to) == 0 || files_[to] != files_[from]) {
            files_[to] = files_[from];
            files_.erase(from);
        }
    } else if (dice < 80 && files_.size() < kNamesMax) {
        const std::string from = any();
        const std::string to = fresh();
        check(::link((own_ + from).c_str(), (own_ + to).c_str()) == 0, "link " + own_ + from);
        files_[to] = files_[from];
    } else if (dice < 95) {
        const std::string name = any();
        check(::unlink((own_ + name).c_str()) == 0, "unlink " + own_ + name);
        files_.erase(name);
        struct stat st {};
        if (::lstat((own_ + name).c_str(), &st) == 0) fail(own_ + name + " is still there");
    } else {
        directories();
    }
}

void Process::directories() {
    const std::string outer = own_ + "../d" + tag_;
    const std::string inner = outer + "/sub";
    const std::string text = contents(prng_.next(), 100);
    check(::mkdir(outer.c_str(), 0755) == 0, "mkdir " + outer);
    check(::mkdir(inner.c_str(), 0755) == 0, "mkdir " + inner);
    put(inner + "/f", text, O_EXCL);
    if (::rmdir(outer.c_str()) == 0) fail("rmdir removes what is not empty");
    check(::rename(inner.c_str(), (outer + "/moved").c_str()) == 0, "rename " + inner);
    std::string got;
    check(read_all(outer + "/moved/f", got) && got == text, "read in a renamed directory");
    check(::unlink((outer + "/moved/f").c_str()) == 0, "unlink in a renamed directory");
    check(::rmdir((outer + "/moved").c_str()) == 0, "rmdir " + outer + "/moved");
    check(::rmdir(outer.c_str()) == 0, "rmdir " + outer);
}

// Files are put in place by rename, so that each is whole whoever looks.
void Process::shared_read(const std::string& name) {
    std::string got;
    if (!read_all(name, got)) {
        check(errno == ENOENT || errno == ESTALE, "open " + name);
        return;
    }
    const std::string why = wrong(got);
    if (!why.empty()) fail(name + ": " + why);
}

void Process::shared_step() {
    const std::string name = shared_ + "s" + std::to_string(prng_.below(kSharedNames));
    const std::string other = shared_ + "s" + std::to_string(prng_.below(kSharedNames));
    const auto allowed = [](int result, std::initializer_list<int> errors) {
        return result == 0 || std::find(errors.begin(), errors.end(), errno) != errors.end();
    };
    switch (prng_.below(7)) {
        case 0:
        case 1: {
            const std::string mine = shared_ + "t" + tag_;
            put(mine, contents(prng_.next(), some_size()), O_EXCL);
            check(::rename(mine.c_str(), name.c_str()) == 0, "rename " + mine);
            break;
        }
        case 2:
            check(allowed(::rename(name.c_str(), other.c_str()), {ENOENT, ESTALE}),
                  "rename " + name);
            break;
        case 3:
            check(allowed(::unlink(name.c_str()), {ENOENT, ESTALE}), "unlink " + name);
            break;
        case 4:
            check(allowed(::link(name.c_str(), other.c_str()), {ENOENT, EEXIST, ESTALE}),
                  "link " + name);
            break;
        case 5:
            for (const std::string& listed : names_in(shared_))
                if (listed[0] != 's' && listed[0] != 't') fail("shared lists " + listed);
            break;
        default:
            shared_read(name);
    }
}

// Runs `body` in `count` processes at once; all must end well.
template <class Body>
void in_processes(std::uint64_t count, const Body& body) {
    std::fflush(nullptr);
    std::vector<pid_t> children;
    for (std::uint64_t i = 0; i < count; ++i) {
        const pid_t pid = ::fork();
        check(pid >= 0, "fork");
        if (pid == 0) {
            body(i);
            std::_Exit(0);
        }
        children.push_back(pid);
    }
    bool good = true;
    for (const pid_t pid : children) {
        int status = 0;
        check(::waitpid(pid, &status, 0) == pid, "waitpid");
        good = good && status == 0;
    }
    if (!good) fail("a process failed");
}

std::string numbered(std::uint64_t seed, std::size_t index, std::size_t size) {
    return contents(seed + index * 7919, size);
}
void verify_pieces(const std::string& name, std::uint64_t seed, std::size_t count,
                   std::size_t size) {
    std::string got;
    check(read_all(name, got), "open " + name);
    if (got.size() != count * size) fail(name + ": " + std::to_string(got.size()) + " bytes");
    for (std::size_t i = 0; i < count; ++i)
        if (std::string_view(got).substr(i * size, size) != numbered(seed, i, size))
            fail(name + ": piece " + std::to_string(i) + " is wrong");
}

// One file, the records of all processes interleaved; each page is one process' and no other's.
void records(const Arguments& arguments) {
    const std::string name = arguments.directory + "/records";
    put(name, "", O_EXCL);
    in_processes(arguments.processes, [&](std::uint64_t p) {
        UniqueFd file(::open(name.c_str(), O_WRONLY | O_CLOEXEC));
        check(static_cast<bool>(file), "open " + name);
        for (std::size_t i = p; i < kRecords; i += arguments.processes) {
            const std::string data = numbered(arguments.seed, i, kRecord);
            check(::pwrite(file.get(), data.data(), kRecord, static_cast<off_t>(i * kRecord)) ==
                      static_cast<ssize_t>(kRecord),
                  "pwrite " + name);
        }
        check(::close(file.release()) == 0, "close " + name);
    });
    verify_pieces(name, arguments.seed, kRecords, kRecord);
    in_processes(arguments.processes,
                 [&](std::uint64_t) { verify_pieces(name, arguments.seed, kRecords, kRecord); });
}

// B125: blocks in a random order from eight threads.
void blocks(const Arguments& arguments) {
    const std::string name = arguments.directory + "/blocks";
    UniqueFd file(::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    check(static_cast<bool>(file), "open " + name);
    std::vector<std::size_t> order(kBlocks);
    for (std::size_t i = 0; i < kBlocks; ++i)
        order[i] = i;
    Prng prng(arguments.seed);
    for (std::size_t i = kBlocks - 1; i > 0; --i)
        std::swap(order[i], order[prng.below(i + 1)]);
    std::vector<std::thread> threads;
    for (unsigned n = 0; n < kThreads; ++n) {
        threads.emplace_back([&, n] {
            for (std::size_t i = n; i < kBlocks; i += kThreads) {
                const std::string data = numbered(arguments.seed + 1, order[i], kBlock);
                check(
                    ::pwrite(file.get(), data.data(), kBlock,
                             static_cast<off_t>(order[i] * kBlock)) == static_cast<ssize_t>(kBlock),
                    "pwrite " + name);
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    verify_pieces(name, arguments.seed + 1, kBlocks, kBlock);
    check(::fsync(file.get()) == 0, "fsync " + name);
    check(::close(file.release()) == 0, "close " + name);
    verify_pieces(name, arguments.seed + 1, kBlocks, kBlock);
}

int run(Arguments arguments) {
    arguments.directory += "/many.XXXXXX";
    check(::mkdtemp(arguments.directory.data()) != nullptr, "mkdtemp " + arguments.directory);
    check(::mkdir((arguments.directory + "/shared").c_str(), 0755) == 0, "mkdir");
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(arguments.seconds);
    in_processes(arguments.processes, [&](std::uint64_t number) {
        Process process(arguments, number);
        process.run(until);
    });
    for (const std::string& name : names_in(arguments.directory + "/shared")) {
        std::string got;
        check(read_all(arguments.directory + "/shared/" + name, got), "open " + name);
        const std::string why = wrong(got);
        if (!why.empty()) fail("at the end, shared/" + name + ": " + why);
    }
    records(arguments);
    blocks(arguments);
    // A file that was closed just now may have a silly name for a moment.
    std::error_code error;
    for (int tries = 0; tries < 200; ++tries) {
        std::filesystem::remove_all(arguments.directory, error);
        if (!error) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (error) fail("what is left cannot be removed: " + error.message());
    std::printf("many: %llu processes, seed %llu: all as it should be\n",
                static_cast<unsigned long long>(arguments.processes),
                static_cast<unsigned long long>(arguments.seed));
    return 0;
}

bool number(std::string_view text, std::uint64_t most, std::uint64_t& value) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && value >= 1 &&
           value <= most;
}

bool parse(int argc, char** argv, Arguments& arguments) {
    for (int i = 1; i < argc; ++i) {
        const std::string_view argument = argv[i];
        const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
        if (argument.substr(0, 2) != "--" && arguments.directory.empty()) {
            arguments.directory = argument;
            continue;
        }
        ++i;
        if (argument == "--processes" && number(value, 256, arguments.processes)) continue;
        if (argument == "--seconds" && number(value, 86400, arguments.seconds)) continue;
        if (argument == "--seed" && number(value, UINT64_MAX, arguments.seed)) continue;
        return false;
    }
    return !arguments.directory.empty();
}

}  // namespace
}  // namespace nfsrdma::many

int main(int argc, char** argv) {
    nfsrdma::many::Arguments arguments;
    if (!nfsrdma::many::parse(argc, argv, arguments)) {
        std::fprintf(stderr, "usage: nfsrdma_many DIR [--processes N] [--seconds N] [--seed N]\n");
        return 2;
    }
    return nfsrdma::many::run(arguments);
}
