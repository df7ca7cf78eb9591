#include "nfs/handle_journal.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "nfs/siphash.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::string_view kMagic = "NRPLACE1";
constexpr std::size_t kHeaderBytes = 16;                   // magic, epoch
constexpr std::size_t kFixedBytes = 28, kSumBytes = 4;     // of a record, around the name
constexpr std::uint64_t kLogMin = std::uint64_t{1} << 20;  // not worth a new base before
constexpr std::size_t kReadBytes = std::size_t{1} << 20;
constexpr std::uint32_t kPatience = 15;  // tidy() calls between tries

// A checksum, not a MAC: these are our own files.
std::uint32_t sum_of(std::span<const std::byte> bytes) noexcept {
    return load_be32(siphash128(SipKey{}, bytes).data());
}

//  0 kind   1 size of the name   2 zero   4 fileid   12 generation   20 parent   28 name, checksum
void append_record(std::string& to, const PlaceRecord& record) {
    std::array<std::byte, kFixedBytes + PosixHandles::kNameMax + kSumBytes> room{};
    std::byte* const at = room.data();
    const std::size_t name = std::min(record.name.size(), PosixHandles::kNameMax);
    store_u8(at, static_cast<std::uint8_t>(record.kind));
    store_u8(at + 1, static_cast<std::uint8_t>(name));
    store_be64(at + 4, record.fileid);
    store_be64(at + 12, record.generation);
    store_be64(at + 20, record.parent);
    if (name != 0) std::memcpy(at + kFixedBytes, record.name.data(), name);
    store_be32(at + kFixedBytes + name, sum_of(std::span(room).first(kFixedBytes + name)));
    to.append(as_chars(at), kFixedBytes + name + kSumBytes);
}

// Bytes that the record at the beginning takes; 0: none is whole and good there.
std::size_t read_record(std::span<const std::byte> from, PlaceRecord& out) noexcept {
    if (from.size() < kFixedBytes + kSumBytes) return 0;
    const std::uint8_t kind = load_u8(&from[0]);
    const std::size_t name = load_u8(&from[1]);
    const std::size_t size = kFixedBytes + name + kSumBytes;
    if (from.size() < size || kind < 1 || kind > 3) return 0;
    if (load_be32(&from[size - kSumBytes]) != sum_of(from.first(size - kSumBytes))) return 0;
    out.kind = static_cast<PlaceRecord::Kind>(kind);
    out.fileid = load_be64(&from[4]);
    out.generation = load_be64(&from[12]);
    out.parent = load_be64(&from[20]);
    out.name = {as_chars(&from[kFixedBytes]), name};
    return size;
}

std::string header_of(std::uint64_t epoch) {
    std::array<std::byte, kHeaderBytes> room{};
    std::memcpy(room.data(), kMagic.data(), kMagic.size());
    store_be64(&room[8], epoch);
    return {as_chars(room.data()), room.size()};
}

bool write_all(int fd, std::string_view bytes) noexcept {
    while (!bytes.empty()) {
        const ssize_t done = ::write(fd, bytes.data(), bytes.size());
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(done));
    }
    return true;
}

struct Replayed {
    std::uint64_t epoch = 0;
    std::uint64_t good_bytes = 0;
    bool torn = false;  // something else follows
};

// Nothing when it has no header.
std::optional<Replayed> replay(int fd, PosixHandles& into) {
    std::vector<std::byte> room(kReadBytes);
    std::size_t have = 0;
    Replayed out;
    bool at_end = false;
    while (!at_end) {
        const ssize_t got = ::read(fd, room.data() + have, room.size() - have);
        if (got < 0) return std::nullopt;
        at_end = got == 0;
        have += static_cast<std::size_t>(got);
        std::span<const std::byte> rest(room.data(), have);
        if (out.good_bytes == 0) {
            if (rest.size() < kHeaderBytes && !at_end) continue;
            if (rest.size() < kHeaderBytes || std::memcmp(rest.data(), kMagic.data(), 8) != 0) {
                return std::nullopt;
            }
            out.epoch = load_be64(&rest[8]);
            out.good_bytes = kHeaderBytes;
            rest = rest.subspan(kHeaderBytes);
        }
        PlaceRecord record;
        for (std::size_t size = 0; (size = read_record(rest, record)) != 0;) {
            into.replay(record);
            out.good_bytes += size;
            rest = rest.subspan(size);
        }
        have = rest.size();
        std::memmove(room.data(), rest.data(), have);
        if (have > kFixedBytes + PosixHandles::kNameMax + kSumBytes) break;  // a bad one
    }
    out.torn = have != 0;
    return out;
}

void sync_directory_of(const std::string& path) noexcept {
    const std::string dir = std::filesystem::path(path).parent_path().string();
    const UniqueFd fd(::open(dir.empty() ? "." : dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd) static_cast<void>(::fsync(fd.get()));
}

// The epochs of the logs beside `path`, in order.
std::vector<std::uint64_t> epochs_of(const std::string& path) {
    std::vector<std::uint64_t> out;
    const std::filesystem::path whole(path);
    const std::string prefix = whole.filename().string() + ".";
    constexpr std::string_view kSuffix = ".log";
    std::error_code error;
    const auto dir = whole.has_parent_path() ? whole.parent_path() : std::filesystem::path(".");
    for (std::filesystem::directory_iterator at(dir, error), end; !error && at != end;
         at.increment(error)) {
        const std::string name = at->path().filename().string();
        if (name.size() <= prefix.size() + kSuffix.size() || !name.starts_with(prefix) ||
            !name.ends_with(kSuffix)) {
            continue;
        }
        const char* const stop = name.data() + name.size() - kSuffix.size();
        std::uint64_t epoch = 0;
        const auto parsed = std::from_chars(name.data() + prefix.size(), stop, epoch);
        if (parsed.ec == std::errc{} && parsed.ptr == stop) out.push_back(epoch);
    }
    std::sort(out.begin(), out.end());
    return out;
}

}  // namespace

Result<std::unique_ptr<HandleJournal>> HandleJournal::open(const std::string& path,
                                                           PosixHandles& into) {
    auto journal = std::unique_ptr<HandleJournal>(new HandleJournal(path));
    NR_TRY(journal->start(into));
    return journal;
}

HandleJournal::~HandleJournal() {
    flush();
}

std::string HandleJournal::log_path(std::uint64_t epoch) const {
    return path_ + "." + std::to_string(epoch) + ".log";
}

Result<UniqueFd> HandleJournal::new_log(std::uint64_t epoch) const {
    UniqueFd fd(
        ::open(log_path(epoch).c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
    if (!fd || !write_all(fd.get(), header_of(epoch))) {
        return Error{Errc::system, errno, "make the log of handles"};
    }
    return fd;
}

Result<void> HandleJournal::start(PosixHandles& into) {
    lock_fd_.reset(::open((path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock_fd_) return Error{Errc::system, errno, "open the lock of the handles"};
    if (::flock(lock_fd_.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return Error{Errc::system, errno, "lock the handles"};
        std::array<char, 32> owner{};
        const bool ours = ::read(lock_fd_.get(), owner.data(), owner.size() - 1) > 0 &&
                          owner.data() == std::to_string(::getpid());
        if (ours) return Error{Errc::again, 0, "this server has them in use still"};
        return Error{Errc::refused, 0, "another server has the state directory in use"};
    }
    const std::string owner = std::to_string(::getpid());
    if (::ftruncate(lock_fd_.get(), 0) != 0 || !write_all(lock_fd_.get(), owner)) {
        return Error{Errc::system, errno, "write the lock of the handles"};
    }
    if (const UniqueFd base(::open((path_ + ".base").c_str(), O_RDONLY | O_CLOEXEC)); base) {
        const auto replayed = replay(base.get(), into);
        if (!replayed || replayed->torn)
            log::warn("{}.base is damaged; handles may be stale", path_);
        if (replayed) {
            epoch_ = replayed->epoch;
            base_bytes_ = replayed->good_bytes;
        }
    }
    remove_logs_before(epoch_);
    for (const std::uint64_t epoch : epochs_of(path_)) {
        UniqueFd fd(::open(log_path(epoch).c_str(), O_RDWR | O_APPEND | O_CLOEXEC));
        if (!fd) return Error{Errc::system, errno, "open the log of handles"};
        const auto replayed = replay(fd.get(), into);
        if (!replayed) continue;  // it was being begun
        if (replayed->torn) {
            log::warn("{}: cut after {} bytes", log_path(epoch), replayed->good_bytes);
            if (::ftruncate(fd.get(), static_cast<off_t>(replayed->good_bytes)) != 0) {
                return Error{Errc::system, errno, "cut the log of handles"};
            }
        }
        log_fd_ = std::move(fd);
        epoch_ = epoch;
        log_bytes_ = replayed->good_bytes;
    }
    if (log_fd_) return {};
    epoch_ = std::max<std::uint64_t>(epoch_, 1);
    NR_TRY_ASSIGN(log_fd_, new_log(epoch_));
    log_bytes_ = kHeaderBytes;
    return {};
}

void HandleJournal::note(const PlaceRecord& record) noexcept {
    const std::lock_guard lock(mutex_);
    if (!broken_) append_record(pending_, record);
}

void HandleJournal::flush() noexcept {
    const std::lock_guard lock(mutex_);
    flush_locked();
}

void HandleJournal::flush_locked() noexcept {
    if (pending_.empty()) return;
    if (!write_all(log_fd_.get(), pending_)) {
        log::error("{}: {}; handles are kept in memory only", log_path(epoch_),
                   strerrordesc_np(errno));
        broken_ = true;
    }
    log_bytes_ += pending_.size();
    unsynced_ = true;
    pending_.clear();
}

void HandleJournal::tidy(const PosixHandles& handles, bool now) noexcept {
    std::uint64_t old_epoch = 0;
    bool sync = false;
    {
        const std::lock_guard lock(mutex_);
        flush_locked();
        old_epoch = epoch_;
        sync = std::exchange(unsynced_, false);
        now = now || (broken_ && ++patience_ >= kPatience) ||
              (!broken_ && log_bytes_ > std::max(kLogMin, base_bytes_));
    }
    if (sync) static_cast<void>(::fdatasync(log_fd_.get()));
    if (!now) return;
    patience_ = 0;
    Result<UniqueFd> log = new_log(old_epoch + 1);
    if (!log) return;
    {
        const std::lock_guard lock(mutex_);
        flush_locked();
        log_fd_ = *std::move(log);
        epoch_ = old_epoch + 1;
        log_bytes_ = kHeaderBytes;
        // What was missed while it was broken is in the base that follows.
        broken_ = false;
    }
    const Result<void> written = write_base(handles, old_epoch + 1);
    if (written) {
        remove_logs_before(old_epoch + 1);
        return;
    }
    log::error("{}.base: {}", path_, to_string(written.error()));
    const std::lock_guard lock(mutex_);
    broken_ = true;
}

Result<void> HandleJournal::write_base(const PosixHandles& handles, std::uint64_t epoch) {
    const std::string scratch = path_ + ".new";
    const UniqueFd fd(::open(scratch.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!fd) return Error{Errc::system, errno, "make"};
    std::uint64_t size = kHeaderBytes;
    bool good = write_all(fd.get(), header_of(epoch));
    for (std::size_t i = 0; good && i < PosixHandles::kShards; ++i) {
        std::string records;
        handles.each_of_shard(i,
                              [&](const PlaceRecord& record) { append_record(records, record); });
        good = write_all(fd.get(), records);
        size += records.size();
    }
    if (!good || ::fsync(fd.get()) != 0 ||
        ::rename(scratch.c_str(), (path_ + ".base").c_str()) != 0) {
        return Error{Errc::system, errno, "write"};
    }
    sync_directory_of(path_);
    base_bytes_ = size;
    return {};
}

void HandleJournal::remove_logs_before(std::uint64_t epoch) const noexcept {
    for (const std::uint64_t old : epochs_of(path_)) {
        if (old < epoch) static_cast<void>(::unlink(log_path(old).c_str()));
    }
}

std::uint64_t HandleJournal::log_bytes() const noexcept {
    const std::lock_guard lock(mutex_);
    return log_bytes_;
}

bool HandleJournal::is_broken() const noexcept {
    const std::lock_guard lock(mutex_);
    return broken_;
}

}  // namespace nfsrdma::nfs
