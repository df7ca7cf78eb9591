#pragma once
#include <cstdint>

#include <rpc/rpc.h>

#include "sunrpc/binding.hpp"

// How long a message would be, without encoding it: libtirpc's own xdr_sizeof allocates.
namespace nfsrdma::tirpc {

struct XdrSizes {
    bool encodes = false;     // the XDR routine succeeded
    std::uint64_t bytes = 0;  // without the item
    std::uint64_t item = 0;   // of the item; 0: it is absent, or shorter than its limit
};

// Of `object` as `routine` encodes it. What the item is: see XdrEncodeStream::set_item.
XdrSizes measure(xdrproc_t routine, void* object, const sunrpc::DdpItem& item) noexcept;

}  // namespace nfsrdma::tirpc
