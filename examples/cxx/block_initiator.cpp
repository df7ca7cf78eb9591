// The initiator of a block protocol straight on RDMA: block_initiator TARGET[:PORT] [DEVICE]
// Writes the whole disk from its own memory and reads it back into other memory of its own. Exit
// status 0: the bytes are equal, and it took one key a request.
#include <optional>
#include <vector>

#include "block.hpp"
#include "example.hpp"

namespace {

using namespace nfsrdma;         // NOLINT(google-build-using-namespace): an example
using namespace nfsrdma::pools;  // NOLINT(google-build-using-namespace)

constexpr std::uint32_t kBytes = block::kBlocksMax * block::kBlock;        // of a request
constexpr std::uint64_t kWrites = block::kDiskBlocks / block::kBlocksMax;  // and as many READs

class Initiator final : public LinkHandler {
  public:
    Initiator() : out(block::kDiskBlocks * block::kBlock), in(out.size()) {
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = static_cast<std::byte>(i * 31 + (i >> 12) * 7);
    }
    void on_connected(Link& link) noexcept override {
        link_ = &link;
        for (auto* memory : {&out, &in}) {
            if (auto done = link.io().register_memory(*memory); !done)
                return link.fail(done.error());
        }
        send_more();
    }
    // The target has freed the key with its answer; where it has not, fence() does.
    void on_message(Link& link, std::span<const std::byte> bytes, Exposure*) noexcept override {
        const bool sound = bytes.size() == block::kReplyBytes && load_be32(bytes.data() + 4) == 0;
        const std::uint32_t tag = sound ? load_be32(bytes.data()) : block::kDepth;
        if (tag >= block::kDepth || !keys_.at(tag))
            return link.fail({Errc::bad_message, 0, "not the answer to a request, or an error"});
        keys_.at(tag)->user = this;
        link.io().fence(*keys_.at(tag), [](Exposure& exposure, bool ok) noexcept {
            auto& self = *static_cast<Initiator*>(exposure.user);
            if (!ok) return;  // the connection is over: on_end
            for (Lease<Exposure>& key : self.keys_) {
                if (key.get() == &exposure) key.reset();
            }
            ++self.answered;
            self.send_more();
        });
    }
    void on_end(Link& link, const Error& error) noexcept override {
        for (Lease<Exposure>& key : keys_)
            key.reset();
        io = link.io().counters();
        for (auto* memory : {&out, &in})
            (void)link.io().deregister_memory(*memory);
        why.emplace(error);
    }
    std::vector<std::byte> out, in;
    std::uint64_t answered = 0;
    IoCounters io;
    std::optional<Error> why;  // it is over

  private:
    void send_more() noexcept {
        if (answered == 2 * kWrites) return link_->close();
        for (std::uint32_t tag = 0; tag < block::kDepth && sent_ < 2 * kWrites; ++tag) {
            if (sent_ == kWrites && answered < kWrites) return;  // all is written before it is read
            if (keys_.at(tag)) continue;
            if (auto sent = send(tag); !sent) return link_->fail(sent.error());
            ++sent_;
        }
    }
    Result<void> send(std::uint32_t tag) noexcept {
        const block::Op op = sent_ < kWrites ? block::Op::write : block::Op::read;
        const std::uint64_t at = sent_ % kWrites;
        const bool write = op == block::Op::write;
        const std::span<std::byte> buffer =
            std::span(write ? out : in).subspan(at * kBytes, kBytes);
        NR_TRY_ASSIGN(LinkMessage* const message, link_->message(block::Request::kBytes));
        auto key = write ? link_->io().expose_read({&buffer, 1}, message->chain())
                         : link_->io().expose_write({&buffer, 1}, message->chain());
        if (!key) return link_->drop(*message), key.error();
        keys_.at(tag) = *std::move(key);
        const block::Request request{tag,
                                     op,
                                     at * block::kBlocksMax,
                                     block::kBlocksMax,
                                     link_->io().remote_invalidate() ? 1u : 0u,
                                     keys_.at(tag)->runs()[0]};
        request.encode(message->bytes());
        link_->send(*message);
        return {};
    }
    Link* link_ = nullptr;
    std::array<Lease<Exposure>, block::kDepth> keys_;  // by tag, of the requests in flight
    std::uint64_t sent_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
    auto place = Place::open(argv[1], 20051, argc > 2 ? argv[2] : nullptr, false);
    if (!place) return failed("block_initiator TARGET[:PORT] [DEVICE]", place.error());
    LinkOptions options;
    options.message_bytes = block::Request::kBytes;
    options.io.keys = block::kDepth;
    options.io.pages_per_key = kBytes / kPageSize + 1;
    Initiator initiator;
    auto link = Link::connect(*place->device.device, place->address, options, initiator);
    if (!link) return failed("connect", link.error());
    while (!initiator.why)
        (void)place->loop->run_once(kNsPerSec);
    if (initiator.answered < 2 * kWrites) return failed("link", *initiator.why);
    const IoCounters& io = initiator.io;
    const bool equal = initiator.in == initiator.out;
    std::printf("%s: %llu requests, %llu keys, %llu freed by the target, %llu by us\n",
                equal ? "equal" : "NOT EQUAL", ull(initiator.answered), ull(io.binds),
                ull(io.remote_invalidations), ull(io.local_invalidations));
    return equal && io.binds == initiator.answered ? 0 : 1;
}
