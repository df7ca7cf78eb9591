#include "depot_common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Upper bounds by the arguments, so that a call makes no more room than its answer may need. */
static uint32_t small_reply(const void* args) {
    (void)args;
    return 512; /* depot_about with the longest name, and numbers */
}
static uint32_t as_much_again(const void* args) {
    return ((const depot_data*)args)->depot_data_len;
}

static const struct rpcrdma_proc depot_procs[] = {
    {.proc = DEPOT_PUT,
     .arg = RPCRDMA_DDP(depot_item, data.data_val),
     .res = RPCRDMA_NO_DDP,
     .reply_max = small_reply},
    {.proc = DEPOT_GET,
     .arg = RPCRDMA_NO_DDP,
     .res = RPCRDMA_DDP(depot_get_res, depot_get_res_u.item.data.data_val),
     .reply_max = small_reply},
    {.proc = DEPOT_REVERSE,
     .arg = RPCRDMA_DDP(depot_data, depot_data_val),
     .res = RPCRDMA_DDP(depot_data, depot_data_val),
     .res_max = as_much_again,
     .reply_max = small_reply},
};
static const struct rpcrdma_ulb depot_table =
    RPCRDMA_ULB(DEPOT, DEPOT_V1, sizeof depot_procs / sizeof depot_procs[0], depot_procs);

int depot_parse(int argc, char** argv, struct depot_options* options, const char* usage) {
    int letter;
    memset(options, 0, sizeof *options);
    options->rdma.size = sizeof options->rdma;
    options->rdma.credits = 4;
    options->rdma.max_payload = DEPOT_DATA_MAX;
    options->rdma.max_message = DEPOT_DATA_MAX + 65536; /* where nothing is placed by itself */
    while ((letter = getopt(argc, argv, "d:b:u:n")) != -1) {
        if (letter == 'd') options->rdma.device = optarg;
        if (letter == 'b') options->rdma.bind = optarg;
        if (letter == 'u') options->rdma.peer_udp_port = (uint16_t)atoi(optarg);
        if (letter == 'n') options->no_table = 1;
        if (letter == '?') {
            fprintf(stderr, "usage: %s [-d DEVICE] [-b BIND] [-u UDP_PORT] [-n] %s\n", argv[0],
                    usage);
            exit(2);
        }
    }
    if (!options->no_table && rpcrdma_ulb_register(&depot_table) != 0) abort();
    return optind;
}

struct addrinfo* depot_resolve(const char* host, const char* port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo* found = NULL;
    const int wrong = getaddrinfo(host, port, &hints, &found);
    if (wrong == 0) return found;
    fprintf(stderr, "%s port %s: %s\n", host, port, gai_strerror(wrong));
    exit(1);
}

CLIENT* depot_connect(const char* transport, const char* host, const char* port,
                      const struct depot_options* options) {
    struct addrinfo* const server = depot_resolve(host, port);
    CLIENT* client;
    if (strcmp(transport, "rdma") == 0) {
        client = clnt_rdma_tli_create(server->ai_addr, server->ai_addrlen, DEPOT, DEPOT_V1,
                                      &options->rdma);
    } else {
        struct netbuf where = {server->ai_addrlen, server->ai_addrlen, server->ai_addr};
        const int fd = socket(server->ai_family, SOCK_STREAM, 0);
        client = clnt_vc_create(fd, &where, DEPOT, DEPOT_V1, 0, 0);
        if (client != NULL) clnt_control(client, CLSET_FD_CLOSE, NULL);
    }
    freeaddrinfo(server);
    return client;
}
