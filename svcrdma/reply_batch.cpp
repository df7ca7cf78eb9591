#include "svcrdma/reply_batch.hpp"

#include "svcrdma/transport.hpp"

namespace nfsrdma::svcrdma {

namespace {

std::uint32_t slots_of(const SendCtxt& reply) noexcept {
    std::uint32_t slots = 1;
    for (std::uint32_t i = 0; i < reply.push_count; ++i)
        slots += reply.pushes[i]->slots();
    return slots;
}

void append_pushes(verbs::WrChain& chain, SendCtxt& reply) noexcept {
    for (std::uint32_t i = 0; i < reply.push_count; ++i)
        pools::Io::append_to(chain, *reply.pushes[i]);
}

}  // namespace

ReplyBatch::ReplyBatch(SvcTransport& transport) noexcept
    : Task([](Task& task) noexcept { static_cast<ReplyBatch&>(task).flush(); }),
      transport_(transport) {
    posted = &on_batch_posted;
}

ReplyBatch::~ReplyBatch() {
    NR_ASSERT(count_ == 0 && !waits_);
    transport_.loop().cancel(*this);
}

void ReplyBatch::add(SendCtxt& reply) noexcept {
    if (waits_) return post_alone(reply);
    const std::uint32_t slots = slots_of(reply);
    if (slots_ + slots > transport_.server().provision.send_wrs ||
        pushed_bytes_ + reply.pushed_bytes > kPushedBytesMax) {
        flush();
    }
    if (waits_ || reply.pushed_bytes > kPushedBytesMax) return post_alone(reply);
    replies_[count_++] = &reply;
    slots_ += slots;
    pushed_bytes_ += reply.pushed_bytes;
    if (count_ == kRepliesMax) {
        flush();
    } else if (!Task::linked()) {
        transport_.loop().last(*this);
    }
}

void ReplyBatch::flush() noexcept {
    if (count_ == 0 || waits_) return;
    chain = {};
    for (std::uint32_t i = 0; i < count_; ++i)
        append_pushes(chain, *replies_[i]);
    for (std::uint32_t i = 0; i < count_; ++i)
        chain.push_back(replies_[i]->wr);
    slots_ = pushed_bytes_ = 0;
    waits_ = true;
    const std::uint32_t count = count_;
    transport_.io().post(*this);
    if (waits_) transport_.server().counters.waited_for_send_room += count;
}

void ReplyBatch::post_alone(SendCtxt& reply) noexcept {
    reply.chain = {};
    append_pushes(reply.chain, reply);
    reply.chain.push_back(reply.wr);
    reply.posted_ok = false;
    transport_.io().post(reply);
    if (!reply.posted_ok && !reply.finished) ++transport_.server().counters.waited_for_send_room;
}

// What a reply does when it is posted may add others.
void ReplyBatch::on_batch_posted(pools::Posting& posting, Result<void> result) noexcept {
    auto& self = static_cast<ReplyBatch&>(posting);
    const auto replies = self.replies_;
    const std::uint32_t count = self.count_;
    self.count_ = 0;
    self.waits_ = false;
    for (std::uint32_t i = 0; i < count; ++i)
        replies[i]->posted(*replies[i], result);
}

}  // namespace nfsrdma::svcrdma
