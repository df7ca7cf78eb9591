#pragma once
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "nfs/client/read_ahead.hpp"
#include "nfs/client/write_behind.hpp"
#include "tests/nfs/client/fake_server.hpp"
#include "tests/nfs/client/world.hpp"

namespace nfsrdma::nfs::client {

constexpr std::uint32_t kRun = 64 << 10;

inline testing::DirectOptions write_behind_options() {
    testing::DirectOptions options;
    options.client_payload_runs = 64;
    options.max_payload = kRun;
    options.latency_ns = kNsPerMs;
    return options;
}

// What is told of the calls, in order.
struct ObservedWrites final : DataObserver {
    void lock() noexcept override {
        EXPECT_FALSE(locked);
        locked = true;
    }
    void unlock() noexcept override {
        EXPECT_TRUE(locked);
        locked = false;
    }
    std::uint64_t change_sent() noexcept override {
        ++open;
        return ++sent;
    }
    void range_answered(std::uint64_t offset, std::uint64_t size) noexcept override {
        EXPECT_TRUE(locked);
        ranges.emplace_back(offset, size);
        if (ahead != nullptr) ahead->invalidate(offset, size);
    }
    void change_answered(std::uint64_t number, const wcc_data* told) noexcept override {
        EXPECT_TRUE(locked);
        EXPECT_LE(number, sent);
        --open;
        if (told != nullptr) ++with_data;
    }
    std::uint64_t read_sent() noexcept override { return 0; }
    void read_answered(std::uint64_t, const post_op_attr*) noexcept override {}
    bool locked = false;
    std::uint64_t sent = 0, with_data = 0, open = 0;
    void progressed() noexcept override { ++times_progressed; }
    std::uint64_t times_progressed = 0;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
    ReadAhead* ahead = nullptr;  // of the same file
};

class WriteBehindTest : public ::testing::Test {
  protected:
    struct Writer : WriteBehind::Write {
        int times = 0;
        WriteBehindTest* test = nullptr;
    };
    struct Wait : WriteBehind::Waiter {
        Wait() {
            done = [](WriteBehind::Waiter& w) noexcept { ++static_cast<Wait&>(w).times; };
        }
        int times = 0;
    };
    WriteBehindTest() {
        EXPECT_TRUE(handle.assign("file", 4));
        remake({.bytes = 32 * kRun, .pieces = 16, .depth = 4, .commit_after = 8});
    }
    ~WriteBehindTest() override {
        xprt.call_fate = nullptr;
        file.reset();
        budget.reset();
        EXPECT_EQ(xprt.payloads_in_use(), 0u);
        EXPECT_EQ(xprt.slots_in_use(), 0u);
        EXPECT_EQ(observed.open, 0u);
    }
    void remake(const WriteBudget::Limits& limits) {
        file.reset();
        budget = std::make_unique<WriteBudget>(client, limits);
        file = std::make_unique<WriteBehind>(*budget, handle, &observed);
    }
    static void fill(std::span<std::byte> data, std::uint64_t offset, int generation) {
        for (std::size_t i = 0; i < data.size(); ++i)
            data[i] = static_cast<std::byte>(testing::file_byte(offset + i) + generation);
    }
    // A write in memory of the size that a channel has for any request.
    std::unique_ptr<Writer> make(std::uint64_t offset, std::uint32_t size, int generation = 0) {
        auto made = std::make_unique<Writer>();
        Result<sunrpc::Payload> payload = xprt.get_payload(kRun);
        EXPECT_TRUE(payload) << "no payload";
        if (!payload) return made;
        made->payload = *std::move(payload);
        made->data = made->payload.memory().first(size);
        made->offset = offset;
        made->done = [](WriteBehind::Write& w) noexcept { ++static_cast<Writer&>(w).times; };
        fill(made->data, offset, generation);
        return made;
    }
    // Whether it was taken at once.
    bool write(WriteBehind& to, std::uint64_t offset, std::uint32_t size, int generation = 0,
               const sunrpc::AuthSys* sys = nullptr) {
        writers.push_back(make(offset, size, generation));
        writers.back()->sys = sys;
        const std::lock_guard guard(observed);
        return to.write(*writers.back());
    }
    bool write(std::uint64_t offset, std::uint32_t size, int generation = 0) {
        return write(*file, offset, size, generation);
    }
    void sync(WriteBehind& of) {
        Wait wait;
        bool at_once = false;
        {
            const std::lock_guard guard(observed);
            at_once = of.sync(wait);
        }
        if (at_once) return;
        ASSERT_TRUE(world.run_until([&] { return wait.times != 0; }));
        EXPECT_EQ(wait.times, 1);
    }
    void expect_bytes(std::uint64_t offset, std::uint64_t size, int generation = 0) {
        ASSERT_GE(fake.file.size(), offset + size);
        for (std::uint64_t i = offset; i < offset + size; ++i)
            ASSERT_EQ(fake.file[i], static_cast<char>(testing::file_byte(i) + generation)) << i;
    }
    testing::DirectWorld world;
    testing::FakeServer fake;
    testing::DirectXprt xprt{*world.loop, fake.dispatcher, write_behind_options()};
    Client client{xprt, nullptr};
    FileHandle handle;
    ObservedWrites observed;
    std::unique_ptr<WriteBudget> budget;
    std::unique_ptr<WriteBehind> file;
    std::vector<std::unique_ptr<Writer>> writers;
};

}  // namespace nfsrdma::nfs::client
