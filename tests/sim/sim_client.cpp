#include "tests/sim/sim_client.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace nfsrdma::test {
namespace {

constexpr std::uint64_t kTickNs = 200 * kNsPerUs;

}  // namespace

SimClient::SimClient(verbs::Device& device, const SockAddr& server, TraceRing& trace,
                     const Options& options)
    : device_(device),
      server_(server),
      trace_(trace),
      options_(options),
      prng_(options.seed),
      tick_([](Timer& timer) noexcept { static_cast<Tick&>(timer).client->on_tick(); }) {
    tick_.client = this;
    options_.transport.trace = &trace_;
}

SimClient::~SimClient() {
    EXPECT_TRUE(pending_.empty());
}

void SimClient::start() {
    connect();
    device_.loop().arm(tick_, device_.loop().now_ns() + kTickNs);
}

void SimClient::connect() {
    ++books_.connections;
    options_.transport.trace_connection = 100 + books_.connections;
    auto made = xprtrdma::Transport::create(
        device_, server_, options_.transport,
        [](void* arg, Result<void> result) noexcept {
            auto& self = *static_cast<SimClient*>(arg);
            if (result) return self.pump();
            ++self.books_.refused;
            self.reconnect_ = true;
        },
        this);
    ASSERT_TRUE(static_cast<bool>(made));
    transport_ = *std::move(made);
    transport_->on_slot([](void* arg) noexcept { static_cast<SimClient*>(arg)->pump(); }, this);
    transport_->on_disconnect(
        [](void* arg) noexcept {
            static_cast<SimClient*>(arg)->drop_next();
            static_cast<SimClient*>(arg)->reconnect_ = true;
        },
        this);
}

void SimClient::kill() {
    if (transport_ == nullptr) return;
    drop_next();
    transport_->close();
    reconnect_ = true;
}

void SimClient::drop_next() {
    next_.reset();
    next_payload_.reset();
    next_room_.reset();
}

void SimClient::finish() {
    finishing_ = true;
    drop_next();
    if (transport_ != nullptr) transport_->close();
}

// Small and large, all forms of calls, with edges near the inline sizes.
SimCall SimClient::next_call() {
    SimCall call;
    call.xid = next_xid_++;
    call.seed = static_cast<std::uint32_t>(prng_.next());
    const auto some = [&](std::uint32_t most) {
        switch (prng_.below(4)) {
            case 0:
                return static_cast<std::uint32_t>(prng_.below(64));
            case 1:
                return std::min(most, static_cast<std::uint32_t>(prng_.below(5000)));
            case 2:
                return most;
            default:
                return static_cast<std::uint32_t>(prng_.below(most + 1));
        }
    };
    const std::uint64_t form = prng_.below(10);
    const std::uint32_t message_room = options_.message_max - SimCall::kHead - 256;
    if (form <= 2) call.result = some(options_.payload_max);
    if (form >= 2 && form <= 4) call.payload = some(options_.payload_max);
    if (form == 5 || form == 6) call.extra = align_down(some(message_room), 4u);
    if (form == 6 || form == 7) call.filler = align_down(some(message_room), 4u);
    if (form == 7) call.payload = some(options_.payload_max);
    if (form == 8) {
        call.result = some(options_.payload_max);
        call.extra = align_down(some(message_room), 4u);
    }
    if (prng_.below(4) == 0) call.tail = static_cast<std::uint32_t>(4 * prng_.below(50));
    return call;
}

void SimClient::pump() {
    if (pumping_ || finishing_ || reconnect_) return;
    pumping_ = true;
    while (books_.made - books_.reconnect - books_.closed < options_.calls &&
           pending_.size() < options_.window && transport_->connected() && make_one()) {
    }
    pumping_ = false;
}

// False: told `again`, or not connected.
bool SimClient::make_one() {
    if (!next_) next_ = next_call();
    const std::pair<std::uint32_t, sunrpc::Payload&> wanted[] = {{next_->payload, next_payload_},
                                                                 {next_->result, next_room_}};
    for (const auto& [bytes, into] : wanted) {
        if (bytes == 0 || into) continue;
        auto memory = transport_->get_payload(bytes);
        if (!memory) {
            EXPECT_EQ(memory.error().code, Errc::again);
            return false;
        }
        into = *std::move(memory);
    }
    auto got = transport_->get_rqst(next_->head_size() + next_->tail);
    if (!got) return false;
    sunrpc::Rqst& rqst = **got;
    pending_.emplace_back();
    Pending& pending = pending_.back();
    pending.self = std::prev(pending_.end());
    pending.client = this;
    pending.call = *next_;
    pending.rqst = &rqst;
    pending.payload = std::move(next_payload_);
    pending.room = std::move(next_room_);
    pending.made_ns = device_.loop().now_ns();
    next_.reset();
    ++books_.made;
    const SimCall& call = pending.call;
    const Bytes head = Words().bytes(call.head_words().take()).bytes(call.filler_bytes()).take();
    const Bytes tail = call.tail_bytes(), data = call.payload_bytes();
    std::copy(head.begin(), head.end(), rqst.head_room.begin());
    std::copy(tail.begin(), tail.end(),
              rqst.head_room.begin() + static_cast<std::ptrdiff_t>(head.size()));
    std::copy(data.begin(), data.end(), pending.payload.memory().begin());
    std::fill(pending.room.memory().begin(), pending.room.memory().end(), std::byte{0xEE});
    rqst.xid = call.xid;
    rqst.call.head = rqst.head_room.first(head.size());
    rqst.call.tail = rqst.head_room.subspan(head.size(), tail.size());
    rqst.call.payload = pending.payload.memory();
    rqst.result_room = pending.room.memory();
    rqst.reply_max = call.reply_max();
    rqst.user = &pending;
    rqst.complete = [](sunrpc::Rqst& r, Result<void> result) noexcept {
        auto& answered = *static_cast<Pending*>(r.user);
        answered.client->on_answer(answered, result);
    };
    const Result<void> sent = transport_->send(rqst);
    EXPECT_TRUE(static_cast<bool>(sent)) << (sent ? "" : to_string(sent.error()));
    return static_cast<bool>(sent);
}

bool SimClient::is_right(const Pending& pending) const {
    const SimCall& call = pending.call;
    const sunrpc::XdrBuf& reply = pending.rqst->reply;
    const Bytes head(reply.head.begin(), reply.head.end());
    if (reply.payload.empty()) return head == call.reply(false);
    const Bytes placed(reply.payload.begin(), reply.payload.end());
    return head == call.reply(true) && placed == call.result_bytes();
}

void SimClient::on_answer(Pending& pending, Result<void> result) {
    if (std::exchange(pending.answered, true)) {
        ++books_.twice;
        return;
    }
    if (result) {
        ++(is_right(pending) ? books_.right : books_.wrong);
    } else if (result.error().code == Errc::reconnect) {
        ++books_.reconnect;
    } else if (result.error().code == Errc::closed) {
        ++books_.closed;
    } else {
        EXPECT_EQ(result.error().code, Errc::bad_message);
        ++books_.bad_message;
    }
    forget(pending);
    pump();
}

void SimClient::forget(Pending& pending) {
    transport_->put_rqst(*pending.rqst);
    pending_.erase(pending.self);
}

// Impatience, and the next connection.
void SimClient::on_tick() {
    Loop& loop = device_.loop();
    if (finishing_ && idle()) {
        transport_.reset();
        return;
    }
    loop.arm(tick_, loop.now_ns() + kTickNs);
    for (auto it = pending_.begin(); it != pending_.end();) {
        Pending& pending = *it++;
        const bool late =
            options_.patience_ns > 0 && loop.now_ns() - pending.made_ns > options_.patience_ns;
        if (!late && !prng_.chance_ppm(options_.abandon_ppm)) continue;
        ++books_.abandoned;
        forget(pending);
    }
    if (reconnect_ && !finishing_ && idle()) {
        EXPECT_TRUE(pending_.empty());
        transport_.reset();
        reconnect_ = false;
        connect();
    }
    pump();
}

}  // namespace nfsrdma::test
