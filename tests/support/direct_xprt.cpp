#include "tests/support/direct_xprt.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.hpp"

namespace nfsrdma::testing {
namespace {

constexpr std::size_t kPage = 4096;

std::span<std::byte> page_aligned(std::vector<std::byte>& memory) {
    const std::uint64_t begin = align_up(address_of(memory.data()), kPage);
    return {bytes_at(begin),
            memory.size() - static_cast<std::size_t>(begin - address_of(memory.data()))};
}

std::byte* append(std::byte* at, std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
    return at + bytes.size();
}

// head, payload, pad and tail in one piece, without allocating when `out` has been that large
// before.
void flatten(const sunrpc::XdrBuf& buf, bool with_payload, std::vector<std::byte>& out) {
    const std::size_t payload = with_payload ? buf.payload.size() : 0;
    const std::size_t pad = with_payload ? buf.pad() : 0;
    out.assign(buf.head.size() + payload + pad + buf.tail.size(), std::byte{0});
    std::byte* at = append(out.data(), buf.head);
    if (with_payload) at = append(at, buf.payload) + pad;
    append(at, buf.tail);
}

struct EventTimer final : Timer {
    EventTimer(Fire fire_at, void* its_owner) noexcept : Timer(fire_at), owner(its_owner) {}
    void* owner;
};

}  // namespace

std::uint32_t RawReply::word(std::size_t index) const {
    NR_ASSERT(message.size() >= 4 * (index + 1));
    return load_be32(message.data() + 4 * index);
}

struct DirectXprt::Slot {
    enum class State : std::uint8_t { free, taken, calling, at_server, replying, done };
    explicit Slot(DirectXprt& its_xprt)
        : xprt(its_xprt),
          timer(
              [](Timer& t) noexcept {
                  Slot& self = *static_cast<Slot*>(static_cast<EventTimer&>(t).owner);
                  if (self.state == State::calling) {
                      self.xprt.deliver_call(self);
                  } else {
                      self.xprt.deliver_reply(self);
                  }
              },
              this) {}
    DirectXprt& xprt;
    State state = State::free;
    bool abandoned = false;
    sunrpc::Rqst rqst;
    std::vector<std::byte> head_room;
    std::vector<std::byte> reply;
    std::uint32_t placed = 0;
    Result<void> outcome;
    DirectSvcXprt::Request* request = nullptr;  // at_server
    EventTimer timer;
};

struct DirectSvcXprt::Request {
    sunrpc::SvcRqst rqst;
    bool used = false, waits_for_payload = false;
    DirectXprt::Slot* slot = nullptr;  // nullptr: raw, or its client has given up
    RawReply* raw = nullptr;
    std::vector<std::byte> message, chunk_memory, result_memory, res_room, scratch_memory;
    std::span<std::byte> chunk, result;
};

DirectXprt::DirectXprt(Loop& loop, sunrpc::Service& service, const DirectOptions& options)
    : loop_(loop),
      options_(options),
      limits_{options.max_payload, options.max_message, options.slots},
      arena_(std::size_t{options.client_payload_runs} * options.max_payload + kPage),
      runs_(page_aligned(arena_)),
      run_used_(options.client_payload_runs, 0) {
    for (std::uint32_t i = 0; i < options.slots; ++i) {
        Slot& slot = *slots_.emplace_back(std::make_unique<Slot>(*this));
        slot.head_room.resize(options.max_message);
        slot.reply.reserve(options.max_message + options.max_payload);
    }
    server_ = std::make_unique<DirectSvcXprt>(*this, service);
}

DirectXprt::~DirectXprt() {
    if (wake_task_.linked()) loop_.cancel(wake_task_);
    NR_ASSERT(payloads_in_use() == 0);
    server_.reset();
}

DirectXprt::Slot& DirectXprt::slot_of(sunrpc::Rqst& rqst) noexcept {
    for (auto& slot : slots_) {
        if (&slot->rqst == &rqst) return *slot;
    }
    assert_failed("a slot of this transport", __FILE__, __LINE__);
}

Result<sunrpc::Rqst*> DirectXprt::get_rqst(std::uint32_t call_max) noexcept {
    if (closed_) return Error{Errc::closed, 0, "direct transport"};
    if (!connected_) return Error{Errc::reconnect, 0, "direct transport"};
    if (call_max > options_.max_message) return Error{Errc::too_big, 0, "direct transport"};
    if (interrupted_) {
        somebody_waits_ = true;
        return Error{Errc::again, 0, "direct transport"};
    }
    for (auto& slot : slots_) {
        if (slot->state != Slot::State::free) continue;
        slot->state = Slot::State::taken;
        slot->abandoned = false;
        slot->outcome = Result<void>{};
        sunrpc::Rqst& rqst = slot->rqst;
        rqst.head_room = slot->head_room;
        rqst.call = rqst.reply = sunrpc::XdrBuf{};
        rqst.result_room = {};
        rqst.resends = 0;
        rqst.complete = nullptr;
        return &rqst;
    }
    somebody_waits_ = true;
    return Error{Errc::again, 0, "direct transport"};
}

void DirectXprt::put_rqst(sunrpc::Rqst& rqst) noexcept {
    Slot& slot = slot_of(rqst);
    NR_ASSERT(slot.state != Slot::State::free && !slot.abandoned);
    if (slot.state == Slot::State::taken || slot.state == Slot::State::done) {
        free_slot(slot);
        return;
    }
    ++counters_.abandoned;
    slot.abandoned = true;
}

void DirectXprt::free_slot(Slot& slot) noexcept {
    loop_.disarm(slot.timer);
    slot.state = Slot::State::free;
    notify();
}

void DirectXprt::notify() noexcept {
    if (!std::exchange(somebody_waits_, false) || wake_ == nullptr) return;
    if (!options_.wakes_later) return wake_(wake_arg_);
    if (!wake_task_.linked()) loop_.ready(wake_task_);
}

void DirectXprt::on_slot(void (*wake)(void*) noexcept, void* arg) noexcept {
    wake_ = wake;
    wake_arg_ = arg;
}

Result<sunrpc::Payload> DirectXprt::get_payload(std::uint32_t bytes) noexcept {
    if (bytes > options_.max_payload) return Error{Errc::too_big, 0, "direct payload"};
    for (std::size_t i = 0; i < run_used_.size(); ++i) {
        if (run_used_[i] != 0) continue;
        run_used_[i] = 1;
        return sunrpc::Payload(*this, &run_used_[i],
                               runs_.subspan(i * options_.max_payload, bytes));
    }
    somebody_waits_ = true;
    return Error{Errc::again, 0, "direct payload"};
}

void DirectXprt::release_payload(void* cookie) noexcept {
    char& used = *static_cast<char*>(cookie);
    NR_ASSERT(used == 1);
    used = 0;
    notify();
}

std::uint32_t DirectXprt::slots_in_use() const noexcept {
    return static_cast<std::uint32_t>(std::count_if(
        slots_.begin(), slots_.end(), [](const auto& s) { return s->state != Slot::State::free; }));
}
std::uint32_t DirectXprt::payloads_in_use() const noexcept {
    return static_cast<std::uint32_t>(std::count(run_used_.begin(), run_used_.end(), 1));
}

Result<void> DirectXprt::register_memory(std::span<std::byte> memory) {
    if (refuse_memory) return Error{Errc::system, 0, "register"};
    registered.push_back(memory);
    return {};
}

Result<void> DirectXprt::deregister_memory(std::span<std::byte> memory) noexcept {
    const auto at = std::find_if(registered.begin(), registered.end(),
                                 [&](const auto& run) { return run.data() == memory.data(); });
    if (at == registered.end()) return Error{Errc::invalid_argument, 0, "not registered"};
    if (memory_in_use) return Error{Errc::again, 0, "in use"};
    registered.erase(at);
    return {};
}

Result<void> DirectXprt::check_given_up(const sunrpc::Rqst& rqst) noexcept {
    if (given_up.empty() || rqst.result_room.data() != given_up.data()) return {};
    return Error{Errc::invalid_argument, 0, "given up"};
}

bool DirectXprt::owns(std::span<const std::byte> payload) const noexcept {
    const std::uint64_t offset = address_of(payload.data()) - address_of(runs_.data());
    return offset < runs_.size() && payload.size() <= runs_.size() - offset;
}

Result<void> DirectXprt::send(sunrpc::Rqst& rqst) noexcept {
    Slot& slot = slot_of(rqst);
    NR_ASSERT(slot.state == Slot::State::taken && rqst.complete != nullptr);
    if (!connected_) return Error{Errc::reconnect, 0, "direct transport"};
    for (const std::span<std::byte> memory : {rqst.call.payload, rqst.result_room}) {
        const auto holds = [&](const std::span<std::byte> run) {
            const std::uint64_t offset = address_of(memory.data()) - address_of(run.data());
            return offset < run.size() && memory.size() <= run.size() - offset;
        };
        if (!memory.empty() && !holds(runs_) &&
            std::none_of(registered.begin(), registered.end(), holds)) {
            return Error{Errc::invalid_argument, 0, "a payload that is not this transport's"};
        }
    }
    ++counters_.calls;
    counters_.in_flight_max = std::max(counters_.in_flight_max, slots_in_use());
    slot.state = Slot::State::calling;
    const Fate fate = call_fate ? call_fate(rqst.xid) : Fate{};
    if (!fate.lost && !interrupted_)
        loop_.arm(slot.timer, loop_.now_ns() + options_.latency_ns + fate.delay_ns);
    return {};
}

void DirectXprt::deliver_call(Slot& slot) noexcept {
    DirectSvcXprt::Request* const request = server_->get_request();
    if (request == nullptr) {  // a real transport's credits do not let this happen
        loop_.arm(slot.timer, loop_.now_ns() + kNsPerUs);
        return;
    }
    slot.state = Slot::State::at_server;
    slot.request = request;
    request->slot = &slot;
    const sunrpc::XdrBuf& call = slot.rqst.call;
    const bool by_chunk = !call.payload.empty() && slot.rqst.ddp_allowed &&
                          call.payload.size() >= options_.arg_chunk_min;
    flatten(call, !by_chunk, request->message);
    sunrpc::SvcRqst& rqst = request->rqst;
    rqst.arg = sunrpc::XdrBuf{};
    rqst.arg.head = request->message;
    if (by_chunk) {
        ++counters_.chunked_args;
        const std::size_t size = call.payload.size() + (options_.pad_in_chunk ? call.pad() : 0);
        append(request->chunk.data(), call.payload);
        rqst.arg.head = std::span(request->message).first(call.head.size());
        rqst.arg.tail = std::span(request->message).subspan(call.head.size());
        rqst.arg.payload = request->chunk.first(size);
    }
    rqst.payload_position = static_cast<std::uint32_t>(call.head.size());
    rqst.result_room = static_cast<std::uint32_t>(slot.rqst.result_room.size());
    server_->service_.dispatch(rqst);
}

void DirectXprt::take_reply(Slot& slot, sunrpc::SvcRqst& rqst) noexcept {
    slot.request = nullptr;
    const sunrpc::XdrBuf& res = rqst.res;
    const bool placed = !res.payload.empty() && rqst.result_is_ddp && rqst.result_room > 0 &&
                        res.payload.size() >= options_.result_chunk_min;
    slot.placed = 0;
    flatten(res, !placed, slot.reply);
    const std::size_t limit = slot.rqst.reply_max + slot.rqst.result_room.size() + 3;
    if (res.head.size() + res.tail.size() > slot.rqst.reply_max || slot.reply.size() > limit) {
        ++counters_.over_reply_max;
        slot.outcome = Error{Errc::bad_message, 0, "reply larger than announced"};
    } else if (placed && res.payload.size() > slot.rqst.result_room.size()) {
        slot.outcome = Error{Errc::bad_message, 0, "ERR_CHUNK"};
    } else if (placed) {
        ++counters_.placed_results;
        slot.placed = static_cast<std::uint32_t>(res.payload.size());
        if (!slot.abandoned) append(slot.rqst.result_room.data(), res.payload);
    }
    replying_proc_ = load_be32(slot.rqst.call.head.data() + 20);
    if (tamper) tamper(slot.reply, slot.placed);
    slot.state = Slot::State::replying;
    const Fate fate = reply_fate ? reply_fate(slot.rqst.xid) : Fate{};
    if (!fate.lost) loop_.arm(slot.timer, loop_.now_ns() + options_.latency_ns + fate.delay_ns);
}

void DirectXprt::deliver_reply(Slot& slot) noexcept {
    ++counters_.replies;
    slot.state = Slot::State::done;
    if (slot.abandoned) {
        free_slot(slot);
        return;
    }
    sunrpc::Rqst& rqst = slot.rqst;
    rqst.reply = sunrpc::XdrBuf{};
    rqst.reply.head = slot.reply;
    rqst.reply.payload = rqst.result_room.first(slot.placed);
    rqst.complete(rqst, slot.outcome);
}

void DirectXprt::lose(Slot& slot) noexcept {
    loop_.disarm(slot.timer);
    if (slot.request != nullptr) std::exchange(slot.request, nullptr)->slot = nullptr;
}

void DirectXprt::interrupt() noexcept {
    interrupted_ = true;
    for (auto& slot : slots_) {
        if (slot->state < Slot::State::calling || slot->state == Slot::State::done) continue;
        lose(*slot);
        if (slot->abandoned) {
            free_slot(*slot);
            continue;
        }
        ++slot->rqst.resends;
        slot->outcome = Result<void>{};
        slot->state = Slot::State::calling;
    }
}

void DirectXprt::recover() noexcept {
    if (!interrupted_) interrupt();
    interrupted_ = false;
    for (auto& slot : slots_) {
        if (slot->state == Slot::State::calling)
            loop_.arm(slot->timer, loop_.now_ns() + options_.latency_ns);
    }
    notify();
}

void DirectXprt::fail_all(const Error& error) noexcept {
    connected_ = false;
    for (auto& slot : slots_) {
        if (slot->state < Slot::State::calling || slot->state == Slot::State::done) continue;
        lose(*slot);
        slot->state = Slot::State::done;
        if (slot->abandoned) {
            free_slot(*slot);
        } else {
            slot->rqst.complete(slot->rqst, error);
        }
    }
}

void DirectXprt::close() noexcept {
    closed_ = true;
    fail_all(Error{Errc::closed, 0, "direct transport"});
}

DirectSvcXprt::DirectSvcXprt(DirectXprt& client, sunrpc::Service& service)
    : client_(client), service_(service), peer_(SockAddr::v4(0x7f000001, 1023)) {
    const DirectOptions& options = client.options_;
    for (std::uint32_t i = 0; i < options.requests; ++i) {
        Request& request = *requests_.emplace_back(std::make_unique<Request>());
        request.message.reserve(options.max_message + options.max_payload);
        request.chunk_memory.resize(options.max_payload + 2 * kPage);
        request.chunk = page_aligned(request.chunk_memory);
        request.result_memory.resize(options.max_payload + 2 * kPage);
        request.result = page_aligned(request.result_memory);
        request.res_room.resize(options.max_message);
        request.scratch_memory.resize(service.scratch_bytes() + kPage);
        request.rqst.xprt = this;
        request.rqst.res_room = request.res_room;
        request.rqst.scratch = page_aligned(request.scratch_memory).first(service.scratch_bytes());
    }
}

DirectSvcXprt::~DirectSvcXprt() = default;

DirectSvcXprt::Request* DirectSvcXprt::get_request() noexcept {
    for (auto& request : requests_) {
        if (request->used) continue;
        request->used = true;
        request->slot = nullptr;
        request->raw = nullptr;
        request->rqst.res = sunrpc::XdrBuf{};
        request->rqst.result_is_ddp = false;
        return request.get();
    }
    return nullptr;
}

DirectSvcXprt::Request& DirectSvcXprt::request_of(sunrpc::SvcRqst& rqst) noexcept {
    for (auto& request : requests_) {
        if (&request->rqst == &rqst) {
            NR_ASSERT(request->used);
            return *request;
        }
    }
    assert_failed("a request of this transport", __FILE__, __LINE__);
}

std::uint32_t DirectSvcXprt::requests_in_use() const noexcept {
    return static_cast<std::uint32_t>(
        std::count_if(requests_.begin(), requests_.end(), [](const auto& r) { return r->used; }));
}

Result<std::span<std::byte>> DirectSvcXprt::get_result_payload(sunrpc::SvcRqst& rqst,
                                                               std::uint32_t bytes) noexcept {
    Request& request = request_of(rqst);
    if (bytes > max_payload()) return Error{Errc::too_big, 0, "direct payload"};
    if (dry_) {
        request.waits_for_payload = true;
        return Error{Errc::again, 0, "direct payload"};
    }
    return request.result.first(bytes);
}

void DirectSvcXprt::set_dry(bool dry) noexcept {
    dry_ = dry;
    for (auto& request : requests_) {
        if (!dry && std::exchange(request->waits_for_payload, false)) service_.wake(request->rqst);
    }
}

void DirectSvcXprt::release(Request& request) noexcept {
    request.used = request.waits_for_payload = false;
    request.slot = nullptr;
    request.raw = nullptr;
}

void DirectSvcXprt::reply(sunrpc::SvcRqst& rqst) noexcept {
    Request& request = request_of(rqst);
    if (request.raw != nullptr) {
        request.raw->answered = true;
        flatten(rqst.res, true, request.raw->message);
    } else if (request.slot != nullptr) {
        client_.take_reply(*request.slot, rqst);
    }
    release(request);
}

void DirectSvcXprt::drop(sunrpc::SvcRqst& rqst) noexcept {
    Request& request = request_of(rqst);
    if (request.raw != nullptr) request.raw->dropped = true;
    if (request.slot != nullptr) request.slot->request = nullptr;
    release(request);
}

RawReply DirectSvcXprt::raw_call(std::span<const std::byte> message,
                                 std::span<const std::byte> payload, std::uint32_t position,
                                 std::uint32_t result_room) {
    RawReply raw;
    Request* const request = get_request();
    NR_ASSERT(request != nullptr);
    request->raw = &raw;
    request->message.assign(message.begin(), message.end());
    sunrpc::SvcRqst& rqst = request->rqst;
    rqst.arg = sunrpc::XdrBuf{};
    rqst.arg.head = request->message;
    rqst.payload_position = position;
    rqst.result_room = result_room;
    if (!payload.empty()) {
        NR_ASSERT(payload.size() <= request->chunk.size());
        append(request->chunk.data(), payload);
        rqst.arg.payload = request->chunk.first(payload.size());
    }
    service_.dispatch(rqst);
    // What left the loop comes back in the next turn.
    for (int turn = 0; turn < 4 && request->raw == &raw; ++turn)
        static_cast<void>(client_.loop_.run_once(0));
    if (request->raw == &raw) request->raw = nullptr;  // still at the service
    return raw;
}

DirectWorld::DirectWorld() {
    LoopOptions options;
    options.backend = LoopBackend::simulated;
    options.clock = &clock;
    Result<std::unique_ptr<Loop>> made = Loop::create(options);
    NR_ASSERT(static_cast<bool>(made));
    loop = *std::move(made);
}

bool DirectWorld::run_until(const std::function<bool()>& finished, std::uint64_t limit_ns) {
    const auto ask = [](void* arg) { return (*static_cast<const std::function<bool()>*>(arg))(); };
    std::function<bool()> copy = finished;
    return loop->run_until(ask, &copy, limit_ns);
}

void DirectWorld::run_idle() {
    loop->run();
}

}  // namespace nfsrdma::testing
