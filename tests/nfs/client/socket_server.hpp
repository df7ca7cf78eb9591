#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/sock_addr.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::testing {

using Bytes = std::vector<std::byte>;

// Big-endian words, one behind the other.
inline void put_word(Bytes& to, std::uint32_t word) {
    to.resize(to.size() + 4);
    store_be32(to.data() + to.size() - 4, word);
}
inline void put_string(Bytes& to, const std::string& text) {
    put_word(to, static_cast<std::uint32_t>(text.size()));
    const std::byte* const from = as_bytes(text.data());
    to.insert(to.end(), from, from + text.size());
    while (to.size() % 4 != 0)
        to.push_back(std::byte{0});
}

// One call as it came, and what is answered to it.
struct SocketCall {
    std::uint32_t xid = 0, prog = 0, vers = 0, proc = 0;
    bool tcp = false;
    std::uint16_t peer_port = 0;
    Bytes message;
};

// An RPC server at one port of TCP and UDP, whose answers a test makes: `answer` gives the bytes of
// a message (nothing: no answer). It runs on a thread of the server.
class SocketServer {
  public:
    using Answer = std::function<Bytes(const SocketCall&)>;
    explicit SocketServer(Answer answer, bool tcp = true, bool udp = true,
                          const char* address = "127.0.0.1:0")
        : answer_(std::move(answer)), stop_(::eventfd(0, EFD_CLOEXEC)) {
        local_ = *SockAddr::parse(address, 0);
        for (int tries = 0; tries < 32; ++tries) {
            tcp_ = bound(SOCK_STREAM);
            udp_ = bound(SOCK_DGRAM);
            if (tcp_ && udp_) break;
            local_ = local_.with_port(0);
        }
        EXPECT_TRUE(tcp_ && udp_);
        if (tcp) {
            EXPECT_EQ(::listen(tcp_.get(), 16), 0);
        }
        if (!udp) udp_.reset();
        thread_ = std::thread([this] { run(); });
    }
    ~SocketServer() {
        const std::uint64_t one = 1;
        EXPECT_EQ(::write(stop_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
        thread_.join();
    }
    SocketServer(const SocketServer&) = delete;
    SocketServer& operator=(const SocketServer&) = delete;
    SockAddr local() const { return local_; }

    // Accepted, success, no verifier; results follow.
    static Bytes success(const SocketCall& call) { return accepted(call, 0); }
    static Bytes accepted(const SocketCall& call, std::uint32_t stat) {
        Bytes out;
        for (const std::uint32_t word : {call.xid, 1u, 0u, 0u, 0u, stat})
            put_word(out, word);
        if (stat == 2) {
            put_word(out, 1);
            put_word(out, 1);
        }
        return out;
    }
    static Bytes denied(const SocketCall& call) {
        Bytes out;
        for (const std::uint32_t word : {call.xid, 1u, 1u, 1u, 5u})
            put_word(out, word);
        return out;
    }
    // Sent as it is on TCP, without a record mark of ours.
    std::atomic<bool> raw{false};

  private:
    // The port as accept() told it: a client that has gone already has none.
    struct Peer {
        UniqueFd fd;
        std::uint16_t port = 0;
    };

    UniqueFd bound(int type) {
        UniqueFd fd(::socket(local_.family(), type | SOCK_CLOEXEC, 0));
        if (::bind(fd.get(), local_.sa(), local_.sa_len()) != 0) return UniqueFd();
        sockaddr_storage name{};
        socklen_t size = sizeof name;
        auto* const sa = static_cast<sockaddr*>(static_cast<void*>(&name));
        EXPECT_EQ(::getsockname(fd.get(), sa, &size), 0);
        local_ = SockAddr::from(sa);
        return fd;
    }
    void run() {
        std::vector<Peer> peers;
        for (;;) {
            std::vector<pollfd> fds{{stop_.get(), POLLIN, 0},
                                    {tcp_ ? tcp_.get() : -1, POLLIN, 0},
                                    {udp_ ? udp_.get() : -1, POLLIN, 0}};
            for (const Peer& peer : peers)
                fds.push_back({peer.fd.get(), POLLIN, 0});
            if (::poll(fds.data(), fds.size(), -1) < 0) return;
            if (fds[0].revents != 0) return;
            for (std::size_t i = 0; i < peers.size(); ++i)
                if (fds[3 + i].revents != 0 && !serve_tcp(peers[i])) peers[i].fd.reset();
            if ((fds[1].revents & POLLIN) != 0) peers.push_back(accept());
            if ((fds[2].revents & POLLIN) != 0) serve_udp();
            std::erase_if(peers, [](const Peer& peer) { return !peer.fd; });
        }
    }
    SocketCall parse(Bytes message, bool tcp, std::uint16_t port) const {
        SocketCall call;
        call.tcp = tcp;
        call.peer_port = port;
        call.message = std::move(message);
        if (call.message.size() < 24) return call;
        const std::byte* const at = call.message.data();
        call.xid = load_be32(at);
        call.prog = load_be32(at + 12);
        call.vers = load_be32(at + 16);
        call.proc = load_be32(at + 20);
        return call;
    }
    Peer accept() {
        sockaddr_storage name{};
        socklen_t size = sizeof name;
        auto* const sa = static_cast<sockaddr*>(static_cast<void*>(&name));
        UniqueFd fd(::accept4(tcp_.get(), sa, &size, SOCK_CLOEXEC));
        return {std::move(fd), SockAddr::from(sa).port()};
    }
    bool serve_tcp(const Peer& peer) {
        const int fd = peer.fd.get();
        std::array<std::byte, 4> mark{};
        if (::recv(fd, mark.data(), mark.size(), MSG_WAITALL) != 4) return false;
        Bytes message(load_be32(mark.data()) & 0x7FFFFFFF);
        if (::recv(fd, message.data(), message.size(), MSG_WAITALL) !=
            static_cast<ssize_t>(message.size()))
            return false;
        const Bytes answer = answer_(parse(std::move(message), true, peer.port));
        if (answer.empty()) return false;
        Bytes out;
        if (!raw) put_word(out, static_cast<std::uint32_t>(answer.size()) | 0x80000000);
        out.insert(out.end(), answer.begin(), answer.end());
        std::size_t sent = 0;
        while (sent < out.size()) {
            const ssize_t n = ::send(fd, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
            if (n < 0) return false;
            sent += static_cast<std::size_t>(n);
        }
        return true;
    }
    void serve_udp() {
        Bytes message(65536);
        sockaddr_storage name{};
        socklen_t size = sizeof name;
        auto* const sa = static_cast<sockaddr*>(static_cast<void*>(&name));
        const ssize_t got = ::recvfrom(udp_.get(), message.data(), message.size(), 0, sa, &size);
        if (got < 0) return;
        message.resize(static_cast<std::size_t>(got));
        const Bytes answer = answer_(parse(std::move(message), false, SockAddr::from(sa).port()));
        if (!answer.empty())
            static_cast<void>(::sendto(udp_.get(), answer.data(), answer.size(), 0, sa, size));
    }

    Answer answer_;
    UniqueFd stop_, tcp_, udp_;
    SockAddr local_;
    std::thread thread_;
};

}  // namespace nfsrdma::testing
