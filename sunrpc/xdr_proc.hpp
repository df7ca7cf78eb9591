#pragma once
#include <cstdarg>

#include <rpc/rpc.h>

// Makes an xdrproc_t of a routine of rpcgen's, for the table of a program (ProcInfo).
namespace nfsrdma::sunrpc {

// libtirpc calls an xdrproc_t with variable arguments; a routine of rpcgen's has a typed pointer
// there. This is the call through the right type, where a cast of the function's type would be
// undefined: info.xdr_args = xdr_proc<put_args, xdr_put_args>.
template <class T, bool_t (*Routine)(XDR*, T*)>
bool_t xdr_proc(XDR* xdr, ...) noexcept {
    va_list list;
    va_start(list, xdr);
    T* const object = va_arg(list, T*);
    va_end(list);
    return Routine(xdr, object);
}

// Of a procedure without arguments, or without results.
inline bool_t xdr_nothing(XDR* /*xdr*/, ...) noexcept {
    return TRUE;
}

}  // namespace nfsrdma::sunrpc
