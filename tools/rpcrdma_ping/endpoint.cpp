#include "tools/rpcrdma_ping/endpoint.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace nfsrdma::ping {
namespace {

constexpr std::uint32_t kPagesPerKey = kSizeMax / pools::kPageSize + 1;

}  // namespace

void encode(const Advert& advert, std::span<std::byte, Advert::kBytes> to) noexcept {
    store_be64(to.data(), advert.address);
    store_be32(to.data() + 8, advert.key);
    store_be32(to.data() + 12, advert.size);
}

Advert decode(std::span<const std::byte, Advert::kBytes> from) noexcept {
    return {load_be64(from.data()), load_be32(from.data() + 8), load_be32(from.data() + 12)};
}

Endpoint::Endpoint(verbs::Device& device, std::unique_ptr<verbs::CmId> id) noexcept
    : id_(std::move(id)), device_(device) {}

Result<void> Endpoint::set_up(std::uint32_t data_bytes) {
    NR_TRY_ASSIGN(pd_, device_.alloc_pd());
    NR_TRY_ASSIGN(cq_, device_.create_cq(64));
    device_.loop().add(*cq_);
    const std::size_t messages = (kReceives + 1) * std::size_t{pools::kPageSize};
    const std::size_t data = align_up(std::size_t{data_bytes}, pools::kPageSize);
    NR_TRY_ASSIGN(arena_,
                  pools::Arena::create(*pd_, messages + 2 * data, pools::Registration::automatic));
    pools::IoOptions options;
    options.keys = 2;
    options.pages_per_key = kPagesPerKey;
    options.transfers = 2;
    NR_TRY_ASSIGN(io_, pools::Io::create(*pd_, *arena_, options));
    NR_TRY_ASSIGN(auto* qp, id_->create_qp(*pd_, *cq_, verbs::QpOptions{16, kReceives, 4, 1}));
    io_->set_qp(qp);
    NR_TRY_ASSIGN(source_, arena_->carve(data_bytes));
    NR_TRY_ASSIGN(sink_, arena_->carve(data_bytes));
    for (Receive& receive : receives_) {
        NR_TRY_ASSIGN(receive.memory, arena_->carve(Advert::kBytes));
        receive.endpoint = this;
        receive.done = &on_received;
        receive.sge = io_->sge(receive.memory);
        receive.wr.cqe = &receive;
        receive.wr.sgl = {&receive.sge, 1};
        NR_TRY(id_->qp()->post_recv(receive.wr));
    }
    NR_TRY_ASSIGN(send_.memory, arena_->carve(Advert::kBytes));
    send_.endpoint = posting_.endpoint = this;
    send_.done = &on_sent;
    send_.sge = io_->sge(send_.memory);
    posting_.posted = [](pools::Posting& posting, Result<void> result) noexcept {
        if (result || result.error().code == Errc::reconnect) return;
        static_cast<SendPosting&>(posting).endpoint->fail(result.error());
    };
    return {};
}

Endpoint::~Endpoint() {
    NR_ASSERT(over_);  // by finish()
    id_.reset();
    io_.reset();
    if (cq_ != nullptr) device_.loop().remove(*cq_);
}

void Endpoint::on_cm_event(verbs::CmId&, const verbs::CmEvent& event) noexcept {
    switch (event.type) {
        case verbs::CmEventType::established:
            established_ = true;
            io_->set_read_depth(event.initiator_depth);
            on_established();
            return;
        case verbs::CmEventType::rejected:
            fail(Error{Errc::refused, 0,
                       event.reason == 8 ? "nobody listens at that port" : "the peer refused"});
            return;
        case verbs::CmEventType::unreachable:
            fail(Error{Errc::timed_out, 0, "no answer"});
            return;
        case verbs::CmEventType::disconnected:
            end();
            return;
    }
}

void Endpoint::change_message(const Advert& advert) noexcept {
    encode(advert, send_.memory.first<Advert::kBytes>());
}

verbs::WrChain& Endpoint::begin_send(const Advert& advert, pools::Transfer* push) noexcept {
    NR_ASSERT(!sending_);
    change_message(advert);
    send_.wr = {};
    send_.wr.cqe = &send_;
    send_.wr.signaled = true;
    send_.wr.sgl = {&send_.sge, 1};
    posting_.chain = {};
    if (push != nullptr) pools::Io::append_to(posting_.chain, *push);
    posting_.chain.push_back(send_.wr);
    return posting_.chain;
}

void Endpoint::post_send() noexcept {
    sending_ = true;
    io_->post(posting_);
}

void Endpoint::on_sent(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    Endpoint& self = *static_cast<Send&>(cqe).endpoint;
    self.sending_ = false;
    if (wc.status != verbs::WcStatus::success) return;  // the connection's end is told apart
    self.io_->on_send_room();
    self.step_when_ready();
}

void Endpoint::on_received(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    auto& receive = static_cast<Receive&>(cqe);
    Endpoint& self = *receive.endpoint;
    if (wc.status != verbs::WcStatus::success) return;
    if (wc.byte_len != Advert::kBytes) {
        return self.fail(Error{Errc::bad_message, 0, "a message that is not 16 bytes long"});
    }
    if (self.came_) return self.fail(Error{Errc::bad_message, 0, "a message out of turn"});
    self.came_ = decode(receive.memory.first<Advert::kBytes>());
    self.post_receive(receive);
    self.step_when_ready();
}

void Endpoint::post_receive(Receive& receive) noexcept {
    auto posted = id_->qp()->post_recv(receive.wr);
    // A queue pair in error: the connection's end is told apart.
    if (!posted && posted.error().code != Errc::reconnect) fail(posted.error());
}

void Endpoint::step_when_ready() noexcept {
    if (!came_ || sending_ || over_) return;
    const Advert advert = *came_;
    came_.reset();
    on_step(advert);
}

void Endpoint::fail(const Error& error) noexcept {
    if (over_) return;
    if (!failed_) failed_ = error;
    id_->disconnect();
    if (!established_) end();  // else its event does
}

void Endpoint::end() noexcept {
    if (over_) return;
    over_ = true;
    if (id_->qp() == nullptr) return;  // never set up
    id_->qp()->set_error();
    while (cq_->poll() > 0) {
    }
    io_->on_disconnect();
    on_over();
}

}  // namespace nfsrdma::ping
