// The initiator of a block protocol straight on RDMA: block_initiator TARGET[:PORT] [DEVICE]
// Writes the whole disk from its own memory and reads it back. Exit status 0: the bytes are equal.
#include <optional>
#include <vector>

#include "block.hpp"
#include "example.hpp"

namespace {
using namespace nfsrdma;         // NOLINT(google-build-using-namespace): an example
using namespace nfsrdma::pools;  // NOLINT(google-build-using-namespace)
using block::kWrites;

class Initiator final : public LinkHandler {
  public:
    Initiator() : memory_(2 * block::kDiskBytes) {
        block::fill(std::span(memory_).first(block::kDiskBytes));
    }
    void on_connected(Link& link) noexcept override {
        link_ = &link;
        if (auto done = link.io().register_memory(memory_); !done) return link.fail(done.error());
        send_more();
    }
    void on_message(Link& link, std::span<const std::byte> bytes, Exposure*) noexcept override {
        const auto reply = block::Reply::decode(bytes);
        if (!reply || reply->error != 0 || !std::exchange(slots_.at(reply->tag).asked, false))
            return link.fail({Errc::bad_message, 0, "not the answer to a request, or an error"});
        // Nothing to do where the target has freed the key with its answer.
        link.io().fence(*slots_.at(reply->tag).key, [](Exposure& exposure, bool ok) noexcept {
            Slot& slot = *static_cast<Slot*>(exposure.user);
            if (!ok) return;  // the connection is over: on_end
            slot.key.reset();
            ++slot.owner->answered_;
            slot.owner->send_more();
        });
    }
    void on_end(Link& link, const Error& error) noexcept override {
        for (Slot& slot : slots_)
            slot.key.reset();
        (void)link.io().deregister_memory(memory_);  // nobody reaches it any more
        const auto half = memory_.begin() + block::kDiskBytes;
        equal = answered_ == 2 * kWrites && std::equal(memory_.begin(), half, half);
        const IoCounters& io = link.io().counters();
        std::printf("%llu requests, %llu keys, %llu freed by the target, %llu by us: %s\n",
                    ull(answered_), ull(io.binds), ull(io.remote_invalidations),
                    ull(io.local_invalidations), equal ? "equal" : "NOT EQUAL");
        why.emplace(error);
    }
    bool equal = false;
    std::optional<Error> why;  // it is over

  private:
    struct Slot {
        Initiator* owner = nullptr;
        Lease<Exposure> key;  // of a request in flight
        bool asked = false;   // and not answered yet
    };
    void send_more() noexcept {
        if (answered_ == 2 * kWrites) return link_->close();
        for (Slot& slot : slots_) {
            const bool all_written = sent_ < kWrites || answered_ >= kWrites;  // before it is read
            if (slot.key || sent_ == 2 * kWrites || !all_written) continue;
            if (auto sent = send(slot); !sent) return link_->fail(sent.error());
        }
    }
    Result<void> send(Slot& slot) noexcept {
        const bool write = sent_ < kWrites;
        const auto buffer = std::span(memory_).subspan(sent_ * block::kBytesMax, block::kBytesMax);
        NR_TRY_ASSIGN(LinkMessage* const message, link_->message(block::Request::kBytes));
        auto key = write ? link_->io().expose_read({&buffer, 1}, message->chain())
                         : link_->io().expose_write({&buffer, 1}, message->chain());
        if (!key) return link_->drop(*message), key.error();
        block::Request::nth(sent_++, static_cast<std::uint32_t>(&slot - slots_.data()),
                            link_->io().remote_invalidate(), (*key)->runs()[0])
            .encode(message->bytes());
        (*key)->user = &slot;
        slot = {this, *std::move(key), true};
        link_->send(*message);
        return {};
    }
    Link* link_ = nullptr;
    std::array<Slot, block::kDepth> slots_;  // by tag
    std::vector<std::byte> memory_;
    std::uint64_t sent_ = 0, answered_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    auto place = Place::open(argv[1], 20051, argc > 2 ? argv[2] : nullptr, false);
    if (!place) return failed("block_initiator TARGET[:PORT] [DEVICE]", place.error());
    Initiator initiator;
    auto link = Link::connect(*place->device.device, place->address,
                              block::link_options(block::kDepth, 0, 0), initiator);
    if (!link) return failed("connect", link.error());
    while (!initiator.why)
        (void)place->loop->run_once(kNsPerSec);
    return initiator.equal ? 0 : failed("link", *initiator.why);
}
