#include "tools/rpcrdma_bench/nfs_load.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "base/bytes.hpp"
#include "devices/open.hpp"
#include "nfs/binding.hpp"
#include "nfs/client/mount_socket.hpp"
#include "verbs/softroce/softroce.hpp"
#include "verbs/softroce/udp_wire.hpp"

namespace nfsrdma::bench {
namespace {

constexpr std::uint32_t kNfsProgram = 100003, kMountProgram = 100005, kVersion = 3;
constexpr std::uint32_t kMaxPayload = 1u << 20;

struct Outcome {
    bool over = false;
    Result<void> result;
    static bool is_over(void* self) { return static_cast<Outcome*>(self)->over; }
};

}  // namespace

// One call in flight.
struct NfsLoad::Slot {
    NfsLoad* load = nullptr;
    sunrpc::Call call;
    sunrpc::Payload payload;
    READ3args read_args{};
    WRITE3args write_args{};
    union {
        READ3res read;
        WRITE3res write;
    } res{};
};

Result<std::unique_ptr<NfsLoad>> NfsLoad::create(const NfsLoadOptions& options) {
    std::unique_ptr<NfsLoad> load(new NfsLoad);
    NR_TRY(load->connect(options));
    NR_TRY(load->find_file(options));
    return load;
}

NfsLoad::~NfsLoad() {
    slots_.clear();
    nfs_.reset();
    if (transport_ != nullptr) {
        transport_->close();
        loop_->run_until([](void* t) { return static_cast<xprtrdma::Transport*>(t)->idle(); },
                         transport_.get(), 5 * kNsPerSec);
    }
}

Result<void> NfsLoad::open_device(const NfsLoadOptions& options) {
    if (options.device.empty()) {
        verbs::softroce::UdpOptions udp;
        udp.bind = options.server.with_port(0);
        NR_TRY_ASSIGN(auto wire, verbs::softroce::create_udp_wire(udp));
        NR_TRY_ASSIGN(device_, verbs::softroce::create_device(*loop_, std::move(wire), {}));
        return {};
    }
    devices::Request request;
    request.choice = devices::parse_choice(options.device).value_or(devices::Choice{});
    request.address = options.server;
    request.demand.credits = options.credits;
    request.demand.max_payload = kMaxPayload;
    auto opened = devices::open(*loop_, request);
    if (!opened) {
        (void)std::fprintf(stderr, "rpcrdma-bench: %s\n",
                           devices::explain(request, opened.error()).c_str());
        return opened.error();
    }
    device_ = std::move(opened->device);
    return {};
}

Result<void> NfsLoad::connect(const NfsLoadOptions& options) {
    NR_TRY_ASSIGN(loop_, Loop::create({}));
    NR_TRY(open_device(options));
    xprtrdma::TransportOptions transport;
    transport.registration = options.registration;
    transport.demand.credits = options.credits;
    transport.demand.max_payload = kMaxPayload;
    Outcome outcome;
    auto connected = [](void* arg, Result<void> result) noexcept {
        auto& o = *static_cast<Outcome*>(arg);
        o.over = true;
        o.result = result;
    };
    NR_TRY_ASSIGN(transport_, xprtrdma::Transport::create(*device_, options.server, transport,
                                                          connected, &outcome));
    if (!loop_->run_until(Outcome::is_over, &outcome, 15 * kNsPerSec)) {
        return Error{Errc::timed_out, 0, "connect to the server"};
    }
    NR_TRY(outcome.result);
    bool truncated = false;
    const sunrpc::AuthSys sys = sunrpc::AuthSys::of_process(truncated);
    nfs_ = std::make_unique<sunrpc::Clnt>(*transport_, kNfsProgram, kVersion, &sys);
    return {};
}

Result<void> NfsLoad::wait_for(sunrpc::Clnt& clnt, sunrpc::Call& call) {
    Outcome outcome;
    call.user = &outcome;
    call.done = [](sunrpc::Call& c, Result<void> result) noexcept {
        auto& o = *static_cast<Outcome*>(c.user);
        o.over = true;
        o.result = result;
    };
    NR_TRY(clnt.call(call));
    loop_->run_until(Outcome::is_over, &outcome, 70 * kNsPerSec);
    return outcome.result;
}

Result<void> NfsLoad::mount(const NfsLoadOptions& options, nfs::client::FileHandle& root) {
    const Error refused{Errc::refused, 0, "mount the export"};
    bool truncated = false;
    const sunrpc::AuthSys sys = sunrpc::AuthSys::of_process(truncated);
    if (options.mount_port != 0) {
        nfs::client::MountSocketOptions how;
        how.server = options.server;
        how.port = options.mount_port;
        nfs::client::MountSocket by_socket(how, &sys);
        if (by_socket.mnt(options.export_path, root).ok()) return {};
        (void)std::fprintf(stderr, "rpcrdma-bench: %s\n", to_string(by_socket.troubles()).c_str());
        return refused;
    }
    sunrpc::Clnt rpc(*transport_, kMountProgram, kVersion, &sys);
    std::string path = options.export_path;
    mountargs3 where{};
    where.dirpath = path.data();
    mountres3 mounted{};
    sunrpc::Call call;
    call.proc = &nfs::mount3_procs()[MOUNTPROC3_MNT];
    call.proc_number = MOUNTPROC3_MNT;
    call.args = &where;
    call.res = &mounted;
    NR_TRY(wait_for(rpc, call));
    const fhandle3& handle = mounted.mountres3_u.mountinfo.fhandle;
    const bool good =
        mounted.fhs_status == MNT3_OK && root.assign(handle.fhandle3_val, handle.fhandle3_len);
    xdr_free(nfs::mount3_procs()[MOUNTPROC3_MNT].xdr_res, &mounted);
    return good ? Result<void>() : refused;
}

Result<void> NfsLoad::find_file(const NfsLoadOptions& options) {
    nfs::client::FileHandle root;
    NR_TRY(mount(options, root));
    std::string name = options.file;
    LOOKUP3args what{};
    what.what.dir = root.view();
    what.what.name = name.data();
    LOOKUP3res found{};
    sunrpc::Call call;
    call.proc = &nfs::nfs3_procs()[NFSPROC3_LOOKUP];
    call.proc_number = NFSPROC3_LOOKUP;
    call.args = &what;
    call.res = &found;
    Result<void> looked_up = wait_for(*nfs_, call);
    if (looked_up && found.status != NFS3_OK)
        looked_up = Error{Errc::refused, 0, "look the file up"};
    if (looked_up) {
        const nfs_fh3& object = found.LOOKUP3res_u.resok.object;
        handle_.assign(object.data.data_val, object.data.data_len);
    }
    xdr_free(nfs::nfs3_procs()[NFSPROC3_LOOKUP].xdr_res, &found);
    return looked_up;
}

bool NfsLoad::prepare_slots(std::uint32_t depth) {
    while (slots_.size() < depth) {
        auto slot = std::make_unique<Slot>();
        slot->load = this;
        slot->call.user = slot.get();
        slot->call.done = [](sunrpc::Call& call, Result<void> result) noexcept {
            auto& finished_slot = *static_cast<Slot*>(call.user);
            finished_slot.load->finished(finished_slot, result);
        };
        auto payload = transport_->get_payload(kMaxPayload);
        if (!payload) return false;
        slot->payload = *std::move(payload);
        slots_.push_back(std::move(slot));
    }
    return true;
}

bool NfsLoad::start(Slot& slot) {
    sunrpc::Call& call = slot.call;
    call.res = &slot.res;
    call.result_room = {};
    if (next_offset_ + bytes_ > file_bytes_) next_offset_ = 0;
    if (random_ && bytes_ > 0) next_offset_ = prng_.below(file_bytes_ / bytes_) * bytes_;
    nfs_fh3 file{};
    file.data.data_len = static_cast<unsigned>(handle_.size());
    file.data.data_val = handle_.data();
    if (op_ == NfsOp::null) {
        call.proc_number = NFSPROC3_NULL;
        call.args = nullptr;
    } else if (op_ == NfsOp::read) {
        call.proc_number = NFSPROC3_READ;
        slot.read_args = {file, next_offset_, bytes_};
        slot.res.read = {};
        call.args = &slot.read_args;
        call.result_room = slot.payload.memory().first(bytes_);
    } else {
        call.proc_number = NFSPROC3_WRITE;
        slot.write_args = {file, next_offset_, bytes_, UNSTABLE, {}};
        slot.write_args.data.data_len = bytes_;
        slot.write_args.data.data_val = as_chars(slot.payload.memory().data());
        slot.res.write = {};
        call.args = &slot.write_args;
    }
    next_offset_ += bytes_;
    call.proc = &nfs::nfs3_procs()[call.proc_number];
    --to_start_;
    ++running_;
    if (nfs_->call(call)) return true;
    --running_;
    failed_ = true;
    return false;
}

void NfsLoad::finished(Slot& slot, Result<void> result) {
    --running_;
    const bool ok =
        result &&
        (op_ != NfsOp::read ||
         (slot.res.read.status == NFS3_OK && slot.res.read.READ3res_u.resok.count == bytes_)) &&
        (op_ != NfsOp::write ||
         (slot.res.write.status == NFS3_OK && slot.res.write.WRITE3res_u.resok.count == bytes_));
    if (!ok) {
        if (!failed_ && !result)
            (void)std::fprintf(stderr, "rpcrdma-bench: %s\n", to_string(result.error()).c_str());
        if (!failed_ && result)
            (void)std::fprintf(stderr, "rpcrdma-bench: NFS status %d\n", int{slot.res.read.status});
        failed_ = true;
        return;
    }
    ++done_;
    if (at_call_ != nullptr) at_call_(at_call_arg_, done_);
    if (!failed_ && to_start_ > 0 && loop_->now_ns() < deadline_ns_) start(slot);
}

bool NfsLoad::run(NfsOp op, std::uint32_t bytes, std::uint32_t depth, std::uint64_t calls,
                  void (*at_call)(void* arg, std::uint64_t done), void* arg) {
    if (!prepare_slots(depth)) return false;
    op_ = op;
    bytes_ = bytes;
    to_start_ = calls;
    done_ = 0;
    failed_ = false;
    if (deadline_ns_ == 0) deadline_ns_ = std::numeric_limits<std::uint64_t>::max();
    at_call_ = at_call;
    at_call_arg_ = arg;
    for (std::uint32_t i = 0; i < depth && to_start_ > 0 && !failed_; ++i)
        start(*slots_[i]);
    while (running_ > 0)
        loop_->run_once(kNsPerSec);
    deadline_ns_ = 0;
    return !failed_;
}

double NfsLoad::rate(NfsOp op, std::uint32_t bytes, std::uint32_t depth, double seconds) {
    const std::uint64_t begin = loop_->now_ns();
    deadline_ns_ = begin + static_cast<std::uint64_t>(seconds * 1e9);
    if (!run(op, bytes, depth, std::numeric_limits<std::uint64_t>::max(), nullptr, nullptr))
        return -1;
    return static_cast<double>(done_) * 1e9 / static_cast<double>(loop_->now_ns() - begin);
}

void NfsLoad::idle(double seconds) {
    loop_->run_until([](void*) { return false; }, nullptr,
                     static_cast<std::uint64_t>(seconds * 1e9));
}

}  // namespace nfsrdma::bench
