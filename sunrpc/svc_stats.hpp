#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

// Counts of one procedure. Each dispatcher has its own, so that its loop writes without a lock.
namespace nfsrdma::sunrpc {

// How long calls took, in buckets that double: the first has calls of up to 1 us, the next of up to
// 2 us, the last all that took longer than kLongestNs.
struct LatencyHistogram {
    static constexpr std::uint32_t kBuckets = 25;
    static constexpr std::uint64_t bound_ns(std::uint32_t bucket) noexcept {
        return std::uint64_t{1000} << bucket;
    }
    static constexpr std::uint64_t kLongestNs = std::uint64_t{1000} << (kBuckets - 2);  // 8.4 s
    static constexpr std::uint32_t bucket_of(std::uint64_t ns) noexcept {
        if (ns <= 1000) return 0;
        return std::min(static_cast<std::uint32_t>(std::bit_width((ns - 1) / 1000)), kBuckets - 1);
    }
    std::array<std::uint64_t, kBuckets> counts{};
    std::uint64_t sum_ns = 0;
    void add(std::uint64_t ns) noexcept {
        ++counts[bucket_of(ns)];
        sum_ns += ns;
    }
    void add(const LatencyHistogram& other) noexcept {
        for (std::uint32_t i = 0; i < kBuckets; ++i)
            counts[i] += other.counts[i];
        sum_ns += other.sum_ns;
    }
};

struct ProcStats {
    std::uint64_t calls = 0;   // executed and answered
    std::uint64_t errors = 0;  // of those: a status that is not OK, or no SUCCESS of RPC
    // RPC messages, unreduced: what came by chunks is counted as well.
    std::uint64_t bytes_in = 0, bytes_out = 0;
    LatencyHistogram latency;  // from dispatch to the reply's handing over
    void add(const ProcStats& other) noexcept {
        calls += other.calls;
        errors += other.errors;
        bytes_in += other.bytes_in;
        bytes_out += other.bytes_out;
        latency.add(other.latency);
    }
};

}  // namespace nfsrdma::sunrpc
