// The responder, by scripts of packets.
#include "tests/verbs/softroce/world.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

constexpr std::uint64_t kIova = 0x7000'0000'0000;

// What one end sent, in order.
struct Sent {
    Opcode opcode;
    std::uint32_t psn;
    std::uint8_t syndrome;
};

class Responding : public ::testing::Test {
  protected:
    void make(WorldOptions o) {
        world = std::make_unique<World>(o);
        psn = o.psn_a;
        qpn = world->b.qp->qpn();
        tap = std::make_unique<Tap<Seen>>(Seen{this});
        world->net->set_tap(tap.get());
    }
    void TearDown() override {
        if (world != nullptr) world->net->set_tap(nullptr);
        mr.reset();
        world.reset();
    }
    void bind(Access access, std::uint32_t length = 64 * 1024) {
        mr = world->b.fast(0, length, access);
        ASSERT_TRUE(world->b.post_local(SendOp::reg_mr, 900, *mr, mr->rkey(), false));
        world->run_for(kNsPerUs);
    }
    std::uint32_t key() const { return static_cast<std::uint32_t>(mr->rkey()); }
    void send(const std::vector<std::byte>& bytes) {
        world->inject(world->b, bytes);
        world->run_for(20 * kNsPerUs);
    }
    std::vector<std::byte> write_first(std::uint32_t at, std::uint64_t addr, std::uint32_t length,
                                       std::size_t payload, std::uint8_t value) {
        auto bytes = frame(Opcode::write_first, qpn, at);
        add_reth(bytes, addr, key(), length);
        add_payload(bytes, payload, value);
        return bytes;
    }
    std::vector<std::byte> read(std::uint32_t at, std::uint64_t addr, std::uint32_t length) {
        auto bytes = frame(Opcode::read_request, qpn, at);
        add_reth(bytes, addr, key(), length);
        return bytes;
    }
    std::vector<std::byte> with_payload(Opcode op, std::uint32_t at, std::size_t size,
                                        std::uint8_t value = 1) {
        auto bytes = frame(op, qpn, at);
        add_payload(bytes, size, value);
        return bytes;
    }
    const Sent& last() const { return sent.back(); }

    struct Seen {
        Responding* test;
        bool operator()(LoopFrame& seen, const Bth& bth) {
            if (seen.from == test->world->b.address) {
                const std::uint8_t syndrome = info_of(bth.opcode).header_size > kBthSize
                                                  ? load_u8(&seen.bytes[kBthSize])
                                                  : std::uint8_t{0};
                test->sent.push_back({static_cast<Opcode>(bth.opcode), bth.psn, syndrome});
            }
            return true;
        }
    };
    std::unique_ptr<World> world;
    std::unique_ptr<FastMr> mr;
    std::unique_ptr<Tap<Seen>> tap;
    std::vector<Sent> sent;
    std::uint32_t psn = 0, qpn = 0;
};

// A duplicate READ request in the middle of a WRITE leaves the WRITE alone.
class B40 : public Responding {};
TEST_F(B40, DuplicateReadInTheMiddleOfAWrite) {
    WorldOptions o;
    o.psn_a = 20;
    o.pmtu = 4096;
    make(o);
    bind(Access::remote_read | Access::remote_write);
    world->b.fill(1);
    send(read(20, kIova, 12 * 1024));
    ASSERT_EQ(sent.size(), 3u);
    send(write_first(23, kIova + 16384, 3 * 4096, 4096, 0xA1));
    EXPECT_EQ(last().opcode, Opcode::acknowledge);
    EXPECT_EQ(last().psn, 23u);
    sent.clear();
    send(read(20, kIova, 12 * 1024));
    ASSERT_EQ(sent.size(), 3u);
    EXPECT_EQ(sent[0].opcode, Opcode::read_response_first);
    EXPECT_EQ(sent[0].psn, 20u);
    EXPECT_EQ(sent[2].opcode, Opcode::read_response_last);
    EXPECT_EQ(sent[2].psn, 22u);
    sent.clear();
    send(write_first(23, kIova + 16384, 3 * 4096, 4096, 0xFF));  // must not be executed again
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(last().psn, 23u);
    EXPECT_EQ(last().syndrome, ack_syndrome());
    send(with_payload(Opcode::write_middle, 24, 4096, 0xA2));
    send(with_payload(Opcode::write_last, 25, 4096, 0xA3));
    EXPECT_EQ(last().psn, 25u);
    EXPECT_EQ(last().syndrome, ack_syndrome());
    EXPECT_EQ(world->b.memory[16384], std::byte{0xA1});
    EXPECT_EQ(world->b.memory[16384 + 4095], std::byte{0xA1});
    EXPECT_EQ(world->b.memory[16384 + 4096], std::byte{0xA2});
    EXPECT_EQ(world->b.memory[16384 + 12287], std::byte{0xA3});
    EXPECT_FALSE(world->b.qp->in_error());
}

TEST_F(Responding, DuplicateReadFromTheMiddleIsAnsweredFromThere) {
    WorldOptions o;
    o.pmtu = 1024;
    make(o);
    bind(Access::remote_read);
    send(read(psn, kIova, 5000));
    ASSERT_EQ(sent.size(), 5u);
    sent.clear();
    send(read(psn + 2, kIova + 2048, 5000 - 2048));
    ASSERT_EQ(sent.size(), 3u);
    EXPECT_EQ(sent[0].opcode, Opcode::read_response_first);
    EXPECT_EQ(sent[0].psn, psn + 2);
    EXPECT_EQ(sent[2].opcode, Opcode::read_response_last);
}

TEST_F(Responding, DuplicateReadThroughADeadKeyIsSilent) {
    make({});
    bind(Access::remote_read);
    send(read(psn, kIova, 100));
    ASSERT_TRUE(world->b.post_local(SendOp::local_inv, 901, *mr, mr->rkey(), false));
    world->run_for(kNsPerUs);
    sent.clear();
    send(read(psn, kIova, 100));
    EXPECT_TRUE(sent.empty());
    EXPECT_FALSE(world->b.qp->in_error());
    // The same key in a new request ends the connection.
    send(read(psn + 1, kIova, 100));
    EXPECT_EQ(last().syndrome, nak_syndrome(NakCode::remote_access));
    EXPECT_TRUE(world->b.qp->in_error());
}

TEST_F(Responding, DuplicateSendIsAcknowledgedAndNotExecuted) {
    make({});
    ASSERT_TRUE(world->b.recv(1, {world->b.sge(0, 64)}));
    ASSERT_TRUE(world->b.recv(2, {world->b.sge(64, 64)}));
    send(with_payload(Opcode::send_only, psn, 8));
    send(with_payload(Opcode::send_only, psn, 8));
    EXPECT_EQ(world->b.log.entries.size(), 1u);
    ASSERT_EQ(sent.size(), 2u);
    EXPECT_EQ(sent[1].psn, psn);
    EXPECT_EQ(sent[1].syndrome, ack_syndrome());
    EXPECT_EQ(world->b.device->counters().duplicates, 1u);
}

TEST_F(Responding, SequenceNakIsSentOnceAndNamesTheMissingPacket) {
    make({});
    for (std::uint64_t i = 0; i < 4; ++i)
        ASSERT_TRUE(world->b.recv(i, {world->b.sge(0, 64)}));
    send(with_payload(Opcode::send_only, psn + 1, 8));
    send(with_payload(Opcode::send_only, psn + 2, 8));
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(last().syndrome, nak_syndrome(NakCode::sequence));
    EXPECT_EQ(last().psn, psn);
    send(with_payload(Opcode::send_only, psn, 8));
    EXPECT_EQ(last().syndrome, ack_syndrome());
    EXPECT_EQ(last().psn, psn);
    send(with_payload(Opcode::send_only, psn + 2, 8));  // a new gap, a new NAK
    EXPECT_EQ(last().syndrome, nak_syndrome(NakCode::sequence));
    EXPECT_EQ(last().psn, psn + 1);
    EXPECT_EQ(world->b.device->counters().naks_sent, 2u);
}

TEST_F(Responding, NoReceiveIsAnRnrNakAndSilenceUntilItComesAgain) {
    make({});
    send(with_payload(Opcode::send_only, psn, 8));
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(last().syndrome, rnr_syndrome(rnr_timer_code(640)));
    EXPECT_EQ(last().psn, psn);
    send(with_payload(Opcode::send_only, psn + 1, 8));
    EXPECT_EQ(sent.size(), 1u);
    ASSERT_TRUE(world->b.recv(1, {world->b.sge(0, 64)}));
    send(with_payload(Opcode::send_only, psn, 8));
    EXPECT_EQ(last().syndrome, ack_syndrome());
    EXPECT_EQ(world->b.device->counters().rnr_naks_sent, 1u);
}

TEST_F(Responding, AcknowledgementsOfOneBatchAreOne) {
    make({});
    for (std::uint64_t i = 0; i < 8; ++i)
        ASSERT_TRUE(world->b.recv(i, {world->b.sge(0, 64)}));
    for (std::uint32_t i = 0; i < 8; ++i)
        world->inject(world->b, with_payload(Opcode::send_only, psn + i, 8));
    world->run_for(20 * kNsPerUs);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(last().psn, psn + 7);
}

// Each row is one packet that is refused with the NAK that its first broken check gives.
TEST_F(Responding, ChecksComeInProtocolOrder) {
    struct Row {
        const char* what;
        std::vector<std::byte> bytes;
        std::uint8_t syndrome;
    };
    make({});
    const auto reth = [&](Opcode op, std::uint64_t addr, std::uint32_t k, std::uint32_t length,
                          std::size_t payload) {
        auto bytes = frame(op, 0, world->options.psn_a);
        add_reth(bytes, addr, k, length);
        add_payload(bytes, payload, 9);
        return bytes;
    };
    const auto plain = [&](Opcode op, std::size_t payload) {
        auto bytes = frame(op, 0, world->options.psn_a);
        add_payload(bytes, payload, 9);
        return bytes;
    };
    const std::uint8_t invalid = nak_syndrome(NakCode::invalid_request);
    const std::uint8_t refused = nak_syndrome(NakCode::remote_access);
    const std::uint8_t rnr = rnr_syndrome(rnr_timer_code(640));
    const Row rows[] = {
        {"middle without first", plain(Opcode::send_middle, 1024), invalid},
        {"last without first", plain(Opcode::write_last, 10), invalid},
        {"send with immediate", plain(static_cast<Opcode>(0x05), 10), invalid},
        {"atomic", plain(static_cast<Opcode>(0x13), 28), invalid},
        {"no receive before length", plain(Opcode::send_first, 10), rnr},
        {"write first too short", reth(Opcode::write_first, kIova, 1, 2048, 1000), invalid},
        {"write first is whole", reth(Opcode::write_first, kIova, 1, 1024, 1024), invalid},
        {"write only of other length", reth(Opcode::write_only, kIova, 1, 11, 10), invalid},
        {"write only too long", reth(Opcode::write_only, kIova, 1, 1025, 1025), invalid},
        {"write longer than any message", reth(Opcode::write_first, kIova, 1, 0x80000001, 1024),
         invalid},
        {"length before key", reth(Opcode::write_only, kIova, 0x1234567, 9, 8), invalid},
        {"unknown key", reth(Opcode::write_only, kIova, 0x1234567, 8, 8), refused},
        {"read with payload", reth(Opcode::read_request, kIova, 1, 8, 8), invalid},
        {"read too long", reth(Opcode::read_request, kIova, 1, 0x80000001, 0), invalid},
        {"read by unknown key", reth(Opcode::read_request, kIova, 1, 8, 0), refused},
    };
    for (const Row& row : rows) {
        TearDown();
        sent.clear();
        make({});
        auto bytes = row.bytes;
        store_be24(&bytes[5], qpn);
        send(bytes);
        ASSERT_EQ(sent.size(), 1u) << row.what;
        EXPECT_EQ(last().syndrome, row.syndrome) << row.what;
        EXPECT_EQ(last().psn, psn) << row.what;
        EXPECT_EQ(world->b.qp->in_error(), row.syndrome != rnr) << row.what;
    }
}

TEST_F(Responding, MessagesMayNotMix) {
    make({});
    bind(Access::remote_write);
    send(write_first(psn, kIova, 4096, 1024, 1));
    send(with_payload(Opcode::send_last, psn + 1, 10));
    EXPECT_EQ(last().syndrome, nak_syndrome(NakCode::invalid_request));
    EXPECT_TRUE(world->b.qp->in_error());
}

TEST_F(Responding, SendLongerThanItsReceiveFailsThatReceive) {
    make({});
    ASSERT_TRUE(world->b.recv(1, {world->b.sge(0, 1500)}));
    ASSERT_TRUE(world->b.recv(2, {world->b.sge(4096, 64)}));
    std::memset(world->b.memory, 0x77, 8192);
    send(with_payload(Opcode::send_first, psn, 1024));
    send(with_payload(Opcode::send_last, psn + 1, 600));
    EXPECT_EQ(last().syndrome, nak_syndrome(NakCode::invalid_request));
    ASSERT_EQ(world->b.log.entries.size(), 2u);
    EXPECT_EQ(world->b.log.entries[0].wc.status, WcStatus::local_error);
    EXPECT_EQ(world->b.log.entries[1].wc.status, WcStatus::flushed);
    EXPECT_EQ(world->b.memory[1500], std::byte{0x77});
}

TEST_F(Responding, WriteThatOverrunsItsLengthIsRefusedAndWritesNothingBeyond) {
    make({});
    bind(Access::remote_write, 4096);
    std::memset(world->b.memory, 0x77, 8192);
    send(write_first(psn, kIova + 2048, 2048, 1024, 1));
    send(with_payload(Opcode::write_middle, psn + 1, 1024));  // is the rest: should be a LAST
    EXPECT_EQ(last().syndrome, nak_syndrome(NakCode::invalid_request));
    for (std::size_t i = 3072; i < 8192; ++i)
        ASSERT_EQ(world->b.memory[i], std::byte{0x77});
}

TEST_F(Responding, KeyInvalidatedInTheMiddleOfAWriteEndsIt) {
    make({});
    bind(Access::remote_write);
    std::memset(world->b.memory, 0x77, 8192);
    send(write_first(psn, kIova, 3072, 1024, 1));
    ASSERT_TRUE(world->b.post_local(SendOp::local_inv, 901, *mr, mr->rkey(), false));
    world->run_for(kNsPerUs);
    send(with_payload(Opcode::write_middle, psn + 1, 1024));
    EXPECT_EQ(last().syndrome, nak_syndrome(NakCode::remote_access));
    EXPECT_EQ(world->b.memory[1024], std::byte{0x77});
}

TEST_F(Responding, KeyInvalidatedInTheMiddleOfAReadEndsIt) {
    WorldOptions o;
    o.memory = 8 * 1024 * 1024;
    o.net.receive_window = 16 * 1024 * 1024;
    make(o);
    mr = *world->b.pd->alloc_fast_mr(2048);
    std::vector<std::byte*> pages;
    for (std::size_t i = 0; i < 1024; ++i)
        pages.push_back(world->b.memory + i * 4096);
    ASSERT_TRUE(mr->map(pages, 4096, 0, 4 << 20, kIova, Access::remote_read));
    ASSERT_TRUE(world->b.post_local(SendOp::reg_mr, 900, *mr, mr->rkey(), false));
    world->run_for(kNsPerUs);
    world->inject(world->b, read(psn, kIova, 4 << 20));
    ASSERT_TRUE(world->run_until([&] { return sent.size() >= 64; }));
    ASSERT_LT(sent.size(), 4096u);
    ASSERT_TRUE(world->b.post_local(SendOp::local_inv, 901, *mr, mr->rkey(), false));
    world->run_for(kNsPerMs);
    EXPECT_EQ(last().syndrome, nak_syndrome(NakCode::remote_access));
    EXPECT_LT(sent.size(), 4096u);
    EXPECT_TRUE(world->b.qp->in_error());
}

TEST_F(Responding, MoreReadsThanAgreedAreRefused) {
    WorldOptions o;
    o.read_responses = 2;
    make(o);
    bind(Access::remote_read);
    for (std::uint32_t i = 0; i < 3; ++i)
        world->inject(world->b, read(psn + i, kIova, 8));
    world->run_for(20 * kNsPerUs);
    ASSERT_EQ(sent.size(), 3u);
    EXPECT_EQ(sent[1].opcode, Opcode::read_response_only);
    EXPECT_EQ(last().syndrome, nak_syndrome(NakCode::invalid_request));
}

TEST_F(Responding, ReadsAreAnsweredBeforeTheFatalNakBehindThem) {
    make({});
    bind(Access::remote_read);
    world->inject(world->b, read(psn, kIova, 2000));
    world->inject(world->b, with_payload(Opcode::send_middle, psn + 2, 1024));
    world->run_for(20 * kNsPerUs);
    ASSERT_EQ(sent.size(), 3u);
    EXPECT_EQ(sent[1].opcode, Opcode::read_response_last);
    EXPECT_EQ(last().syndrome, nak_syndrome(NakCode::invalid_request));
}

TEST_F(Responding, CongestionAndOtherForeignOpcodesAreDropped) {
    make({});
    send(with_payload(static_cast<Opcode>(0x81), psn, 16));
    send(with_payload(static_cast<Opcode>(0x12), psn, 12));
    send(with_payload(static_cast<Opcode>(0x64), psn, 264));
    send(with_payload(static_cast<Opcode>(0x24), psn, 8));
    EXPECT_TRUE(sent.empty());
    EXPECT_EQ(world->b.device->counters().rx_dropped, 4u);
    EXPECT_FALSE(world->b.qp->in_error());
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
