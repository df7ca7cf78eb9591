#include "tests/verbs/rdmacore/provider/provider.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "base/bytes.hpp"

namespace nfsrdma::verbs::rdmacore::test {

namespace {

void wake(const UniqueFd& fd) noexcept {
    const std::uint64_t one = 1;
    static_cast<void>(::write(fd.get(), &one, sizeof one));
}

void clear(const UniqueFd& fd) noexcept {
    std::uint64_t count = 0;
    static_cast<void>(::read(fd.get(), &count, sizeof count));
}

int rounded(int cqe) noexcept {
    const std::uint32_t unit = Provider::get().cqe_unit;
    return static_cast<int>(div_ceil(static_cast<std::uint32_t>(cqe), unit) * unit);
}

template <class Wr, class Take>
int post(Wr* first, Wr** bad, PostFault& fault, Take take) {
    const PostFault now = fault;
    fault = {};
    std::uint32_t taken = 0;
    for (Wr* wr = first; wr != nullptr; wr = wr->next, ++taken) {
        if (now.error != 0 && taken == now.taken) {
            if (now.says_which) *bad = wr;
            return now.error;
        }
        take(*wr);
    }
    return 0;
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
    auto& own = *static_cast<FakeQp*>(qp);
    return post(wr, bad, Provider::get().send_fault, [&](const ibv_send_wr& one) {
        own.sends.push_back(one.wr_id);
        own.opcodes.push_back(one.opcode);
        own.wrs.push_back(one);
        own.sges.emplace_back(one.sg_list, one.sg_list + one.num_sge);
    });
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
    auto& own = *static_cast<FakeQp*>(qp);
    return post(wr, bad, Provider::get().recv_fault,
                [&](const ibv_recv_wr& one) { own.recvs.push_back(one.wr_id); });
}

int poll_cq(ibv_cq* cq, int room, ibv_wc* out) {
    auto& waiting = static_cast<FakeCq*>(cq)->waiting;
    int count = 0;
    for (; count < room && !waiting.empty(); ++count) {
        out[count] = waiting.front();
        waiting.pop_front();
    }
    return count;
}

int req_notify_cq(ibv_cq*, int) {
    ++Provider::get().notifies;
    return Provider::get().notify_error;
}

void take_front(std::vector<std::uint64_t>& ids) {
    ids.erase(ids.begin());
}

}  // namespace

Provider& Provider::get() noexcept {
    static Provider provider;
    return provider;
}

void Provider::reset() {
    attr = {};
    std::strcpy(attr.fw_ver, "1");
    attr.phys_port_cnt = 1;
    attr.max_qp = attr.max_cq = attr.max_mr = 1000;
    attr.max_qp_wr = 1024;
    attr.max_cqe = 4096;
    attr.max_sge = 8;
    attr.max_sge_rd = 2;
    attr.max_qp_rd_atom = attr.max_qp_init_rd_atom = 16;
    can_resize = true;
    cqe_unit = 1;
    send_fault = recv_fault = {};
    notify_error = modify_error = reg_error = qp_error = 0;
    qp_wrs_max = 0;
    removed = false;
    forget();
    regions = listening = last_access = 0;
    async_fd = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    comp_fd = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    cm_fd = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    device = {};
    device.node_type = IBV_NODE_CA;
    device.transport_type = IBV_TRANSPORT_IB;
    std::strcpy(device.name, "fake0");
    context = {};
    context.device = &device;
    context.async_fd = async_fd.get();
    context.ops.post_send = post_send;
    context.ops.post_recv = post_recv;
    context.ops.poll_cq = poll_cq;
    context.ops.req_notify_cq = req_notify_cq;
    channel = {};
    channel.context = &context;
    channel.fd = comp_fd.get();
    events.clear();
    comp_events.clear();
    cqs.clear();
    mrs.clear();
    pds.clear();
    ids.clear();
}

void Provider::forget() {
    cqes.clear();
    qps.clear();
    resizes = notifies = qps_destroyed = async_reads = comp_reads = destroyed_too_early = 0;
}

void Provider::push(ibv_cq& cq, std::uint64_t wr_id, ibv_wc_status status) {
    ibv_wc wc{};
    wc.wr_id = wr_id;
    wc.status = status;
    static_cast<FakeCq&>(cq).waiting.push_back(wc);
}

void Provider::end_send(FakeQp& qp, ibv_wc_status status) {
    push(*qp.send_cq, qp.sends.front(), status);
    take_front(qp.sends);
}

void Provider::end_last_send(FakeQp& qp, ibv_wc_status status) {
    push(*qp.send_cq, qp.sends.back(), status);
    qp.sends.pop_back();
}

void Provider::end_recv(FakeQp& qp, ibv_wc_status status) {
    push(*qp.recv_cq, qp.recvs.front(), status);
    take_front(qp.recvs);
}

void Provider::raise(const ibv_async_event& event) {
    events.push_back(event);
    wake(async_fd);
}

void Provider::remove() {
    removed = true;
    wake(async_fd);
    wake(comp_fd);
}

}  // namespace nfsrdma::verbs::rdmacore::test

// What libibverbs and librdmacm export: the program's own come first. Names in brackets are macros
// of the header as well.
using nfsrdma::verbs::rdmacore::test::FakeCq;
using nfsrdma::verbs::rdmacore::test::FakeId;
using nfsrdma::verbs::rdmacore::test::FakeQp;
using nfsrdma::verbs::rdmacore::test::Provider;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
    static ibv_device* list[2];
    list[0] = &Provider::get().device;
    if (count != nullptr) *count = 1;
    return list;
}
void ibv_free_device_list(ibv_device**) {}
const char* ibv_get_device_name(ibv_device* device) {
    return device->name;
}
ibv_context* ibv_open_device(ibv_device*) {
    return &Provider::get().context;
}
int ibv_close_device(ibv_context*) {
    return 0;
}
int ibv_query_device(ibv_context*, ibv_device_attr* attr) {
    *attr = Provider::get().attr;
    return 0;
}
int(ibv_query_port)(ibv_context*, std::uint8_t, _compat_ibv_port_attr* out) {
    // The caller has cleared all of an ibv_port_attr, which begins as the older one does.
    ibv_port_attr* const attr = static_cast<ibv_port_attr*>(static_cast<void*>(out));
    attr->state = IBV_PORT_ACTIVE;
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    return 0;
}
ibv_comp_channel* ibv_create_comp_channel(ibv_context*) {
    return &Provider::get().channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel*) {
    return 0;
}
ibv_pd* ibv_alloc_pd(ibv_context* context) {
    ibv_pd& pd = Provider::get().pds.emplace_back();
    pd.context = context;
    return &pd;
}
int ibv_dealloc_pd(ibv_pd*) {
    return 0;
}
ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t,
                         unsigned access) {
    Provider& provider = Provider::get();
    if (provider.reg_error != 0) {
        errno = provider.reg_error;
        return nullptr;
    }
    ++provider.regions;
    provider.last_access = access;
    ibv_mr& mr = provider.mrs.emplace_back();
    mr.context = pd->context;
    mr.pd = pd;
    mr.addr = addr;
    mr.length = length;
    mr.rkey = static_cast<std::uint32_t>(provider.mrs.size()) << 8;
    mr.lkey = mr.rkey + 1;
    return &mr;
}
ibv_mr*(ibv_reg_mr)(ibv_pd* pd, void* addr, std::size_t length, int access) {
    return ibv_reg_mr_iova2(pd, addr, length, 0, static_cast<unsigned>(access));
}
int ibv_dereg_mr(ibv_mr*) {
    --Provider::get().regions;
    return 0;
}
ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* owner, ibv_comp_channel*, int) {
    Provider& provider = Provider::get();
    provider.cqes.push_back(cqe);
    FakeCq& cq = provider.cqs.emplace_back();
    cq.context = context;
    cq.cq_context = owner;
    cq.cqe = nfsrdma::verbs::rdmacore::test::rounded(cqe);
    return &cq;
}
int ibv_resize_cq(ibv_cq* cq, int cqe) {
    Provider& provider = Provider::get();
    if (!provider.can_resize) return EOPNOTSUPP;
    ++provider.resizes;
    provider.cqes.push_back(cqe);
    cq->cqe = nfsrdma::verbs::rdmacore::test::rounded(cqe);
    return 0;
}
int ibv_destroy_cq(ibv_cq*) {
    return 0;
}
int ibv_get_cq_event(ibv_comp_channel*, ibv_cq** cq, void** owner) {
    Provider& provider = Provider::get();
    ++provider.comp_reads;
    if (!provider.comp_events.empty()) {
        *cq = provider.comp_events.front();
        *owner = (*cq)->cq_context;
        provider.comp_events.pop_front();
        return 0;
    }
    errno = provider.removed ? EIO : EAGAIN;
    if (!provider.removed) nfsrdma::verbs::rdmacore::test::clear(provider.comp_fd);
    return -1;
}
void ibv_ack_cq_events(ibv_cq*, unsigned) {}
ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
    if (Provider::get().qp_error != 0 && init->cap.max_send_wr > Provider::get().qp_wrs_max) {
        errno = Provider::get().qp_error;
        return nullptr;
    }
    FakeQp& qp = Provider::get().qps.emplace_back();
    qp.context = pd->context;
    qp.qp_context = init->qp_context;
    qp.pd = pd;
    qp.send_cq = init->send_cq;
    qp.recv_cq = init->recv_cq;
    qp.qp_num = static_cast<std::uint32_t>(Provider::get().qps.size());
    return &qp;
}
int ibv_modify_qp(ibv_qp*, ibv_qp_attr*, int) {
    return Provider::get().modify_error;
}
int ibv_destroy_qp(ibv_qp* qp) {
    Provider& provider = Provider::get();
    ++provider.qps_destroyed;
    if (static_cast<FakeQp*>(qp)->unacknowledged > 0) ++provider.destroyed_too_early;
    return 0;
}
int ibv_get_async_event(ibv_context*, ibv_async_event* event) {
    Provider& provider = Provider::get();
    ++provider.async_reads;
    if (provider.events.empty()) {
        errno = provider.removed ? EIO : EAGAIN;
        if (!provider.removed) nfsrdma::verbs::rdmacore::test::clear(provider.async_fd);
        return -1;
    }
    *event = provider.events.front();
    provider.events.pop_front();
    if (event->event_type == IBV_EVENT_QP_FATAL)
        ++static_cast<FakeQp*>(event->element.qp)->unacknowledged;
    return 0;
}
void ibv_ack_async_event(ibv_async_event* event) {
    if (event->event_type == IBV_EVENT_QP_FATAL)
        --static_cast<FakeQp*>(event->element.qp)->unacknowledged;
}
rdma_event_channel* rdma_create_event_channel() {
    static rdma_event_channel channel;
    channel.fd = Provider::get().cm_fd.get();
    return &channel;
}
void rdma_destroy_event_channel(rdma_event_channel*) {}
int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** out, void* context, rdma_port_space) {
    FakeId& id = Provider::get().ids.emplace_back();
    id.channel = channel;
    id.context = context;
    *out = &id;
    return 0;
}
int rdma_destroy_id(rdma_cm_id* id) {
    if (static_cast<FakeId*>(id)->listens) --Provider::get().listening;
    return 0;
}
int rdma_set_option(rdma_cm_id*, int, int, void*, std::size_t) {
    return 0;
}
int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
    id->verbs = &Provider::get().context;
    std::memcpy(&id->route.addr.src_storage, address, sizeof(sockaddr_in));
    return 0;
}
int rdma_listen(rdma_cm_id* id, int) {
    static_cast<FakeId*>(id)->listens = true;
    ++Provider::get().listening;
    return 0;
}

}  // extern "C"
