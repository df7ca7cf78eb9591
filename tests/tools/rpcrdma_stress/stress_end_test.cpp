#include <algorithm>
#include <functional>

#include "base/bytes.hpp"
#include "tests/tools/rpcrdma_stress/stress_world.hpp"
#include "tools/rpcrdma_stress/stress.hpp"

// Runs that end otherwise than in order, and what they must have told by then.
namespace nfsrdma::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What a test makes go wrong, when it knows more than the server does.
struct Hooked final : VfsWrap {
    nfsstat3 read_now(const nfs::IoFile& file, std::uint64_t offset, std::span<std::byte> into,
                      std::uint32_t& moved) noexcept override {
        const nfsstat3 status =
            VfsWrap::read_now(file, offset, into.first(std::min(into.size(), read_most)), moved);
        last_end = offset + moved;
        if (on_read) on_read(into.first(moved));
        return status;
    }
    nfsstat3 io_attr(const nfs::IoFile& file, nfs::Attr& out) noexcept override {
        const nfsstat3 status = VfsWrap::io_attr(file, out);
        if (on_attr) on_attr(out);
        return status;
    }
    nfsstat3 readdir(const Cred& cred, const nfs::ReadDir& what, nfs::DirSink& sink,
                     bool& eof) noexcept override {
        struct Choosing final : nfs::DirSink {
            Choosing(nfs::DirSink& to, bool dots_alone) : next(to), dots(dots_alone) {}
            bool add(const nfs::DirEntry& entry) noexcept override {
                return (dots && entry.name[0] != '.') || next.add(entry);
            }
            nfs::DirSink& next;
            bool dots;
        };
        nfs::Node common;
        if (on_clean_up && mem.lookup(cred, {what.dir, "common"}, common) == NFS3_OK) on_clean_up();
        Choosing choosing(sink, on_list && on_list());
        return VfsWrap::readdir(cred, what, choosing, eof);
    }
    std::function<void(std::span<std::byte>)> on_read;
    std::function<void(nfs::Attr&)> on_attr;
    std::function<bool()> on_list;      // true: what is there is left out
    std::function<void()> on_clean_up;  // the run's own directory is listed
    std::size_t read_most = SIZE_MAX;
    std::uint64_t last_end = 0;
};

struct OneWorker : StressWorld<Hooked> {
    OneWorker() { options.connections = options.depth = 1; }
};

// The first READ of 256 bytes and more comes back wrong; with the next one `then` happens.
void spoil_one(OneWorker& w, const std::function<void()>& then) {
    w.backend->on_read = [&w, then, reads = 0](std::span<std::byte> data) mutable {
        if (reads == 0 && data.size() < 256) return;
        if (++reads == 1) data[data.size() / 2] ^= std::byte{1};
        if (reads == 2) then();
        if (reads > 2) w.backend->on_read = nullptr;
    };
}

TEST(StressEnds, ADifferenceOutlivesTheConnectionItCameBy) {
    OneWorker w;
    w.options.ops = 200;
    spoil_one(w, [&w] { w.running->connection(0).disconnect(); });
    const stress::StressResult result = w.run();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.mismatch, HasSubstr("differs at offset"));
    EXPECT_THAT(result.mismatch, HasSubstr("read again: right"));
    EXPECT_EQ(result.connects, 2u);
}

TEST(StressEnds, ADifferenceIsToldThoughTheRunEndsBeforeItIsReadAgain) {
    OneWorker w;
    w.options.ops = 200;
    spoil_one(w, [&w] { w.running->trouble("something else"); });
    const stress::StressResult result = w.run();
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.trouble, "something else");
    EXPECT_THAT(result.mismatch, HasSubstr("differs at offset"));
    EXPECT_THAT(result.mismatch, HasSubstr("not read again"));
}

TEST(StressEnds, ADifferenceIsToldWhenItCanNeverBeReadAgain) {
    OneWorker w;
    w.options.ops = 200;
    w.backend->on_read = [&w, wrong = false](std::span<std::byte> data) mutable {
        if (wrong) return w.running->connection(0).disconnect();
        if (data.size() < 256) return;
        data[17] ^= std::byte{1};
        wrong = true;
    };
    const stress::StressResult result = w.run();
    EXPECT_THAT(result.mismatch, HasSubstr("read again: no answer"));
}

// Every file is wrong when all was done, and every READ of then is cut off a few times before it
// can be seen.
TEST(StressEnds, WhatIsCutOffAtTheEndIsReadAgain) {
    OneWorker w;
    w.options.ops = 100;
    w.backend->on_read = [&w, cuts = 0](std::span<std::byte> data) mutable {
        if (!w.at_the_end() || data.empty()) return;
        data.front() ^= std::byte{1};
        if (++cuts <= 8) w.running->connection(0).disconnect();
    };
    const stress::StressResult result = w.run();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.mismatch, HasSubstr("differs at offset")) << to_text(result, w.options);
    EXPECT_GE(result.connects, 9u);
}

TEST(StressEnds, AListingThatIsCutOffAtTheEndIsMadeAgain) {
    OneWorker w;
    w.options.ops = 100;
    w.backend->on_list = [&w, cuts = 0]() mutable {
        if (!w.at_the_end()) return false;
        if (++cuts <= 8) w.running->connection(0).disconnect();
        return true;
    };
    const stress::StressResult result = w.run();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.mismatch, HasSubstr("is missing")) << to_text(result, w.options);
}

TEST(StressEnds, WhatCannotBeReadAtTheEndIsNoSuccess) {
    OneWorker w;
    w.options.ops = 100;
    w.backend->on_read = [&w](std::span<std::byte>) {
        if (w.at_the_end()) w.running->connection(0).disconnect();
    };
    const stress::StressResult result = w.run();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.trouble, HasSubstr("not verified: READ"));
    EXPECT_THAT(result.mismatch, IsEmpty());
}

TEST(StressEnds, ACallThatIsNeverAnsweredEndsTheRun) {
    for (const bool tolerant : {false, true}) {
        StressWorld<VfsWrap> w;
        w.options.ops = 1'000'000;
        w.options.timeout_s = 2;
        w.options.tolerate_loss = tolerant;
        w.gate.calls_left = 200;
        const std::uint64_t begin = w.world.clock.now_ns();
        const stress::StressResult result = w.run();
        EXPECT_FALSE(result.ok);
        EXPECT_THAT(result.mismatch, HasSubstr("did not answer in time"));
        EXPECT_THAT(result.directory, HasSubstr("/export/rpcrdma-stress-"));  // is left behind
        EXPECT_LT(w.world.clock.now_ns() - begin, 120 * kNsPerSec);
    }
}

// It takes connections and loses each with the first call on it: no single call ever waits long.
TEST(StressEnds, AServerThatAnswersNothingEndsTheRun) {
    OneWorker w;
    w.options.ops = 1'000'000;
    w.options.timeout_s = 2;
    w.gate.calls_left = 200;
    w.gate.unanswered = [&w] { w.running->connection(0).disconnect(); };
    test::LoopWorld::Options far;
    far.faults.delay_ns_min = far.faults.delay_ns_max = 20 * kNsPerMs;
    w.world.net->set_faults(far.faults);
    const std::uint64_t begin = w.world.clock.now_ns();
    const stress::StressResult result = w.run();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.trouble, HasSubstr("the server has answered nothing for 24 s"));
    EXPECT_THAT(result.trouble, HasSubstr("worker 0 waits for "));
    EXPECT_THAT(result.directory, HasSubstr("/export/rpcrdma-stress-"));  // is left behind
    EXPECT_LT(w.world.clock.now_ns() - begin, 120 * kNsPerSec);
}

// Answers, a byte at a time: each is right, and they would take for ever.
TEST(StressEnds, AServerThatIsTooSlowEndsTheRun) {
    OneWorker w;
    w.options.seconds = 1;
    w.options.ops = 0;
    w.options.timeout_s = 2;
    w.backend->read_most = 1;
    test::LoopWorld::Options slow;
    slow.faults.delay_ns_min = slow.faults.delay_ns_max = 20 * kNsPerMs;
    w.world.net->set_faults(slow.faults);
    const stress::StressResult result = w.run();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.trouble, HasSubstr("the run does not end: 144 s after its time"));
    EXPECT_THAT(result.mismatch, IsEmpty());
}

// Only the file of all is larger than the largest file.
TEST(StressEnds, AnEndWithinTheFileOfAllIsSeen) {
    OneWorker w;
    w.options.ops = 2000;
    w.backend->on_attr = [&w](nfs::Attr& attr) {
        if (attr.size > 512 << 10 && w.backend->last_end != 0) attr.size = w.backend->last_end;
    };
    const stress::StressResult result = w.run();
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.mismatch, HasSubstr("the end, in the middle of the file"));
}

TEST(StressEnds, MoreStripesAreGivenUpThanTheFileOfAllHasAtFirst) {
    OneWorker w;
    w.options.ops = 6000;
    w.options.cancel_rate = 0.9;
    test::LoopWorld::Options far;
    far.faults.delay_ns_min = far.faults.delay_ns_max = 400'000;
    w.world.net->set_faults(far.faults);
    const stress::StressResult result = w.run();
    EXPECT_TRUE(result.ok) << to_text(result, w.options);
    EXPECT_GT(result.tally.stripes_given_up, 20u);
    EXPECT_EQ(w.left_behind(), "");
}

// Spoils the reply to the call that was cancelled, when it comes at all: nobody waits for it.
class SpoilsCancelled final : public verbs::softroce::LoopTap {
  public:
    explicit SpoilsCancelled(OneWorker& world) : world_(world) {}
    bool on_frame(verbs::softroce::LoopFrame& frame) noexcept override {
        constexpr std::byte kSendOnly{0x04}, kSendOnlyInvalidate{0x17};
        constexpr std::size_t kBth = 12, kIeth = 4, kReadListAt = 16;
        const bool plain = frame.bytes[0] == kSendOnly;
        if (!plain && frame.bytes[0] != kSendOnlyInvalidate) return true;
        const std::span<std::byte> message = frame.bytes.subspan(plain ? kBth : kBth + kIeth);
        if (world_.running == nullptr || message.size() < 28) return true;
        const std::uint32_t xid = load_be32(message.data());
        if (const std::uint64_t now = world_.running->tally().cancelled; now != seen_) {
            seen_ = now;
            cancelled_ = last_;
        }
        if (is_call(frame)) {
            last_ = xid;
        } else if (xid == cancelled_) {
            store_be32(message.data() + kReadListAt, 7);  // neither TRUE nor FALSE
            ++spoiled;
        }
        return true;
    }
    int spoiled = 0;

  private:
    static bool is_call(const verbs::softroce::LoopFrame& frame) noexcept {
        return frame.to.address_to_string() ==
               test::LoopWorld::server_address().address_to_string();
    }
    OneWorker& world_;
    std::uint64_t seen_ = 0;
    std::uint32_t last_ = 0, cancelled_ = 0;
};

TEST(StressEnds, AMalformedReplyToACancelledCallFailsTheRun) {
    OneWorker w;
    w.options.cancel_rate = 0.5;
    test::LoopWorld::Options far;
    far.faults.delay_ns_min = far.faults.delay_ns_max = 200'000;
    w.world.net->set_faults(far.faults);
    SpoilsCancelled tap(w);
    w.world.net->set_tap(&tap);
    const stress::StressResult result = w.run();
    w.world.net->set_tap(nullptr);
    EXPECT_GT(tap.spoiled, 0);
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.trouble, IsEmpty());
    EXPECT_THAT(result.mismatch, HasSubstr("the server sent malformed replies"));
}

TEST(StressEnds, BadAnswersAreNamed) {
    xprtrdma::TransportCounters counters;
    counters.calls = counters.abandoned = counters.reply_timeouts = 7;
    EXPECT_EQ(stress::bad_answers(counters), "");
    counters.bad_xids = 1;
    counters.bad_invalidations = 2;
    EXPECT_EQ(stress::bad_answers(counters),
              "replies to no call: 1, invalidations of keys that were not the call's: 2");
    xprtrdma::TransportCounters sum;
    stress::add(sum, counters);
    stress::add(sum, counters);
    EXPECT_EQ(sum.bad_invalidations, 4u);
}

// All was well, and then nothing of the run's directory can be removed, for nobody listens.
TEST(StressEnds, ADirectoryThatCannotBeRemovedIsNoSuccess) {
    struct NoConnections final : verbs::softroce::LoopTap {
        bool on_frame(verbs::softroce::LoopFrame& frame) noexcept override {
            constexpr std::byte kDatagram{0x64};  // of the connection manager
            return !shut || frame.bytes[0] != kDatagram;
        }
        bool shut = false;
    } tap;
    OneWorker w;
    w.options.ops = 100;
    w.world.net->set_tap(&tap);
    w.backend->on_clean_up = [&] {
        tap.shut = true;
        w.running->connection(0).disconnect();
    };
    const stress::StressResult result = w.run();
    w.world.net->set_tap(nullptr);
    EXPECT_FALSE(result.ok);
    EXPECT_THAT(result.trouble, HasSubstr("cannot remove /export/rpcrdma-stress-"));
    EXPECT_THAT(result.trouble, HasSubstr("no connection"));
    EXPECT_THAT(result.directory, HasSubstr("/export/rpcrdma-stress-"));
}

}  // namespace
}  // namespace nfsrdma::testing
