#include "tests/xprtrdma/client_fixture.hpp"
#include "xprtrdma/req.hpp"

// The SGEs of a SEND: what is contiguous is one, and nothing is copied.
namespace nfsrdma::test {
namespace {

struct PostCall : testing::Test {
    PostCall() {
        pd = *world.client->alloc_pd();
        arena = *pools::Arena::create(*pd, 1 << 20, pools::Registration::automatic);
        buffers = *pools::BufferPool::create(*arena, 1, 8192);
        payload = *arena->carve(4096);
        zeros = *arena->carve(4);
        io = *pools::Io::create(*pd, *arena, {.keys = 1, .pages_per_key = 1});
        req.send_buffer = *buffers->get();
        req.posted = [](pools::Posting& posting, Result<void> result) noexcept {
            auto& self = static_cast<xprtrdma::Req&>(posting);
            EXPECT_EQ(self.state, xprtrdma::ReqState::posting);
            EXPECT_EQ(result.error().code, Errc::reconnect);  // there is no queue pair here
        };
        req.chain.push_back(req.send_wr);
        header = req.header_room().last(28);
        req.call.head = req.send_buffer->bytes().subspan(xprtrdma::kHeaderRoom, 40);
    }
    std::vector<std::uint32_t> lengths() {
        xprtrdma::post_call(req, header, zeros, *io);
        std::vector<std::uint32_t> out;
        for (const verbs::Sge& sge : req.send_wr.sgl)
            out.push_back(sge.length);
        return out;
    }
    LoopWorld world;
    std::unique_ptr<verbs::ProtectionDomain> pd;
    std::unique_ptr<pools::Arena> arena;
    std::unique_ptr<pools::BufferPool> buffers;
    std::unique_ptr<pools::Io> io;
    std::span<std::byte> payload, zeros, header;
    xprtrdma::Req req;
};

TEST_F(PostCall, HeaderAndMessageAreOneSge) {
    EXPECT_EQ(lengths(), (std::vector<std::uint32_t>{68}));
    EXPECT_EQ(req.sges[0].addr, address_of(header.data()));
}

TEST_F(PostCall, InlinePayloadIsGatheredWhereItLies) {
    req.call.payload = payload.first(5);
    req.call.tail = req.send_buffer->bytes().subspan(xprtrdma::kHeaderRoom + 40, 8);
    EXPECT_EQ(lengths(), (std::vector<std::uint32_t>{68, 5, 3, 8}));
    EXPECT_EQ(req.sges[1].addr, address_of(payload.data()));
    EXPECT_EQ(req.sges[2].addr, address_of(zeros.data()));
}

// RFC 8166 s3.4.5: a reduced item leaves neither its bytes nor its pad in the inline message.
TEST_F(PostCall, ReducedPayloadLeavesNoPad) {
    req.plan.args = xprtrdma::ArgsType::read;
    req.call.payload = payload.first(4001);
    req.call.tail = req.send_buffer->bytes().subspan(xprtrdma::kHeaderRoom + 40, 8);
    EXPECT_EQ(lengths(), (std::vector<std::uint32_t>{76}));
}

TEST_F(PostCall, LongCallSendsItsHeaderOnly) {
    req.plan.args = xprtrdma::ArgsType::position_zero;
    EXPECT_EQ(lengths(), (std::vector<std::uint32_t>{28}));
}

}  // namespace
}  // namespace nfsrdma::test
