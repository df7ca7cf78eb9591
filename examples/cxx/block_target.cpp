// The target of a block protocol straight on RDMA: block_target ADDRESS[:PORT] [DEVICE]
// Serves one initiator from a disk in memory, until it has gone.
#include <cerrno>
#include <optional>

#include "block.hpp"
#include "example.hpp"

namespace {

using namespace nfsrdma;         // NOLINT(google-build-using-namespace): an example
using namespace nfsrdma::pools;  // NOLINT(google-build-using-namespace)

class Target final : public LinkHandler, public verbs::ListenHandler {
  public:
    explicit Target(verbs::Device& device) : device_(device) {}
    void on_connect_request(std::unique_ptr<verbs::CmId> id,
                            const verbs::ConnectRequest& request) noexcept override {
        if (link_ != nullptr) return;  // dropping the id refuses it: one initiator is enough
        // No keys: nothing of ours is exposed.
        const LinkOptions options = block::link_options(0, 2 * block::kDepth, block::kDiskBytes);
        auto made = Link::accept(device_, std::move(id), request, options, *this);
        if (!made) return void(why.emplace(made.error()));
        link_ = *std::move(made);
        disk_ = *link_->arena().carve(options.memory_bytes);
    }
    void on_message(Link& link, std::span<const std::byte> bytes, Exposure*) noexcept override {
        const auto request = block::Request::decode(bytes);
        if (!request || slots_.at(request->tag).pull)
            return link.fail({Errc::bad_message, 0, "no request, or its tag is in use"});
        Slot& slot = slots_.at(request->tag);
        slot.target = this;
        slot.request = *request;
        if (!request->fits()) return answer(slot, EINVAL);
        slot.where = disk_.subspan(request->first * block::kBlock, request->buffer.length);
        if (request->op == block::Op::read) return answer(slot, 0);  // behind what it pushes
        auto pull = link.io().pull({&request->buffer, 1}, {&slot.where, 1});
        if (!pull) return link.fail(pull.error());
        slot.pull = *std::move(pull);
        slot.pull->user = &slot;
        slot.pull->done = [](Transfer& transfer, bool ok) noexcept {
            Slot& its = *static_cast<Slot*>(transfer.user);
            its.pull.reset();
            if (ok) its.target->answer(its, 0);
        };
        link.io().post_pull(*slot.pull);
    }
    void on_end(Link& link, const Error& error) noexcept override {
        const IoCounters& io = link.io().counters();
        std::printf("%llu bytes pulled, %llu pushed, %llu answers freed a key\n",
                    ull(io.bytes_pulled), ull(io.bytes_pushed), ull(link.counters().invalidating));
        why.emplace(error);
    }
    std::optional<Error> why;  // it is over

  private:
    struct Slot {
        Target* target = nullptr;
        block::Request request;
        std::span<std::byte> where;  // in the disk
        Lease<Transfer> pull;
    };
    void answer(Slot& slot, std::uint32_t error) noexcept {
        const block::Request& request = slot.request;
        auto reply = link_->message(block::Reply::kBytes);
        if (!reply) return link_->fail(reply.error());
        block::Reply{request.tag, error}.encode((*reply)->bytes());
        if (error == 0 && request.op == block::Op::read) {
            auto push = link_->io().push({&request.buffer, 1}, {&slot.where, 1});
            if (!push) return link_->drop(**reply), link_->fail(push.error());
            (*reply)->follow(*std::move(push));
        }
        if (request.may_invalidate != 0) (*reply)->invalidate(request.buffer.handle);
        link_->send(**reply);
    }
    verbs::Device& device_;
    std::unique_ptr<Link> link_;
    std::span<std::byte> disk_;
    std::array<Slot, block::kDepth> slots_;
};

}  // namespace

int main(int argc, char** argv) {
    auto place = Place::open(argv[1], 20051, argc > 2 ? argv[2] : nullptr, true);
    if (!place) return failed("block_target ADDRESS[:PORT] [DEVICE]", place.error());
    Target target(*place->device.device);
    auto listener = place->device.device->listen(place->address, target);
    if (!listener) return failed("listen", listener.error());
    std::printf("listening on %s\n", (*listener)->local().to_string().c_str());
    (void)std::fflush(stdout);
    while (!target.why)
        (void)place->loop->run_once(kNsPerSec);
    return target.why->code == Errc::reconnect ? 0 : failed("link", *target.why);
}
