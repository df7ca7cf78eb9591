#include "verbs/rdmacore/umr.hpp"

#include <dlfcn.h>
#include <link.h>
#include <numeric>

#if NR_WITH_MLX5DV
#include <infiniband/mlx5dv.h>
#endif

#include "tests/verbs/rdmacore/hw_world.hpp"
#include "verbs/rdmacore/lower.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

class UmrRuns : public ::testing::Test {
  protected:
    UmrRuns() : memory(64 * kPage) {}
    std::byte* page(std::size_t number) const { return memory.at(number * kPage); }
    Result<std::uint32_t> runs_of(const std::vector<std::byte*>& pages, std::uint32_t offset,
                                  std::uint32_t length) {
        return umr::runs_of({pages, kPage, offset, length}, runs);
    }
    std::uint64_t total(std::uint32_t count) const {
        return std::accumulate(
            runs.begin(), runs.begin() + count, std::uint64_t{0},
            [](std::uint64_t sum, const ibv_sge& run) { return sum + run.length; });
    }
    Pages memory;
    static constexpr std::size_t kRoom = 16;
    std::array<ibv_sge, kRoom> runs{};
};

TEST_F(UmrRuns, AdjacentPagesAreOne) {
    auto count = runs_of({page(0), page(1), page(2)}, 5, 2 * kPage);
    ASSERT_TRUE(count);
    ASSERT_EQ(*count, 1u);
    EXPECT_EQ(runs[0].addr, address_of(page(0)) + 5);
    EXPECT_EQ(runs[0].length, 2 * kPage);
}

TEST_F(UmrRuns, ScatteredPagesAreInTheirOrder) {
    auto count = runs_of({page(7), page(3), page(4), page(2)}, 100, 3 * kPage + 1);
    ASSERT_TRUE(count);
    ASSERT_EQ(*count, 3u);
    EXPECT_EQ(runs[0].addr, address_of(page(7)) + 100) << "from inside the first page";
    EXPECT_EQ(runs[0].length, kPage - 100);
    EXPECT_EQ(runs[1].addr, address_of(page(3)));
    EXPECT_EQ(runs[1].length, 2 * kPage);
    EXPECT_EQ(runs[2].addr, address_of(page(2)));
    EXPECT_EQ(runs[2].length, 101u) << "not to the end of the last page";
    EXPECT_EQ(total(*count), 3 * kPage + 1);
}

TEST_F(UmrRuns, PagesBehindTheLengthAreNotExposed) {
    auto count = runs_of({page(9), page(1)}, 0, kPage);
    ASSERT_TRUE(count);
    ASSERT_EQ(*count, 1u);
    EXPECT_EQ(runs[0].length, kPage);
}

TEST_F(UmrRuns, AsManyAsFitAndNoMore) {
    std::vector<std::byte*> pages;
    for (std::size_t i = 0; i < kRoom; ++i)
        pages.push_back(page(2 * i));
    auto full = runs_of(pages, 0, kRoom * kPage);
    ASSERT_TRUE(full);
    EXPECT_EQ(*full, kRoom);
    pages.push_back(page(63));
    auto more = runs_of(pages, 0, kRoom * kPage + 1);
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, Errc::too_big);
}

TEST(UmrKey, StepsItsLowByteAndKeepsTheRest) {
    EXPECT_EQ(umr::next_rkey(0x12345601), 0x12345602u);
    EXPECT_EQ(umr::next_rkey(0x123456FF), 0x12345600u);
}

TEST(UmrKey, ListIsPartOfTheWorkRequest) {
    EXPECT_GE(umr::inline_bytes(umr::kRunsMax), umr::kRunsMax * sizeof(ibv_sge));
    EXPECT_EQ(umr::inline_bytes(umr::kRunsMax), 64u)
        << "one block of every place of the send queue";
}

std::vector<std::string> needed_libraries() {
    const char* names = nullptr;
    for (const ElfW(Dyn)* entry = _DYNAMIC; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_STRTAB)
            names = static_cast<const char*>(static_cast<void*>(bytes_at(entry->d_un.d_ptr)));
    }
    std::vector<std::string> out;
    for (const ElfW(Dyn)* entry = _DYNAMIC; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_NEEDED) out.emplace_back(names + entry->d_un.d_val);
    }
    return out;
}

// Programs start on a machine without mlx5's library; it is loaded by who wants UMR.
TEST(UmrLibrary, IsNoNeedOfTheProgram) {
    const std::vector<std::string> needed = needed_libraries();
    const auto needs = [&](const std::string& name) {
        return std::any_of(needed.begin(), needed.end(),
                           [&](const std::string& one) { return one.rfind(name, 0) == 0; });
    };
    EXPECT_TRUE(needs("libibverbs.so")) << "or this looks at nothing";
    EXPECT_FALSE(needs("libmlx5.so"));
}

#if NR_WITH_MLX5DV

TEST(UmrLibrary, IsCompleteWhereItIsThere) {
    void* const library = ::dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
    EXPECT_EQ(umr::is_loaded(), library != nullptr);
    if (library != nullptr) ::dlclose(library);
}

#endif

#if NR_WITH_MLX5DV

TEST(UmrLowering, BindIsAWorkRequestOfTheDriverAndInvalidateIsAsAnyOther) {
    mlx5dv_mkey key{0x1200, 0x1200};
    std::array<ibv_sge, 2> runs = {{{0x1000, 4096, 7}, {0x9000, 10, 7}}};
    BindTarget bind;
    bind.umr_key = &key;
    bind.runs = runs;
    bind.rkey = 0x1201;
    bind.access = Access::remote_write;
    EXPECT_TRUE(bind.bound_by_device());
    SendWr wr;
    wr.op = SendOp::reg_mr;
    wr.fenced = true;
    const ibv_send_wr lowered = lower_send(wr, &bind, 77, {});
    EXPECT_EQ(lowered.opcode, IBV_WR_DRIVER1);
    EXPECT_EQ(lowered.wr_id, 77u);
    EXPECT_EQ(lowered.send_flags, static_cast<unsigned>(IBV_SEND_FENCE));
    ASSERT_EQ(lowered.num_sge, 2);
    EXPECT_EQ(lowered.sg_list, runs.data());
    EXPECT_EQ(lowered.bind_mw.rkey, 0x1201u);
    EXPECT_EQ(lowered.bind_mw.bind_info.mw_access_flags,
              static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE));
    EXPECT_EQ(key.rkey, 0x1200u) << "only what is posted changes the key";
    wr.op = SendOp::local_inv;
    wr.rkey = Rkey{0x1201};
    const ibv_send_wr inv = lower_send(wr, &bind, 78, {});
    EXPECT_EQ(inv.opcode, IBV_WR_LOCAL_INV);
    EXPECT_EQ(inv.invalidate_rkey, 0x1201u);
    EXPECT_EQ(inv.num_sge, 0);
}

#endif

class UmrHw : public HwTest {};

TEST_F(UmrHw, DevicesOfOthersHaveNone) {
    for (const DeviceInfo& device : list_devices()) {
        if (device.family.empty()) continue;  // rxe and siw are known to have none
        Options wanted = options();
        wanted.device = device.name;
        wanted.strategy = Strategy::umr;
        auto opened = open_device(*loop, wanted);
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().code, Errc::unsupported);
    }
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
