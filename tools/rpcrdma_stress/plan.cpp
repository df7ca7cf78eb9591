#include "tools/rpcrdma_stress/plan.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace nfsrdma::stress {
namespace {

struct Share {
    Kind kind;
    const char* name;
    std::uint32_t weight;
};
constexpr std::array<Share, kKinds> kShares{{
    {Kind::null, "null", 1},
    {Kind::getattr, "getattr", 5},
    {Kind::set_size, "set_size", 4},
    {Kind::set_mode, "set_mode", 2},
    {Kind::set_time, "set_time", 1},
    {Kind::lookup, "lookup", 5},
    {Kind::lookup_absent, "lookup_absent", 1},
    {Kind::access, "access", 2},
    {Kind::read, "read", 26},
    {Kind::write, "write", 26},
    {Kind::commit, "commit", 3},
    {Kind::create, "create", 3},
    {Kind::remove, "remove", 3},
    {Kind::rename, "rename", 4},
    {Kind::link, "link", 3},
    {Kind::symlink, "symlink", 4},
    {Kind::mkdir, "mkdir", 2},
    {Kind::mknod, "mknod", 1},
    {Kind::readdir, "readdir", 2},
    {Kind::readdirplus, "readdirplus", 3},
    {Kind::fsstat, "fsstat", 1},
    {Kind::fsinfo, "fsinfo", 1},
    {Kind::pathconf, "pathconf", 1},
    {Kind::read_common, "read_common", 5},
    {Kind::write_common, "write_common", 5},
}};

constexpr bool in_order() {
    for (std::size_t i = 0; i < kShares.size(); ++i) {
        if (static_cast<std::size_t>(kShares[i].kind) != i) return false;
    }
    return true;
}
static_assert(in_order());

constexpr std::uint32_t total_weight() {
    std::uint32_t sum = 0;
    for (const Share& share : kShares)
        sum += share.weight;
    return sum;
}
constexpr std::uint32_t kTotalWeight = total_weight();
static_assert(kTotalWeight > 0);

constexpr std::uint32_t ppm(double rate) {
    return static_cast<std::uint32_t>(rate * 1e6);
}

constexpr std::uint64_t kPage = 4096;
constexpr std::uint32_t kSkewMax = 512;
constexpr std::uint32_t kAfterMaxUs = 1500;

}  // namespace

const char* to_string(Kind kind) noexcept {
    const auto index = static_cast<std::size_t>(kind);
    return index < kShares.size() ? kShares[index].name : "?";
}

Planner::Planner(const PlanOptions& options, std::uint32_t worker) noexcept
    : options_(options), prng_(Prng(options.seed + (std::uint64_t{worker} << 40)).next()) {}

// Sizes at which something changes on the way (a page, the inline limit, a payload run), and any
// other, small ones as often as large ones.
std::uint64_t Planner::draw_length() noexcept {
    const std::uint64_t most = options_.file_bytes;
    const std::uint64_t near[] = {1,         kPage,    options_.inline_bytes, 2048,
                                  64u << 10, 1u << 20, options_.inline_bytes, most};
    // One draw a statement: the order of evaluation within one is the compiler's.
    std::uint64_t length = 0, bits = 0;
    switch (prng_.below(4)) {
        case 0:
            length = near[prng_.below(std::size(near))];
            length += prng_.below(17);
            length = length > 8 ? length - 8 : 1;
            break;
        case 1:
            length = kPage << prng_.below(9);
            break;
        default:
            bits = prng_.between(1, 20);
            length = prng_.between(1, std::uint64_t{1} << bits);
            break;
    }
    return std::clamp<std::uint64_t>(length, 1, most);
}

Plan Planner::next() noexcept {
    Plan plan;
    plan.step = ++step_;
    std::uint64_t ticket = prng_.below(kTotalWeight);
    for (const Share& share : kShares) {
        plan.kind = share.kind;
        if (ticket < share.weight) break;
        ticket -= share.weight;
    }
    plan.slot = static_cast<std::uint32_t>(prng_.below(options_.files));
    plan.length = draw_length();
    const bool common = plan.kind == Kind::read_common || plan.kind == Kind::write_common;
    const std::uint64_t most = common ? options_.common_bytes : options_.file_bytes;
    plan.length = std::min(plan.length, most);
    plan.offset = most > plan.length ? prng_.below(most - plan.length + 1) : 0;
    if (prng_.below(2) == 0) plan.offset -= plan.offset % kPage;
    if (prng_.below(8) == 0) plan.offset = 0;
    plan.skew = prng_.below(4) == 0 ? static_cast<std::uint32_t>(prng_.below(kSkewMax)) : 0;
    plan.variant = static_cast<std::uint32_t>(prng_.next() >> 32);
    const auto other = static_cast<std::uint32_t>(prng_.next() >> 32);
    plan.connection = other % 4 == 0 ? other : 0;
    plan.cancel = prng_.chance_ppm(ppm(options_.cancel_rate));
    plan.disconnect = prng_.chance_ppm(ppm(options_.disconnect_rate));
    const std::uint64_t wide = prng_.between(1, kAfterMaxUs);
    plan.after_us = static_cast<std::uint32_t>(prng_.below(wide));
    fingerprint_ = fingerprint_with(fingerprint_, plan);
    return plan;
}

std::uint64_t fingerprint_with(std::uint64_t before, const Plan& plan) noexcept {
    for (const std::uint64_t part :
         {plan.step, static_cast<std::uint64_t>(plan.kind), std::uint64_t{plan.slot}, plan.offset,
          plan.length, std::uint64_t{plan.skew}, std::uint64_t{plan.variant},
          std::uint64_t{plan.connection},
          std::uint64_t{plan.cancel} + 2 * std::uint64_t{plan.disconnect},
          std::uint64_t{plan.after_us}})
        before = Prng(before ^ part).next();
    return before;
}

}  // namespace nfsrdma::stress
