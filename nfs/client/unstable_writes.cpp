// Operation. A piece that was filled waits for its WRITE, is written, perhaps in several parts, and
// then kept. commit() sends a COMMIT for all that are kept at that time. Its verifier settles each
// of them: the same as that of the WRITE's answer makes it durable, another one sends it back to be
// written anew. A WRITE that is answered with another verifier than pieces before it sends those
// back at once, so that they need not wait for the COMMIT.
//
// Ownership. (1) A piece is in exactly one of the lists, or its owner's (filling_), or its WRITE's
// (writing_). (2) Only a piece that is not free holds a payload. (3) A payload is let go as the
// last thing: the transport may wake others, who come back here.
//
// Errors. The first one ends it; later ones are ignored.
#include "nfs/client/unstable_writes.hpp"

#include <algorithm>
#include <utility>

namespace nfsrdma::nfs::client {

UnstableWrites::UnstableWrites(Client& client, const Limits& limits)
    : client_(client), limits_(limits), pieces_(std::make_unique<Piece[]>(limits.pieces)) {
    NR_ASSERT(limits.depth != 0 && limits.commit_after != 0);
    NR_ASSERT(limits.pieces >= limits.depth + limits.commit_after);
    commit_.user = this;
    commit_.done = on_commit;
    for (std::uint32_t i = 0; i < limits_.pieces; ++i) {
        Piece& piece = pieces_[i];
        piece.home_ = this;
        piece.op_.user = &piece;
        piece.op_.done = on_write;
        free_.push_back(piece);
    }
    client_.add(*this);
}

UnstableWrites::~UnstableWrites() {
    NR_ASSERT(empty());
    client_.remove(*this);
    free_.clear();
}

void UnstableWrites::begin(const Options& options) noexcept {
    NR_ASSERT(empty() && changed != nullptr);
    options_ = options;
    outcome = Outcome{};
    bytes_ = 0;
    forgotten_ = 0;
    changed_verifier_ = true;
}

Result<UnstableWrites::Piece*> UnstableWrites::take(std::uint32_t bytes) noexcept {
    if (free_.empty()) return Error{Errc::again, 0, "every piece is in use"};
    Result<sunrpc::Payload> payload = client_.get_payload(bytes);
    if (!payload) return payload.error();
    const std::span<std::byte> memory = payload->memory().first(bytes);
    return &begin_piece(*std::move(payload), memory);
}

Result<UnstableWrites::Piece*> UnstableWrites::adopt(sunrpc::Payload&& payload,
                                                     std::span<std::byte> memory) noexcept {
    if (free_.empty()) return Error{Errc::again, 0, "every piece is in use"};
    return &begin_piece(std::move(payload), memory);
}

UnstableWrites::Piece& UnstableWrites::begin_piece(sunrpc::Payload&& payload,
                                                   std::span<std::byte> memory) noexcept {
    Piece& piece = free_.pop_front();
    NR_ASSERT(piece.state_ == Piece::State::free && !piece.payload_);
    piece.payload_ = std::move(payload);
    piece.memory_ = memory;
    piece.state_ = Piece::State::filling;
    piece.number_ = next_number_++;
    piece.counted_ = false;
    if (limits_.account != nullptr) *limits_.account += piece.payload_.memory().size();
    ++filling_;
    return piece;
}

sunrpc::Payload UnstableWrites::shrink(Piece& piece, std::uint32_t size) noexcept {
    NR_ASSERT(piece.state_ == Piece::State::filling && size <= piece.memory_.size());
    const std::size_t now = piece.payload_.memory().size();
    if (now / 2 <= size) return {};
    Result<sunrpc::Payload> less = client_.xprt().get_payload(size);
    if (!less || less->memory().size() >= now / 2) return {};
    std::memcpy(less->memory().data(), piece.memory_.data(), size);
    if (limits_.account != nullptr) *limits_.account -= now - less->memory().size();
    sunrpc::Payload had = std::exchange(piece.payload_, *std::move(less));
    piece.memory_ = piece.payload_.memory().first(size);
    return had;
}

void UnstableWrites::write(Piece& piece, std::uint64_t offset, std::uint32_t size,
                           const sunrpc::AuthSys* sys) noexcept {
    NR_ASSERT(piece.state_ == Piece::State::filling && size != 0 && size <= piece.memory_.size());
    --filling_;
    if (!outcome.ok()) {
        release(piece);
        return;
    }
    piece.offset_ = offset;
    piece.size_ = size;
    piece.has_sys_ = sys != nullptr;
    if (sys != nullptr) piece.sys_ = *sys;
    write_anew(piece);
    pump();
}

void UnstableWrites::give_back(Piece& piece) noexcept {
    NR_ASSERT(piece.state_ == Piece::State::filling);
    --filling_;
    release(piece);
}

void UnstableWrites::write_anew(Piece& piece) noexcept {
    piece.at_ = 0;
    piece.stable_ = true;
    piece.mixed_ = false;
    piece.state_ = Piece::State::waiting;
    waiting_.push_back(piece);
}

void UnstableWrites::pump() noexcept {
    while (writing_ < limits_.depth && !waiting_.empty()) {
        ++writing_;
        send(waiting_.pop_front());
    }
}

void UnstableWrites::send(Piece& piece) noexcept {
    piece.state_ = Piece::State::writing;
    piece.op_.args.file = options_.file.view();
    piece.op_.args.stable = options_.stable ? FILE_SYNC : UNSTABLE;
    piece.op_.args.offset = piece.offset_ + piece.at_;
    piece.op_.set_data(piece.memory_.subspan(piece.at_, piece.size_ - piece.at_));
    piece.op_.sys = piece.has_sys_ ? &piece.sys_ : nullptr;
    if (observer != nullptr) piece.sent_ = observer->change_sent();
    client_.start(piece.op_);
}

void UnstableWrites::on_write(Op& op) noexcept {
    Piece& piece = *static_cast<Piece*>(op.user);
    UnstableWrites& self = *piece.home_;
    const ObserverGuard guard(self.observer);
    if (self.observer != nullptr) {
        self.observer->range_answered(piece.offset_ + piece.at_, piece.size_ - piece.at_);
        const WRITE3res& res = piece.op_.res;
        const bool good = op.outcome.ok();
        self.observer->change_answered(piece.sent_, !op.outcome.rpc ? nullptr
                                                    : good ? &res.WRITE3res_u.resok.file_wcc
                                                           : &res.WRITE3res_u.resfail.file_wcc);
    }
    if (op.outcome.ok() && self.outcome.ok() && piece.op_.count() != 0) {
        self.take_answer(piece);
    } else {
        --self.writing_;
        if (!op.outcome.ok()) {
            self.fail(op.outcome);
        } else {
            self.fail(Outcome::failed(Error{Errc::bad_message, 0, "WRITE wrote nothing"}));
        }
        self.release(piece);
    }
    self.changed(self);
}

void UnstableWrites::take_answer(Piece& piece) noexcept {
    const WRITE3resok& ok = piece.op_.res.WRITE3res_u.resok;
    const WriteVerifier verifier(ok.verf);
    told(verifier);
    if (piece.at_ == 0) {
        piece.verifier_ = verifier;
    } else if (verifier != piece.verifier_) {
        piece.mixed_ = true;
    }
    // DATA_SYNC leaves attributes to be lost: only a COMMIT makes the file whole.
    if (raw_value(ok.committed) != FILE_SYNC) piece.stable_ = false;
    piece.at_ += ok.count;
    if (piece.at_ < piece.size_) {
        send(piece);
        return;
    }
    --writing_;
    written(piece);
    pump();
}

void UnstableWrites::written(Piece& piece) noexcept {
    if (!std::exchange(piece.counted_, true)) bytes_ += piece.size_;
    if (piece.stable_) {
        forgotten_ = 0;
        release(piece);
        return;
    }
    if (piece.mixed_) {
        ++client_.counters().rewrites;
        write_anew(piece);
        if (!note_forgotten()) return;
    } else {
        piece.state_ = Piece::State::kept;
        kept_.push_back(piece);
    }
    note_verifier(piece.verifier_);
    if (kept_.size() >= limits_.commit_after) commit();
    client_.relieve();
}

void UnstableWrites::told(const WriteVerifier& verifier) noexcept {
    if (verifier == newest_) return;
    newest_ = verifier;
    changed_verifier_ = true;
}

// The newest that was told. What is kept under another one was forgotten, as likely as not: to
// write it once too often does no harm.
void UnstableWrites::note_verifier(const WriteVerifier& verifier) noexcept {
    std::uint32_t lost = 0;
    for (std::uint32_t left = kept_.size(); left != 0; --left) {
        Piece& piece = kept_.pop_front();
        if (piece.verifier_ == verifier) {
            kept_.push_back(piece);
            continue;
        }
        ++lost;
        write_anew(piece);
    }
    client_.counters().rewrites += lost;
    if (lost != 0) note_forgotten();
}

// False: it has failed.
bool UnstableWrites::note_forgotten() noexcept {
    if (!std::exchange(changed_verifier_, false)) return true;
    if (++forgotten_ <= kForgottenMax) return true;
    fail(
        Outcome::failed(Error{Errc::bad_message, 0, "the server's write verifier keeps changing"}));
    return false;
}

void UnstableWrites::commit() noexcept {
    if (!outcome.ok() || committing() || kept_.empty()) return;
    committing_.splice_back(kept_);
    ++client_.counters().commits;
    commit_.args.file = options_.file.view();
    commit_.args.offset = 0;
    commit_.args.count = 0;  // to the end
    const Piece& last = committing_.back();
    commit_.sys = last.has_sys_ ? &commit_sys_ : nullptr;
    if (last.has_sys_) commit_sys_ = last.sys_;
    if (observer != nullptr) commit_sent_ = observer->change_sent();
    client_.start(commit_);
}

void UnstableWrites::on_commit(Op& op) noexcept {
    UnstableWrites& self = *static_cast<UnstableWrites*>(op.user);
    const ObserverGuard guard(self.observer);
    if (self.observer != nullptr) {
        const COMMIT3res& res = self.commit_.res;
        const bool good = op.outcome.ok();
        self.observer->change_answered(self.commit_sent_, !op.outcome.rpc ? nullptr
                                                          : good
                                                              ? &res.COMMIT3res_u.resok.file_wcc
                                                              : &res.COMMIT3res_u.resfail.file_wcc);
    }
    if (!op.outcome.ok()) {
        self.fail(op.outcome);
    } else if (self.outcome.ok()) {
        const WriteVerifier verifier(self.commit_.res.COMMIT3res_u.resok.verf);
        self.told(verifier);
        self.settle(verifier);
    }
    self.pump();
    self.client_.relieve();
    self.changed(self);
}

void UnstableWrites::settle(const WriteVerifier& verifier) noexcept {
    settling_ = true;
    std::uint32_t lost = 0;
    while (!committing_.empty()) {
        Piece& piece = committing_.pop_front();
        if (piece.verifier_ == verifier) {
            forgotten_ = 0;
            release(piece);
        } else {
            ++lost;
            write_anew(piece);
        }
    }
    settling_ = false;
    client_.counters().rewrites += lost;
    if (lost != 0) note_forgotten();
    if (outcome.ok()) note_verifier(verifier);
}

void UnstableWrites::fail(const Outcome& why) noexcept {
    NR_ASSERT(!why.ok());
    if (!outcome.ok()) return;
    outcome = why;
    for (List<Piece, Piece>* list : {&waiting_, &kept_, &committing_}) {
        while (!list->empty())
            release(list->pop_front());
    }
}

void UnstableWrites::release(Piece& piece) noexcept {
    client_.note_release();
    if (limits_.account != nullptr) *limits_.account -= piece.payload_.memory().size();
    // Dies at the end, and may then wake others.
    const sunrpc::Payload payload = std::move(piece.payload_);
    piece.state_ = Piece::State::free;
    piece.memory_ = {};
    free_.push_front(piece);
}

std::uint64_t UnstableWrites::window() const noexcept {
    std::uint64_t first = next_number_;
    for (std::uint32_t i = 0; i < limits_.pieces; ++i) {
        const Piece& piece = pieces_[i];
        if (piece.state_ != Piece::State::free && piece.state_ != Piece::State::kept)
            first = std::min(first, piece.number_);
    }
    return next_number_ - first;
}

std::uint64_t UnstableWrites::durable_before() const noexcept {
    std::uint64_t first = next_number_;
    for (std::uint32_t i = 0; i < limits_.pieces; ++i) {
        if (pieces_[i].state_ != Piece::State::free) first = std::min(first, pieces_[i].number_);
    }
    return first;
}

bool UnstableWrites::in_range(const Piece& piece, std::uint64_t offset,
                              std::uint64_t size) noexcept {
    const std::uint64_t end = size > UINT64_MAX - offset ? UINT64_MAX : offset + size;
    return piece.offset_ < end && offset < piece.offset_ + piece.size_;
}

bool UnstableWrites::overlaps(std::uint64_t offset, std::uint64_t size) const noexcept {
    for (std::uint32_t i = 0; i < limits_.pieces; ++i) {
        const Piece& piece = pieces_[i];
        if (piece.state_ == Piece::State::free || piece.state_ == Piece::State::filling) continue;
        if (in_range(piece, offset, size)) return true;
    }
    return false;
}

bool UnstableWrites::under_way_in(std::uint64_t offset, std::uint64_t size) const noexcept {
    for (std::uint32_t i = 0; i < limits_.pieces; ++i) {
        const Piece& piece = pieces_[i];
        const bool under_way =
            piece.state_ == Piece::State::waiting || piece.state_ == Piece::State::writing;
        if (under_way && in_range(piece, offset, size)) return true;
    }
    return false;
}

}  // namespace nfsrdma::nfs::client
