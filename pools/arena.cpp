#include <algorithm>
#include <cerrno>
#include <sys/mman.h>

#include "base/bytes.hpp"
#include "pools/page_list.hpp"

// Operation. One anonymous mapping, registered once, from which every pool carves its memory at
// set-up.
//
// Ownership. (1) The arena owns mapping and registration; what was carved is lent until the arena
// dies, and never carved twice. (2) The registration dies before the mapping.
//
// Errors. Errc::system from the mapping or the registration; a refusal for want of lockable memory
// says so.
namespace nfsrdma::pools {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Maps `bytes` with the first byte on a huge page's boundary, so that the kernel can use huge pages
// from the start.
Result<std::span<std::byte>> map_aligned(std::size_t bytes) noexcept {
    const std::size_t slack = bytes >= kHugePage ? kHugePage : 0;
    void* const raw =
        ::mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return Error{Errc::system, errno, "map the arena"};
    auto* const base = static_cast<std::byte*>(raw);
    if (slack == 0) return std::span(base, bytes);
    const std::size_t skip = static_cast<std::size_t>(
        align_up<std::uint64_t>(address_of(base), kHugePage) - address_of(base));
    if (skip > 0) (void)::munmap(base, skip);
    if (slack > skip) (void)::munmap(base + skip + bytes, slack - skip);
    // Only advice: without huge pages the arena works as well, a little slower.
    (void)::madvise(base + skip, bytes, MADV_HUGEPAGE);
    return std::span(base + skip, bytes);
}

Error explain(Error error) noexcept {
    if (error.code == Errc::system &&
        (error.sys == ENOMEM || error.sys == EAGAIN || error.sys == EPERM)) {
        error.what =
            "register the arena (is the limit of lockable memory, ulimit -l / RLIMIT_MEMLOCK, too "
            "low?)";
    }
    return error;
}

}  // namespace

Result<std::unique_ptr<Arena>> Arena::create(verbs::ProtectionDomain& pd, std::size_t bytes,
                                             Registration registration) {
    if (bytes == 0) return Error{Errc::invalid_argument, 0, "an arena of no bytes"};
    std::unique_ptr<Arena> arena(
        new Arena);  // NOLINT(cppcoreguidelines-owning-memory): private constructor
    NR_TRY_ASSIGN(arena->memory_, map_aligned(align_up<std::size_t>(bytes, kPageSize)));
    verbs::Access access = verbs::Access::local_write;
    if (registration == Registration::fixed) {
        access = access | verbs::Access::remote_read | verbs::Access::remote_write;
    }
    auto mr = pd.register_memory(arena->memory_, access);
    if (!mr) return explain(mr.error());
    arena->mr_ = *std::move(mr);
    return arena;
}

Arena::~Arena() {
    mr_.reset();
    if (!memory_.empty()) (void)::munmap(memory_.data(), memory_.size());
}

Result<std::span<std::byte>> Arena::carve(std::size_t bytes) noexcept {
    if (bytes > memory_.size() - carved_) return Error{Errc::too_big, 0, "the arena is used up"};
    const std::span<std::byte> piece = memory_.subspan(carved_, bytes);
    carved_ += align_up<std::size_t>(bytes, kPageSize);
    return piece;
}

void Arena::use_small_pages(std::size_t offset, std::size_t bytes) noexcept {
    NR_ASSERT(offset % kPageSize == 0 && offset <= memory_.size());
    const std::span<std::byte> part =
        memory_.subspan(offset, std::min(bytes, memory_.size() - offset));
    // Only advice, as the huge pages were.
    if (!part.empty()) (void)::madvise(part.data(), part.size(), MADV_NOHUGEPAGE);
}

bool Arena::contains(std::span<const std::byte> memory) const noexcept {
    const std::uint64_t low = address_of(memory_.data()), at = address_of(memory.data());
    return at >= low && at - low <= memory_.size() && memory.size() <= memory_.size() - (at - low);
}

verbs::Lkey Arena::lkey() const noexcept {
    return mr_->lkey();
}

verbs::Rkey Arena::static_rkey() const noexcept {
    return mr_->rkey();
}

}  // namespace nfsrdma::pools
