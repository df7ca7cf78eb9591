#include "pools/link.hpp"

#include <algorithm>
#include <utility>

#include "base/bytes.hpp"

// Operation. A message's SEND is the last request of its posting: its completion tells that all in
// front of it is done as well. Whatever ends the connection comes together in drain(), which waits
// until every request has been flushed.
//
// Ownership. (1) A LinkMessage is in free_, or its user's, or lent to the device: take_home() is
// the one way back. (2) A Receive is posted, or being handled. (3) Nothing is posted when the
// queue pair dies: ~Link asserts that the connection is over.
//
// Errors. See link.hpp.
namespace nfsrdma::pools {
namespace {

constexpr std::uint64_t kDrainPollNs = 10 * kNsPerUs;
constexpr std::uint32_t kDrainPollsMax = 1000;
constexpr std::uint32_t kSendSges = 4;
constexpr std::uint32_t kMessageAlign = 64;
constexpr std::uint16_t kNobodyListens = 8;  // IBA reason: invalid service ID

std::uint32_t send_wrs(const LinkOptions& options, const verbs::DeviceCaps& caps) noexcept {
    const std::uint32_t wanted = options.messages       // SENDs
                                 + 2 * options.io.keys  // REG_MR, LOCAL_INV
                                 + options.io.transfers * (options.io.runs_per_transfer + 2) +
                                 1;  // the last one before the queue pair is destroyed
    return std::min(wanted, caps.max_send_wr);
}

Error error_of(const verbs::CmEvent& event) noexcept {
    switch (event.type) {
        case verbs::CmEventType::rejected:
            return {Errc::refused, 0,
                    event.reason == kNobodyListens ? "nobody listens at that port"
                                                   : "the peer refused the connection"};
        case verbs::CmEventType::unreachable:
            return {Errc::timed_out, 0, "the peer does not answer"};
        case verbs::CmEventType::established:
        case verbs::CmEventType::disconnected:
            break;
    }
    return {Errc::reconnect, 0, "disconnected"};
}

}  // namespace

void LinkMessage::follow(Lease<Transfer> push) noexcept {
    NR_ASSERT(chain().first() == &wr_ && chain().size() == 1 && !push_);
    push_ = std::move(push);
    chain() = {};
    Io::append_to(chain(), *push_);
    chain().push_back(wr_);
}

void LinkMessage::invalidate(std::uint32_t handle) noexcept {
    wr_.op = verbs::SendOp::send_with_inv;
    wr_.rkey = verbs::Rkey{handle};
}

Link::Link(verbs::Device& device, const LinkOptions& options, LinkHandler& handler) noexcept
    : device_(device), options_(options), handler_(handler), timer_(&Link::on_drain) {
    timer_.link = this;
}

Link::~Link() {
    NR_ASSERT(state_ == State::over || state_ == State::made);
    free_.clear();
    id_.reset();
    if (cq_ != nullptr) device_.loop().remove(*cq_);
}

Result<std::unique_ptr<Link>> Link::connect(verbs::Device& device, const SockAddr& peer,
                                            const LinkOptions& options, LinkHandler& handler) {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    std::unique_ptr<Link> link(new Link(device, options, handler));
    NR_TRY_ASSIGN(auto id, device.create_id(*link));
    verbs::ConnParams params;
    params.timeout_ns = options.connect_timeout_ns;
    Result<void> done = link->set_up(std::move(id));
    if (done) done = link->id_->connect(peer, params);
    if (!done) {
        link->abandon();
        return done.error();
    }
    link->state_ = State::connecting;
    return link;
}

Result<std::unique_ptr<Link>> Link::accept(verbs::Device& device, std::unique_ptr<verbs::CmId> id,
                                           const verbs::ConnectRequest& request,
                                           const LinkOptions& options, LinkHandler& handler) {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    std::unique_ptr<Link> link(new Link(device, options, handler));
    id->set_handler(*link);
    Result<void> done = link->set_up(std::move(id));
    if (done) {
        link->io_->set_read_depth(request.initiator_depth);
        done = link->id_->accept({});
    }
    if (!done) {
        link->abandon();
        return done.error();
    }
    link->state_ = State::connecting;
    return link;
}

// Made, and not begun: no turn of the loop may be awaited here.
void Link::abandon() noexcept {
    if (id_ == nullptr || id_->qp() == nullptr) return;
    id_->qp()->set_error();
    for (std::uint32_t i = 0; i < kDrainPollsMax && id_->qp()->outstanding() > 0; ++i)
        cq_->poll();
    if (io_ != nullptr) io_->on_disconnect();
}

Result<void> Link::set_up(std::unique_ptr<verbs::CmId> id) {
    id_ = std::move(id);
    const verbs::DeviceCaps& caps = device_.caps();
    if (options_.message_bytes == 0 || options_.messages == 0)
        return Error{Errc::invalid_argument, 0, "a connection without messages"};
    verbs::QpOptions queues;
    queues.send_wrs = send_wrs(options_, caps);
    queues.recv_wrs = std::min(options_.messages, caps.max_recv_wr);
    queues.send_sges = std::min(kSendSges, caps.max_send_sge);
    NR_TRY_ASSIGN(pd_, device_.alloc_pd());
    NR_TRY_ASSIGN(cq_, device_.create_cq(queues.send_wrs + queues.recv_wrs));
    device_.loop().add(*cq_);
    NR_TRY_ASSIGN(verbs::QueuePair* const qp, id_->create_qp(*pd_, *cq_, queues));
    const std::size_t rooms =
        align_up(std::size_t{options_.messages} * align_up(options_.message_bytes, kMessageAlign),
                 std::size_t{kPageSize});
    const std::size_t users = align_up(options_.memory_bytes, std::size_t{kPageSize});
    NR_TRY_ASSIGN(arena_, Arena::create(*pd_, 2 * rooms + users, options_.io.registration));
    options_.io.send_sges = queues.send_sges;
    NR_TRY_ASSIGN(io_, Io::create(*pd_, *arena_, options_.io));
    io_->set_qp(qp);
    return make_messages();
}

Result<void> Link::make_messages() {
    const std::uint32_t stride = align_up(options_.message_bytes, kMessageAlign);
    const std::size_t rooms = std::size_t{options_.messages} * stride;
    NR_TRY_ASSIGN(const std::span<std::byte> ins, arena_->carve(rooms));
    NR_TRY_ASSIGN(const std::span<std::byte> outs, arena_->carve(rooms));
    receives_ = std::make_unique<Receive[]>(options_.messages);
    messages_ = std::make_unique<LinkMessage[]>(options_.messages);
    for (std::uint32_t i = 0; i < options_.messages; ++i) {
        LinkMessage& message = messages_[i];
        message.link_ = this;
        message.done = &Link::on_sent;
        message.posted = &Link::on_posted;
        message.room_ = outs.subspan(std::size_t{i} * stride, options_.message_bytes);
        free_.push_back(message);
        Receive& receive = receives_[i];
        receive.link = this;
        receive.done = &Link::on_received;
        receive.room = ins.subspan(std::size_t{i} * stride, options_.message_bytes);
        receive.sge = io_->sge(receive.room);
        receive.wr.cqe = &receive;
        receive.wr.sgl = {&receive.sge, 1};
        if (i < device_.caps().max_recv_wr) NR_TRY(id_->qp()->post_recv(receive.wr));
    }
    return {};
}

// ---- messages
// -----------------------------------------------------------------------------------------------------

Result<LinkMessage*> Link::message(std::uint32_t bytes) noexcept {
    if (bytes > options_.message_bytes) return Error{Errc::too_big, 0, "message"};
    if (!connected()) return Error{Errc::reconnect, 0, "not connected"};
    if (free_.empty()) {
        room_wanted_ = true;
        return Error{Errc::again, 0, "every message is under way"};
    }
    LinkMessage& message = free_.pop_front();
    message.bytes_ = message.room_.first(bytes);
    message.sge_ = io_->sge(message.bytes_);
    message.wr_ = {};
    message.wr_.cqe = &message;
    message.wr_.signaled = true;
    message.wr_.sgl = {&message.sge_, 1};
    message.chain() = {};
    message.chain().push_back(message.wr_);
    return &message;
}

void Link::send(LinkMessage& message) noexcept {
    ++counters_.sent;
    if (message.wr_.op == verbs::SendOp::send_with_inv) ++counters_.invalidating;
    io_->post(message);
}

void Link::drop(LinkMessage& message) noexcept {
    take_home(message);
}

void Link::take_home(LinkMessage& message) noexcept {
    message.push_.reset();
    message.chain() = {};
    free_.push_back(message);
    if (std::exchange(room_wanted_, false) && connected()) handler_.on_message_room(*this);
}

void Link::on_posted(Posting& posting, Result<void> result) noexcept {
    if (result) return;
    auto& message = static_cast<LinkMessage&>(posting);
    Link& link = *message.link_;
    link.take_home(message);
    link.fail(result.error());
}

void Link::on_sent(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    auto& message = static_cast<LinkMessage&>(cqe);
    Link& link = *message.link_;
    if (wc.status != verbs::WcStatus::success)
        link.fail({Errc::reconnect, 0, verbs::to_string(wc.status)});
    link.take_home(message);
    link.io_->on_send_room();
}

void Link::on_received(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    auto& receive = static_cast<Receive&>(cqe);
    Link& link = *receive.link;
    if (wc.status != verbs::WcStatus::success) {
        // While connecting, the CM's own event says why the attempt failed.
        if (link.connected()) link.fail({Errc::reconnect, 0, verbs::to_string(wc.status)});
        return;
    }
    link.note_connected();  // the peer may be faster than the CM's last message
    if (!link.connected()) return;
    Exposure* freed = nullptr;
    if (wc.with_invalidate) {
        freed = link.io_->on_remote_invalidate(wc.invalidated);
        if (freed == nullptr)
            return link.fail({Errc::bad_message, 0, "the peer invalidated a key of none of ours"});
    }
    ++link.counters_.received;
    link.handler_.on_message(link, receive.room.first(wc.byte_len), freed);
    if (link.connected()) (void)link.id_->qp()->post_recv(receive.wr);
}

// ---- begin and end
// -----------------------------------------------------------------------------------------------------

void Link::note_connected() noexcept {
    if (state_ != State::connecting) return;
    state_ = State::connected;
    handler_.on_connected(*this);
}

void Link::on_cm_event(verbs::CmId&, const verbs::CmEvent& event) noexcept {
    switch (event.type) {
        case verbs::CmEventType::established:
            if (state_ == State::connecting || state_ == State::connected)
                io_->set_read_depth(event.initiator_depth);
            return note_connected();
        case verbs::CmEventType::rejected:
        case verbs::CmEventType::unreachable:
        case verbs::CmEventType::disconnected:
            return drain(error_of(event));
    }
}

void Link::close() noexcept {
    fail({Errc::closed, 0, "closed"});
}

void Link::fail(const Error& why) noexcept {
    if (state_ == State::connected) id_->disconnect();
    drain(why);
}

void Link::drain(const Error& why) noexcept {
    if (state_ != State::connecting && state_ != State::connected) return;
    state_ = State::draining;
    why_ = why;
    if (!id_->qp()->in_error()) id_->qp()->set_error();
    device_.loop().arm(timer_, device_.loop().now_ns());
}

void Link::on_drain(Timer& timer) noexcept {
    Link& link = *static_cast<DrainTimer&>(timer).link;
    Loop& loop = link.device_.loop();
    if (link.id_->qp()->outstanding() > 0) {
        loop.arm(timer, loop.now_ns() + kDrainPollNs);
        return;
    }
    link.state_ = State::over;
    link.io_->on_disconnect();
    // The last thing: the handler may destroy the Link.
    link.handler_.on_end(link, *link.why_);
}

}  // namespace nfsrdma::pools
