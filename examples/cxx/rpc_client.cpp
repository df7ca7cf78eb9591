// A client of an own RPC program over RDMA: rpc_client SERVER[:PORT] [DEVICE [BYTES]]
// Puts a blob, gets it back, compares. Exit status 0: the bytes are equal.
#include <algorithm>
#include <cstdlib>

#include "blob_binding.hpp"
#include "example.hpp"
#include "sunrpc/clnt.hpp"
#include "xprtrdma/transport.hpp"

namespace {

using nfsrdma::Result;
using nfsrdma::sunrpc::Call;
using nfsrdma::sunrpc::Clnt;

// PUT and GET, with memory of the transport's that the device reads from and writes to. Here one
// after the other; several may be in flight, each in a Call of its own with a `done` (Clnt::call).
Result<bool> put_and_get(Clnt& clnt, std::uint32_t bytes) {
    const auto procedures = blob_procedures();
    NR_TRY_ASSIGN(const auto out, clnt.xprt().get_payload(bytes));
    NR_TRY_ASSIGN(const auto in, clnt.xprt().get_payload(BLOB_BYTES_MAX));
    for (std::size_t i = 0; i < bytes; ++i)
        out.memory()[i] = static_cast<std::byte>(i * 31 + (i >> 8));

    char name[] = "example";
    put_args args{name, {bytes, nfsrdma::as_chars(out.memory().data())}};
    put_res put_result{};
    Call put;
    put.proc = &procedures[BLOB_PUT];
    put.proc_number = BLOB_PUT;
    put.args = &args;
    put.res = &put_result;
    NR_TRY(clnt.call_and_wait(put));

    get_args what{name};
    get_res got{};
    got.data.data_val = nfsrdma::as_chars(in.memory().data());
    Call get;
    get.proc = &procedures[BLOB_GET];
    get.proc_number = BLOB_GET;
    get.args = &what;
    get.res = &got;
    get.result_room = in.memory();
    NR_TRY(clnt.call_and_wait(get));
    std::printf("put %u bytes, got %u, of which %u by RDMA\n", bytes, got.data.data_len,
                get.result_placed);
    return put_result.sum == blob_sum(args.data.data_val, bytes) && got.data.data_len == bytes &&
           std::equal(out.memory().begin(), out.memory().end(), in.memory().begin());
}

}  // namespace

int main(int argc, char** argv) {
    const auto bytes =
        argc > 3 ? static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 0)) : 100'000u;
    auto place = Place::open(argv[1], 20050, argc > 2 ? argv[2] : nullptr, false);
    if (!place) return failed("rpc_client SERVER[:PORT] [DEVICE [BYTES]]", place.error());
    if (bytes > BLOB_BYTES_MAX) return failed("rpc_client", "that is too large for a blob");
    auto transport =
        nfsrdma::xprtrdma::Transport::connect(*place->device.device, place->address, {});
    if (!transport) return failed("connect", transport.error());
    Result<bool> same = false;
    {
        Clnt clnt(**transport, BLOB_PROG, BLOB_VERS, nullptr);
        same = put_and_get(clnt, bytes);
    }
    (*transport)->finish();
    if (!same) return failed("call", same.error());
    std::printf("%s\n", *same ? "equal" : "NOT EQUAL");
    return *same ? 0 : 1;
}
