#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.hpp"
#include "nfs/nfs3_types.hpp"
#include "tools/rpcrdma_stress/worker.hpp"

// What files hold: READ, WRITE, COMMIT, each range in as many calls as the server's limits ask for.
namespace nfsrdma::stress {
namespace {

constexpr std::uint32_t kCutsMax = 64;  // of one range or listing, of a server that is restarted
constexpr std::uint32_t kRoundsAtOnce = 16;  // by which the file of all grows

std::string range_text(const std::string& where, std::uint64_t offset, std::uint64_t length) {
    return where + " offset " + std::to_string(offset) + " length " + std::to_string(length);
}

}  // namespace

Worker::Range Worker::range_of(Object& object) {
    return {object.handle, &object.model, 0, true, place(object)};
}

Worker::Range Worker::range_of_stripe() {
    const std::uint32_t stripe = field_.plan_options().common_bytes;
    const std::uint64_t base =
        stripes_given_up_ * round_bytes(field_.workers(), stripe) + std::uint64_t{index_} * stripe;
    return {field_.common_file(), &stripe_, base, false, "the common file"};
}

void Worker::read_step() {
    read_range(range_of(*files_[plan_.slot]), plan_.offset, plan_.length, [this] { step_done(); });
}

void Worker::write_step() {
    write_range(range_of(*files_[plan_.slot]), plan_.offset, plan_.length,
                [this] { settle(files_[plan_.slot], true); });
}

void Worker::read_common() {
    with_stripe([this] {
        read_range(range_of_stripe(), plan_.offset, plan_.length, [this] { step_done(); });
    });
}

void Worker::write_common() {
    with_stripe([this] {
        write_range(range_of_stripe(), plan_.offset, plan_.length, [this] {
            // The rest of the stripe must be as it was; then the next one is used.
            settling_ = true;
            read_range(range_of_stripe(), 0, field_.plan_options().common_bytes,
                       [this] { next_stripe(); });
        });
    });
}

void Worker::next_stripe() {
    ++stripes_given_up_;
    ++field_.tally().stripes_given_up;
    stripe_ = FileModel(index_, stripe_serial(stripes_given_up_));
    step_done();
}

// The file of all reaches beyond the stripe, so that no READ of it meets the end. One that is cut
// off is tried again by the next step that wants a stripe.
void Worker::with_stripe(Next next) {
    if (stripes_given_up_ >= kStripes) return step_done();
    if (stripes_given_up_ < field_.common_rounds()) return next();
    const std::uint32_t rounds = std::min(stripes_given_up_ + kRoundsAtOnce, kStripes);
    const std::uint64_t end =
        rounds * round_bytes(field_.workers(), field_.plan_options().common_bytes);
    with_payload(1, [this, rounds, end, next = std::move(next)]() mutable {
        payload_.memory().front() = std::byte{0};
        write_.args.file = field_.common_file().view();
        write_.args.offset = end - 1;
        write_.args.stable = UNSTABLE;
        write_.set_data(payload_.memory().first(1));
        issue(write_, "WRITE " + range_text("the common file", end - 1, 1),
              [this, rounds, next = std::move(next)](bool sure) {
                  payload_.reset();
                  if (!sure) return step_done();
                  if (!expect(write_, {NFS3_OK})) return;
                  if (write_.count() != 1 && !require("nothing was written")) return;
                  field_.common_grown(rounds);
                  next();
              });
    });
}

void Worker::read_range(const Range& range, std::uint64_t offset, std::uint64_t length, Next next) {
    range_ = range;
    at_ = offset;
    left_ = length;
    cuts_ = 0;
    range_done_ = std::move(next);
    read_next();
}

void Worker::read_next() {
    if (left_ == 0) return std::exchange(range_done_, nullptr)();
    with_connection([this] {
        const std::uint64_t most = connection_->client().sizes().read;
        const std::uint32_t room = connection_->transport().limits().max_payload;
        const auto bytes = static_cast<std::uint32_t>(std::min({left_, most, std::uint64_t{room}}));
        const std::uint32_t skew = std::min(plan_.skew, room - bytes);
        with_payload(bytes + skew, [this, bytes, skew] {
            std::fill(payload_.memory().begin(), payload_.memory().end(), kFiller);
            read_.args.file = range_.handle.view();
            read_.args.offset = range_.base + at_;
            read_.args.count = bytes;
            read_.room = payload_.memory().subspan(skew, bytes);
            issue(read_, "READ " + range_text(range_.where, range_.base + at_, bytes),
                  [this, bytes](bool sure) {
                      if (!sure) return read_cut();
                      if (expect(read_, {NFS3_OK})) read_answered(bytes);
                  });
        });
    });
}

// No answer will come. What is looked at for the second time, or at the end, is asked for again.
void Worker::read_cut() {
    payload_.reset();
    if (difference_) {
        if (++cuts_ <= kCutsMax) return read_next();
        return differs(*std::exchange(difference_, std::nullopt), "read again: no answer");
    }
    if (!verifying_) return std::exchange(range_done_, nullptr)();
    if (again_while_verifying()) read_next();
}

bool Worker::again_while_verifying() {
    if (++cuts_ <= kCutsMax) return true;
    field_.trouble("not verified: " + what_ + " was cut off " + std::to_string(cuts_) + " times");
    return false;
}

void Worker::read_answered(std::uint32_t asked) {
    if (!check_end(asked)) return;
    const std::span<const std::byte> data = read_.data();
    const std::optional<Difference> difference = range_.model->compare(field_.content(), at_, data);
    if (difference || difference_) {
        payload_.reset();
        if (!difference_) {
            difference_ = difference;
            settling_ = true;
            return read_next();  // once more: is it the file, or the way?
        }
        const bool again = difference && difference->offset == difference_->offset &&
                           difference->got == difference_->got;
        return differs(*std::exchange(difference_, std::nullopt),
                       again        ? "read again: the same"
                       : difference ? "read again: another difference"
                                    : "read again: right");
    }
    check_guard(asked);
    if (field_.stopped()) return;
    payload_.reset();
    field_.tally().bytes_read += data.size();
    field_.tally().bytes_verified += data.size();
    if (data.size() < asked && !read_.eof()) ++field_.tally().short_transfers;
    at_ += data.size();
    left_ = read_.eof() ? 0 : left_ - data.size();
    read_next();
}

// Where the file ends is known, unless a WRITE of unknown fate may have moved it.
bool Worker::check_end(std::uint32_t asked) {
    const std::uint64_t count = read_.data().size();
    if (!range_.whole) {
        if (read_.eof()) return require("the end, in the middle of the file");
        if (count == 0) return require("0 bytes in the middle of the file");
        return true;
    }
    const std::uint64_t size = range_.model->size(), most = range_.model->size_max();
    const std::uint64_t end = at_ + count;
    const std::string told = std::to_string(count) + " bytes of " + std::to_string(asked) +
                             (read_.eof() ? ", the end of the file" : "") + "; its size is " +
                             std::to_string(size);
    if (count > 0 && end > most) return require("beyond the end: got " + told);
    if (read_.eof() && end < size) return require("the end too early: got " + told);
    if (count == 0 && !read_.eof()) return require("nothing, and not the end: got " + told);
    if (size == most && !read_.eof() && end >= size) return require("no end: got " + told);
    return true;
}

// Nothing but what was asked for may have come into the buffer.
void Worker::check_guard(std::uint32_t asked) {
    const std::span<const std::byte> memory = payload_.memory();
    const auto skew = static_cast<std::size_t>(read_.room.data() - payload_.memory().data());
    for (const auto part : {memory.first(skew), memory.subspan(skew + asked)}) {
        const auto bad =
            std::find_if(part.begin(), part.end(), [](std::byte b) { return b != kFiller; });
        if (bad == part.end()) continue;
        const auto where = &*bad - memory.data() - static_cast<std::ptrdiff_t>(skew);
        (void)require("a byte outside of the buffer was changed, " + std::to_string(where) +
                      " bytes from its beginning");
        return;
    }
}

void Worker::differs(const Difference& difference, const std::string& again) {
    const Stamp stamp = range_.model->stamp(0);
    wrong(what_ + ": " + range_.where + " (" + file_text(stamp.worker, stamp.serial) +
          ") differs at offset " + std::to_string(range_.base + difference.offset) + ", " +
          std::to_string(difference.bytes) + " bytes; expected " + difference.expected + "; got " +
          difference.got + "; " + again);
}

void Worker::write_range(const Range& range, std::uint64_t offset, std::uint64_t length,
                         Next unknown) {
    range_ = range;
    at_ = offset;
    left_ = length;
    generation_ = range.model->next_generation();
    range_unknown_ = std::move(unknown);
    write_next();
}

void Worker::write_next() {
    if (left_ == 0) return step_done();
    with_connection([this] {
        const std::uint64_t most = connection_->client().sizes().write;
        const std::uint32_t room = connection_->transport().limits().max_payload;
        const auto bytes = static_cast<std::uint32_t>(std::min({left_, most, std::uint64_t{room}}));
        const std::uint32_t skew = std::min(plan_.skew, room - bytes);
        with_payload(bytes + skew, [this, bytes, skew] {
            const std::span<std::byte> data = payload_.memory().subspan(skew, bytes);
            field_.content().fill(data, range_.model->stamp(generation_), at_);
            write_.args.file = range_.handle.view();
            write_.args.offset = range_.base + at_;
            write_.args.stable = static_cast<stable_how>(plan_.variant % 4 % 3);
            write_.set_data(data);
            issue(write_,
                  "WRITE number " + std::to_string(generation_) + " " +
                      range_text(range_.where, range_.base + at_, bytes),
                  [this, bytes](bool sure) {
                      payload_.reset();
                      if (sure) return write_answered(bytes);
                      range_.model->may_have_written(at_, bytes, generation_);
                      std::exchange(range_unknown_, nullptr)();
                  });
        });
    });
}

void Worker::write_answered(std::uint32_t asked) {
    if (!expect(write_, {NFS3_OK})) return;
    const WRITE3resok& ok = write_.res.WRITE3res_u.resok;
    if (write_.count() == 0 && !require("nothing was written")) return;
    const std::int32_t committed = nfs::client::raw_value(ok.committed);
    if (committed < write_.args.stable && !require("less stable than asked for")) return;
    field_.note_verifier(ok.verf);
    range_.model->wrote(at_, write_.count(), generation_);
    if (range_.whole) {
        const auto& file = files_[plan_.slot];
        if (file && !require(check_attributes(ok.file_wcc.after, *files_[plan_.slot]))) return;
    }
    field_.tally().bytes_written += write_.count();
    if (write_.count() < asked) ++field_.tally().short_transfers;
    at_ += write_.count();
    left_ -= write_.count();
    write_next();
}

void Worker::commit() {
    Object& file = *files_[plan_.slot];
    commit_.args.file = file.handle.view();
    const bool whole = plan_.variant % 2 == 0;
    commit_.args.offset = whole ? 0 : plan_.offset;
    commit_.args.count = whole ? 0 : static_cast<std::uint32_t>(plan_.length);
    issue(commit_, "COMMIT " + range_text(place(file), commit_.args.offset, commit_.args.count),
          [this](bool sure) {
              if (!sure) return step_done();
              if (!expect(commit_, {NFS3_OK})) return;
              const COMMIT3resok& ok = commit_.res.COMMIT3res_u.resok;
              field_.note_verifier(ok.verf);
              if (require(check_attributes(ok.file_wcc.after, *files_[plan_.slot]))) step_done();
          });
}

// At the end: every byte of every file, the stripe, and both directories.
void Worker::verify_all(std::size_t slot) {
    connection_ = &field_.connection(home_);
    while (slot < files_.size() && !files_[slot])
        ++slot;
    if (slot < files_.size()) {
        Object& file = *files_[slot];
        read_range(range_of(file), 0, file.model.size() + 1,
                   [this, slot] { verify_all(slot + 1); });
    } else if (slot == files_.size()) {
        // Nothing was written to a stripe that the file was never made long enough for.
        if (stripes_given_up_ >= field_.common_rounds()) return verify_all(slot + 1);
        read_range(range_of_stripe(), 0, field_.plan_options().common_bytes,
                   [this, slot] { verify_all(slot + 1); });
    } else if (slot < files_.size() + 3) {
        plan_.slot = static_cast<std::uint32_t>(slot - files_.size() - 1);
        plan_.variant = plan_.slot;
        range_done_ = [this, slot] { verify_all(slot + 1); };
        list(plan_.slot == 0);
    } else {
        finished_ = true;
    }
}

}  // namespace nfsrdma::stress
