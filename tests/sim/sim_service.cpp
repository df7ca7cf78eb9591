#include "tests/sim/sim_service.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace nfsrdma::test {

SimService::SimService(Loop& loop, TraceRing& trace, const Options& options)
    : loop_(loop), trace_(trace), options_(options), prng_(options.seed) {}

SimService::~SimService() {
    EXPECT_TRUE(working_.empty() && waiting_.empty());
}

bool SimService::is_intact(const sunrpc::SvcRqst& rqst, const SimCall& call) {
    // Unreduced again, whichever way it came.
    Bytes whole(rqst.arg.head.begin(), rqst.arg.head.end());
    whole.insert(whole.end(), rqst.arg.payload.begin(), rqst.arg.payload.end());
    whole.resize(whole.size() + rqst.arg.pad());
    whole.insert(whole.end(), rqst.arg.tail.begin(), rqst.arg.tail.end());
    const Bytes expected = Words().bytes(call.head_words().take()).bytes(call.body()).take();
    return whole == expected &&
           (rqst.arg.payload.empty() || rqst.payload_position == call.head_size());
}

void SimService::dispatch(sunrpc::SvcRqst& rqst) noexcept {
    ++calls;
    trace_.add({.time_ns = loop_.now_ns(), .xid = rqst.xid, .connection = 1, .point = "dispatch"});
    SimCall call;
    if (!SimCall::parse(rqst.arg.head, call) || call.result > rqst.xprt->max_payload() ||
        call.reply_max() > options_.message_max) {
        ++nonsense;
        rqst.xprt->drop(rqst);
        return;
    }
    const bool intact = is_intact(rqst, call);
    if (!intact) ++corrupt;
    if (prng_.chance_ppm(options_.drop_ppm)) {
        ++dropped;
        rqst.xprt->drop(rqst);
        return;
    }
    if (options_.work_ns_max == 0) return answer(rqst, call, intact);
    working_.emplace_back([](Timer& timer) noexcept {
        auto& work = static_cast<Work&>(timer);
        SimService& service = *work.service;
        sunrpc::SvcRqst& done = *work.rqst;
        const SimCall what = work.call;
        const bool good = work.intact;
        service.working_.erase(work.self);
        service.answer(done, what, good);
    });
    Work& work = working_.back();
    work.self = std::prev(working_.end());
    work.service = this;
    work.rqst = &rqst;
    work.call = call;
    work.intact = intact;
    loop_.arm(work, loop_.now_ns() + prng_.below(options_.work_ns_max + 1));
}

void SimService::answer(sunrpc::SvcRqst& rqst, const SimCall& call, bool intact) noexcept {
    std::span<std::byte> memory;
    if (call.result > 0) {
        auto got = rqst.xprt->get_result_payload(rqst, call.result);
        if (!got) {
            EXPECT_EQ(got.error().code, Errc::again);
            ++waited;
            waiting_.push_back({&rqst, call, intact});
            return;
        }
        memory = *got;
        const Bytes result = call.result_bytes();
        std::copy(result.begin(), result.end(), memory.begin());
    }
    const Bytes head = call.reply_head(intact), extra = call.extra_bytes();
    std::copy(head.begin(), head.end(), rqst.res_room.begin());
    std::copy(extra.begin(), extra.end(),
              rqst.res_room.begin() + static_cast<std::ptrdiff_t>(head.size()));
    rqst.res.head = rqst.res_room.first(head.size());
    rqst.res.payload = memory;
    rqst.res.tail = rqst.res_room.subspan(head.size(), extra.size());
    rqst.result_is_ddp = true;
    trace_.add({.time_ns = loop_.now_ns(), .xid = rqst.xid, .connection = 1, .point = "answer"});
    rqst.xprt->reply(rqst);
}

void SimService::wake(sunrpc::SvcRqst& rqst) noexcept {
    const auto it = std::find_if(waiting_.begin(), waiting_.end(),
                                 [&](const Waiting& waiting) { return waiting.rqst == &rqst; });
    ASSERT_NE(it, waiting_.end());
    const Waiting waiting = *it;
    waiting_.erase(it);
    answer(rqst, waiting.call, waiting.intact);
}

}  // namespace nfsrdma::test
