#pragma once
#include <cstddef>
#include <iosfwd>
#include <span>

namespace nfsrdma::rpcrdma_dump {

// Writes every field of a transport header, its chunk lists, and what is wrong with it and where.
// True: well formed. What follows the header is taken for the inline RPC message, by whose length
// the Read positions of a Call are judged; when nothing follows an RDMA_MSG header, it was left
// out, and only the order of the positions is.
bool dump_header(std::ostream& out, std::span<const std::byte> bytes);

// The same of CM private data (RFC 8797). True: it is such a message.
bool dump_private_data(std::ostream& out, std::span<const std::byte> bytes);

}  // namespace nfsrdma::rpcrdma_dump
