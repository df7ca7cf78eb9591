// tirpc_idle.sh's clients: nfsrdma_tirpc_idle HOST PORT COUNT makes so many
// connections to a depot, calls once by each, says so, and keeps them until its standard input
// ends.
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <vector>

#include "depot_common.h"

namespace {

bool_t nothing(XDR* /*xdrs*/, ...) {
    return TRUE;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const depot_options options{RPCRDMA_OPTS_INIT, 0};
    std::vector<CLIENT*> clients;
    for (int i = std::atoi(argv[3]); i > 0; --i) {
        CLIENT* const client = depot_connect("rdma", argv[1], argv[2], &options);
        if (client == nullptr) {
            std::fprintf(stderr, "%s; %s\n", clnt_spcreateerror("connect"), rpcrdma_strerror());
            return 1;
        }
        clients.push_back(client);
        const timeval timeout{30, 0};
        if (clnt_call(client, NULLPROC, nothing, nullptr, nothing, nullptr, timeout) !=
            RPC_SUCCESS) {
            std::fprintf(stderr, "client %zu: %s\n", clients.size(), clnt_sperror(client, "NULL"));
            return 1;
        }
    }
    std::printf("idle: %zu\n", clients.size());
    std::fflush(stdout);
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    for (CLIENT* const client : clients)
        clnt_destroy(client);
    return 0;
}
