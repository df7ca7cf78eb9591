#include "sunrpc/rpcbind.hpp"

#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::sunrpc {
namespace {

TEST(RpcbindAddress, B68_OfAnAddress) {
    EXPECT_EQ(universal_address(*SockAddr::parse("127.0.0.1:20049", 0)), "127.0.0.1.78.81");
    EXPECT_EQ(universal_address(*SockAddr::parse("[::]:20049", 0)), "::.78.81");
    EXPECT_EQ(universal_address(*SockAddr::parse("[fe80::1]:255", 0)), "fe80::1.0.255");
}

TEST(RpcbindAddress, B68_BackAgain) {
    for (const char* const text : {"127.0.0.1:20049", "[::]:20049", "[fe80::1]:255", "0.0.0.0:0",
                                   "[::ffff:1.2.3.4]:65535"}) {
        const SockAddr address = *SockAddr::parse(text, 0);
        auto back = parse_universal_address(universal_address(address));
        ASSERT_TRUE(static_cast<bool>(back)) << text;
        EXPECT_EQ(*back, address) << text;
    }
    for (const char* const text :
         {"", ".", "..", "78.81", ".78.81", "1.2.3.4", "1.2.3.4.78", "1.2.3.4.78.",
          "1.2.3.4.78.256", "1.2.3.4.-1.81", "1.2.3.4:5.78.81", ":9.78.81", "[::1].78.81",
          "[::1]:9.78.81", "::1", "1.2.3.4.78.81 ", "host.78.81", "/run/rpcbind.sock"})
        EXPECT_FALSE(static_cast<bool>(parse_universal_address(text))) << text;
}

TEST(Rpcbind, B68_WithoutItNothingIsChanged) {
    auto none = change_rpcbind("/nonexistent/rpcbind.sock", RpcbindChange::set, {});
    ASSERT_FALSE(static_cast<bool>(none));
    EXPECT_EQ(none.error().code, Errc::system);
    EXPECT_EQ(none.error().sys, ENOENT);
    auto longer = change_rpcbind(std::string(300, 'x'), RpcbindChange::unset, {});
    EXPECT_EQ(longer.error().code, Errc::invalid_argument);
}

// A server of one call, which answers with what the test says: rpcbind, or something that is not.
class Peer {
  public:
    explicit Peer(std::vector<std::byte> results) : results_(std::move(results)) {
        const SockAddr any = *SockAddr::parse("127.0.0.1:0", 0);
        listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(::bind(listener_.get(), any.sa(), any.sa_len()), 0);
        EXPECT_EQ(::listen(listener_.get(), 1), 0);
        sockaddr_storage local{};
        socklen_t size = sizeof local;
        ::getsockname(listener_.get(), static_cast<sockaddr*>(static_cast<void*>(&local)), &size);
        address_ = SockAddr::from(static_cast<sockaddr*>(static_cast<void*>(&local)));
        thread_ = std::thread([this] { serve(); });
    }
    ~Peer() { thread_.join(); }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    const SockAddr& address() const { return address_; }

  private:
    void serve() {
        const UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        std::vector<std::byte> call(1024);
        if (::recv(fd.get(), call.data(), call.size(), 0) < 8) return;
        if (results_.empty()) return;
        std::vector<std::byte> reply(28);
        store_be32(reply.data(), 0x80000000u | static_cast<std::uint32_t>(24 + results_.size()));
        store_be32(reply.data() + 4, load_be32(call.data() + 4));  // XID
        store_be32(reply.data() + 8, 1);  // REPLY; then all zeroes are good
        reply.insert(reply.end(), results_.begin(), results_.end());
        std::size_t sent = 0;
        while (sent < reply.size()) {
            const ssize_t n =
                ::send(fd.get(), reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
            if (n <= 0) return;
            sent += static_cast<std::size_t>(n);
        }
        // Until the other end goes.
        while (::recv(fd.get(), call.data(), call.size(), 0) > 0) {
        }
    }
    std::vector<std::byte> results_;
    UniqueFd listener_;
    SockAddr address_;
    std::thread thread_;
};

void put(std::vector<std::byte>& out, std::uint32_t word) {
    out.resize(out.size() + 4);
    store_be32(out.data() + out.size() - 4, word);
}
void put(std::vector<std::byte>& out, std::string_view text) {
    put(out, static_cast<std::uint32_t>(text.size()));
    const std::byte* const bytes = as_bytes(text.data());
    out.insert(out.end(), bytes, bytes + text.size());
    out.resize(align_up(out.size(), 4));
}
void put_entry(std::vector<std::byte>& out, std::uint32_t prog, std::string_view netid,
               std::string_view address) {
    put(out, 1u);
    put(out, prog);
    put(out, 3u);
    put(out, netid);
    put(out, address);
    put(out, "superuser");
}

Errc failure_of(std::vector<std::byte> results) {
    const Peer peer(std::move(results));
    auto found = ask_rpcbind(peer.address(), 100003, 3, "rdma");
    EXPECT_FALSE(static_cast<bool>(found));
    return found ? Errc::again : found.error().code;
}

TEST(Rpcbind, B68_AddressByNetid) {
    std::vector<std::byte> list;
    put_entry(list, 100003, "tcp", "0.0.0.0.8.1");
    put_entry(list, 100005, "rdma", "10.0.0.1.78.82");
    put_entry(list, 100003, "rdma6", "::.78.83");
    put_entry(list, 100003, "rdma", "10.0.0.2.78.81");
    put_entry(list, 100003, "rdma", "10.0.0.3.78.81");
    put(list, 0u);
    const Peer peer(list);
    auto found = ask_rpcbind(peer.address(), 100003, 3, "rdma");
    ASSERT_TRUE(static_cast<bool>(found)) << to_string(found.error());
    EXPECT_EQ(found->to_string(), "10.0.0.2:20049");
}

TEST(Rpcbind, B68_AllAddressesAreTheServersOwn) {
    std::vector<std::byte> list;
    put_entry(list, 100003, "rdma", "0.0.0.0.78.81");
    put(list, 0u);
    const Peer peer(list);
    auto found = ask_rpcbind(peer.address(), 100003, 3, "rdma");
    ASSERT_TRUE(static_cast<bool>(found));
    EXPECT_EQ(found->to_string(), "127.0.0.1:20049");
}

TEST(Rpcbind, B68_NotRegisteredOverRdma) {
    std::vector<std::byte> list;
    put_entry(list, 100003, "tcp", "0.0.0.0.8.1");
    put(list, 0u);
    EXPECT_EQ(failure_of(list), Errc::refused);
    list.clear();
    put(list, 0u);
    EXPECT_EQ(failure_of(list), Errc::refused);
}

TEST(Rpcbind, WhatIsNoRpcbindIsAnError) {
    EXPECT_EQ(failure_of({}), Errc::system);  // it closes
    std::vector<std::byte> list;
    put(list, 1u);
    put(list, 100003u);
    put(list, 3u);
    put(list, 0x7FFFFFFFu);  // bytes of the netid
    EXPECT_EQ(failure_of(list), Errc::system);
    list.clear();
    put_entry(list, 100003, "rdma", "over there");
    put(list, 0u);
    EXPECT_EQ(failure_of(list), Errc::bad_message);
    // No end to it.
    list.clear();
    for (int i = 0; i < 70000; ++i)
        put_entry(list, 7, "tcp", "1.2.3.4.5.6");
    put(list, 0u);
    EXPECT_EQ(failure_of(list), Errc::system);
}

TEST(Rpcbind, NobodyListens) {
    UniqueFd taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const SockAddr any = *SockAddr::parse("127.0.0.1:0", 0);
    ASSERT_EQ(::bind(taken.get(), any.sa(), any.sa_len()), 0);  // and does not listen
    sockaddr_storage local{};
    socklen_t size = sizeof local;
    ::getsockname(taken.get(), static_cast<sockaddr*>(static_cast<void*>(&local)), &size);
    auto found = ask_rpcbind(SockAddr::from(static_cast<sockaddr*>(static_cast<void*>(&local))),
                             100003, 3, "rdma");
    ASSERT_FALSE(static_cast<bool>(found));
    EXPECT_EQ(found.error().sys, ECONNREFUSED);
}

}  // namespace
}  // namespace nfsrdma::sunrpc
