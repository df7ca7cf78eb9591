#include "tools/mount_nfsrdma/stats.hpp"

#include <memory>

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

TEST(LoopStats, CallsAreNotedByProcedure) {
    const auto loop = std::make_unique<LoopStats>();
    CallCosts costs;
    costs.bytes_out = 100;
    costs.bytes_in = 200;
    costs.queue_ns = 1;
    costs.rtt_ns = 2;
    costs.execute_ns = 3;
    loop->note(6, costs);
    costs.resends = 2;
    costs.timed_out = costs.error = true;
    loop->note(6, costs);
    const ProcCounts read = loop->of_proc(6);
    EXPECT_EQ(read.ops, 2u);
    EXPECT_EQ(read.transmissions, 4u);
    EXPECT_EQ(read.timeouts, 1u);
    EXPECT_EQ(read.bytes_sent, 200u);
    EXPECT_EQ(read.bytes_received, 400u);
    EXPECT_EQ(read.queue_ns, 2u);
    EXPECT_EQ(read.rtt_ns, 4u);
    EXPECT_EQ(read.execute_ns, 6u);
    EXPECT_EQ(read.errors, 1u);
    EXPECT_EQ(loop->of_proc(7).ops, 0u);
}

TEST(LoopStats, LoopsAreSummed) {
    const auto one = std::make_unique<LoopStats>(), two = std::make_unique<LoopStats>();
    one->note(1, {});
    two->note(1, {});
    two->note(21, {});
    one->note(Event::vfs_open);
    two->note(Event::vfs_open, 4);
    two->note(Event::pnfs_write);
    one->note(Bytes::normal_read, 10);
    two->note(Bytes::write_pages, 7);
    Stats stats;
    stats.add(*one);
    stats.add(*two);
    EXPECT_EQ(stats.procs[1].ops, 2u);
    EXPECT_EQ(stats.procs[21].ops, 1u);
    EXPECT_EQ(stats.events[static_cast<std::size_t>(Event::vfs_open)], 5u);
    EXPECT_EQ(stats.events[kEvents - 1], 1u);
    EXPECT_EQ(stats.bytes[0], 10u);
    EXPECT_EQ(stats.bytes[kByteKinds - 1], 7u);
}

TEST(LoopStats, ProceduresHaveTheNamesOfRfc1813) {
    EXPECT_STREQ(name_of_proc(0), "NULL");
    EXPECT_STREQ(name_of_proc(6), "READ");
    EXPECT_STREQ(name_of_proc(17), "READDIRPLUS");
    EXPECT_STREQ(name_of_proc(21), "COMMIT");
    EXPECT_STREQ(name_of_proc(22), "?");
}

}  // namespace
}  // namespace nfsrdma::mount
