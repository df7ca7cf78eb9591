#include <algorithm>

#include "base/bytes.hpp"
#include "svcrdma/transport.hpp"

// What a connection has, and how it gets more of it: see transport.hpp, Growth.
namespace nfsrdma::svcrdma {

Result<void> SvcTransport::charge(std::uint64_t bytes) noexcept {
    PeerTable* const peers = server_.options.peers;
    if (known_peer_ != nullptr && !peers->take_memory(*known_peer_, bytes))
        return Error{Errc::refused, 0, "the peer has as much memory as it may"};
    if (!server_.charge(bytes)) {
        if (known_peer_ != nullptr) peers->give_back_memory(*known_peer_, bytes);
        return Error{Errc::too_big, 0, "the memory budget is used up"};
    }
    charged_ += bytes;
    return {};
}

Result<void> SvcTransport::make_contexts(std::uint32_t count) {
    const std::uint32_t scratch_each = align_up(server_.service.scratch_bytes(), 64u);
    NR_TRY(charge(count * server_.scratch_bytes()));
    ContextBlock block;
    block.count = count;
    block.scratch = std::make_unique<CacheLine[]>(std::size_t{count} * (scratch_each / 64));
    block.contexts = std::make_unique<RecvCtxt[]>(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        RecvCtxt& call = block.contexts[i];
        call.transport = this;
        call.xprt = this;
        call.send.call = &call;
        if (scratch_each > 0) {
            std::byte* const first = block.scratch[std::size_t{i} * (scratch_each / 64)].bytes;
            call.scratch = {first, scratch_each};
        }
        free_.push_back(call);
    }
    contexts_.push_back(std::move(block));
    contexts_count_ += count;
    return {};
}

Result<void> SvcTransport::make_receives(std::uint32_t count) {
    const std::uint32_t bytes_each = server_.options.demand.inline_size;
    NR_TRY(charge(server_.slab_bytes(count)));
    NR_TRY_ASSIGN(const std::span<std::byte> slab, server_.get_slab(count));
    slabs_.push_back(slab);
    auto bufs = std::make_unique<RecvBuf[]>(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        RecvBuf& buf = bufs[i];
        buf.xprt = this;
        buf.memory = slab.subspan(std::size_t{i} * bytes_each, bytes_each);
        buf.done = &SvcTransport::on_recv;
        buf.sge = io_->sge(buf.memory);
        buf.wr.cqe = &buf;
        buf.wr.sgl = {&buf.sge, 1};
        idle_.push_back(buf);
    }
    bufs_.push_back(std::move(bufs));
    bufs_count_ += count;
    return {};
}

// Memory for calls to the client, and Receives for its replies: from the start, since nothing says
// beforehand that the service will call.
Result<void> SvcTransport::make_backward() {
    const std::uint32_t slots = server_.options.backward_credits;
    const std::uint32_t inline_size = server_.options.demand.inline_size;
    NR_TRY(charge(server_.slab_bytes(slots) +
                  std::uint64_t{slots} * (inline_size + sizeof(sunrpc::Rqst))));
    NR_TRY_ASSIGN(const std::span<std::byte> sends, server_.get_slab(slots));
    slabs_.push_back(sends);
    backward_ = std::make_unique<Backchannel>(*this, slots, sends, inline_size);
    return make_receives(slots);
}

// A peer that keeps all of its credits busy, or makes many calls with them, has use for more.
void SvcTransport::note_use() noexcept {
    ++calls_;
    if (credits_ == server_.provision.credits || requested_ <= credits_) return;
    constexpr std::uint32_t kCallsPerCredit = 2;
    ++calls_since_raise_;
    if (held_ >= credits_ || calls_since_raise_ >= kCallsPerCredit * credits_) raise_credits();
}

void SvcTransport::raise_credits() noexcept {
    calls_since_raise_ = 0;
    const std::uint32_t more = server_.more_credits(credits_);
    if (!make_receives(Server::receives(more) - Server::receives(credits_))) {
        ++server_.counters.raises_refused;
        return;
    }
    ++server_.counters.grants_raised;
    credits_ = more;
    post_receives();
}

// As many as the credits may have in progress; half as many again each time.
void SvcTransport::add_contexts() noexcept {
    const std::uint32_t most = Server::contexts(credits_);
    if (contexts_count_ >= most) return;
    static_cast<void>(
        make_contexts(std::min(most - contexts_count_, std::max(contexts_count_ / 2, 1u))));
}

// Halved at most once a round trip of all that are out, raised by one with every reply.
void SvcTransport::adapt_grant() noexcept {
    if (replies_until_cut_ > 0) --replies_until_cut_;
    if (!server_.runs->scarce()) {
        grant_limit_ = std::min(grant_limit_ + 1, credits_);
        return;
    }
    if (replies_until_cut_ > 0 || grant_limit_ == 1) return;
    grant_limit_ = std::max(grant_limit_ / 2, 1u);
    replies_until_cut_ = grant_limit_;
    ++server_.counters.grants_lowered;
}

}  // namespace nfsrdma::svcrdma
