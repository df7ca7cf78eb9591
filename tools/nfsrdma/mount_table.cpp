#include "tools/nfsrdma/mount_table.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.hpp"
#include "tools/nfsrdma/url.hpp"

namespace nfsrdma::tool {
namespace {

constexpr std::size_t kTableMax = std::size_t{64} << 20;

std::string_view next_word(std::string_view& line) {
    const std::size_t space = line.find(' ');
    const std::string_view word = line.substr(0, space);
    line = space == std::string_view::npos ? std::string_view() : line.substr(space + 1);
    return word;
}

bool is_octal(char c) noexcept {
    return c >= '0' && c <= '7';
}

// "\040" is a space: the kernel writes so what would end a word.
std::string unescaped(std::string_view word) {
    std::string out;
    for (std::size_t i = 0; i < word.size(); ++i) {
        if (word[i] == '\\' && i + 3 < word.size() && is_octal(word[i + 1]) &&
            is_octal(word[i + 2]) && is_octal(word[i + 3])) {
            const int value =
                (word[i + 1] - '0') * 64 + (word[i + 2] - '0') * 8 + (word[i + 3] - '0');
            out += static_cast<char>(value);
            i += 3;
        } else {
            out += word[i];
        }
    }
    return out;
}

bool number_of(std::string_view text, std::uint32_t& out) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, out);
    return !text.empty() && error == std::errc{} && stop == end;
}

// user_id=N among the options of the file system.
std::uint32_t owner_of(std::string_view options) {
    constexpr std::string_view kName = "user_id=";
    while (!options.empty()) {
        const std::size_t comma = options.find(',');
        const std::string_view one = options.substr(0, comma);
        options = comma == std::string_view::npos ? std::string_view() : options.substr(comma + 1);
        std::uint32_t owner = 0;
        if (one.substr(0, kName.size()) == kName && number_of(one.substr(kName.size()), owner))
            return owner;
    }
    return 0;
}

// "36 35 98:0 /root /mnt rw,noatime master:1 - fuse.nfsrdma server:/x rw,user_id=0"
bool parse_line(std::string_view line, MountEntry& out) {
    (void)next_word(line);
    (void)next_word(line);
    const std::string_view device = next_word(line);
    const std::size_t colon = device.find(':');
    if (colon == std::string_view::npos || !number_of(device.substr(0, colon), out.major) ||
        !number_of(device.substr(colon + 1), out.minor))
        return false;
    out.root = unescaped(next_word(line));
    out.directory = unescaped(next_word(line));
    out.options = next_word(line);
    for (;;) {
        if (line.empty()) return false;
        if (next_word(line) == "-") break;
    }
    out.type = unescaped(next_word(line));
    out.source = unescaped(next_word(line));
    out.super_options = line;
    out.owner = owner_of(out.super_options);
    return !out.directory.empty() && !out.type.empty();
}

}  // namespace

std::vector<MountEntry> parse_mount_table(std::string_view text) {
    std::vector<MountEntry> out;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        MountEntry entry;
        if (parse_line(text.substr(0, end), entry)) out.push_back(std::move(entry));
        text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    }
    return out;
}

Result<std::vector<MountEntry>> read_mount_table() {
    const UniqueFd fd(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
    if (!fd) return Error{Errc::system, errno, "open /proc/self/mountinfo"};
    std::string text;
    std::array<char, 65536> part;
    for (;;) {
        const ssize_t n = ::read(fd.get(), part.data(), part.size());
        if (n == 0) break;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return Error{Errc::system, errno, "read /proc/self/mountinfo"};
        text.append(part.data(), static_cast<std::size_t>(n));
        if (text.size() > kTableMax) return Error{Errc::too_big, 0, "too many mounts"};
    }
    return parse_mount_table(text);
}

const MountEntry* mount_at(const std::vector<MountEntry>& table, std::string_view directory) {
    const MountEntry* found = nullptr;
    for (const MountEntry& entry : table) {
        if (entry.directory == directory) found = &entry;
    }
    return found;
}

const MountEntry* mount_of(const std::vector<MountEntry>& table, std::string_view path) {
    const MountEntry* found = nullptr;
    for (const MountEntry& entry : table) {
        if (!is_path_prefix(entry.directory, path)) continue;
        if (found == nullptr || entry.directory.size() >= found->directory.size()) found = &entry;
    }
    return found;
}

}  // namespace nfsrdma::tool
