#include "sunrpc/rpcbind.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <new>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rpc/rpc.h>
#include <rpc/rpcb_prot.h>

#include "base/unique_fd.hpp"

namespace nfsrdma::sunrpc {
namespace {

constexpr timeval kPatience{5, 0};
constexpr int kConnectMs = 5000;
// More than any machine has; a peer that sends without end is left.
constexpr std::uint32_t kEntriesMax = 1 << 16;

struct DestroyClient {
    void operator()(CLIENT* client) const noexcept { clnt_destroy(client); }
};
using Client = std::unique_ptr<CLIENT, DestroyClient>;

struct Search {
    std::uint32_t prog, vers;
    std::string_view netid;
    std::string found;  // the first one's universal address
    bool no_memory = false;
};

// One entry of the list at a time, so that a long one takes no memory.
bool_t search_list(XDR* xdr, Search& search) noexcept {
    for (std::uint32_t i = 0; i < kEntriesMax; ++i) {
        bool_t more = FALSE;
        if (xdr_bool(xdr, &more) == FALSE) return FALSE;
        if (more == FALSE) return TRUE;
        rpcb entry{};
        const bool_t decoded = xdr_rpcb(xdr, &entry);
        if (decoded != FALSE && search.found.empty() && entry.r_prog == search.prog &&
            entry.r_vers == search.vers && entry.r_netid != nullptr && entry.r_addr != nullptr &&
            search.netid == entry.r_netid) {
            try {
                search.found = entry.r_addr;
            } catch (const std::bad_alloc&) {
                search.no_memory = true;
            }
        }
        XDR release{};
        release.x_op = XDR_FREE;
        xdr_rpcb(&release, &entry);
        if (decoded == FALSE) return FALSE;
    }
    return FALSE;
}

// As libtirpc wants them.
bool_t encode_entry(XDR* xdr, ...) {
    va_list list;
    va_start(list, xdr);
    rpcb* const object = va_arg(list, rpcb*);
    va_end(list);
    return xdr_rpcb(xdr, object);
}
bool_t encode_nothing(XDR* /*xdr*/, ...) {
    return TRUE;
}
bool_t decode_flag(XDR* xdr, ...) {
    va_list list;
    va_start(list, xdr);
    bool_t* const object = va_arg(list, bool_t*);
    va_end(list);
    return xdr_bool(xdr, object);
}
bool_t decode_list(XDR* xdr, ...) {
    va_list list;
    va_start(list, xdr);
    Search* const object = va_arg(list, Search*);
    va_end(list);
    return search_list(xdr, *object);
}

// A stream that is connected already becomes a CLIENT, which does not own it.
Client talk_over(const UniqueFd& fd) noexcept {
    netbuf nowhere{};
    return Client(clnt_vc_create(fd.get(), &nowhere, RPCBPROG, RPCBVERS, 0, 0));
}

Result<UniqueFd> connect_to(const std::string& path) {
    sockaddr_un local{};
    local.sun_family = AF_UNIX;
    if (path.size() >= sizeof local.sun_path)
        return Error{Errc::invalid_argument, 0, "the path of rpcbind's socket is too long"};
    std::memcpy(local.sun_path, path.c_str(), path.size() + 1);
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd || ::connect(fd.get(), static_cast<const sockaddr*>(static_cast<const void*>(&local)),
                         sizeof local) != 0)
        return Error{Errc::system, errno, "connect to rpcbind"};
    return fd;
}

Result<UniqueFd> connect_to(const SockAddr& address) {
    UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return Error{Errc::system, errno, "a socket for rpcbind"};
    if (::connect(fd.get(), address.sa(), address.sa_len()) == 0) return fd;
    if (errno != EINPROGRESS) return Error{Errc::system, errno, "connect to rpcbind"};
    pollfd wait{fd.get(), POLLOUT, 0};
    int ready = ::poll(&wait, 1, kConnectMs);
    while (ready < 0 && errno == EINTR)
        ready = ::poll(&wait, 1, kConnectMs);
    int failure = ready > 0 ? 0 : ETIMEDOUT;
    socklen_t size = sizeof failure;
    if (ready > 0 && ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
        failure = errno;
    if (failure != 0) return Error{Errc::system, failure, "connect to rpcbind"};
    return fd;
}

}  // namespace

std::string universal_address(const SockAddr& address) {
    return address.address_to_string() + '.' + std::to_string(address.port() >> 8) + '.' +
           std::to_string(address.port() & 0xFF);
}

Result<SockAddr> parse_universal_address(std::string_view text) {
    constexpr Error kNone{Errc::bad_message, 0, "not a universal address"};
    std::uint32_t port = 0;
    for (const unsigned shift : {0u, 8u}) {
        const std::size_t dot = text.rfind('.');
        if (dot == std::string_view::npos) return kNone;
        const std::string_view digits = text.substr(dot + 1);
        unsigned value = 0;
        const char* const end = digits.data() + digits.size();
        const auto [stop, wrong] = std::from_chars(digits.data(), end, value);
        if (wrong != std::errc{} || stop != end || value > 0xFF) return kNone;
        port |= value << shift;
        text = text.substr(0, dot);
    }
    // Only an address: SockAddr::parse takes one with a port of its own as well.
    if (std::count(text.begin(), text.end(), ':') == 1 || text.starts_with('[')) return kNone;
    auto address = SockAddr::parse(text, static_cast<std::uint16_t>(port));
    if (!address) return kNone;
    return *address;
}

Result<bool> change_rpcbind(const std::string& socket, RpcbindChange change, RpcbindEntry entry) {
    NR_TRY_ASSIGN(const UniqueFd fd, connect_to(socket));
    const Client client = talk_over(fd);
    if (client == nullptr) return Error{Errc::system, EPROTO, "talk to rpcbind"};
    std::string owner = std::to_string(::geteuid());
    rpcb what{};
    what.r_prog = entry.prog;
    what.r_vers = entry.vers;
    what.r_netid = entry.netid.data();
    what.r_addr = entry.address.data();
    what.r_owner = owner.data();
    bool_t done = FALSE;
    const rpcproc_t proc = change == RpcbindChange::set ? RPCBPROC_SET : RPCBPROC_UNSET;
    CLIENT* const rpc = client.get();
    const clnt_stat status =
        rpc->cl_ops->cl_call(rpc, proc, encode_entry, &what, decode_flag, &done, kPatience);
    if (status != RPC_SUCCESS) return Error{Errc::system, EPROTO, "a call of rpcbind"};
    return done != FALSE;
}

Result<SockAddr> ask_rpcbind(const SockAddr& rpcbind, std::uint32_t prog, std::uint32_t vers,
                             const char* netid) {
    NR_TRY_ASSIGN(const UniqueFd fd, connect_to(rpcbind));
    const Client client = talk_over(fd);
    if (client == nullptr) return Error{Errc::system, EPROTO, "talk to rpcbind"};
    Search search{prog, vers, netid, {}};
    CLIENT* const rpc = client.get();
    const clnt_stat status = rpc->cl_ops->cl_call(rpc, RPCBPROC_DUMP, encode_nothing, nullptr,
                                                  decode_list, &search, kPatience);
    if (status != RPC_SUCCESS) return Error{Errc::system, EPROTO, "a call of rpcbind"};
    if (search.no_memory) return Error{Errc::system, ENOMEM, "the answer of rpcbind"};
    if (search.found.empty())
        return Error{Errc::refused, 0, "rpcbind knows no such program over RDMA"};
    NR_TRY_ASSIGN(const SockAddr address, parse_universal_address(search.found));
    return address.is_any() ? rpcbind.with_port(address.port()) : address;
}

}  // namespace nfsrdma::sunrpc
