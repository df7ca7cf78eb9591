#ifndef DEPOT_COMMON_H
#define DEPOT_COMMON_H

#include <netdb.h>

#include "depot.h"
#include "tirpc/tirpc_rdma.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the client and the server have in common: the one place where transports are told apart. */
struct depot_options {
    struct rpcrdma_opts rdma;
    int no_table; /* -n: whole messages go by RDMA, in place of their data alone */
};

/*
 * -d DEVICE, -b BIND, -u UDP_PORT and -n: see rpcrdma_opts. Registers what may be placed by RDMA,
 * which both ends need to do. Returns how many of argv it used; exits when they make no sense.
 */
int depot_parse(int argc, char** argv, struct depot_options* options, const char* usage);

/* A socket address by numeric port; exits when there is none. Give it to freeaddrinfo. */
struct addrinfo* depot_resolve(const char* host, const char* port);

/* `transport` is "tcp" or "rdma". NULL with rpc_createerr. */
CLIENT* depot_connect(const char* transport, const char* host, const char* port,
                      const struct depot_options* options);

#ifdef __cplusplus
}
#endif
#endif
