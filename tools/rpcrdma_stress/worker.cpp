#include "tools/rpcrdma_stress/worker.hpp"

#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "nfs/status.hpp"

namespace nfsrdma::stress {
namespace {

constexpr std::size_t kHistory = 16;
constexpr std::uint32_t kLongName = 180;

}  // namespace

Worker::Worker(Field& field, std::uint32_t index, std::uint32_t home)
    : field_(field),
      index_(index),
      home_(home),
      planner_(field.plan_options(), index),
      files_(field.plan_options().files),
      stripe_(index, stripe_serial(0)),
      fault_timer_(on_fault) {
    fault_timer_.worker = this;
    payload_waiter_.worker = this;
    payload_waiter_.wake = [](sunrpc::SlotWaiter& waiter) noexcept {
        Worker& worker = *static_cast<PayloadWaiter&>(waiter).worker;
        worker.waits_for_payload_ = false;
        if (const Next next = std::exchange(worker.waiting_, nullptr))
            worker.with_payload(worker.payload_bytes_, next);
    };
    const std::initializer_list<nfs::client::Op*> all = {
        &null_,   &getattr_, &setattr_,  &lookup_, &access_,       &readlink_,
        &read_,   &write_,   &create_,   &mkdir_,  &make_symlink_, &mknod_,
        &remove_, &rmdir_,   &rename_,   &link_,   &readdir_,      &readdirplus_,
        &fsstat_, &fsinfo_,  &pathconf_, &commit_};
    for (nfs::client::Op* op : all) {
        op->user = this;
        op->done = on_done;
    }
}

Worker::~Worker() {
    NR_ASSERT(pending_ == nullptr && !waits_for_payload_);
}

void Worker::start(const nfs::client::FileHandle& first, const nfs::client::FileHandle& second) {
    dirs_[0].handle = first;
    dirs_[1].handle = second;
    next_step();
}

void Worker::next_step() {
    if (field_.stopped()) return;
    settling_ = cancelled_ = false;
    if (field_.enough(plan_.step)) {
        finish();
        return;
    }
    plan_ = planner_.next();
    ++field_.tally().steps[static_cast<std::size_t>(plan_.kind)];
    connection_ = &field_.connection(plan_.connection == 0 ? home_ : plan_.connection);
    if (plan_.cancel || plan_.disconnect) arm_fault();
    with_connection([this] { run_step(); });
}

void Worker::run_step() {
    const auto with = [this](void (Worker::*step)()) {
        with_file([this, step] { (this->*step)(); });
    };
    switch (plan_.kind) {
        case Kind::set_size:
            return with(&Worker::set_size);
        case Kind::set_mode:
            return with(&Worker::set_mode);
        case Kind::set_time:
            return with(&Worker::set_time);
        case Kind::read:
            return with(&Worker::read_step);
        case Kind::write:
            return with(&Worker::write_step);
        case Kind::commit:
            return with(&Worker::commit);
        case Kind::rename:
            return with(&Worker::rename);
        case Kind::link:
            return with(&Worker::link);
        case Kind::create:
            return create();
        case Kind::remove:
            return remove();
        case Kind::symlink:
            return symlink();
        case Kind::mkdir:
            return mkdir();
        case Kind::mknod:
            return mknod();
        case Kind::read_common:
            return read_common();
        case Kind::write_common:
            return write_common();
        case Kind::null:
        case Kind::getattr:
        case Kind::lookup:
        case Kind::lookup_absent:
        case Kind::access:
        case Kind::readdir:
        case Kind::readdirplus:
        case Kind::fsstat:
        case Kind::fsinfo:
        case Kind::pathconf:
            return run_look();
    }
}

void Worker::run_look() {
    const auto with = [this](void (Worker::*step)()) {
        with_file([this, step] { (this->*step)(); });
    };
    if (plan_.kind == Kind::getattr) return with(&Worker::getattr);
    if (plan_.kind == Kind::lookup) return with(&Worker::lookup);
    if (plan_.kind == Kind::access) return with(&Worker::access);
    if (plan_.kind == Kind::lookup_absent) return lookup_absent();
    if (plan_.kind == Kind::readdir) return list(false);
    if (plan_.kind == Kind::readdirplus) return list(true);
    if (plan_.kind != Kind::null) return file_system();
    issue(null_, "NULL", [this](bool sure) {
        if (sure && !expect(null_, {NFS3_OK})) return;
        step_done();
    });
}

void Worker::step_done() {
    if (fault_timer_.armed()) {
        field_.loop().disarm(fault_timer_);
        if (plan_.disconnect && connection_->up()) {  // then the others' calls are hit
            ++field_.tally().disconnected;
            connection_->disconnect();
        } else {
            ++field_.tally().cancelled_too_late;
        }
    }
    next_step();
}

void Worker::finish() {
    verifying_ = settling_ = true;
    verify_all(0);
}

void Worker::with_connection(Next next) {
    if (field_.stopped()) return;
    if (connection_->up()) {
        next();
        return;
    }
    waiting_ = std::move(next);
}

void Worker::connection_up(Connection& connection) noexcept {
    if (connection_ != &connection || waits_for_payload_) return;
    if (const Next next = std::exchange(waiting_, nullptr)) with_connection(next);
}

void Worker::connection_gone(Connection& connection) noexcept {
    if (connection_ != &connection) return;
    NR_ASSERT(pending_ == nullptr);
    payload_.reset();
    if (!waits_for_payload_) return;
    connection.transport().stop_waiting(payload_waiter_);
    waits_for_payload_ = false;
    waiting_ = [this, bytes = payload_bytes_, next = std::move(waiting_)] {
        with_payload(bytes, next);
    };
}

void Worker::with_payload(std::uint32_t bytes, Next next) {
    with_connection([this, bytes, next = std::move(next)] {
        Result<sunrpc::Payload> payload = connection_->transport().get_payload(bytes);
        if (payload) {
            payload_ = *std::move(payload);
            next();
            return;
        }
        if (payload.error().code != Errc::again) {
            field_.trouble("memory for a payload: " + to_string(payload.error()));
            return;
        }
        payload_bytes_ = bytes;
        waiting_ = next;
        waits_for_payload_ = true;
        connection_->transport().wait_for_slot(payload_waiter_);
    });
}

void Worker::issue(nfs::client::Op& op, std::string what, Then then) {
    what_ = std::move(what);
    then_ = std::move(then);
    with_connection([this, &op] { send(op); });
}

void Worker::send(nfs::client::Op& op) {
    pending_ = &op;
    ++field_.tally().calls;
    connection_->client().start(op);
}

void Worker::on_done(nfs::client::Op& op) noexcept {
    static_cast<Worker*>(op.user)->answered(op);
}

void Worker::answered(nfs::client::Op& op) {
    pending_ = nullptr;
    note(op);
    const Then then = std::exchange(then_, nullptr);
    if (field_.stopped()) {
        payload_.reset();
        return;
    }
    if (op.outcome.rpc) {
        field_.note_answer();
        then(true);
        return;
    }
    const Errc code = op.outcome.rpc.error().code;
    const bool ended = code == Errc::closed || code == Errc::reconnect;
    if (!ended) {
        payload_.reset();
        wrong(what_ + ": " + to_string(op.outcome));
        return;
    }
    ++field_.tally().fate_unknown;
    then(false);
}

void Worker::arm_fault() {
    Loop& loop = field_.loop();
    loop.arm(fault_timer_, loop.now_ns() + plan_.after_us * std::uint64_t{1000});
}

void Worker::on_fault(Timer& timer) noexcept {
    Worker& worker = *static_cast<FaultTimer&>(timer).worker;
    if (worker.field_.stopped()) return;
    if (worker.plan_.disconnect) {
        if (!worker.connection_->up()) return;
        ++worker.field_.tally().disconnected;
        worker.connection_->disconnect();
        return;
    }
    if (worker.pending_ == nullptr || worker.settling_ || !worker.connection_->up()) {
        ++worker.field_.tally().cancelled_too_late;
        return;
    }
    ++worker.field_.tally().cancelled;
    worker.cancelled_ = true;
    worker.connection_->client().cancel(*worker.pending_);
}

void Worker::stop() noexcept {
    field_.loop().disarm(fault_timer_);
    // What was seen is told, whatever ended the run before it could be read again.
    if (difference_) differs(*std::exchange(difference_, std::nullopt), "not read again");
    if (waits_for_payload_) {
        connection_->transport().stop_waiting(payload_waiter_);
        waits_for_payload_ = false;
    }
    waiting_ = nullptr;
    if (pending_ != nullptr && connection_->up()) connection_->client().cancel(*pending_);
}

void Worker::note(const nfs::client::Op& op) {
    if (history_.size() == kHistory) history_.pop_front();
    std::string line = "step " + std::to_string(plan_.step) + " (" + to_string(plan_.kind) +
                       (settling_ ? ", afterwards" : "") + "): " + what_ + " by connection " +
                       std::to_string(connection_->index()) + " -> ";
    if (!op.outcome.rpc) {
        line += cancelled_ ? "cancelled by us" : to_string(op.outcome);
    } else {
        line += nfs::to_string(op.outcome.status);
    }
    cancelled_ = false;
    history_.push_back(std::move(line));
}

bool Worker::expect(const nfs::client::Op& op, std::initializer_list<nfsstat3> allowed) {
    const nfsstat3 status = op.outcome.status;
    if (std::find(allowed.begin(), allowed.end(), status) != allowed.end()) return true;
    // One that was meant to fail, and was sent twice, looks as if it had been done the first time:
    // what a client cannot tell (docs/faults.md).
    const nfsstat3 meant = *allowed.begin();
    const bool to_fail =
        meant == NFS3ERR_EXIST || meant == NFS3ERR_NOENT || meant == NFS3ERR_NOT_SYNC;
    if (to_fail && status == NFS3_OK && op.resolved()) return true;
    payload_.reset();
    if (status == NFS3ERR_NOSPC || status == NFS3ERR_DQUOT) {
        field_.trouble("the server has no room left (" + std::string(nfs::to_string(status)) +
                       "): give fewer --files, or smaller ones with --file-size");
        return false;
    }
    std::string wanted;
    for (const nfsstat3 each : allowed)
        wanted += (wanted.empty() ? "" : " or ") + std::string(nfs::to_string(each));
    wrong(what_ + ": expected " + wanted + ", got " + nfs::to_string(status));
    return false;
}

bool Worker::require(const std::string& problem) {
    if (problem.empty()) return true;
    payload_.reset();
    wrong(what_ + ": " + problem);
    return false;
}

void Worker::wrong(const std::string& what) {
    field_.mismatch(*this, what);
}

diropargs3 Worker::at(const Name& name, std::string& keep) const {
    keep = name.text;
    return {dirs_.at(name.dir).handle.view(), keep.data()};
}

// Never used before, so that a call that is executed late finds nothing to spoil.
Name Worker::new_name(std::uint32_t dir, char letter) {
    Name name{dir % 2, std::string(1, letter) + std::to_string(++serial_)};
    if (plan_.variant % 16 == 0)
        name.text += "-" + std::string(plan_.variant / 16 % kLongName, 'x');
    return name;
}

std::string Worker::place(const Name& name) const {
    return "w" + std::to_string(index_) + (name.dir == 0 ? "/" : "/sub/") + name.text;
}

std::string Worker::place(const Object& object) const {
    return object.names.empty() ? "an unnamed object" : place(object.names.front());
}

}  // namespace nfsrdma::stress
