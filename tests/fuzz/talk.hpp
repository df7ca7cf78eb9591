#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

#include "base/bytes.hpp"
#include "tests/support/raw_peer.hpp"

// The script of a conversation: steps, each of a kind and what it needs. Any bytes are one.
namespace nfsrdma::fuzz {

enum class Step : std::uint8_t {
    send,             // length (2 bytes, modulo 4097), the message
    send_again,       // the last message
    send_invalidate,  // as send, with a key of the peer's (or none of its) invalidated
    rdma_write,       // handle (4 bytes), length (1 byte): at the address last seen
    rdma_read,        // the same
    wait,             // 1 byte: so many times 20 us
    reconnect,
    call,  // at the client: one more call begins
};
inline constexpr std::uint8_t kSteps = 8;
inline constexpr std::uint32_t kStepsMax = 32;
inline constexpr std::size_t kMessageMax = 4096;

class Script {
  public:
    explicit Script(std::span<const std::byte> input) noexcept : left_(input) {}
    bool over() const noexcept { return left_.empty() || steps_ == kStepsMax; }
    Step step() noexcept {
        ++steps_;
        return static_cast<Step>(byte() % kSteps);
    }
    std::uint8_t byte() noexcept {
        const auto one = take(1);
        return one.empty() ? std::uint8_t{0} : load_u8(one.data());
    }
    std::uint32_t word() noexcept {
        std::uint32_t value = 0;
        for (int i = 0; i < 4; ++i)
            value = value << 8 | byte();
        return value;
    }
    test::Bytes message() {
        const std::size_t length = (std::size_t{byte()} << 8 | byte()) % (kMessageMax + 1);
        const auto bytes = take(length);
        return {bytes.begin(), bytes.end()};
    }

  private:
    std::span<const std::byte> take(std::size_t bytes) noexcept {
        const auto out = left_.first(std::min(bytes, left_.size()));
        left_ = left_.subspan(out.size());
        return out;
    }
    std::span<const std::byte> left_;
    std::uint32_t steps_ = 0;
};

// Words that stand for what only the run knows.
using Meaning = std::pair<std::uint32_t, std::uint32_t>;
inline void replace_words(test::Bytes& message, std::initializer_list<Meaning> meanings) {
    for (std::size_t at = 0; at + 4 <= message.size(); at += 4) {
        for (const auto& [word, value] : meanings) {
            if (load_be32(&message[at]) == word) {
                store_be32(&message[at], value);
                break;
            }
        }
    }
}

}  // namespace nfsrdma::fuzz
