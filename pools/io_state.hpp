#pragma once
#include <memory>
#include <span>
#include <vector>

#include "pools/io.hpp"
#include "pools/mr_pool.hpp"

// The inside of pools/io: included by io.cpp, exposure.cpp and transfer.cpp only.
namespace nfsrdma::pools {

struct Transfer::Storage {
    struct TransferCqe : verbs::Cqe {
        Transfer* transfer = nullptr;
    };
    struct PullPosting : Posting {
        Transfer* transfer = nullptr;
    };
    std::span<verbs::SendWr> wrs;  // its RDMA READs or WRITEs
    std::span<verbs::Sge> sges;
    std::uint32_t wrs_used = 0, sges_used = 0;
    TransferCqe part;  // of a work request that is not the last: only failures count
    TransferCqe last;
    PullPosting posting;
    Mr* key = nullptr;
    std::uint64_t bytes = 0;
    std::uint32_t reads_charged = 0;
    bool leased = false, pending = false, failed = false;
    RegionUse use;
};

struct Io::State {
    // Runs of local memory of one pull or push, at most.
    static constexpr std::uint32_t kLocalRunsMax = 64;

    Io* io = nullptr;
    verbs::ProtectionDomain* pd = nullptr;
    Arena* arena = nullptr;
    Regions regions;  // die after the keys that may be bound to them, and after who uses them
    IoOptions options;
    verbs::DeviceCaps caps;
    std::uint32_t sges_max = 1, read_sges_max = 1;  // of a request; of an RDMA READ
    bool binds = false;  // exposures are bound per call; false: static keys, or none at all
    std::unique_ptr<MrPool> mrs;
    ExposurePool exposures;
    TransferPool transfers;
    // Transfers that were made together, and what they are made of.
    struct TransferBlock {
        std::uint32_t count = 0;
        std::unique_ptr<Transfer[]> transfers;
        std::unique_ptr<Transfer::Storage[]> storage;
        std::unique_ptr<verbs::SendWr[]> wrs;
        std::unique_ptr<verbs::Sge[]> sges;
    };
    std::vector<TransferBlock> blocks;
    std::unique_ptr<std::byte*[]> pages;  // filled for FastMr::map, which copies
    std::array<verbs::Sge, kLocalRunsMax> local{};

    verbs::QueuePair* qp = nullptr;
    std::uint32_t send_capacity = 0;
    std::uint32_t reads_in_flight = 0;
    List<Posting, Posting> waiting;
    void (*wake)(void*) noexcept = nullptr;
    void* wake_arg = nullptr;
    bool starved = false;  // an Errc::again was returned since the last wake
    IoCounters counters;

    // io.cpp
    void make_exposures();
    void make_transfers(std::uint32_t count);
    enum class Blocked : std::uint8_t { no, send_room, read_depth };
    Blocked blocked(const Posting& posting) const noexcept;
    Result<void> try_post(Posting& posting) noexcept;
    void pump() noexcept;
    void fail_waiting() noexcept;
    void came_home() noexcept;

    Result<void> hold(Runs memory, RegionUse& use) const noexcept;
    verbs::Rkey static_rkey(std::span<const std::byte> memory) const noexcept;

    // exposure.cpp
    std::uint32_t keys_for(Runs memory) const noexcept;
    Result<void> check_memory(Runs memory, std::uint64_t& total) const noexcept;
    Result<void> bind(Mr& mr, Runs memory, verbs::Access access) noexcept;
    Result<Lease<Exposure>> expose(Runs memory, verbs::Access access,
                                   verbs::WrChain& then) noexcept;
    Result<void> bind_all(Exposure& exposure, Runs memory, verbs::Access access) noexcept;
    void take_home(Exposure& exposure) noexcept;
    static void flush_keys(Exposure& exposure) noexcept;
    static void finish_fence(Exposure& exposure) noexcept;
    static void on_reg(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    static void on_inv(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    static void on_inv_posted(Posting& posting, Result<void> result) noexcept;

    // transfer.cpp
    struct Job {
        std::span<const RemoteRun> remote;
        Runs memory;
        verbs::SendOp op;
        std::uint64_t total = 0;
    };
    Result<Lease<Transfer>> start(Job job) noexcept;
    Result<void> build(Transfer& transfer, const Job& job) noexcept;
    Result<void> build_keyed(Transfer& transfer, const Job& job) noexcept;
    bool can_key(Runs memory) const noexcept;
    std::uint32_t transfer_slots(std::uint32_t remote_runs, Runs memory, bool pull) const noexcept;
    void finish_pull(Transfer& transfer, bool ok) noexcept;
    void take_home(Transfer& transfer) noexcept;
    static void on_part(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    static void on_last(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    static void on_pull_posted(Posting& posting, Result<void> result) noexcept;
};

}  // namespace nfsrdma::pools
