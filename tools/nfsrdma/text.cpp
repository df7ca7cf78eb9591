#include "tools/nfsrdma/text.hpp"

#include <array>
#include <cstdio>
#include <ctime>
#include <system_error>
#include <unistd.h>

namespace nfsrdma::tool {

std::string printable(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f) c = '?';
    }
    return out;
}

std::string for_stdout(std::string_view text) {
    return ::isatty(STDOUT_FILENO) != 0 ? printable(text) : std::string(text);
}

std::string human_bytes(double bytes) {
    constexpr std::array<const char*, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    std::size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < kUnits.size()) {
        bytes /= 1024;
        ++unit;
    }
    std::array<char, 32> out{};
    (void)std::snprintf(out.data(), out.size(), unit == 0 ? "%.0f %s" : "%.1f %s", bytes,
                        kUnits.at(unit));
    return out.data();
}

const char* type_text(ftype3 type) noexcept {
    switch (type) {
        case NF3REG:
            return "regular file";
        case NF3DIR:
            return "directory";
        case NF3BLK:
            return "block device";
        case NF3CHR:
            return "character device";
        case NF3LNK:
            return "symbolic link";
        case NF3SOCK:
            return "socket";
        case NF3FIFO:
            return "fifo";
    }
    return "unknown";
}

std::string mode_text(ftype3 type, std::uint32_t mode) {
    constexpr std::string_view kTypes = "?-dbclsp";
    std::string out = "?rwxrwxrwx";
    if (type >= NF3REG && type <= NF3FIFO) out[0] = kTypes[static_cast<std::size_t>(type)];
    for (std::size_t bit = 0; bit < 9; ++bit) {
        if ((mode & (0400u >> bit)) == 0) out[bit + 1] = '-';
    }
    const auto special = [&](std::uint32_t bit, std::size_t at, char with_x, char without) {
        if ((mode & bit) != 0) out[at] = out[at] == 'x' ? with_x : without;
    };
    special(04000, 3, 's', 'S');
    special(02000, 6, 's', 'S');
    special(01000, 9, 't', 'T');
    return out;
}

std::string time_text(const nfstime3& time) {
    const auto seconds = static_cast<std::time_t>(time.seconds);
    std::tm local{};
    std::array<char, 64> out{};
    if (::localtime_r(&seconds, &local) == nullptr) return "?";
    if (std::strftime(out.data(), out.size(), "%Y-%m-%d %H:%M:%S", &local) == 0) return "?";
    return out.data();
}

const char* type_word(ftype3 type) noexcept {
    switch (type) {
        case NF3REG:
            return "file";
        case NF3DIR:
            return "directory";
        case NF3BLK:
            return "block";
        case NF3CHR:
            return "character";
        case NF3LNK:
            return "link";
        case NF3SOCK:
            return "socket";
        case NF3FIFO:
            return "fifo";
    }
    return "unknown";
}

void add_attributes(JsonObject& object, const fattr3& attributes) {
    std::array<char, 8> mode{};
    (void)std::snprintf(mode.data(), mode.size(), "%04o", attributes.mode & 07777u);
    object.add("type", type_word(attributes.type))
        .add("mode", mode.data())
        .add("nlink", attributes.nlink)
        .add("uid", attributes.uid)
        .add("gid", attributes.gid)
        .add("size", attributes.size)
        .add("used", attributes.used)
        .add("fsid", attributes.fsid)
        .add("fileid", attributes.fileid);
    const auto add_time = [&object](const std::string& name, const nfstime3& time) {
        object.add(name, time.seconds).add(name + "_ns", time.nseconds);
    };
    add_time("atime", attributes.atime);
    add_time("mtime", attributes.mtime);
    add_time("ctime", attributes.ctime);
    if (attributes.type == NF3BLK || attributes.type == NF3CHR) {
        object.add("rdev_major", attributes.rdev.specdata1)
            .add("rdev_minor", attributes.rdev.specdata2);
    }
}

void complain(std::string_view place, std::string_view what) {
    const std::string line = place.empty()
                                 ? "nfsrdma: " + printable(what) + "\n"
                                 : "nfsrdma: " + printable(place) + ": " + printable(what) + "\n";
    // One write, so that lines of parallel processes do not mix.
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string errno_text(int error) {
    return std::generic_category().message(error);
}

}  // namespace nfsrdma::tool
