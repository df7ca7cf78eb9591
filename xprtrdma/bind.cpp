#include <algorithm>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "xprtrdma/req.hpp"

// bind: the memory of one call -> keys, formed and not posted.
//
// Operation. Each direction takes one key wherever its pieces can be one page list: pieces join at
// page boundaries, so of two pieces the first must end and the second begin at one. Memory of our
// own is filled up to a page (zeroed, where the peer may read it); memory of the caller is exposed
// exactly. Pieces that cannot join get a key each.
//
// Ownership. (1) req.exposures holds every key of the call, from here until fence(). (2) A failed
// bind holds nothing (NR_ASSERT in Transport::send_request).
//
// Errors. Errc::again, with req.dry naming the pool.
namespace nfsrdma::xprtrdma {
namespace {

using Memory = std::span<std::byte>;
enum class Right : std::uint8_t { read, write };

bool page_aligned(const std::byte* at) noexcept {
    return address_of(at) % pools::kPageSize == 0;
}

Result<pools::Exposure*> expose(Req& req, pools::Io& io, pools::Runs runs, Right right) noexcept {
    auto exposure =
        right == Right::read ? io.expose_read(runs, req.chain) : io.expose_write(runs, req.chain);
    if (!exposure) {
        if (exposure.error().code == Errc::again) req.dry = Dry::key;
        return exposure.error();
    }
    (*exposure)->user = &req;
    NR_ASSERT(req.exposure_count < req.exposures.size());
    req.exposures[req.exposure_count] = *std::move(exposure);
    return req.exposures[req.exposure_count++].get();
}

Result<void> bind_one(Req& req, pools::Io& io, Memory memory, Right right,
                      SegmentList& out) noexcept {
    const Memory runs[] = {memory};
    NR_TRY_ASSIGN(const pools::Exposure* exposure, expose(req, io, runs, right));
    return slice_runs(exposure->runs(), 0, static_cast<std::uint32_t>(memory.size()), out);
}

// One of two pieces of memory that are to share a key.
struct Piece {
    Memory memory;
    Memory filled;  // up to a page boundary, where what follows is our own; else empty
    SegmentList* out = nullptr;
};

bool can_lead(const Piece& piece) noexcept {
    return !piece.filled.empty() || page_aligned(piece.memory.data() + piece.memory.size());
}

Result<void> bind_two(Req& req, pools::Io& io, Right right, const Piece& a,
                      const Piece& b) noexcept {
    const Piece* first = nullptr;
    const Piece* second = nullptr;
    if (can_lead(a) && page_aligned(b.memory.data())) {
        first = &a;
        second = &b;
    } else if (can_lead(b) && page_aligned(a.memory.data())) {
        first = &b;
        second = &a;
    } else {
        NR_TRY(bind_one(req, io, a.memory, right, *a.out));
        return bind_one(req, io, b.memory, right, *b.out);
    }
    const Memory lead = first->filled.empty() ? first->memory : first->filled;
    const Memory runs[] = {lead, second->memory};
    NR_TRY_ASSIGN(const pools::Exposure* exposure, expose(req, io, runs, right));
    NR_TRY(slice_runs(exposure->runs(), 0, static_cast<std::uint32_t>(first->memory.size()),
                      *first->out));
    return slice_runs(exposure->runs(), lead.size(),
                      static_cast<std::uint32_t>(second->memory.size()), *second->out);
}

Result<pools::Lease<pools::PageList>> lease(Req& req, const BindRooms& rooms,
                                            std::uint32_t bytes) noexcept {
    auto list = bytes <= rooms.messages->largest() ? rooms.messages->get(bytes)
                                                   : rooms.payloads->get(bytes);
    if (!list && list.error().code == Errc::again) req.dry = Dry::page_list;
    return list;
}

// The message without its payload as one piece of memory: the tail follows the head in head_room,
// and is moved up to it.
Memory joined_message(Req& req) noexcept {
    sunrpc::XdrBuf& call = req.call;
    std::byte* end = call.head.data() + call.head.size();
    if (!call.tail.empty() && call.tail.data() != end) {
        std::memmove(end, call.tail.data(), call.tail.size());
        call.tail = {end, call.tail.size()};
    }
    return {call.head.data(), call.head.size() + call.tail.size()};
}

// The rest of the last page, zeroed: the peer can read it. Empty when the message is not in a page
// list.
Memory zero_filled(Req& req, Memory message) noexcept {
    if (!req.call_room || message.data() != req.call_room->bytes().data()) return {};
    const std::size_t whole = align_up(message.size(), std::size_t{pools::kPageSize});
    const Memory filled = req.call_room->bytes().first(whole);
    std::fill(filled.begin() + static_cast<std::ptrdiff_t>(message.size()), filled.end(),
              std::byte{0});
    return filled;
}

// A long call whose payload may not travel apart: gathered, with its pad, into one piece of memory.
Result<Memory> gathered_message(Req& req, const BindRooms& rooms) noexcept {
    const sunrpc::XdrBuf& call = req.call;
    NR_TRY_ASSIGN(req.gather_room, lease(req, rooms, call.length()));
    const Memory whole = req.gather_room->bytes().first(call.length());
    auto at = std::copy(call.head.begin(), call.head.end(), whole.begin());
    at = std::copy(call.payload.begin(), call.payload.end(), at);
    at = std::fill_n(at, call.pad(), std::byte{0});
    std::copy(call.tail.begin(), call.tail.end(), at);
    return whole;
}

Result<void> bind_args(Req& req, const BindRooms& rooms) noexcept {
    BoundChunks& chunks = req.chunks;
    switch (req.plan.args) {
        case ArgsType::in_line:
            return {};
        case ArgsType::read:
            chunks.read_position = static_cast<std::uint32_t>(req.call.head.size());
            return bind_one(req, *rooms.io, req.call.payload, Right::read, chunks.read);
        case ArgsType::position_zero: {
            Memory message = joined_message(req);
            if (!req.call.payload.empty()) {
                NR_TRY_ASSIGN(message, gathered_message(req, rooms));
            }
            return bind_one(req, *rooms.io, message, Right::read, chunks.call);
        }
        case ArgsType::position_zero_and_read: {
            const Memory message = joined_message(req);
            chunks.read_position = static_cast<std::uint32_t>(req.call.head.size());
            return bind_two(
                req, *rooms.io, Right::read,
                {.memory = message, .filled = zero_filled(req, message), .out = &chunks.call},
                {.memory = req.call.payload, .filled = {}, .out = &chunks.read});
        }
    }
    return {};
}

Result<void> bind_results(Req& req, const BindRooms& rooms) noexcept {
    BoundChunks& chunks = req.chunks;
    if (!has_reply(req.plan.results)) {
        if (!has_write(req.plan.results)) return {};
        return bind_one(req, *rooms.io, req.result_room, Right::write, chunks.write);
    }
    NR_TRY_ASSIGN(req.reply_room, lease(req, rooms, req.plan.reply_room));
    const Memory room = req.reply_room->bytes().first(req.plan.reply_room);
    if (!has_write(req.plan.results))
        return bind_one(req, *rooms.io, room, Right::write, chunks.reply);
    const std::size_t whole = align_up(room.size(), std::size_t{pools::kPageSize});
    return bind_two(
        req, *rooms.io, Right::write,
        {.memory = room, .filled = req.reply_room->bytes().first(whole), .out = &chunks.reply},
        {.memory = req.result_room, .filled = {}, .out = &chunks.write});
}

Result<void> bind_all(Req& req, const BindRooms& rooms) noexcept {
    NR_TRY(bind_args(req, rooms));
    return bind_results(req, rooms);
}

}  // namespace

Result<void> slice_runs(std::span<const pools::RemoteRun> runs, std::uint64_t from,
                        std::uint32_t length, SegmentList& out) noexcept {
    out.count = 0;
    for (const pools::RemoteRun& run : runs) {
        if (length == 0) break;
        if (from >= run.length) {
            from -= run.length;
            continue;
        }
        const auto take =
            static_cast<std::uint32_t>(std::min<std::uint64_t>(length, run.length - from));
        if (out.count == out.segments.size()) return Error{Errc::too_big, 0, "segments"};
        out.segments[out.count++] = {
            .handle = run.handle, .length = take, .offset = run.offset + from};
        length -= take;
        from = 0;
    }
    NR_ASSERT(length == 0);
    return {};
}

Result<void> bind_chunks(Req& req, const BindRooms& rooms) noexcept {
    req.chain = {};
    req.send_wr.fenced = false;
    req.chain.push_back(req.send_wr);
    req.chunks.call.count = req.chunks.read.count = req.chunks.write.count =
        req.chunks.reply.count = 0;
    req.dry = Dry::none;
    Result<void> bound = bind_all(req, rooms);
    if (!bound) unbind_chunks(req, *rooms.io);
    return bound;
}

void unbind_chunks(Req& req, pools::Io& io) noexcept {
    while (req.exposure_count > 0)
        io.unexpose(std::move(req.exposures[--req.exposure_count]));
    req.gather_room.reset();
    req.reply_room.reset();
    req.chain = {};
}

}  // namespace nfsrdma::xprtrdma
