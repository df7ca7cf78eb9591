#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "blob.h"
#include "sunrpc/binding.hpp"
#include "sunrpc/xdr_proc.hpp"

// What rpcgen's output does not say: which item of a procedure may go by RDMA, and how much room
// the rest needs. Client and server use the same table.
inline std::array<nfsrdma::sunrpc::ProcInfo, 3> blob_procedures() {
    using nfsrdma::sunrpc::xdr_nothing;
    using nfsrdma::sunrpc::xdr_proc;
    std::array<nfsrdma::sunrpc::ProcInfo, 3> table{};
    const auto small = [](const void*) -> std::uint32_t { return 16 + BLOB_NAME_MAX; };
    for (auto& info : table) {
        info.xdr_args = info.xdr_res = xdr_nothing;
        info.args_max = info.reply_max = small;
    }
    table[BLOB_NULL].name = "NULL";
    auto& put = table[BLOB_PUT];
    put.name = "PUT";
    put.xdr_args = xdr_proc<put_args, xdr_put_args>;
    put.xdr_res = xdr_proc<put_res, xdr_put_res>;
    put.args_size = sizeof(put_args);
    put.res_size = sizeof(put_res);
    put.arg_item.pointer_offset = offsetof(put_args, data.data_val);
    auto& get = table[BLOB_GET];
    get.name = "GET";
    get.xdr_args = xdr_proc<get_args, xdr_get_args>;
    get.xdr_res = xdr_proc<get_res, xdr_get_res>;
    get.args_size = sizeof(get_args);
    get.res_size = sizeof(get_res);
    get.res_item.pointer_offset = offsetof(get_res, data.data_val);
    get.result_item_max = [](const void*) -> std::uint32_t { return BLOB_BYTES_MAX; };
    return table;
}

inline unsigned blob_sum(const char* data, std::size_t size) {
    unsigned sum = 0;
    for (std::size_t i = 0; i < size; ++i)
        sum = sum * 31 + static_cast<unsigned char>(data[i]);
    return sum;
}
