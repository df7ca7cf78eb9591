#include "tools/rpcrdma_stress/connection.hpp"

#include <utility>

namespace nfsrdma::stress {
namespace {

constexpr std::uint64_t kRetryNs = 100 * kNsPerMs;

}  // namespace

void add(xprtrdma::TransportCounters& sum, const xprtrdma::TransportCounters& part) noexcept {
    sum.calls += part.calls;
    sum.replies += part.replies;
    sum.read_chunk_calls += part.read_chunk_calls;
    sum.write_chunk_calls += part.write_chunk_calls;
    sum.reply_chunk_calls += part.reply_chunk_calls;
    sum.bad_replies += part.bad_replies;
    sum.bad_xids += part.bad_xids;
    sum.local_invalidations += part.local_invalidations;
    sum.remote_invalidations += part.remote_invalidations;
    sum.keys_bound += part.keys_bound;
    sum.abandoned += part.abandoned;
    sum.disconnects += part.disconnects;
    sum.reconnects += part.reconnects;
    sum.resends += part.resends;
    sum.short_replies += part.short_replies;
    sum.bad_versions += part.bad_versions;
    sum.err_vers += part.err_vers;
    sum.err_chunk += part.err_chunk;
    sum.bad_invalidations += part.bad_invalidations;
}

std::string bad_answers(const xprtrdma::TransportCounters& counters) {
    const std::pair<const char*, std::uint64_t> all[] = {
        {"malformed replies", counters.bad_replies},
        {"replies to no call", counters.bad_xids},
        {"messages that are too short", counters.short_replies},
        {"messages of another version", counters.bad_versions},
        {"ERR_VERS", counters.err_vers},
        {"ERR_CHUNK", counters.err_chunk},
        {"invalidations of keys that were not the call's", counters.bad_invalidations}};
    std::string text;
    for (const auto& [what, count] : all) {
        if (count == 0) continue;
        text += (text.empty() ? "" : ", ") + std::string(what) + ": " + std::to_string(count);
    }
    return text;
}

Connection::Connection(verbs::Device& device, const ConnectionOptions& options, std::uint32_t index,
                       ConnectionOwner& owner)
    : device_(device), options_(options), index_(index), owner_(owner) {
    bool truncated = false;
    sys_ = sunrpc::AuthSys::of_process(truncated);
    down_since_ns_ = device.loop().now_ns();
}

Connection::~Connection() {
    NR_ASSERT(transport_ == nullptr);
}

void Connection::open() noexcept {
    by_us_ = false;
    auto made = xprtrdma::Transport::create(device_, options_.server, options_.transport,
                                            on_connected, this);
    if (!made) {
        failed(made.error());
        return;
    }
    transport_ = *std::move(made);
    state_ = State::connecting;
    transport_->on_disconnect(on_lost, this);
}

void Connection::failed(const Error& why) noexcept {
    const std::uint64_t now = device_.loop().now_ns();
    next_try_ns_ = now + kRetryNs;
    if (now - down_since_ns_ >= options_.patience_ns && !final_) owner_.connection_lost(*this, why);
}

void Connection::on_connected(void* arg, Result<void> outcome) noexcept {
    auto& self = *static_cast<Connection*>(arg);
    if (!outcome) {
        self.state_ = State::ending;
        self.refused_ = outcome.error();
        return;
    }
    if (self.state_ != State::connecting) return;  // closed meanwhile
    self.client_ = std::make_unique<nfs::client::Client>(*self.transport_, &self.sys_);
    self.client_->timeout_ns = self.client_->jukebox_ns = self.options_.timeout_ns;
    if (self.info_) (void)self.client_->set_sizes(*self.info_);
    self.state_ = State::up;
    ++self.connects_;
    self.owner_.connection_up(self);
}

void Connection::on_lost(void* arg) noexcept {
    auto& self = *static_cast<Connection*>(arg);
    if (self.state_ == State::up) {
        self.state_ = State::ending;
        self.owner_.connection_lost(self, Error{Errc::reconnect, 0, "connection lost"});
    }
    self.down_since_ns_ = self.device_.loop().now_ns();
}

void Connection::disconnect() noexcept {
    if (state_ != State::up) return;
    state_ = State::ending;
    by_us_ = true;
    down_since_ns_ = device_.loop().now_ns();
    transport_->close();
    client_->hurry();
}

void Connection::end() noexcept {
    if (!transport_->idle() || owner_.connection_busy(*this)) return;
    owner_.connection_gone(*this);
    client_.reset();
    add(past_, transport_->counters());
    transport_.reset();
    state_ = final_ ? State::closed : State::down;
    if (refused_) failed(*std::exchange(refused_, std::nullopt));
}

void Connection::tick() noexcept {
    if (final_ && state_ == State::down) state_ = State::closed;
    if (state_ == State::down && device_.loop().now_ns() >= next_try_ns_) open();
    if (state_ == State::ending) {
        transport_->close();
        end();
    }
}

void Connection::close() noexcept {
    final_ = by_us_ = true;
    if (transport_ == nullptr) {
        state_ = State::closed;
        return;
    }
    state_ = State::ending;
    transport_->close();
    if (client_ != nullptr) client_->hurry();
}

xprtrdma::TransportCounters Connection::counters() const noexcept {
    xprtrdma::TransportCounters sum = past_;
    if (transport_ != nullptr) add(sum, transport_->counters());
    return sum;
}

void Connection::set_sizes(const FSINFO3resok& info) noexcept {
    info_ = info;
    if (client_ != nullptr) (void)client_->set_sizes(info);
}

}  // namespace nfsrdma::stress
