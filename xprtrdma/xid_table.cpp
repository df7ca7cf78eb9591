#include "xprtrdma/xid_table.hpp"

#include <bit>

#include "base/assert.hpp"

namespace nfsrdma::xprtrdma {

XidTable::XidTable(std::uint32_t calls) : calls_(calls) {
    const std::uint32_t capacity = std::bit_ceil(calls * 2 + 2);
    mask_ = capacity - 1;
    shift_ = 32 - static_cast<std::uint32_t>(std::countr_zero(capacity));
    entries_ = std::make_unique<Entry[]>(capacity);
}

std::uint32_t XidTable::home_of(std::uint32_t xid) const noexcept {
    return (xid * 0x9E3779B1u) >>
           shift_;  // XIDs are mostly consecutive: spread them by the golden ratio
}

bool XidTable::insert(std::uint32_t xid, Req& req) noexcept {
    NR_ASSERT(size_ < calls_);
    std::uint32_t at = home_of(xid);
    while (entries_[at].req != nullptr) {
        if (entries_[at].xid == xid) return false;
        at = (at + 1) & mask_;
    }
    entries_[at] = {xid, &req};
    ++size_;
    return true;
}

Req* XidTable::find(std::uint32_t xid) const noexcept {
    for (std::uint32_t at = home_of(xid); entries_[at].req != nullptr; at = (at + 1) & mask_) {
        if (entries_[at].xid == xid) return entries_[at].req;
    }
    return nullptr;
}

void XidTable::erase(std::uint32_t xid) noexcept {
    std::uint32_t hole = home_of(xid);
    while (entries_[hole].xid != xid || entries_[hole].req == nullptr) {
        NR_ASSERT(entries_[hole].req != nullptr);
        hole = (hole + 1) & mask_;
    }
    // What follows without a gap moves up when the hole lies between its home and its place.
    for (std::uint32_t at = (hole + 1) & mask_; entries_[at].req != nullptr;
         at = (at + 1) & mask_) {
        const std::uint32_t home = home_of(entries_[at].xid);
        if (((at - home) & mask_) < ((at - hole) & mask_)) continue;
        entries_[hole] = entries_[at];
        hole = at;
    }
    entries_[hole] = {};
    --size_;
}

}  // namespace nfsrdma::xprtrdma
