#include "tests/support/raw_peer.hpp"

#include "base/assert.hpp"
#include "base/prng.hpp"

namespace nfsrdma::test {
namespace {

template <class T>
T must(Result<T> result) {
    if (!result) std::fprintf(stderr, "raw peer: %s\n", to_string(result.error()).c_str());
    NR_ASSERT(static_cast<bool>(result));
    return *std::move(result);
}
void must(const Result<void>& result) {
    if (!result) std::fprintf(stderr, "raw peer: %s\n", to_string(result.error()).c_str());
    NR_ASSERT(static_cast<bool>(result));
}

}  // namespace

Words& Words::u32(std::uint32_t value) {
    if (data_.capacity() == 0) data_.reserve(128);
    data_.resize(data_.size() + sizeof value);
    store_be32(data_.data() + data_.size() - sizeof value, value);
    return *this;
}
Words& Words::u64(std::uint64_t value) {
    return u32(static_cast<std::uint32_t>(value >> 32)).u32(static_cast<std::uint32_t>(value));
}
Words& Words::segment(const rpcrdma::Segment& segment) {
    return u32(segment.handle).u32(segment.length).u64(segment.offset);
}
Words& Words::bytes(std::span<const std::byte> more) {
    data_.insert(data_.end(), more.begin(), more.end());
    data_.resize(align_up(data_.size(), std::size_t{4}));
    return *this;
}

Bytes pattern(std::size_t size, std::uint64_t seed) {
    Bytes bytes(size);
    Prng prng(seed);
    for (std::byte& b : bytes)
        b = static_cast<std::byte>(prng.next());
    return bytes;
}

void RawConn::make_queues() {
    pd_ = must(device_.alloc_pd());
    cq_ = must(device_.create_cq(options_.send_wrs + options_.receives + 16));
    device_.loop().add(*cq_);
}

Bytes RawConn::our_private_data() const {
    if (!options_.private_data) return {};
    const auto data = rpcrdma::encode_private_data(options_.offer);
    return {data.begin(), data.end()};
}

std::unique_ptr<RawConn> RawConn::connect(verbs::Device& device, const SockAddr& server,
                                          const RawOptions& options) {
    std::unique_ptr<RawConn> conn(new RawConn(device, options));
    conn->make_queues();
    conn->id_ = must(device.create_id(*conn));
    conn->qp_ = must(conn->id_->create_qp(
        *conn->pd_, *conn->cq_, {.send_wrs = options.send_wrs, .recv_wrs = options.receives}));
    conn->post_receives(options.receives);
    const Bytes data = conn->our_private_data();
    verbs::ConnParams params;
    params.private_data = data;
    params.initiator_depth = params.responder_resources = options.read_depth;
    must(conn->id_->connect(server, params));
    return conn;
}

std::unique_ptr<RawConn> RawConn::accept(verbs::Device& device, std::unique_ptr<verbs::CmId> id,
                                         const verbs::ConnectRequest& request,
                                         const RawOptions& options) {
    std::unique_ptr<RawConn> conn(new RawConn(device, options));
    conn->peers_private_data.assign(request.private_data.begin(), request.private_data.end());
    conn->peers = rpcrdma::decode_private_data(request.private_data);
    conn->make_queues();
    conn->id_ = std::move(id);
    conn->id_->set_handler(*conn);
    conn->qp_ = must(conn->id_->create_qp(
        *conn->pd_, *conn->cq_, {.send_wrs = options.send_wrs, .recv_wrs = options.receives}));
    conn->post_receives(options.receives);
    const Bytes data = conn->our_private_data();
    verbs::ConnParams params;
    params.private_data = data;
    params.initiator_depth = params.responder_resources = options.read_depth;
    must(conn->id_->accept(params));
    return conn;
}

RawConn::~RawConn() {
    if (!qp_->in_error()) qp_->set_error();
    while (qp_->outstanding() > 0)
        cq_->poll();
    id_.reset();
    device_.loop().remove(*cq_);
}

void RawConn::post_receives(std::uint32_t count) {
    const std::size_t size = options_.inline_size;
    Recvs& made = recvs_.emplace_back();
    made.memory = std::make_unique_for_overwrite<std::byte[]>(count * size);
    made.mr =
        must(pd_->register_memory({made.memory.get(), count * size}, verbs::Access::local_write));
    made.recvs = std::vector<Recv>(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        Recv& recv = made.recvs[i];
        recv.conn = this;
        recv.done = &RawConn::on_recv;
        recv.memory = &made.memory[i * size];
        recv.sge = {address_of(recv.memory), options_.inline_size, made.mr->lkey()};
        recv.wr.cqe = &recv;
        recv.wr.sgl = {&recv.sge, 1};
        must(qp_->post_recv(recv.wr));
    }
}

RawConn::Op& RawConn::make_op(verbs::SendOp kind, Bytes memory, Then done) {
    ops_.push_back(std::make_unique<Op>());
    Op& op = *ops_.back();
    op.self = std::prev(ops_.end());
    op.conn = this;
    op.Cqe::done = &RawConn::on_op;
    op.memory = std::move(memory);
    if (!op.memory.empty()) {
        op.mr = must(pd_->register_memory(op.memory, verbs::Access::local_write));
        op.sge = {address_of(op.memory.data()), narrow<std::uint32_t>(op.memory.size()),
                  op.mr->lkey()};
        op.wr.sgl = {&op.sge, 1};
    }
    op.then = std::move(done);
    op.wr.cqe = &op;
    op.wr.op = kind;
    op.wr.signaled = true;
    return op;
}

void RawConn::post(Op& op) {
    verbs::WrChain chain;
    chain.push_back(op.wr);
    const Result<void> posted = qp_->post_send(chain);
    if (posted) return;
    // A connection that is gone: as if it had been flushed.
    NR_ASSERT(posted.error().code == Errc::reconnect);
    Then then = std::move(op.then);
    ops_.erase(op.self);
    if (then) then(verbs::WcStatus::flushed, {});
}

void RawConn::send(Bytes bytes, Then done) {
    post(make_op(verbs::SendOp::send, std::move(bytes), std::move(done)));
}

void RawConn::send_with_inv(Bytes bytes, std::uint32_t handle, Then done) {
    Op& op = make_op(verbs::SendOp::send_with_inv, std::move(bytes), std::move(done));
    op.wr.rkey = verbs::Rkey{handle};
    post(op);
}

void RawConn::read(const rpcrdma::Segment& from, Then done) {
    Op& op = make_op(verbs::SendOp::rdma_read, Bytes(from.length), std::move(done));
    op.wr.remote_addr = from.offset;
    op.wr.rkey = verbs::Rkey{from.handle};
    post(op);
}

void RawConn::write(const rpcrdma::Segment& to, Bytes bytes, Then done) {
    Op& op = make_op(verbs::SendOp::rdma_write, std::move(bytes), std::move(done));
    op.wr.remote_addr = to.offset;
    op.wr.rkey = verbs::Rkey{to.handle};
    post(op);
}

void RawConn::on_op(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    Op& op = static_cast<Op&>(cqe);
    RawConn& conn = *op.conn;
    if (wc.status != verbs::WcStatus::success && wc.status != verbs::WcStatus::flushed) {
        ++conn.failed_ops;
        conn.last_failure = wc.status;
    }
    Then then = std::move(op.then);
    Bytes memory = std::move(op.memory);
    conn.ops_.erase(op.self);
    if (then) then(wc.status, std::move(memory));
}

void RawConn::on_recv(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    Recv& recv = static_cast<Recv&>(cqe);
    RawConn& conn = *recv.conn;
    if (wc.status != verbs::WcStatus::success) return;
    RawMessage message;
    message.bytes.assign(recv.memory, recv.memory + wc.byte_len);
    message.with_invalidate = wc.with_invalidate;
    message.invalidated = static_cast<std::uint32_t>(wc.invalidated);
    if (conn.options_.repost && !conn.qp_->in_error()) must(conn.qp_->post_recv(recv.wr));
    if (conn.script) {
        conn.script(conn, std::move(message));
    } else {
        conn.inbox.push_back(std::move(message));
    }
}

void RawConn::on_cm_event(verbs::CmId&, const verbs::CmEvent& event) noexcept {
    if (event.type == verbs::CmEventType::established) {
        established = true;
        if (peers_private_data.empty()) {
            peers_private_data.assign(event.private_data.begin(), event.private_data.end());
            peers = rpcrdma::decode_private_data(event.private_data);
        }
        return;
    }
    ended = true;
    end = event.type;
}

RawListener::RawListener(verbs::Device& device, const SockAddr& address, const RawOptions& opts)
    : options(opts), device_(device), listener_(must(device.listen(address, *this))) {}

void RawListener::on_connect_request(std::unique_ptr<verbs::CmId> id,
                                     const verbs::ConnectRequest& request) noexcept {
    if (refuse) {
        (void)id->reject({});
        return;
    }
    conns.push_back(RawConn::accept(device_, std::move(id), request, options));
    conns.back()->script = script;
}

}  // namespace nfsrdma::test
