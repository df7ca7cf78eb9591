/*
 * The depot over TCP and RDMA at once, by one svc_run: depot_server ADDRESS TCP_PORT RDMA_PORT.
 * What is of RDMA here is the one call of svc_rdma_create. Ports of 0 are free ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "depot_common.h"

void depot_1(struct svc_req* request, SVCXPRT* xprt); /* rpcgen's dispatch routine */

static SVCXPRT* serve_tcp(const char* host, const char* port) {
    struct addrinfo* const where = depot_resolve(host, port);
    const int fd = socket(where->ai_family, SOCK_STREAM, 0), on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, where->ai_addr, where->ai_addrlen) != 0 || listen(fd, 16) != 0) {
        perror("depot_server: TCP");
        return NULL;
    }
    freeaddrinfo(where);
    return svc_vc_create(fd, 0, 0);
}

static int port_of(const SVCXPRT* tcp) {
    struct sockaddr_storage local;
    socklen_t size = sizeof local;
    char port[8] = "0";
    getsockname(tcp->xp_fd, (struct sockaddr*)&local, &size);
    getnameinfo((struct sockaddr*)&local, size, NULL, 0, port, sizeof port, NI_NUMERICSERV);
    return atoi(port);
}

int main(int argc, char** argv) {
    struct depot_options options;
    const int used = depot_parse(argc, argv, &options, "ADDRESS TCP_PORT RDMA_PORT");
    char address[128];
    SVCXPRT *tcp, *rdma;
    if (argc - used != 3) {
        fprintf(stderr, "usage: %s [OPTION...] ADDRESS TCP_PORT RDMA_PORT\n", argv[0]);
        return 2;
    }
    tcp = serve_tcp(argv[used], argv[used + 1]);
    if (tcp == NULL) return 1;
    /* An IPv6 address is told from its port by brackets. */
    snprintf(address, sizeof address, strchr(argv[used], ':') != NULL ? "[%s]:%s" : "%s:%s",
             argv[used], argv[used + 2]);
    rdma = svc_rdma_create(address, &options.rdma);
    if (rdma == NULL) {
        fprintf(stderr, "depot_server: %s\n", rpcrdma_strerror());
        return 1;
    }
    /* Without rpcbind; the same dispatch for both. */
    if (!svc_reg(tcp, DEPOT, DEPOT_V1, depot_1, NULL) ||
        !svc_reg(rdma, DEPOT, DEPOT_V1, depot_1, NULL))
        return 1;
    printf("serving at TCP port %d and RDMA port %u\n", port_of(tcp), rdma->xp_port);
    fflush(stdout);
    svc_run();
    return 1;
}
