#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "pools/io.hpp"
#include "pools/page_list.hpp"
#include "verbs/device.hpp"

// One end of rping's protocol (rdmacm-utils): the client tells where its source lies, the server
// reads it by RDMA READ and says so; the client tells where its sink lies, the server writes there
// by RDMA WRITE and says so. Messages are 16 bytes.
//
// Operation: an Endpoint owns what one connection needs; its two kinds are the client and the
// server. A step begins when the peer's message has come and our last SEND is done, whichever is
// later.
//
// Ownership: memory is lent to the peer by an Exposure, which is fenced before the next step uses
// the memory.
//
// Errors: what breaks the protocol ends the connection; failed() says what it was.
namespace nfsrdma::ping {

inline constexpr std::uint16_t kDefaultPort = 7174;
inline constexpr std::uint32_t kDefaultSize = 64, kSizeMin = 20, kSizeMax = 1u << 20;
inline constexpr std::uint32_t kRpingSizeMax = 64 * 1024;  // of the program rping

// rping_rdma_info: three big-endian numbers.
struct Advert {
    static constexpr std::uint32_t kBytes = 16;
    std::uint64_t address = 0;
    std::uint32_t key = 0, size = 0;
};
void encode(const Advert& advert, std::span<std::byte, Advert::kBytes> to) noexcept;
Advert decode(std::span<const std::byte, Advert::kBytes> from) noexcept;

class Endpoint : public verbs::CmHandler {
  public:
    virtual ~Endpoint();
    Endpoint(const Endpoint&) = delete;
    Endpoint& operator=(const Endpoint&) = delete;

    bool established() const noexcept { return established_; }
    bool over() const noexcept { return over_; }  // disconnected, refused, unreachable
    const std::optional<Error>& failed() const noexcept { return failed_; }
    std::uint64_t pings() const noexcept { return pings_; }
    std::string peer() const { return id_->peer().to_string(); }
    void on_cm_event(verbs::CmId& id, const verbs::CmEvent& event) noexcept final;

  protected:
    // `data_bytes` of memory for the payload, carved twice.
    Endpoint(verbs::Device& device, std::unique_ptr<verbs::CmId> id) noexcept;
    Result<void> set_up(std::uint32_t data_bytes);
    virtual void on_established() noexcept {}
    virtual void on_step(
        const Advert& advert) noexcept = 0;  // a message, and our last SEND is done
    virtual void on_over() noexcept = 0;     // give everything home

    // The chain that the next post_send posts: what `push` does, if any, and a SEND of `advert`.
    // Keys may be bound in front of it, and the message may still be changed.
    verbs::WrChain& begin_send(const Advert& advert, pools::Transfer* push = nullptr) noexcept;
    void change_message(const Advert& advert) noexcept;
    void post_send() noexcept;
    void fail(const Error& error) noexcept;
    // In the destructor of our kind: everything goes home.
    void finish() noexcept { end(); }
    pools::Io& io() noexcept { return *io_; }

    std::unique_ptr<verbs::CmId> id_;
    std::span<std::byte> source_, sink_;
    std::uint64_t pings_ = 0;

  private:
    struct Receive : verbs::Cqe {
        Endpoint* endpoint = nullptr;
        std::span<std::byte> memory;
        verbs::RecvWr wr;
        verbs::Sge sge;
    };
    struct Send : verbs::Cqe {
        Endpoint* endpoint = nullptr;
        std::span<std::byte> memory;
        verbs::SendWr wr;
        verbs::Sge sge;
    };
    struct SendPosting : pools::Posting {
        Endpoint* endpoint = nullptr;
    };
    static void on_received(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    static void on_sent(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    void post_receive(Receive& receive) noexcept;
    void step_when_ready() noexcept;
    void end() noexcept;

    static constexpr std::uint32_t kReceives = 4;
    verbs::Device& device_;
    std::unique_ptr<verbs::ProtectionDomain> pd_;
    std::unique_ptr<verbs::CompletionQueue> cq_;
    std::unique_ptr<pools::Arena> arena_;
    std::unique_ptr<pools::Io> io_;
    std::array<Receive, kReceives> receives_;
    Send send_;
    SendPosting posting_;
    bool sending_ = false, established_ = false, over_ = false;
    std::optional<Advert> came_;
    std::optional<Error> failed_;
};

}  // namespace nfsrdma::ping
