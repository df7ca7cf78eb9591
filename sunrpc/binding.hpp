#pragma once
#include <cstdint>

#include <rpc/rpc.h>

// The upper-layer binding: what a procedure's types are, and which of its items may be placed by
// RDMA (RFC 8166 s6). A table, so that rpcgen's types and XDR routines serve unchanged; items are
// matched by pointer (facts/libtirpc s3).
namespace nfsrdma::sunrpc {

// One DDP-eligible `opaque<>` or `string<>` item, by where its char* lies in the argument or result
// struct.
struct DdpItem {
    std::int32_t pointer_offset = -1;  // offsetof(args, data.data_val); -1: the procedure has none
    // 0 for `opaque<>`. The bound of a `string<bound>`: its decoding writes a zero byte behind the
    // string, with the peer's length, before the bytes are asked for. So it is never decoded in
    // place, only into a buffer of bound + 1 bytes.
    std::uint32_t string_bound = 0;
    // Encoding: a shorter item is not told from what is around it.
    std::uint32_t min = 0;
    // In place of the pointer, where the item is behind others: whether the `bytes` at `at` are it.
    // `object` may be decoded in part only. Such an item is always copied when it is decoded.
    bool_t (*match)(const void* object, const char* at, std::uint32_t bytes) = nullptr;
    bool exists() const noexcept { return pointer_offset >= 0 || match != nullptr; }
};

struct ProcInfo {
    const char* name = nullptr;  // nullptr: no such procedure
    xdrproc_t xdr_args = nullptr;
    xdrproc_t xdr_res = nullptr;
    std::uint32_t args_size = 0, res_size = 0;  // sizeof the C structs
    DdpItem arg_item, res_item;
    // Upper bound of the encoded arguments without the DDP item, and of the encoded results without
    // it; of the DDP result item.
    std::uint32_t (*args_max)(const void* args) = nullptr;
    std::uint32_t (*reply_max)(const void* args) = nullptr;
    std::uint32_t (*result_item_max)(const void* args) = nullptr;
    bool idempotent = true;
};

}  // namespace nfsrdma::sunrpc
