#include "verbs/rdmacore/lower.hpp"

#include <array>

#include <gtest/gtest.h>

namespace nfsrdma::verbs::rdmacore {
namespace {

struct Lowered {
    std::array<ibv_sge, 8> sges{};
    ibv_send_wr operator()(const SendWr& wr, const BindTarget* bind = nullptr) {
        return lower_send(wr, bind, 77, sges);
    }
};

TEST(Lower, SendKeepsItsPiecesInOrder) {
    const std::array<Sge, 3> sgl = {
        {{0x1000, 10, Lkey{1}}, {0x2000, 0, Lkey{2}}, {0x3000, 7, Lkey{3}}}};
    SendWr wr;
    wr.sgl = sgl;
    Lowered lower;
    const ibv_send_wr out = lower(wr);
    EXPECT_EQ(out.wr_id, 77u);
    EXPECT_EQ(out.opcode, IBV_WR_SEND);
    EXPECT_EQ(out.send_flags, 0u);
    EXPECT_EQ(out.next, nullptr);
    ASSERT_EQ(out.num_sge, 3);
    for (std::size_t i = 0; i < sgl.size(); ++i) {
        EXPECT_EQ(out.sg_list[i].addr, sgl[i].addr);
        EXPECT_EQ(out.sg_list[i].length, sgl[i].length);
        EXPECT_EQ(out.sg_list[i].lkey, static_cast<std::uint32_t>(sgl[i].lkey));
    }
}

TEST(Lower, SignalsForItsOwnerAndForTheLedger) {
    Lowered lower;
    SendWr wr;
    EXPECT_EQ(lower(wr).send_flags & IBV_SEND_SIGNALED, 0u);
    wr.signaled = true;
    EXPECT_NE(lower(wr).send_flags & IBV_SEND_SIGNALED, 0u);
    wr.signaled = false;
    wr.ledger_signal = true;
    EXPECT_NE(lower(wr).send_flags & IBV_SEND_SIGNALED, 0u);
}

TEST(Lower, FenceOfEveryKind) {
    Lowered lower;
    BindTarget bind;
    ibv_mw window{};
    bind.window = &window;
    for (const SendOp op : {SendOp::send, SendOp::send_with_inv, SendOp::rdma_read,
                            SendOp::rdma_write, SendOp::reg_mr, SendOp::local_inv}) {
        SendWr wr;
        wr.op = op;
        wr.fenced = true;
        EXPECT_NE(lower(wr, &bind).send_flags & IBV_SEND_FENCE, 0u) << to_string(op);
        wr.fenced = false;
        EXPECT_EQ(lower(wr, &bind).send_flags & IBV_SEND_FENCE, 0u) << to_string(op);
    }
}

TEST(Lower, SendWithInvalidateNamesTheKey) {
    Lowered lower;
    SendWr wr;
    wr.op = SendOp::send_with_inv;
    wr.rkey = Rkey{0xABCD01};
    const ibv_send_wr out = lower(wr);
    EXPECT_EQ(out.opcode, IBV_WR_SEND_WITH_INV);
    EXPECT_EQ(out.invalidate_rkey, 0xABCD01u);
}

TEST(Lower, ReadAndWriteNameTheRemoteSide) {
    Lowered lower;
    SendWr wr;
    wr.remote_addr = 0x1122334455667788;
    wr.rkey = Rkey{42};
    wr.op = SendOp::rdma_read;
    EXPECT_EQ(lower(wr).opcode, IBV_WR_RDMA_READ);
    wr.op = SendOp::rdma_write;
    const ibv_send_wr out = lower(wr);
    EXPECT_EQ(out.opcode, IBV_WR_RDMA_WRITE);
    EXPECT_EQ(out.wr.rdma.remote_addr, 0x1122334455667788u);
    EXPECT_EQ(out.wr.rdma.rkey, 42u);
}

TEST(Lower, RegMrIsTheBindOfAWindow) {
    Lowered lower;
    ibv_mw window{};
    ibv_mr region{};
    const BindTarget bind{&window, &region, 0x501, 0x10005, 0x12345, Access::remote_read};
    SendWr wr;
    wr.op = SendOp::reg_mr;
    const ibv_send_wr out = lower(wr, &bind);
    EXPECT_EQ(out.opcode, IBV_WR_BIND_MW);
    EXPECT_EQ(out.num_sge, 0);
    EXPECT_EQ(out.bind_mw.mw, &window);
    EXPECT_EQ(out.bind_mw.rkey, 0x501u);
    EXPECT_EQ(out.bind_mw.bind_info.mr, &region);
    EXPECT_EQ(out.bind_mw.bind_info.addr, 0x10005u);
    EXPECT_EQ(out.bind_mw.bind_info.length, 0x12345u);
    EXPECT_EQ(out.bind_mw.bind_info.mw_access_flags, static_cast<unsigned>(IBV_ACCESS_REMOTE_READ));
}

TEST(Lower, LocalInvalidateTakesTheKeyOfTheRequest) {
    Lowered lower;
    ibv_mw window{};
    BindTarget bind;
    bind.window = &window;
    bind.rkey = 0x502;  // of a later map()
    SendWr wr;
    wr.op = SendOp::local_inv;
    wr.rkey = Rkey{0x501};
    const ibv_send_wr out = lower(wr, &bind);
    EXPECT_EQ(out.opcode, IBV_WR_LOCAL_INV);
    EXPECT_EQ(out.invalidate_rkey, 0x501u);
}

// Without windows the key is registered already: what goes through the queue says nothing.
TEST(Lower, KeysThatAreRegisteredAlreadyAreAnEmptyWrite) {
    Lowered lower;
    const BindTarget bind;
    for (const SendOp op : {SendOp::reg_mr, SendOp::local_inv}) {
        SendWr wr;
        wr.op = op;
        wr.signaled = true;
        wr.rkey = Rkey{9};
        const ibv_send_wr out = lower(wr, &bind);
        EXPECT_EQ(out.opcode, IBV_WR_RDMA_WRITE);
        EXPECT_EQ(out.num_sge, 0);
        EXPECT_EQ(out.wr.rdma.rkey, 0u);
        EXPECT_NE(out.send_flags & IBV_SEND_SIGNALED, 0u);
    }
}

TEST(Lower, Receive) {
    const Sge sge{0x4000, 4096, Lkey{5}};
    RecvWr wr;
    wr.sgl = {&sge, 1};
    std::array<ibv_sge, 1> sges{};
    const ibv_recv_wr out = lower_recv(wr, 12, sges);
    EXPECT_EQ(out.wr_id, 12u);
    EXPECT_EQ(out.num_sge, 1);
    EXPECT_EQ(out.sg_list[0].length, 4096u);
    EXPECT_EQ(out.next, nullptr);
}

TEST(Lower, AccessOfRegions) {
    EXPECT_EQ(region_access(Access::local_write, true),
              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    EXPECT_EQ(region_access(Access::local_write, false), IBV_ACCESS_LOCAL_WRITE);
    EXPECT_EQ(region_access(Access::none, false), 0);
    EXPECT_EQ(region_access(Access::remote_write, false),
              IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE)
        << "no remote right to write without the local one";
    EXPECT_EQ(window_access(Access::local_write | Access::remote_write),
              static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE));
}

TEST(Lower, ErrorsByWhatTheyMean) {
    const auto send = [](ibv_wc_status status) { return status_of(status, SendOp::send); };
    EXPECT_EQ(send(IBV_WC_SUCCESS), WcStatus::success);
    EXPECT_EQ(send(IBV_WC_WR_FLUSH_ERR), WcStatus::flushed);
    EXPECT_EQ(send(IBV_WC_LOC_PROT_ERR), WcStatus::local_error);
    EXPECT_EQ(send(IBV_WC_LOC_LEN_ERR), WcStatus::local_error);
    EXPECT_EQ(send(IBV_WC_REM_ACCESS_ERR), WcStatus::remote_access);
    EXPECT_EQ(send(IBV_WC_REM_INV_REQ_ERR), WcStatus::remote_invalid);
    EXPECT_EQ(send(IBV_WC_REM_OP_ERR), WcStatus::remote_error);
    EXPECT_EQ(send(IBV_WC_RETRY_EXC_ERR), WcStatus::retry_exceeded);
    EXPECT_EQ(send(IBV_WC_RNR_RETRY_EXC_ERR), WcStatus::rnr_exceeded);
    EXPECT_EQ(send(IBV_WC_MW_BIND_ERR), WcStatus::mr_error);
    EXPECT_EQ(send(IBV_WC_GENERAL_ERR), WcStatus::local_error);
    EXPECT_EQ(status_of(IBV_WC_LOC_QP_OP_ERR, SendOp::local_inv), WcStatus::mr_error);
    EXPECT_EQ(status_of(IBV_WC_LOC_QP_OP_ERR, SendOp::reg_mr), WcStatus::mr_error);
    EXPECT_EQ(status_of_recv(IBV_WC_LOC_LEN_ERR), WcStatus::local_error);
}

TEST(WrId, SurvivesTheTripThroughTheDevice) {
    const WrId ids[] = {{0, 0, 0, false},
                        {1, 2, 3, true},
                        {0xFFFF, 0xFFFF, WrId::kIndexMask, true},
                        {5, 9, WrId::kDrain, false}};
    for (const WrId& id : ids) {
        const WrId back = WrId::unpack(id.pack());
        EXPECT_EQ(back.slot, id.slot);
        EXPECT_EQ(back.generation, id.generation);
        EXPECT_EQ(back.index, id.index);
        EXPECT_EQ(back.receive, id.receive);
    }
    EXPECT_GT(WrId::kDrain, WrId::kIndexMask) << "no entry has that index";
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore
