#include "verbs/softroce/cq.hpp"

#include <algorithm>
#include <bit>

#include "base/assert.hpp"
#include "verbs/softroce/qp.hpp"

namespace nfsrdma::verbs::softroce {

namespace {
constexpr std::uint32_t kBatch = 64;
}

SoftCq::SoftCq(SoftDevice& device, std::uint32_t entries)
    : device_(device), ring_(std::bit_ceil(std::max(entries, std::uint32_t{16}))) {}

SoftCq::~SoftCq() {
    NR_ASSERT(qps_ == 0);
}

void SoftCq::attach(std::uint32_t wrs) {
    ++qps_;
    reserved_ += wrs;
    if (reserved_ <= ring_.size()) return;
    std::vector<Entry> grown(std::bit_ceil(reserved_));
    for (std::uint32_t i = head_; i != tail_; ++i)
        grown[i & (grown.size() - 1)] = at(i);
    ring_.swap(grown);
}

void SoftCq::detach(const SoftQp& qp, std::uint32_t wrs) noexcept {
    for (std::uint32_t i = head_; i != tail_; ++i) {
        if (at(i).qp == &qp) at(i) = Entry{};
    }
    reserved_ -= wrs;
    --qps_;
}

void SoftCq::push(const Entry& entry) noexcept {
    NR_ASSERT(tail_ - head_ < ring_.size());
    at(tail_++) = entry;
}

std::uint32_t SoftCq::poll() noexcept {
    std::uint32_t done = 0;
    while (done < kBatch && head_ != tail_) {
        const Entry entry = at(head_++);
        ++done;
        if (entry.qp == nullptr) continue;
        entry.qp->retire(entry.retired);
        if (entry.cqe != nullptr && entry.cqe->done != nullptr)
            entry.cqe->done(*entry.cqe, entry.wc);
    }
    return done;
}

}  // namespace nfsrdma::verbs::softroce
