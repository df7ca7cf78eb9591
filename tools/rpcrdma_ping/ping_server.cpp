#include "tools/rpcrdma_ping/ping_server.hpp"

#include <cstdio>
#include <cstring>

#include "base/bytes.hpp"

namespace nfsrdma::ping {

Result<std::unique_ptr<PingSession>> PingSession::create(verbs::Device& device,
                                                         std::unique_ptr<verbs::CmId> id) {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    std::unique_ptr<PingSession> session(new PingSession(device, std::move(id)));
    session->id_->set_handler(*session);
    NR_TRY(session->set_up(kSizeMax));
    verbs::ConnParams params;
    params.responder_resources = params.initiator_depth = 1;
    NR_TRY(session->id_->accept(params));
    return session;
}

void PingSession::on_step(const Advert& advert) noexcept {
    transfer_.reset();  // the WRITE of the ping before: its SEND is done
    if (advert.size == 0 || advert.size > kSizeMax) {
        return fail(Error{Errc::too_big, 0, "the client's buffer is larger than 1 MiB, or empty"});
    }
    if (has_read_) {
        write_sink(advert);
    } else {
        read_source(advert);
    }
}

void PingSession::read_source(const Advert& advert) noexcept {
    const pools::RemoteRun from{advert.key, advert.size, advert.address};
    const std::span<std::byte> to = source_.first(advert.size);
    auto transfer = io().pull({&from, 1}, {&to, 1});
    if (!transfer) return fail(transfer.error());
    size_ = advert.size;
    transfer_ = std::move(*transfer);
    transfer_->user = this;
    transfer_->done = &on_pulled;
    io().post_pull(*transfer_);
}

void PingSession::on_pulled(pools::Transfer& transfer, bool ok) noexcept {
    auto& self = *static_cast<PingSession*>(transfer.user);
    self.transfer_.reset();
    if (!ok) return;  // the connection's end is told apart
    self.has_read_ = true;
    self.begin_send({});
    self.post_send();
}

void PingSession::write_sink(const Advert& advert) noexcept {
    // rping writes its data as a string: up to and with the zero.
    const std::size_t text = ::strnlen(as_chars(source_.data()), size_);
    const std::size_t bytes = std::min<std::size_t>(text + 1, size_);
    if (advert.size < bytes) return fail(Error{Errc::too_big, 0, "the client's sink is too small"});
    const pools::RemoteRun to{advert.key, static_cast<std::uint32_t>(bytes), advert.address};
    const std::span<std::byte> from = source_.first(bytes);
    auto transfer = io().push({&to, 1}, {&from, 1});
    if (!transfer) return fail(transfer.error());
    transfer_ = std::move(*transfer);
    has_read_ = false;
    ++pings_;
    begin_send({}, transfer_.get());
    post_send();
}

Result<std::unique_ptr<PingServer>> PingServer::create(verbs::Device& device,
                                                       const SockAddr& local) {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    std::unique_ptr<PingServer> server(new PingServer(device));
    NR_TRY_ASSIGN(server->listener_, device.listen(local, *server));
    return server;
}

void PingServer::on_connect_request(std::unique_ptr<verbs::CmId> id,
                                    const verbs::ConnectRequest&) noexcept {
    if (sessions_.size() >= kSessionsMax) return;  // dropping it rejects
    auto session = PingSession::create(device_, std::move(id));
    if (session) {
        sessions_.push_back(std::move(*session));
    } else {
        (void)std::fprintf(stderr, "rpcrdma-ping: accept: %s\n",
                           to_string(session.error()).c_str());
    }
}

std::uint32_t PingServer::reap() {
    std::uint32_t gone = 0;
    for (auto at = sessions_.begin(); at != sessions_.end();) {
        PingSession& session = **at;
        if (!session.over()) {
            ++at;
            continue;
        }
        (void)std::printf("rpcrdma-ping: %s: %llu pings\n", session.peer().c_str(),
                          static_cast<unsigned long long>(session.pings()));
        if (session.failed()) {
            any_failed_ = true;
            (void)std::fprintf(stderr, "rpcrdma-ping: %s: %s\n", session.peer().c_str(),
                               to_string(*session.failed()).c_str());
        }
        at = sessions_.erase(at);
        ++gone;
    }
    return gone;
}

std::uint64_t PingServer::pings() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& session : sessions_)
        sum += session->pings();
    return sum;
}

}  // namespace nfsrdma::ping
