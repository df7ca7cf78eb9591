#include "base/file_io.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file_mapping.hpp"

namespace nfsrdma {

namespace {

std::int64_t sync_file(const FileOp& op) noexcept {
    const int rc = op.kind == FileOp::Kind::sync ? ::fsync(op.fd) : ::fdatasync(op.fd);
    return rc == 0 ? 0 : -std::int64_t{errno};
}

ssize_t move_once(const FileOp& op, std::size_t done) noexcept {
    std::byte* const at = op.buffer.data() + done;
    const std::size_t left = op.buffer.size() - done;
    const auto offset = static_cast<off_t>(op.offset + done);
    return op.kind == FileOp::Kind::read ? ::pread(op.fd, at, left, offset)
                                         : ::pwrite(op.fd, at, left, offset);
}

// A file that shrank within its last page, or shrank and was mapped still, gave zeros for what it
// had lost: they count only where the file still has those bytes.
bool read_mapping(const FileOp& op) noexcept {
    if (op.mapping == nullptr || op.kind != FileOp::Kind::read || op.result != 0) return false;
    struct stat status {};
    return op.mapping->read(op.offset, op.buffer) && ::fstat(op.fd, &status) == 0 &&
           op.offset + op.buffer.size() <= static_cast<std::uint64_t>(status.st_size);
}

bool is_data(const FileOp& op) noexcept {
    return op.kind == FileOp::Kind::read || op.kind == FileOp::Kind::write;
}

}  // namespace

std::int64_t run_file_op(FileOp& op) noexcept {
    if (!is_data(op)) return sync_file(op);
    if (read_mapping(op)) return static_cast<std::int64_t>(op.buffer.size());
    auto done = static_cast<std::size_t>(op.result);
    while (done < op.buffer.size()) {
        const ssize_t moved = move_once(op, done);
        if (moved == 0) break;
        if (moved > 0) {
            done += static_cast<std::size_t>(moved);
        } else if (errno != EINTR) {
            if (done == 0) return -std::int64_t{errno};
            break;
        }
    }
    return static_cast<std::int64_t>(done);
}

bool read_cached(FileOp& op) noexcept {
    if (op.kind != FileOp::Kind::read) return false;
    const iovec part{op.buffer.data(), op.buffer.size()};
    const ssize_t moved = ::preadv2(op.fd, &part, 1, static_cast<off_t>(op.offset), RWF_NOWAIT);
    if (moved < 0) return false;  // would block, or cannot tell: the slow path finds out
    // A short answer is the end of the file or the end of what is cached; the slow path goes on
    // from there. Nothing at all is the end of the file.
    op.result = moved;
    return moved == 0 || static_cast<std::size_t>(moved) == op.buffer.size();
}

bool check_file_op(FileOp& op) noexcept {
    op.result = 0;
    if (!is_data(op)) return true;
    constexpr auto kOffsetMax = static_cast<std::uint64_t>(INT64_MAX);
    if (op.offset <= kOffsetMax && op.buffer.size() <= kOffsetMax - op.offset) return true;
    op.result = -EINVAL;
    return false;
}

}  // namespace nfsrdma
