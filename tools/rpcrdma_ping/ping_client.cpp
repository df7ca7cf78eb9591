#include "tools/rpcrdma_ping/ping_client.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "base/bytes.hpp"

namespace nfsrdma::ping {

Result<std::unique_ptr<PingClient>> PingClient::create(verbs::Device& device, const SockAddr& peer,
                                                       const ClientOptions& options) {
    class Nobody final : public verbs::CmHandler {
        void on_cm_event(verbs::CmId&, const verbs::CmEvent&) noexcept override {}
    } nobody;  // until the client is there
    NR_TRY_ASSIGN(auto id, device.create_id(nobody));
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    std::unique_ptr<PingClient> client(new PingClient(device, std::move(id), options));
    client->id_->set_handler(*client);
    NR_TRY(client->set_up(options.size));
    verbs::ConnParams params;
    params.responder_resources = params.initiator_depth = 1;
    NR_TRY(client->id_->connect(peer, params));
    return client;
}

PingClient::PingClient(verbs::Device& device, std::unique_ptr<verbs::CmId> id,
                       const ClientOptions& options) noexcept
    : Endpoint(device, std::move(id)), options_(options), loop_(device.loop()), pause_(*this) {}

void PingClient::stop() noexcept {
    stopped_ = true;
    if (pause_.armed() || !established()) id_->disconnect();
}

// As rping makes it: a heading, then letters that begin one further each time, and a zero at the
// end.
void PingClient::fill_source() noexcept {
    char* text = as_chars(source_.data());
    const int heading = std::snprintf(text, source_.size(),
                                      "rdma-ping-%llu: ", static_cast<unsigned long long>(pings_));
    std::uint32_t letter = first_char_;
    for (std::size_t i = static_cast<std::size_t>(heading); i < source_.size(); ++i) {
        text[i] = static_cast<char>(letter);
        letter = letter == 'z' ? 'A' : letter + 1;
    }
    first_char_ = first_char_ == 'z' ? 'A' : first_char_ + 1;
    text[source_.size() - 1] = '\0';
}

void PingClient::begin_ping() noexcept {
    if (over()) return;
    fill_source();
    std::fill(sink_.begin(), sink_.end(), std::byte{0});
    started_ns_ = loop_.now_ns();
    sink_told_ = false;
    advertise(source_, false);
}

void PingClient::advertise(std::span<std::byte> memory, bool for_write) noexcept {
    verbs::WrChain& chain = begin_send({});
    const std::span<std::byte> run = memory;
    auto exposed =
        for_write ? io().expose_write({&run, 1}, chain) : io().expose_read({&run, 1}, chain);
    if (!exposed) return fail(exposed.error());
    exposure_ = std::move(*exposed);
    exposure_->user = this;
    const pools::RemoteRun& remote = exposure_->runs().front();
    change_message({remote.offset, remote.handle, remote.length});
    post_send();
}

void PingClient::on_step(const Advert&) noexcept {
    if (!exposure_) return fail(Error{Errc::bad_message, 0, "a message out of turn"});
    io().fence(*exposure_, &on_fenced);
}

void PingClient::on_fenced(pools::Exposure& exposure, bool ok) noexcept {
    auto& self = *static_cast<PingClient*>(exposure.user);
    self.exposure_.reset();
    if (!ok || self.over()) return;
    if (!self.sink_told_) {
        self.sink_told_ = true;
        return self.advertise(self.sink_, true);
    }
    self.end_ping();
}

void PingClient::end_ping() noexcept {
    const std::uint64_t took = loop_.now_ns() - started_ns_;
    ++pings_;
    ++trips_.count;
    trips_.sum_ns += took;
    trips_.min_ns = trips_.count == 1 ? took : std::min(trips_.min_ns, took);
    trips_.max_ns = std::max(trips_.max_ns, took);
    if (!std::equal(source_.begin(), source_.end(), sink_.begin())) {
        return fail(Error{Errc::bad_message, 0, "the data came back changed"});
    }
    if (options_.verbose) (void)std::printf("ping data: %s\n", as_chars(sink_.data()));
    if (stopped_ || pings_ == options_.count) return id_->disconnect();
    if (options_.interval_ns == 0) return begin_ping();
    loop_.arm(pause_, loop_.now_ns() + options_.interval_ns);
}

}  // namespace nfsrdma::ping
